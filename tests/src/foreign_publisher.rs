//! Publishes messages byte by byte: with properties and routing keys that no client library would write.

use std::io::{self, ErrorKind};

use lapin::uri::AMQPUri;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::journal::within;

/// A connection with one channel, and confirms on it.
#[derive(Debug)]
pub struct ForeignPublisher {
    stream: TcpStream,
    frame_max: usize,
}

/// Properties that the AMQP client of a worker cannot read, or can only just read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hostile {
    /// A header of so many arrays in one another.
    Nested(usize),
    /// A header whose name is not UTF-8.
    NameNotUtf8,
    /// A type that is not UTF-8.
    TypeNotUtf8,
    /// A header of so many bytes.
    Large(usize),
}

/// The properties of a hostile message that can be read.
#[derive(Debug, Clone, Copy, Default)]
pub struct Readable<'a> {
    /// Its publisher's own id.
    pub message_id: Option<&'a str>,
    /// Where a reply is awaited.
    pub reply_to: Option<&'a str>,
    /// What a reply is recognised by.
    pub correlation_id: Option<&'a str>,
}

impl Hostile {
    /// Those that no worker can read, one of each kind.
    pub const ALL: [Self; 3] = [Self::Nested(1_500), Self::NameNotUtf8, Self::TypeNotUtf8];

    /// The flags and the list of properties of a persistent message.
    pub fn properties(self, readable: Readable<'_>) -> Vec<u8> {
        const HEADERS: u16 = 1 << 13;
        const DELIVERY_MODE: u16 = 1 << 12;
        let mut flags = HEADERS | DELIVERY_MODE;
        let mut list = long(&self.headers());
        list.push(2);
        let kind = (self == Self::TypeNotUtf8).then_some(&b"commande pass\xe9e"[..]);
        for (bit, text) in [
            (10, readable.correlation_id.map(str::as_bytes)),
            (9, readable.reply_to.map(str::as_bytes)),
            (7, readable.message_id.map(str::as_bytes)),
            (5, kind),
        ] {
            if let Some(text) = text {
                flags |= 1 << bit;
                list.extend(short(text));
            }
        }
        [flags.to_be_bytes().as_slice(), &list].concat()
    }

    fn headers(self) -> Vec<u8> {
        match self {
            Self::Nested(levels) => {
                let mut value = short(b"x-deep");
                for inner in (0..u32::try_from(levels).expect("some thousands")).rev() {
                    value.push(b'A');
                    value.extend((5 * inner).to_be_bytes());
                }
                value
            }
            Self::NameNotUtf8 => [short(b"num\xe9ro").as_slice(), b"t\x01"].concat(),
            Self::TypeNotUtf8 => Vec::new(),
            Self::Large(bytes) => {
                [short(b"x-note").as_slice(), b"S", &long(&vec![b'x'; bytes])].concat()
            }
        }
    }
}

const METHOD: u8 = 1;
const HEADER: u8 = 2;
const BODY: u8 = 3;
const END: u8 = 0xce;

impl ForeignPublisher {
    /// Connects.
    ///
    /// # Errors
    /// The link breaks, or the broker says something else than it should.
    pub async fn connect(url: &str) -> io::Result<Self> {
        let uri: AMQPUri = url.parse().expect("a URL of the bed");
        let at = (uri.authority.host.as_str(), uri.authority.port);
        let mut this = Self {
            stream: TcpStream::connect(at).await?,
            frame_max: 0,
        };
        this.stream.write_all(b"AMQP\0\0\x09\x01").await?;
        this.expect([10, 10]).await?;
        let user = &uri.authority.userinfo;
        let login = format!("\0{}\0{}", user.username, user.password);
        let start = [
            &long(b"")[..],
            &short(b"PLAIN"),
            &long(login.as_bytes()),
            &short(b"en_US"),
        ];
        this.method(0, [10, 11], &start.concat()).await?;
        let tune = this.expect([10, 30]).await?;
        this.frame_max = u32::from_be_bytes([tune[2], tune[3], tune[4], tune[5]]) as usize;
        // The same again, without heartbeats.
        let tune = [&tune[..6], &[0, 0]].concat();
        this.method(0, [10, 31], &tune).await?;
        let vhost = [short(uri.vhost.as_bytes()), vec![0, 0]].concat();
        this.method(0, [10, 40], &vhost).await?;
        this.expect([10, 41]).await?;
        this.method(1, [20, 10], &[0]).await?;
        this.expect([20, 11]).await?;
        this.method(1, [85, 10], &[0]).await?;
        this.expect([85, 11]).await?;
        Ok(this)
    }

    /// Publishes a message, and waits for its confirm.
    ///
    /// # Errors
    /// The link breaks, or the broker does not take the message.
    pub async fn publish(
        &mut self,
        exchange: &str,
        routing_key: &[u8],
        properties: &[u8],
        body: &[u8],
    ) -> io::Result<()> {
        let to = [
            &[0, 0],
            &short(exchange.as_bytes())[..],
            &short(routing_key),
            &[0],
        ];
        self.method(1, [60, 40], &to.concat()).await?;
        let size = (body.len() as u64).to_be_bytes();
        let header = [&[0, 60, 0, 0], &size[..], properties].concat();
        assert!(
            header.len() + 8 <= self.frame_max,
            "the broker closes the connection"
        );
        self.frame(HEADER, 1, &header).await?;
        if !body.is_empty() {
            self.frame(BODY, 1, body).await?;
        }
        self.expect([60, 80]).await.map(drop)
    }

    async fn method(
        &mut self,
        channel: u16,
        [class, method]: [u8; 2],
        arguments: &[u8],
    ) -> io::Result<()> {
        let payload = [&[0, class, 0, method], arguments].concat();
        self.frame(METHOD, channel, &payload).await
    }

    async fn frame(&mut self, kind: u8, channel: u16, payload: &[u8]) -> io::Result<()> {
        let [one, other] = channel.to_be_bytes();
        let frame = [&[kind, one, other], &long(payload)[..], &[END]].concat();
        self.stream.write_all(&frame).await
    }

    /// The arguments of the next method, which is to be this one.
    async fn expect(&mut self, [class, method]: [u8; 2]) -> io::Result<Vec<u8>> {
        loop {
            let mut head = [0; 7];
            self.stream.read_exact(&mut head).await?;
            let size = u32::from_be_bytes([head[3], head[4], head[5], head[6]]);
            let mut payload = vec![0; size as usize + 1];
            self.stream.read_exact(&mut payload).await?;
            payload.pop();
            if head[0] != METHOD {
                continue;
            }
            if payload[..4] == [0, class, 0, method] {
                return Ok(payload.split_off(4));
            }
            let said = String::from_utf8_lossy(&payload).into_owned();
            return Err(io::Error::new(ErrorKind::InvalidData, said));
        }
    }
}

/// Publishes one message to a queue, by a connection of its own.
///
/// # Panics
/// If the broker does not take it.
pub async fn publish_hostile(
    url: &str,
    queue: &str,
    hostile: Hostile,
    readable: Readable<'_>,
    body: &[u8],
) {
    let properties = hostile.properties(readable);
    publish_foreign(url, "", queue.as_bytes(), &properties, body).await;
}

/// Publishes one message, by a connection of its own.
///
/// # Panics
/// If the broker does not take it.
pub async fn publish_foreign(
    url: &str,
    exchange: &str,
    routing_key: &[u8],
    properties: &[u8],
    body: &[u8],
) {
    let published = async {
        let mut publisher = ForeignPublisher::connect(url).await?;
        publisher
            .publish(exchange, routing_key, properties, body)
            .await
    };
    let published = within("a message is published", published).await;
    published.expect("the broker takes what AMQP allows");
}

fn short(bytes: &[u8]) -> Vec<u8> {
    let length = u8::try_from(bytes.len()).expect("a short text");
    [&[length], bytes].concat()
}

fn long(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).expect("a text of a test's");
    [&length.to_be_bytes(), bytes].concat()
}
