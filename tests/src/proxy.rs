//! A link to a server that can be cut, frozen, closed and turned, and that loses answers and deliveries.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU16, AtomicU32, Ordering::SeqCst},
    },
};

use idem_servers::free_ports;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{broadcast, watch},
    task::JoinHandle,
};

use crate::journal::eventually;

mod deliveries;

pub use deliveries::Deliveries;

use deliveries::Filter;

/// Forwards connections to a port of this machine. Closed at first.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    target: Arc<AtomicU16>,
    listening: Option<JoinHandle<()>>,
    link: watch::Sender<Link>,
    losses: Losses,
    /// Of a broker, if some are to be lost.
    deliveries: Option<Arc<Deliveries>>,
    /// What is said next.
    words: broadcast::Sender<Words>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    Forwarding,
    Cut,
    Frozen,
}

/// What a broker says now and then though nobody asked for anything.
const HEARTBEAT: &[u8] = b"\x08\0\0\0\0\0\0\xce";

/// What is said to the server in the client's name, on every connection.
type Words = &'static [u8];

impl Proxy {
    /// A port that refuses connections until it is opened.
    pub fn closed(target: u16) -> Self {
        let [port] = free_ports().expect("a free port");
        Self {
            address: (Ipv4Addr::LOCALHOST, port).into(),
            target: Arc::new(target.into()),
            listening: None,
            link: watch::Sender::new(Link::Forwarding),
            losses: Losses::default(),
            deliveries: None,
            words: broadcast::Sender::new(8),
        }
    }

    /// A port that forwards.
    pub async fn open(target: u16) -> Self {
        let mut proxy = Self::closed(target);
        proxy.listen().await;
        proxy
    }

    /// A port that forwards to a broker, and drops this share of what it delivers: some silently, some by closing the
    /// connection just when the message arrives.
    pub async fn losing_deliveries(target: u16, share: f64) -> Self {
        let mut proxy = Self::closed(target);
        proxy.deliveries = Some(Arc::new(Deliveries::losing(share)));
        proxy.listen().await;
        proxy
    }

    /// What became of them.
    pub fn deliveries(&self) -> Option<&Deliveries> {
        self.deliveries.as_deref()
    }

    /// Accepts connections from now on.
    pub async fn listen(&mut self) {
        // A process that is just being started has the sockets of this one, also closed ones, for a moment.
        let listener = eventually("the port is free", async || {
            TcpListener::bind(self.address).await
        });
        let listener = listener.await;
        let (target, link) = (Arc::clone(&self.target), self.link.clone());
        let (losses, words) = (self.losses.clone(), self.words.clone());
        let deliveries = self.deliveries.clone();
        self.listening = Some(tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                // Whatever was done to earlier connections is not done to this one.
                let forwarded = forward(
                    client,
                    target.load(SeqCst),
                    link.subscribe(),
                    losses.clone(),
                    deliveries.clone(),
                    words.subscribe(),
                );
                tokio::spawn(forwarded);
            }
        }));
    }

    /// Refuses connections from now on; those that there are stay.
    pub async fn close(&mut self) {
        if let Some(listening) = self.listening.take() {
            listening.abort();
            let _ = listening.await;
        }
    }

    /// The port to connect to.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Closes all connections; new ones are forwarded.
    pub fn cut(&self) {
        self.link.send_replace(Link::Cut);
    }

    /// Stops forwarding on all connections without closing them; new ones are forwarded.
    pub fn freeze(&self) {
        self.link.send_replace(Link::Frozen);
    }

    /// Forwards new connections to another port.
    pub fn turn_to(&self, target: u16) {
        self.target.store(target, SeqCst);
    }

    /// What the server answers next is lost, and the connection with it: the server has done what it
    /// was asked to, and nobody hears of it.
    pub fn lose_next_answer(&self) {
        self.losses.wanted.fetch_add(1, SeqCst);
    }

    /// Says this to the server, on every connection, in the client's name. The client must be silent
    /// meanwhile, or it is interrupted.
    pub fn say(&self, words: &'static [u8]) {
        // Without a connection, there is nobody to say it to.
        let _ = self.words.send(words);
    }

    /// How many answers were lost.
    pub fn lost_answers(&self) -> u32 {
        self.losses.had.load(SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(listening) = &self.listening {
            listening.abort();
        }
    }
}

#[derive(Debug, Clone, Default)]
struct Losses {
    wanted: Arc<AtomicU32>,
    had: Arc<AtomicU32>,
}

impl Losses {
    fn take(&self) -> bool {
        let taken = self
            .wanted
            .fetch_update(SeqCst, SeqCst, |n| n.checked_sub(1));
        if taken.is_ok() {
            self.had.fetch_add(1, SeqCst);
        }
        taken.is_ok()
    }
}

async fn forward(
    client: TcpStream,
    target: u16,
    mut link: watch::Receiver<Link>,
    losses: Losses,
    deliveries: Option<Arc<Deliveries>>,
    words: broadcast::Receiver<Words>,
) {
    let Ok(server) = TcpStream::connect(("127.0.0.1", target)).await else {
        return;
    };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let mut filter = Filter::default();
    let answers = |answer: &[u8]| match &deliveries {
        _ if answer != HEARTBEAT && losses.take() => Err(io::ErrorKind::ConnectionReset.into()),
        Some(deliveries) => filter.pass(answer, deliveries),
        None => Ok(answer.to_vec()),
    };
    let both_ways = async {
        tokio::try_join!(
            copy(
                from_client,
                to_server,
                |asked| Ok(asked.to_vec()),
                Some(words)
            ),
            copy(from_server, to_client, answers, None),
        )
    };
    let mut both_ways = std::pin::pin!(both_ways);
    let ended = tokio::select! {
        _ = &mut both_ways => Link::Cut,
        ended = ended(&mut link) => ended,
    };
    if ended == Link::Frozen {
        // Both ends stay open, and hear nothing any more.
        std::future::pending::<()>().await;
    }
}

/// Copies what is to pass until the end, or until the connection is to be lost, which is an error.
async fn copy(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut pass: impl FnMut(&[u8]) -> io::Result<Vec<u8>>,
    mut words: Option<broadcast::Receiver<Words>>,
) -> io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let length = tokio::select! {
            length = from.read(&mut buffer) => length?,
            words = next(&mut words) => {
                to.write_all(words).await?;
                continue;
            }
        };
        match length {
            0 => return to.shutdown().await,
            length => to.write_all(&pass(&buffer[..length])?).await?,
        }
    }
}

async fn next(words: &mut Option<broadcast::Receiver<Words>>) -> Words {
    if let Some(words) = words
        && let Ok(words) = words.recv().await
    {
        return words;
    }
    std::future::pending().await
}

async fn ended(link: &mut watch::Receiver<Link>) -> Link {
    let _ = link.changed().await;
    *link.borrow()
}
