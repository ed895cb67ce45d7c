//! A way to the server that loses what is sent over it, and counts round trips.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{Notify, watch},
};

/// What happens to the next bytes, on all connections that there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::stores::postgres) enum Weather {
    Fine,
    /// What the client sends arrives; the answer does not, and the connection is cut.
    AnswersLost,
    /// What the client sends does not arrive, and the connection is cut.
    Cut,
    /// Nothing arrives, and nobody is told.
    Frozen,
}

/// Forwards connections to a port of this machine.
pub(in crate::stores::postgres) struct Proxy {
    pub(in crate::stores::postgres) port: u16,
    target: watch::Sender<u16>,
    weather: watch::Sender<Weather>,
    answer_lost: Arc<Notify>,
    request_cut: Arc<Notify>,
    round_trips: Arc<AtomicU64>,
}

/// How often the client has begun to send something, on all connections.
struct RoundTrips<'a> {
    total: &'a AtomicU64,
    /// Whether the server has said something since the client has, on this one.
    answered: AtomicBool,
}

impl RoundTrips<'_> {
    fn asks(&self) {
        if self.answered.swap(false, SeqCst) {
            self.total.fetch_add(1, SeqCst);
        }
    }

    fn answers(&self) {
        self.answered.store(true, SeqCst);
    }
}

impl Proxy {
    pub(in crate::stores::postgres) async fn to(target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let target = watch::Sender::new(target);
        let leads_to = target.subscribe();
        let weather = watch::Sender::new(Weather::Fine);
        let answer_lost = Arc::new(Notify::new());
        let request_cut = Arc::new(Notify::new());
        let (changes, lost) = (weather.clone(), Arc::clone(&answer_lost));
        let cut = Arc::clone(&request_cut);
        let round_trips = Arc::<AtomicU64>::default();
        let total = Arc::clone(&round_trips);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let mut leads_to = leads_to.clone();
                let target = *leads_to.borrow_and_update();
                let server = TcpStream::connect(("127.0.0.1", target)).await.unwrap();
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                let (weather, lost) = (changes.subscribe(), Arc::clone(&lost));
                let (cut, total) = (Arc::clone(&cut), Arc::clone(&total));
                tokio::spawn(async move {
                    let trips = RoundTrips {
                        total: &total,
                        answered: true.into(),
                    };
                    tokio::select! {
                        () = requests(from_client, to_server, weather.clone(), cut, &trips) => {}
                        () = answers(from_server, to_client, weather, lost, &trips) => {}
                        _ = leads_to.changed() => {}
                    }
                });
            }
        });
        Self {
            port,
            target,
            weather,
            answer_lost,
            request_cut,
            round_trips,
        }
    }

    /// How often a client has sent something that it waits for an answer to.
    pub(in crate::stores::postgres) fn round_trips(&self) -> u64 {
        self.round_trips.load(SeqCst)
    }

    pub(in crate::stores::postgres) fn set(&self, weather: Weather) {
        self.weather.send_replace(weather);
    }

    /// All connections end; new ones go to this port.
    pub(in crate::stores::postgres) fn lead_to(&self, target: u16) {
        self.target.send_replace(target);
    }

    /// Until the server has answered in vain.
    pub(in crate::stores::postgres) async fn answer_lost(&self) {
        self.answer_lost.notified().await;
    }

    /// Until something that the client has sent was cut off.
    pub(in crate::stores::postgres) async fn request_cut(&self) {
        self.request_cut.notified().await;
    }
}

async fn requests(
    mut client: OwnedReadHalf,
    mut server: OwnedWriteHalf,
    weather: watch::Receiver<Weather>,
    cut: Arc<Notify>,
    trips: &RoundTrips<'_>,
) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = client.read(&mut buffer).await {
        trips.asks();
        let now = *weather.borrow();
        match now {
            Weather::Fine | Weather::AnswersLost => {
                if server.write_all(&buffer[..read]).await.is_err() {
                    return;
                }
            }
            Weather::Cut => {
                cut.notify_one();
                return;
            }
            Weather::Frozen => std::future::pending().await,
        }
    }
}

async fn answers(
    mut server: OwnedReadHalf,
    mut client: OwnedWriteHalf,
    weather: watch::Receiver<Weather>,
    lost: Arc<Notify>,
    trips: &RoundTrips<'_>,
) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = server.read(&mut buffer).await {
        trips.answers();
        let now = *weather.borrow();
        match now {
            Weather::Fine => {
                if client.write_all(&buffer[..read]).await.is_err() {
                    return;
                }
            }
            Weather::AnswersLost => {
                lost.notify_one();
                return;
            }
            Weather::Cut => return,
            Weather::Frozen => std::future::pending().await,
        }
    }
}
