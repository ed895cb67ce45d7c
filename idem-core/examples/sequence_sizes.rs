//! What messages leave behind in a store: with a key each, from one producer that numbers them, and
//! from a thousand.
//!
//! ```sh
//! cargo run --release -p idem-core --features sqlite,postgres,redis --example sequence_sizes -- 100000
//! ```
//!
//! It starts PostgreSQL and Redis of its own. Messages come in the order of their numbers, 256 at once.

use std::{env, error::Error, sync::Arc, time::Instant};

use idem_core::{
    Key, Outcome, Policy, PostgresStore, RedisStore, SqliteStore, Store,
    message::SequencePlace,
    sqlx::{
        self, AssertSqlSafe, ConnectOptions as _, Connection as _, PgConnection,
        sqlite::SqliteConnectOptions,
    },
    store::{Claim, ClaimRequest, OutOfPlace, Write},
};
use idem_servers::{Postgres, Redis};
use tokio::{sync::Semaphore, task::JoinSet};

type Result<T = ()> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// How many are handled at once.
const AT_ONCE: usize = 256;

/// How messages are told apart.
#[derive(Debug, Clone, Copy)]
enum Form {
    Keys,
    Producers(u64),
}

#[tokio::main]
async fn main() -> Result {
    let messages = env::args().nth(1).map_or(Ok(100_000), |it| it.parse())?;
    println!("store     form            messages    rows       bytes  per second");
    for form in [Form::Keys, Form::Producers(1), Form::Producers(1000)] {
        sqlite(form, messages).await?;
        postgres(form, messages).await?;
        redis(form, messages).await?;
    }
    Ok(())
}

async fn sqlite(form: Form, messages: u64) -> Result {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("idem.db");
    let pace = handle(SqliteStore::connect(&file).await?, form, messages).await?;
    let mut connection = SqliteConnectOptions::new()
        .filename(&file)
        .connect()
        .await?;
    sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)")
        .execute(&mut connection)
        .await?;
    let rows: i64 = sqlx::query_scalar(ROWS).fetch_one(&mut connection).await?;
    let bytes = std::fs::metadata(&file)?.len().try_into()?;
    told("sqlite", form, messages, (rows, bytes), pace);
    Ok(())
}

async fn postgres(form: Form, messages: u64) -> Result {
    let server = Postgres::start_with(&[("fsync", "on"), ("synchronous_commit", "on")])?;
    let url = server.url();
    let pace = handle(PostgresStore::connect(&url).await?, form, messages).await?;
    let mut connection = PgConnection::connect(&url).await?;
    for table in TABLES {
        let vacuum = AssertSqlSafe(format!("VACUUM {table}"));
        sqlx::query(vacuum).execute(&mut connection).await?;
    }
    let rows: i64 = sqlx::query_scalar(ROWS).fetch_one(&mut connection).await?;
    let mut bytes = 0;
    for table in TABLES {
        let size: i64 = sqlx::query_scalar("SELECT pg_total_relation_size($1::text::regclass)")
            .bind(table)
            .fetch_one(&mut connection)
            .await?;
        bytes += size;
    }
    told("postgres", form, messages, (rows, bytes), pace);
    Ok(())
}

async fn redis(form: Form, messages: u64) -> Result {
    let server = Redis::start_with(&[("appendonly", "yes"), ("appendfsync", "everysec")])?;
    let url = server.url();
    let store = RedisStore::connect(&url).await?;
    let mut connection = redis::Client::open(url)?
        .get_multiplexed_async_connection()
        .await?;
    let before = used_memory(&mut connection).await?;
    let pace = handle(store, form, messages).await?;
    let rows: i64 = redis::cmd("DBSIZE").query_async(&mut connection).await?;
    let bytes = used_memory(&mut connection).await? - before;
    told("redis", form, messages, (rows, bytes), pace);
    Ok(())
}

const TABLES: [&str; 3] = [
    "idem_records",
    "idem_records_sequences",
    "idem_records_exceptions",
];

const ROWS: &str = "SELECT (SELECT count(*) FROM idem_records)
    + (SELECT count(*) FROM idem_records_sequences)
    + (SELECT count(*) FROM idem_records_exceptions)";

async fn used_memory(connection: &mut redis::aio::MultiplexedConnection) -> Result<i64> {
    let mut info = redis::cmd("INFO");
    let info: redis::InfoDict = info.arg("memory").query_async(connection).await?;
    Ok(info.get("used_memory").ok_or("Redis does not tell")?)
}

/// Handles all messages, and says how many a second.
async fn handle<S: Store>(store: S, form: Form, messages: u64) -> Result<u128> {
    let (store, places) = (Arc::new(store), Arc::new(Semaphore::new(AT_ONCE)));
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for message in 0..messages {
        let place = Arc::clone(&places).acquire_owned().await?;
        let store = Arc::clone(&store);
        tasks.spawn(async move {
            let _place = place;
            one(&*store, &request(form, message)?).await
        });
        while let Some(done) = tasks.try_join_next() {
            done??;
        }
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(u128::from(messages) * 1000 / begun.elapsed().as_millis().max(1))
}

async fn one(store: &impl Store, request: &ClaimRequest) -> Result {
    loop {
        match store.claim(request).await? {
            Claim::Acquired(lease) => {
                let outcome = Outcome::new(&b"null"[..]);
                let done = store.complete(&lease, &outcome, request.retention).await?;
                return match done {
                    Write::Applied => Ok(()),
                    Write::Fenced => Err("it was fenced".into()),
                };
            }
            Claim::OutOfPlace(OutOfPlace::Ahead { .. }) => tokio::task::yield_now().await,
            other => return Err(format!("`{}` was answered {other:?}", request.key).into()),
        }
    }
}

fn request(form: Form, message: u64) -> Result<ClaimRequest> {
    Ok(match form {
        Form::Keys => ClaimRequest::new(Key::new("readings.store", message)?, &Policy::DEFAULT),
        Form::Producers(producers) => {
            let producer = Key::builder("readings.store")
                .part("producer", &format!("device-{}", message % producers))
                .part("epoch", &1_u64)
                .build()?;
            let place = SequencePlace::new(producer, message / producers);
            ClaimRequest::in_sequence(place, &Policy::DEFAULT)
        }
    })
}

fn told(store: &str, form: Form, messages: u64, (rows, bytes): (i64, i64), pace: u128) {
    let form = match form {
        Form::Keys => "a key each".to_owned(),
        Form::Producers(1) => "one producer".to_owned(),
        Form::Producers(many) => format!("{many} producers"),
    };
    println!("{store:8}  {form:14}  {messages:8}  {rows:6}  {bytes:10}  {pace:10}");
}
