//! Whether the broker answers the first words of AMQP, and is the one we mean.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    thread,
    time::{Duration, Instant},
};

use super::layout::Layout;
use crate::Result;

const PROTOCOL_HEADER: &[u8] = b"AMQP\x00\x00\x09\x01";
const PATIENCE: Duration = Duration::from_secs(2);

/// Waits until the broker greets clients; gives up when `is_alive` says that it is dead.
pub(crate) fn wait_until_ready(
    layout: &Layout,
    limit: Duration,
    mut is_alive: impl FnMut() -> bool,
) -> Result<()> {
    let deadline = Instant::now() + limit;
    loop {
        if is_ready(layout) {
            return Ok(());
        }
        if !is_alive() {
            return Err(layout.error("RabbitMQ ended while it was starting"));
        }
        if Instant::now() > deadline {
            let what = format!(
                "RabbitMQ did not accept connections on port {} within {limit:?}",
                layout.amqp_port()
            );
            return Err(layout.error(what));
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Listeners are opened last in the boot. The greeting carries the node's name, with the machine's
/// host name behind it.
pub(crate) fn is_ready(layout: &Layout) -> bool {
    let address = SocketAddr::from(([127, 0, 0, 1], layout.amqp_port()));
    greeting(address).is_ok_and(|greeting| contains(&greeting, &format!("{}@", layout.name())))
}

/// The payload of the first frame, `connection.start`.
fn greeting(address: SocketAddr) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(PROTOCOL_HEADER)?;
    // A frame is type, channel and length, then the payload.
    let mut head = [0; 7];
    stream.read_exact(&mut head)?;
    let length = u32::from_be_bytes([head[3], head[4], head[5], head[6]]);
    if head[0] != 1 || length > 64 * 1024 {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut payload = vec![0; length as usize];
    stream.read_exact(&mut payload)?;
    Ok(payload)
}

fn contains(greeting: &[u8], name: &str) -> bool {
    greeting
        .windows(name.len())
        .any(|window| window == name.as_bytes())
}
