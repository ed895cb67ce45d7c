//! Measures what `idem-http` costs: a service with the layer on each store, beside the same handler without it.
//!
//! ```sh
//! cd bench && cargo run --release -p bench-http
//! ```
//!
//! All services listen in this process, and so do the clients, on connections that are kept. The services are measured
//! in turns, several rounds each, and told as a ratio to the one without a layer in the same round. A figure counts
//! only if each key had its effect once.

use std::{
    error::Error,
    net::SocketAddr,
    process::ExitCode,
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
use clap::Parser;
use idem_core::{
    MemoryStore, PostgresStore, RedisStore, SqliteStore, Store,
    sqlx::{self, Connection as _, PgConnection, SqliteConnection},
};
use idem_http::{IdempotencyLayer, Tx};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

#[derive(Debug, Parser)]
struct Options {
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

impl Options {
    fn ask_for(&self, name: &str) -> bool {
        self.only.is_empty() || name == BARE || self.only.iter().any(|only| only == name)
    }
}

/// The service without a layer, to which the others are compared.
const BARE: &str = "no layer";

/// How many effects there were.
type Effects = Arc<AtomicU64>;

/// A service, and whether its clients send copies of one request each.
struct Contestant {
    name: &'static str,
    address: SocketAddr,
    effects: Effects,
    copies: bool,
    /// Requests a second of each round.
    rates: Vec<f64>,
}

async fn leased(State(effects): State<Effects>) -> &'static str {
    effects.fetch_add(1, Relaxed);
    RECEIPT
}

async fn in_postgres(State(effects): State<Effects>, Tx(mut db): Tx<PgConnection>) -> &'static str {
    let insert = sqlx::query("INSERT INTO charges (order_id) VALUES ($1)").bind("o-1");
    insert.execute(db.as_mut()).await.expect("it is written");
    effects.fetch_add(1, Relaxed);
    RECEIPT
}

async fn in_sqlite(
    State(effects): State<Effects>,
    Tx(mut db): Tx<SqliteConnection>,
) -> &'static str {
    let insert = sqlx::query("INSERT INTO charges (order_id) VALUES (?)").bind("o-1");
    insert.execute(db.as_mut()).await.expect("it is written");
    effects.fetch_add(1, Relaxed);
    RECEIPT
}

const RECEIPT: &str = r#"{"order_id":"o-1","amount_cents":1299,"charge_id":"ch-o-1"}"#;
const ORDER: &str = r#"{"order_id":"o-1","customer":"ann","amount_cents":1299}"#;
const CREATE: &str = "CREATE TABLE charges (order_id text NOT NULL)";

fn once<S: Store>(store: S) -> IdempotencyLayer<S> {
    IdempotencyLayer::new(store).unscoped()
}

impl Contestant {
    async fn start(name: &'static str, charge: MethodRouter<Effects>) -> Result<Self> {
        let effects = Effects::default();
        let app = Router::new()
            .route("/charges", charge)
            .with_state(Arc::clone(&effects));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        tokio::spawn(async move { axum::serve(listener, app).await });
        Ok(Self {
            name,
            address,
            effects,
            copies: false,
            rates: Vec::new(),
        })
    }

    /// Sends requests for so long, and notes how many were answered in a second.
    async fn run(&mut self, options: &Options, round: usize) -> Result<()> {
        let before = self.effects.load(Relaxed);
        let begun = Instant::now();
        let until = begun + Duration::from_secs(options.seconds);
        let mut clients = JoinSet::new();
        for client in 0..options.connections {
            let first = format!("{round}-{client}");
            clients.spawn(send(self.address, first, self.copies, until));
        }
        let mut answered = 0;
        while let Some(client) = clients.join_next().await {
            answered += client??;
        }
        let effects = self.effects.load(Relaxed) - before;
        let expected = if self.copies {
            options.connections
        } else {
            answered
        };
        if effects != expected {
            return Err(format!("{}: {effects} effects of {expected} keys", self.name).into());
        }
        #[expect(clippy::cast_precision_loss, reason = "there are fewer than 2^52")]
        self.rates
            .push(answered as f64 / begun.elapsed().as_secs_f64());
        Ok(())
    }
}

/// Sends one request after the other on one connection, and says how many were answered.
async fn send(to: SocketAddr, name: String, copies: bool, until: Instant) -> Result<u64> {
    let mut stream = TcpStream::connect(to).await?;
    stream.set_nodelay(true)?;
    let (mut answered, mut answer) = (0, Vec::new());
    while Instant::now() < until {
        let number = if copies { 0 } else { answered };
        let length = ORDER.len();
        let request = format!(
            "POST /charges HTTP/1.1\r\nhost: bench\r\nidempotency-key: {name}-{number}\r\n\
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
        answered += 1;
    }
    Ok(answered)
}

async fn measure(options: &Options) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let database = folder.path().join("idem.db");
    let postgres = idem_servers::Postgres::start()?;
    let redis = idem_servers::Redis::start()?;
    let in_redis = async || RedisStore::connect(&redis.url()).await;
    let in_pg = PostgresStore::connect(&postgres.url()).await?;
    let file = SqliteStore::connect(&database).await?;
    let mut charges = PgConnection::connect(&postgres.url()).await?;
    sqlx::query(CREATE).execute(&mut charges).await?;
    let mut sqlite = SqliteConnection::connect(&format!("sqlite:{}", database.display())).await?;
    sqlx::query(CREATE).execute(&mut sqlite).await?;
    let replays = |it: Contestant| Contestant { copies: true, ..it };
    let memory = MemoryStore::new();
    let mut contestants = vec![
        Contestant::start(BARE, post(leased)).await?,
        Contestant::start("memory", post(leased).layer(once(memory.clone()))).await?,
        Contestant::start("Redis", post(leased).layer(once(in_redis().await?))).await?,
        Contestant::start("PostgreSQL", post(leased).layer(once(in_pg.clone()))).await?,
        Contestant::start(
            "PostgreSQL, atomic",
            post(in_postgres).layer(once(in_pg.clone()).named("atomic").atomic::<PgConnection>()),
        )
        .await?,
        Contestant::start(
            "SQLite, atomic",
            post(in_sqlite).layer(once(file).atomic::<SqliteConnection>()),
        )
        .await?,
        replays(
            Contestant::start(
                "memory, copies",
                post(leased).layer(once(memory).named("copies")),
            )
            .await?,
        ),
        replays(
            Contestant::start(
                "Redis, copies",
                post(leased).layer(once(in_redis().await?).named("copies")),
            )
            .await?,
        ),
        replays(
            Contestant::start(
                "PostgreSQL, copies",
                post(leased).layer(once(in_pg).named("copies")),
            )
            .await?,
        ),
    ];
    contestants.retain(|it| options.ask_for(it.name));
    for round in 0..options.rounds {
        for contestant in &mut contestants {
            contestant.run(options, round).await?;
        }
    }
    let bare = contestants.first().expect("it is always measured");
    println!(
        "| | requests/s, median | ratio to no layer, median | of all rounds |\n|---|--:|--:|--:|"
    );
    for it in &contestants {
        let ratios = it
            .rates
            .iter()
            .zip(&bare.rates)
            .map(|(rate, bare)| rate / bare);
        let ratios = sorted(ratios.collect());
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

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    match measure(&options).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-http: {error}");
            ExitCode::FAILURE
        }
    }
}
