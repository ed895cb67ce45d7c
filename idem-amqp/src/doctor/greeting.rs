//! The version that a broker greets with.
//!
//! It is in the first frame of every connection, and our AMQP client keeps it to itself. So this
//! opens a connection of its own, reads that frame and hangs up, which the broker notes in its log.

use std::{io, time::Duration};

use futures_util::{AsyncReadExt as _, AsyncWriteExt as _};
use lapin::{
    tcp::{AMQPUriTcpExt as _, TLSConfig},
    uri::AMQPUri,
};
use tokio::time::timeout;

use super::Version;

const PROTOCOL_HEADER: &[u8] = b"AMQP\x00\x00\x09\x01";

/// A greeting takes half a kilobyte.
const LONGEST_GREETING: usize = 64 * 1024;

const TIMEOUT: Duration = Duration::from_secs(10);

/// The version of the RabbitMQ at this address; nothing if something else greets.
pub(super) async fn version(uri: &AMQPUri) -> io::Result<Option<Version>> {
    let greeting = timeout(TIMEOUT, greeting(uri)).await??;
    Ok(read(&greeting))
}

async fn greeting(uri: &AMQPUri) -> io::Result<Vec<u8>> {
    let runtime = lapin::runtime::default_runtime().map_err(io::Error::other)?;
    let mut stream = uri
        .connect_with_config_async(TLSConfig::default(), &runtime)
        .await?;
    stream.write_all(PROTOCOL_HEADER).await?;
    stream.flush().await?;
    let mut head = [0; 7];
    stream.read_exact(&mut head).await?;
    let size = u32::from_be_bytes([head[3], head[4], head[5], head[6]]);
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    let mut payload = vec![0; size.min(LONGEST_GREETING)];
    stream.read_exact(&mut payload).await?;
    Ok(payload)
}

/// The method `connection.start`: class, method, the protocol's version, the server's properties.
fn read(payload: &[u8]) -> Option<Version> {
    let properties = payload.strip_prefix(&[0, 10, 0, 10, 0, 9])?;
    let (properties, _) = long(properties)?;
    let product = text(properties, b"product")?;
    let version = text(properties, b"version")?;
    Version::parse(version).filter(|_| product == "RabbitMQ")
}

/// A text among the entries of a table.
fn text<'a>(mut table: &'a [u8], wanted: &[u8]) -> Option<&'a str> {
    loop {
        let (length, rest) = table.split_first()?;
        let (name, rest) = rest.split_at_checked(usize::from(*length))?;
        let (kind, rest) = rest.split_first()?;
        let (value, rest) = value(*kind, rest)?;
        if name == wanted {
            return std::str::from_utf8(value).ok().filter(|_| *kind == b'S');
        }
        table = rest;
    }
}

/// The bytes of a value, and those after it.
fn value(kind: u8, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    match kind {
        b'S' | b'F' | b'A' | b'x' => long(bytes),
        b't' | b'b' | b'B' => bytes.split_at_checked(1),
        b's' | b'u' => bytes.split_at_checked(2),
        b'I' | b'i' | b'f' => bytes.split_at_checked(4),
        b'D' => bytes.split_at_checked(5),
        b'l' | b'd' | b'T' => bytes.split_at_checked(8),
        b'V' => Some((&[], bytes)),
        _ => None,
    }
}

/// Bytes behind their length in four bytes.
fn long(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, kind: u8, value: &[u8]) -> Vec<u8> {
        let mut entry = vec![u8::try_from(name.len()).unwrap()];
        entry.extend(name.as_bytes());
        entry.push(kind);
        if b"SF".contains(&kind) {
            entry.extend(u32::try_from(value.len()).unwrap().to_be_bytes());
        }
        entry.extend(value);
        entry
    }

    fn start(entries: &[Vec<u8>]) -> Vec<u8> {
        let table = entries.concat();
        let mut payload = vec![0, 10, 0, 10, 0, 9];
        payload.extend(u32::try_from(table.len()).unwrap().to_be_bytes());
        payload.extend(table);
        payload.extend(b"\0\0\0\x05PLAIN\0\0\0\x05en_US");
        payload
    }

    fn greeting_of(product: &str) -> Vec<u8> {
        start(&[
            entry("capabilities", b'F', &entry("basic.nack", b't', &[1])),
            entry("product", b'S', product.as_bytes()),
            entry("version", b'S', b"4.3.6"),
        ])
    }

    #[test]
    fn the_version_is_read_behind_other_properties() {
        assert_eq!(read(&greeting_of("RabbitMQ")), Some(Version::new(4, 3)));
    }

    #[test]
    fn another_product_has_no_version_of_rabbitmq() {
        assert_eq!(read(&greeting_of("LavinMQ")), None);
    }

    #[test]
    fn a_greeting_that_is_cut_anywhere_tells_nothing() {
        let whole = greeting_of("RabbitMQ");
        let table = whole.len() - b"\0\0\0\x05PLAIN\0\0\0\x05en_US".len();
        for end in 0..table {
            assert_eq!(read(&whole[..end]), None, "{end} bytes");
        }
    }
}
