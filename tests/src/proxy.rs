//! A link to the broker that can be cut, frozen and closed.

use std::net::SocketAddr;

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

/// Forwards connections to a port of this machine. Closed at first.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    target: u16,
    listening: Option<JoinHandle<()>>,
    link: watch::Sender<Link>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    Forwarding,
    Cut,
    Frozen,
}

impl Proxy {
    /// A port that refuses connections until it is opened.
    pub async fn closed(target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("a free port");
        Self {
            address: listener.local_addr().expect("a bound socket has one"),
            target,
            listening: None,
            link: watch::Sender::new(Link::Forwarding),
        }
    }

    /// A port that forwards.
    pub async fn open(target: u16) -> Self {
        let mut proxy = Self::closed(target).await;
        proxy.listen().await;
        proxy
    }

    /// Accepts connections from now on.
    pub async fn listen(&mut self) {
        let listener = TcpListener::bind(self.address).await;
        let listener = listener.expect("the port is still free");
        let (target, link) = (self.target, self.link.clone());
        self.listening = Some(tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                // Whatever was done to earlier connections is not done to this one.
                tokio::spawn(forward(client, target, link.subscribe()));
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
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(listening) = &self.listening {
            listening.abort();
        }
    }
}

async fn forward(mut client: TcpStream, target: u16, mut link: watch::Receiver<Link>) {
    let Ok(mut server) = TcpStream::connect(("127.0.0.1", target)).await else {
        return;
    };
    let ended = tokio::select! {
        _ = copy_bidirectional(&mut client, &mut server) => Link::Cut,
        ended = ended(&mut link) => ended,
    };
    if ended == Link::Frozen {
        // Both ends stay open, and hear nothing any more.
        std::future::pending::<()>().await;
    }
}

async fn ended(link: &mut watch::Receiver<Link>) -> Link {
    let _ = link.changed().await;
    *link.borrow()
}
