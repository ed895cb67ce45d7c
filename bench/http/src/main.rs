//! Measures what `idem-http` costs: a service with the layer on each store, beside the same handler without it.
//!
//! ```sh
//! cd bench && cargo run --release -p bench-http
//! cd bench && cargo run --release -p bench-http -- lone    # one request at a time: how long it takes
//! ```
//!
//! All services listen in this process, and so do the clients, on connections that are kept. The services are measured
//! in turns, several rounds each, and told as a ratio to the one without a layer in the same round. A figure counts
//! only if each key had its effect once, in the table if there is one.

use std::{process::ExitCode, sync::atomic::Ordering::Relaxed};

use axum::{extract::State, routing::post};
use bench_http::{Contestant, Effects, Load, RECEIPT, Result, charge, measure};
use clap::{Parser, Subcommand};
use idem_core::{
    MemoryStore, PostgresStore, RedisStore, SqliteStore, Store,
    sqlx::{self, Connection as _, PgConnection, SqliteConnection},
};
use idem_http::{IdempotencyLayer, Tx};

mod lone;

#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Options {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    load: Load,
}

#[derive(Debug, Subcommand)]
enum What {
    /// How long a request takes that is alone
    Lone(lone::Options),
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

const CREATE: &str = "CREATE TABLE charges (order_id text NOT NULL)";
const COUNT: &str = "SELECT count(*) FROM charges";

const ATOMIC_PG: &str = "PostgreSQL, atomic";
const ATOMIC_FILE: &str = "SQLite, atomic";

fn once<S: Store>(store: S) -> IdempotencyLayer<S> {
    IdempotencyLayer::new(store).unscoped()
}

async fn leased<S: Store>(name: &'static str, store: S) -> Result<Contestant> {
    Contestant::start(name, post(charge).layer(once(store))).await
}

async fn copied<S: Store>(name: &'static str, store: S) -> Result<Contestant> {
    let layer = once(store).named("copies");
    let contestant = Contestant::start(name, post(charge).layer(layer)).await?;
    Ok(contestant.copied())
}

async fn run(options: &Options) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let database = folder.path().join("idem.db");
    let postgres = idem_servers::Postgres::start()?;
    let redis = idem_servers::Redis::start()?;
    let in_redis = async || RedisStore::connect(&redis.url()).await;
    let in_pg = PostgresStore::connect(&postgres.url()).await?;
    let file = SqliteStore::connect(&database).await?;
    if let Some(What::Lone(options)) = &options.what {
        let stores = lone::Stores {
            memory: MemoryStore::new(),
            sqlite: file,
            redis: in_redis().await?,
            postgres: in_pg,
        };
        return lone::run(options, stores).await;
    }
    let mut charges = PgConnection::connect(&postgres.url()).await?;
    sqlx::query(CREATE).execute(&mut charges).await?;
    let mut sqlite = SqliteConnection::connect(&format!("sqlite:{}", database.display())).await?;
    sqlx::query(CREATE).execute(&mut sqlite).await?;
    let memory = MemoryStore::new();
    let atomic_pg = once(in_pg.clone()).named("atomic").atomic::<PgConnection>();
    let atomic_file = once(file).atomic::<SqliteConnection>();
    let mut contestants = vec![
        Contestant::bare().await?,
        leased("memory", memory.clone()).await?,
        leased("Redis", in_redis().await?).await?,
        leased("PostgreSQL", in_pg.clone()).await?,
        Contestant::start(ATOMIC_PG, post(in_postgres).layer(atomic_pg)).await?,
        Contestant::start(ATOMIC_FILE, post(in_sqlite).layer(atomic_file)).await?,
        copied("memory, copies", memory).await?,
        copied("Redis, copies", in_redis().await?).await?,
        copied("PostgreSQL, copies", in_pg).await?,
    ];
    measure(&mut contestants, &options.load).await?;
    let in_pg: i64 = sqlx::query_scalar(COUNT).fetch_one(&mut charges).await?;
    let in_file: i64 = sqlx::query_scalar(COUNT).fetch_one(&mut sqlite).await?;
    for (name, rows) in [(ATOMIC_PG, in_pg), (ATOMIC_FILE, in_file)] {
        let handled = contestants.iter().find(|it| it.name() == name);
        let handled = handled.map_or(0, Contestant::effects);
        if u64::try_from(rows)? != handled {
            return Err(format!("{name}: {rows} rows of {handled} requests").into());
        }
    }
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    match run(&options).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-http: {error}");
            ExitCode::FAILURE
        }
    }
}
