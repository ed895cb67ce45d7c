//! Stands between the client and the broker, and steals replies: some silently, some by cutting the client
//! off just when the reply arrives.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use super::replies::{Dropping, Fate, Frame, Plan};
use idem_servers::{Error, Result};

/// One of so many dropped replies cuts the client off.
const CUTS: u32 = 4;

/// Listens until the demonstration is over.
#[derive(Debug)]
pub(super) struct Thief {
    url: String,
    loot: Arc<Counters>,
}

/// Replies that arrived for the client so far.
#[derive(Debug, Default)]
struct Counters {
    delivered: AtomicU64,
    dropped: AtomicU64,
    cut: AtomicU64,
}

/// What a thief has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Loot {
    pub(super) delivered: u64,
    pub(super) dropped: u64,
    pub(super) cut: u64,
}

impl Thief {
    /// Before the broker of this URL; drops this share of what is delivered to its clients.
    pub(super) fn before(amqp_url: &str, share: f64) -> Result<Self> {
        let broker = address(amqp_url).ok_or_else(|| {
            Error::Missing(format!(
                "AMQP_URL is `{amqp_url}`, and replies can be dropped on the way from `amqp://HOST:PORT/…` only: unset it for a private broker"
            ))
        })?;
        let listener = TcpListener::bind("127.0.0.1:0").map_err(Error::io("listen"))?;
        let here = listener.local_addr().map_err(Error::io("listen"))?;
        let thief = Self {
            url: amqp_url.replacen(&broker, &here.to_string(), 1),
            loot: Arc::default(),
        };
        let loot = Arc::clone(&thief.loot);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // Without the broker the client is hung up on, as it would be by the broker.
                let _ = between(client, &broker, share, &loot);
            }
        });
        Ok(thief)
    }

    /// What the client is to believe is the broker.
    pub(super) fn url(&self) -> String {
        self.url.clone()
    }

    pub(super) fn loot(&self) -> Loot {
        let Counters {
            delivered,
            dropped,
            cut,
        } = &*self.loot;
        let [delivered, dropped, cut] =
            [delivered, dropped, cut].map(|count| count.load(Ordering::Relaxed));
        Loot {
            delivered,
            dropped,
            cut,
        }
    }
}

/// `HOST:PORT` of an AMQP URL without TLS.
fn address(amqp_url: &str) -> Option<String> {
    let rest = amqp_url.strip_prefix("amqp://")?;
    let authority = rest.split(['/', '?']).next()?;
    let address = authority.rsplit('@').next()?;
    let (host, port) = address.rsplit_once(':')?;
    let is_one = !host.is_empty() && !amqp_url.contains(',') && port.parse::<u16>().is_ok();
    is_one.then(|| address.to_owned())
}

fn between(client: TcpStream, broker: &str, share: f64, loot: &Arc<Counters>) -> io::Result<()> {
    let broker = TcpStream::connect(broker)?;
    for stream in [&client, &broker] {
        stream.set_nodelay(true)?;
    }
    let (mut from_client, mut to_broker) = (client.try_clone()?, broker.try_clone()?);
    thread::spawn(move || {
        let _ = io::copy(&mut from_client, &mut to_broker);
        let _ = to_broker.shutdown(Shutdown::Both);
    });
    let loot = Arc::clone(loot);
    thread::spawn(move || {
        let _ = steal(&broker, &client, share, &loot);
        // The client is cut off, or the broker has hung up: either way neither has anybody to talk to.
        let _ = broker.shutdown(Shutdown::Both);
        let _ = client.shutdown(Shutdown::Both);
    });
    Ok(())
}

/// Passes on what the broker says, but for what is stolen, until the client is to be cut off.
fn steal(
    mut broker: &TcpStream,
    mut client: &TcpStream,
    share: f64,
    loot: &Counters,
) -> io::Result<()> {
    let mut dropping = Dropping::default();
    loop {
        let (frame, bytes) = read(&mut broker)?;
        match dropping.fate(&frame, || loot.plan(share)) {
            Fate::Passed => client.write_all(&bytes)?,
            Fate::Dropped => {}
            Fate::CutOff => return Ok(()),
        }
    }
}

impl Counters {
    fn plan(&self, share: f64) -> Plan {
        let (counter, plan) = if fastrand::f64() >= share {
            (&self.delivered, Plan::Deliver)
        } else if fastrand::u32(..CUTS) == 0 {
            (&self.cut, Plan::CutOff)
        } else {
            (&self.dropped, Plan::Drop)
        };
        counter.fetch_add(1, Ordering::Relaxed);
        plan
    }
}

/// A frame, and how it was written: kind, channel, size, payload, end.
fn read(from: &mut impl Read) -> io::Result<(Frame, Vec<u8>)> {
    let mut bytes = vec![0; 7];
    from.read_exact(&mut bytes)?;
    let size = u32::from_be_bytes([bytes[3], bytes[4], bytes[5], bytes[6]]) as usize;
    bytes.resize(7 + size + 1, 0);
    from.read_exact(&mut bytes[7..])?;
    let frame = Frame {
        kind: bytes[0],
        channel: u16::from_be_bytes([bytes[1], bytes[2]]),
        payload: bytes[7..7 + size].to_vec(),
    };
    Ok((frame, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_broker_is_found_in_its_url() {
        for (url, expected) in [
            (
                "amqp://guest:guest@127.0.0.1:5673/%2f",
                Some("127.0.0.1:5673"),
            ),
            ("amqp://[::1]:5672", Some("[::1]:5672")),
            ("amqp://broker:5672/vhost?heartbeat=5", Some("broker:5672")),
            ("amqp://broker/vhost", None),
            ("amqps://broker:5671/vhost", None),
            ("amqp://a:5672/%2f,amqp://b:5672/%2f", None),
        ] {
            assert_eq!(address(url).as_deref(), expected, "{url}");
        }
    }

    #[test]
    fn frames_are_read_as_they_were_written() {
        let written = [&[1, 0, 2, 0, 0, 0, 3][..], b"abc", &[0xce]].concat();
        let (frame, bytes) = read(&mut &written[..]).expect("it is whole");
        assert_eq!((frame.kind, frame.channel), (1, 2));
        assert_eq!(frame.payload, b"abc");
        assert_eq!(bytes, written);
        read(&mut &written[..9]).expect_err("it is not whole");
    }
}
