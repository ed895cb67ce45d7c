//! Questions that a broker answers from inside: `rabbitmqctl` starts an Erlang machine for each.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    path::PathBuf,
    time::Duration,
};

use super::Broker;
use crate::{Error, Result, Server};

/// As long as `rabbitmqctl` waits.
const PATIENCE: Duration = Duration::from_secs(30);

const START: &str = include_str!("console.erl");

impl Broker {
    /// What the last of these Erlang expressions is worth, as text.
    ///
    /// The first call since the broker's start asks `rabbitmqctl` to open the port for it.
    ///
    /// # Errors
    ///
    /// The broker is down, frozen or cannot answer; its log says why not.
    pub(super) fn evaluate(&self, expressions: &str) -> Result<String> {
        let unanswered = || Error::io(format!("ask {} `{expressions}`", self.node()));
        let known = self.console();
        if let Some(port) = known {
            match self.ask(port, expressions) {
                Err(error) if is_silence(&error) => return Err(unanswered()(error)),
                // Of an earlier start.
                Err(_) => {}
                Ok(answer) => return Ok(answer),
            }
        }
        let port = self.open_console(known)?;
        self.ask(port, expressions).map_err(unanswered())
    }

    fn console(&self) -> Option<u16> {
        fs::read_to_string(self.note()).ok()?.parse().ok()
    }

    /// Of those who find it closed at the same time, one opens it.
    fn open_console(&self, known: Option<u16>) -> Result<u16> {
        let lock = File::create(self.note().with_extension("lock"));
        let lock = lock.map_err(Error::io("create a lock file"))?;
        lock.lock().map_err(Error::io("lock a file"))?;
        if let Some(port) = self.console().filter(|port| Some(*port) != known) {
            return Ok(port);
        }
        let printed = self.rabbitmqctl(["eval", START])?;
        let port: u16 = printed.trim().parse().map_err(|_| {
            Error::Unmet(format!("{} opened no port, but {printed:?}", self.node()))
        })?;
        fs::write(self.note(), port.to_string()).map_err(Error::io("note down a port"))?;
        Ok(port)
    }

    /// Where all processes that use this broker find the port.
    fn note(&self) -> PathBuf {
        self.folder().join("console")
    }

    fn ask(&self, port: u16, expressions: &str) -> io::Result<String> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        // The port may belong to another broker by now, which does not answer to this name.
        let asked = format!("{} {expressions}.", self.node());
        stream.write_all(&length(asked.len())?.to_be_bytes())?;
        stream.write_all(asked.as_bytes())?;
        let mut header = [0; 4];
        stream.read_exact(&mut header)?;
        let mut answer = String::new();
        stream
            .take(u32::from_be_bytes(header).into())
            .read_to_string(&mut answer)?;
        Ok(answer)
    }
}

fn length(bytes: usize) -> io::Result<u32> {
    u32::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput.into())
}

fn is_silence(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}
