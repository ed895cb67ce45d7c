//! Services that are measured side by side, each by clients on connections that are kept.

use std::{
    error::Error,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use axum::{
    Router,
    extract::State,
    routing::{MethodRouter, post},
};
use clap::Args;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

/// What fails tells why.
pub type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// How long, and by how many clients.
#[derive(Debug, Args)]
pub struct Load {
    /// Connections at once
    #[arg(long, default_value_t = 64)]
    connections: u64,
    /// Seconds for each service in each round
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// Rounds
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Only the services that are called so, as the table has it, beside the one without a layer
    #[arg(long)]
    only: Vec<String>,
}

impl Load {
    /// One connection, so that one request is under way at a time.
    pub fn of_one_connection(seconds: u64, rounds: usize) -> Self {
        Self {
            connections: 1,
            seconds,
            rounds,
            only: Vec::new(),
        }
    }
}

/// The service without a layer, to which the others are compared.
pub const BARE: &str = "no layer";

/// How many effects there were.
pub type Effects = Arc<AtomicU64>;

/// A service, and whether its clients send copies of one request each.
#[derive(Debug)]
pub struct Contestant {
    name: &'static str,
    address: SocketAddr,
    effects: Effects,
    copies: bool,
    /// What its clients send beside the key.
    headers: String,
    /// Requests a second of each round.
    rates: Vec<f64>,
    /// How long each request took, in each round.
    delays: Vec<Vec<Duration>>,
}

/// The handler of all that is not in a transaction.
pub async fn charge(State(effects): State<Effects>) -> &'static str {
    effects.fetch_add(1, Relaxed);
    RECEIPT
}

/// What every handler answers.
pub const RECEIPT: &str = r#"{"order_id":"o-1","amount_cents":1299,"charge_id":"ch-o-1"}"#;
const ORDER: &str = r#"{"order_id":"o-1","customer":"ann","amount_cents":1299}"#;

impl Contestant {
    /// The service without a layer.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn bare() -> Result<Self> {
        Self::start(BARE, post(charge)).await
    }

    /// A service with this route.
    ///
    /// # Errors
    /// No port is free.
    pub async fn start(name: &'static str, charge: MethodRouter<Effects>) -> Result<Self> {
        Self::serve(name, Router::new().route("/charges", charge)).await
    }

    /// A service with this router, which has the route `/charges`.
    ///
    /// # Errors
    /// No port is free.
    pub async fn serve(name: &'static str, router: Router<Effects>) -> Result<Self> {
        let effects = Effects::default();
        let app = router.with_state(Arc::clone(&effects));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        tokio::spawn(async move { axum::serve(listener, app).await });
        Ok(Self {
            name,
            address,
            effects,
            copies: false,
            headers: String::new(),
            rates: Vec::new(),
            delays: Vec::new(),
        })
    }

    /// Its clients send copies of one request each.
    pub fn copied(self) -> Self {
        Self {
            copies: true,
            ..self
        }
    }

    /// Its clients send this header, too.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers = format!("{}{name}: {value}\r\n", self.headers);
        self
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it is called.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// How many effects there were, over all rounds.
    pub fn effects(&self) -> u64 {
        self.effects.load(Relaxed)
    }

    /// What a request took in the middle, over all rounds.
    pub fn median(&self) -> Duration {
        let mut all = self.delays.concat();
        all.sort();
        all.get(all.len() / 2).copied().unwrap_or_default()
    }

    /// Sends requests for so long, and notes how many were answered in a second.
    async fn run(&mut self, load: &Load, round: usize) -> Result<()> {
        let before = self.effects.load(Relaxed);
        let begun = Instant::now();
        let until = begun + Duration::from_secs(load.seconds);
        let mut clients = JoinSet::new();
        for client in 0..load.connections {
            let client = Client {
                to: self.address,
                key: format!("{round}-{client}"),
                headers: self.headers.clone(),
                copies: self.copies,
            };
            clients.spawn(client.send(until));
        }
        let mut delays = Vec::new();
        while let Some(client) = clients.join_next().await {
            delays.append(&mut client??);
        }
        let (took, answered) = (begun.elapsed(), delays.len() as u64);
        let effects = self.effects.load(Relaxed) - before;
        let expected = if self.copies {
            load.connections
        } else {
            answered
        };
        if effects != expected {
            return Err(format!("{}: {effects} effects of {expected} keys", self.name).into());
        }
        #[expect(clippy::cast_precision_loss, reason = "there are fewer than 2^52")]
        self.rates.push(answered as f64 / took.as_secs_f64());
        self.delays.push(delays);
        Ok(())
    }
}

/// One connection.
struct Client {
    to: SocketAddr,
    key: String,
    headers: String,
    copies: bool,
}

impl Client {
    /// Sends one request after the other, and says what each took.
    async fn send(self, until: Instant) -> Result<Vec<Duration>> {
        let Self {
            to,
            key,
            headers,
            copies,
        } = self;
        let mut stream = TcpStream::connect(to).await?;
        stream.set_nodelay(true)?;
        let (mut delays, mut answer) = (Vec::new(), Vec::new());
        let mut now = Instant::now();
        while now < until {
            let number = if copies { 0 } else { delays.len() };
            let length = ORDER.len();
            let request = format!(
                "POST /charges HTTP/1.1\r\nhost: bench\r\nidempotency-key: {key}-{number}\r\n{headers}\
                 content-type: application/json\r\ncontent-length: {length}\r\n\r\n{ORDER}"
            );
            stream.write_all(request.as_bytes()).await?;
            answer.clear();
            while !answer.ends_with(RECEIPT.as_bytes()) {
                if stream.read_buf(&mut answer).await? == 0 {
                    return Err(format!("no receipt: {}", String::from_utf8_lossy(&answer)).into());
                }
                if !answer.starts_with(b"HTTP/1.1 200") {
                    return Err(format!("refused: {}", String::from_utf8_lossy(&answer)).into());
                }
            }
            let begun = std::mem::replace(&mut now, Instant::now());
            delays.push(now - begun);
        }
        Ok(delays)
    }
}

/// Measures them in turns, of which the first is the one without a layer.
///
/// # Errors
/// A request was refused, or a key had its effect twice or not at all.
pub async fn measure(contestants: &mut Vec<Contestant>, load: &Load) -> Result<()> {
    let wanted = |it: &Contestant| it.name == BARE || load.only.iter().any(|only| only == it.name);
    contestants.retain(|it| load.only.is_empty() || wanted(it));
    for round in 0..load.rounds {
        for contestant in &mut *contestants {
            contestant.run(load, round).await?;
        }
    }
    let bare = contestants.first().expect("it is always measured");
    println!(
        "| | requests/s, median | ratio to no layer, median | of all rounds |\n|---|--:|--:|--:|"
    );
    for it in &*contestants {
        let rounds = it.rates.iter().zip(&bare.rates);
        let ratios = sorted(rounds.map(|(rate, bare)| rate / bare).collect());
        let (low, high) = (ratios[0], ratios[ratios.len() - 1]);
        let median = ratios[ratios.len() / 2];
        let rates = sorted(it.rates.clone());
        println!(
            "| {} | {:.0} | {median:.2} | {low:.2}–{high:.2} |",
            it.name,
            rates[rates.len() / 2]
        );
    }
    Ok(())
}

fn sorted(mut figures: Vec<f64>) -> Vec<f64> {
    figures.sort_by(f64::total_cmp);
    figures
}
