//! A proxy that cuts connections in the middle of requests and of responses.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    task::JoinHandle,
};

/// Where a connection is cut: after so many bytes, which the other side has got.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Cut {
    Request(usize, By),
    Response(usize, By),
    Never,
}

/// What both sides are told of a connection that is cut.
#[derive(Debug, Clone, Copy)]
pub(crate) enum By {
    /// That nothing more comes (FIN).
    End,
    /// That there is no such connection (RST), as of a peer whose machine has started anew.
    Reset,
}

/// Listens until it is dropped.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// In front of this address. The function says where a connection is cut, by its number, from 0.
    pub(crate) async fn start(to: SocketAddr, cut: impl Fn(usize) -> Cut + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        let task = tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let server = TcpStream::connect(to).await.unwrap();
                let cut = cut(counted.fetch_add(1, SeqCst));
                tokio::spawn(pass(client, server, cut));
            }
        });
        Self {
            address,
            connections,
            task,
        }
    }

    /// How many there were.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pass(mut client: TcpStream, mut server: TcpStream, cut: Cut) {
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let (requests, responses) = match cut {
        Cut::Request(bytes, _) => (bytes, usize::MAX),
        Cut::Response(bytes, _) => (usize::MAX, bytes),
        Cut::Never => (usize::MAX, usize::MAX),
    };
    // Whichever ends first ends both.
    tokio::select! {
        () = copy(from_client, to_server, requests) => {}
        () = copy(from_server, to_client, responses) => {}
    }
    if let Cut::Request(_, By::Reset) | Cut::Response(_, By::Reset) = cut {
        for stream in [&client, &server] {
            stream.set_zero_linger().unwrap();
        }
    }
}

async fn copy(mut from: ReadHalf<'_>, mut to: WriteHalf<'_>, mut left: usize) {
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        let passed = read.min(left);
        if to.write_all(&buffer[..passed]).await.is_err() {
            return;
        }
        left -= passed;
        if left == 0 {
            return;
        }
    }
}
