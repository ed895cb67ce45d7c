//! Questions that a broker answers from inside: `rabbitmqctl` would start an Erlang machine for each.

use std::{
    fs,
    io::{self, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    time::Duration,
};

use super::Broker;
use crate::{Error, Result, Server, probe};

/// As long as `rabbitmqctl` waits.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a broker of ours runs to open the port. Its folder is its home.
pub(super) const SCRIPT: &str = include_str!("console.erl");
/// The argument of its Erlang machine that does so: without a space, as shells pass it on.
pub(super) const OPEN: &str = r#"-eval file:eval(filename:join(os:getenv("HOME"),"console.erl"))"#;

impl Broker {
    /// What the last of these Erlang expressions is worth, as text.
    ///
    /// # Errors
    ///
    /// The broker is down, frozen or cannot answer; its log says why not.
    pub(super) fn evaluate(&self, expressions: &str) -> Result<String> {
        self.evaluate_within(expressions, PATIENCE)
    }

    /// As [`evaluate`](Self::evaluate), where an answer takes long.
    pub(super) fn evaluate_within(&self, expressions: &str, limit: Duration) -> Result<String> {
        self.ask(expressions, limit)
            .map_err(Error::io(format!("ask {} `{expressions}`", self.node())))
    }

    /// Whether it answers: the last thing that a boot does is to open the port.
    pub(super) fn console_is_open(&self) -> bool {
        self.ask("<<\"yes\">>", probe::PATIENCE).is_ok()
    }

    /// Where the broker has noted it as it booted, for all processes that use it.
    fn port_of_console(&self) -> io::Result<u16> {
        let note = fs::read_to_string(self.folder().join("console"))?;
        note.parse().map_err(|_| io::ErrorKind::InvalidData.into())
    }

    fn ask(&self, expressions: &str, patience: Duration) -> io::Result<String> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port_of_console()?));
        let mut stream = TcpStream::connect_timeout(&address, patience)?;
        stream.set_read_timeout(Some(patience))?;
        // The port may belong to another broker by now, which does not answer to this name.
        let asked = format!("{} {expressions}.", self.node());
        stream.write_all(&length(asked.len())?.to_be_bytes())?;
        stream.write_all(asked.as_bytes())?;
        let mut header = [0; 4];
        stream.read_exact(&mut header)?;
        let length = usize::try_from(u32::from_be_bytes(header));
        let mut answer = vec![0; length.map_err(|_| io::ErrorKind::InvalidData)?];
        stream.read_exact(&mut answer)?;
        String::from_utf8(answer).map_err(|_| io::ErrorKind::InvalidData.into())
    }
}

fn length(bytes: usize) -> io::Result<u32> {
    u32::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput.into())
}
