//! A link to a server of this machine that is as slow as one to another machine.
//!
//! What is sent arrives later, in both directions, and nothing waits for what was sent before: a link has a latency,
//! not a limit.

use std::{
    io::{self, Read as _, Write as _},
    net::{Ipv4Addr, Shutdown, TcpListener, TcpStream},
    sync::mpsc::{self, Receiver, SyncSender},
    thread,
    time::{Duration, Instant},
};

use idem_servers::{Error, Result};

/// So many pieces are on their way at once, in one direction of one connection.
const ON_THE_WAY: usize = 4096;
const BYTES: usize = 64 * 1024;

/// A port that leads to another one. It is there until the process ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlowLink {
    port: u16,
}

/// Some bytes, and when they arrive.
type Piece = (Instant, Vec<u8>);

impl SlowLink {
    /// To this port; everything takes so long each way.
    pub(crate) fn to(target: u16, delay: Duration) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let listener = listener.map_err(Error::io("open a port for a slow link"))?;
        let address = listener.local_addr();
        let port = address
            .map_err(Error::io("open a port for a slow link"))?
            .port();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // Whoever connects to a server that is gone sees its connection closed.
                let _ = forward(client, target, delay);
            }
        });
        Ok(Self { port })
    }

    /// A URL that leads to the target, with this link in between.
    pub(crate) fn by(self, url: &str, target: u16) -> String {
        url.replacen(&format!(":{target}"), &format!(":{}", self.port), 1)
    }
}

fn forward(client: TcpStream, target: u16, delay: Duration) -> io::Result<()> {
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, target))?;
    for end in [&client, &server] {
        end.set_nodelay(true)?;
    }
    one_way(client.try_clone()?, server.try_clone()?, delay);
    one_way(server, client, delay);
    Ok(())
}

fn one_way(from: TcpStream, to: TcpStream, delay: Duration) {
    let (sender, receiver) = mpsc::sync_channel(ON_THE_WAY);
    thread::spawn(move || take(from, &sender, delay));
    thread::spawn(move || bring(to, &receiver));
}

/// Until the end of the connection, or until nobody takes it any more.
fn take(mut from: TcpStream, sender: &SyncSender<Piece>, delay: Duration) {
    let mut buffer = vec![0; BYTES];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let piece = (Instant::now() + delay, buffer[..length].to_vec());
        if sender.send(piece).is_err() {
            return;
        }
    }
}

fn bring(mut to: TcpStream, receiver: &Receiver<Piece>) {
    for (due, bytes) in receiver {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if to.write_all(&bytes).is_err() {
            return;
        }
    }
    // It may be closed already.
    let _ = to.shutdown(Shutdown::Write);
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAY: Duration = Duration::from_millis(20);

    /// The port of a server that repeats what it hears.
    fn echo() -> u16 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            let mut heard = [0; 8];
            while let Ok(length @ 1..) = client.read(&mut heard) {
                client.write_all(&heard[..length]).unwrap();
            }
        });
        port
    }

    fn connect(target: u16) -> TcpStream {
        let link = SlowLink::to(target, DELAY).unwrap();
        let address = link.by(&format!("127.0.0.1:{target}"), target);
        TcpStream::connect(address).unwrap()
    }

    #[test]
    fn an_answer_takes_both_ways() {
        let mut client = connect(echo());
        let asked = Instant::now();
        client.write_all(b"x").unwrap();
        client.read_exact(&mut [0]).unwrap();
        assert!(asked.elapsed() >= 2 * DELAY, "{:?}", asked.elapsed());
    }

    #[test]
    fn what_is_sent_does_not_wait_for_what_was_sent_before() {
        let mut client = connect(echo());
        let asked = Instant::now();
        for _ in 0..100 {
            client.write_all(b"x").unwrap();
            thread::sleep(Duration::from_micros(50));
        }
        client.read_exact(&mut [0; 100]).unwrap();
        assert!(asked.elapsed() < 50 * DELAY, "{:?}", asked.elapsed());
    }

    #[test]
    fn the_end_of_a_connection_arrives_behind_all_else() {
        let mut client = connect(echo());
        client.write_all(b"x").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut all = Vec::new();
        client.read_to_end(&mut all).unwrap();
        assert_eq!(all, b"x");
    }
}
