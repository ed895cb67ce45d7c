//! idem's consumers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use idem_amqp::{
    Claim, ClaimRequest, ExecutionKind, Handler, Key, MemoryStore, Outcome, Policy, PostgresStore,
    RedisStore, RunsOn, SqliteStore, Store, Write, prelude::*, sqlx::PgConnection,
};
use tokio::sync::Notify;

use xtask::bench::consume::Contestant;

use crate::{
    Result, charges,
    consume::Options,
    order::{Order, id},
    tally::Tally,
};

#[idempotent(key = "id", scope = "orders.charge")]
async fn count(order: Order, State(tally): State<Tally>) -> Result<(), Failed> {
    tally.execute(&order);
    Ok(())
}

#[idempotent(key = "id", scope = "orders.charge")]
async fn charge(
    order: Order,
    State(tally): State<Tally>,
    db: &mut PgConnection,
) -> Result<(), Failed> {
    charges::charge(db, &order).await?;
    tally.execute(&order);
    Ok(())
}

#[idempotent(key = "id", scope = "orders.charge", group = 32)]
async fn charge_in_group(
    order: Order,
    State(tally): State<Tally>,
    db: &mut PgConnection,
) -> Result<(), Failed> {
    charges::charge(db, &order).await?;
    tally.execute(&order);
    Ok(())
}

pub(crate) async fn in_memory(options: &Options, tally: &Tally) -> Result<Instant> {
    consume::<count, _>(options, MemoryStore::new(), tally).await
}

pub(crate) async fn in_sqlite(options: &Options, tally: &Tally) -> Result<Instant> {
    let folder = tempfile::tempdir()?;
    let store = SqliteStore::connect(folder.path().join("idem.db")).await?;
    consume::<count, _>(options, store, tally).await
}

pub(crate) async fn in_redis(options: &Options, tally: &Tally) -> Result<Instant> {
    let store = RedisStore::connect(options.store_url()?).await?;
    consume::<count, _>(options, store, tally).await
}

pub(crate) async fn in_postgres(options: &Options, tally: &Tally) -> Result<Instant> {
    let store = PostgresStore::connect(options.store_url()?).await?;
    consume::<count, _>(options, store, tally).await
}

pub(crate) async fn atomic_in_postgres(options: &Options, tally: &Tally) -> Result<Instant> {
    let store = PostgresStore::connect(options.store_url()?).await?;
    consume::<charge, _>(options, store, tally).await
}

pub(crate) async fn grouped_in_postgres(options: &Options, tally: &Tally) -> Result<Instant> {
    let store = PostgresStore::connect(options.store_url()?).await?;
    consume::<charge_in_group, _>(options, store, tally).await
}

/// How long the contestant's store takes for what a message asks of it, one message after the other.
pub(crate) async fn claim_and_complete(
    options: &Options,
    messages: usize,
) -> Result<Vec<Duration>> {
    let url = || options.store_url();
    match options.contestant {
        Contestant::IdemMemory => claim_and_complete_in(MemoryStore::new(), messages).await,
        Contestant::IdemSqlite => {
            let folder = tempfile::tempdir()?;
            let store = SqliteStore::connect(folder.path().join("idem.db")).await?;
            claim_and_complete_in(store, messages).await
        }
        Contestant::IdemRedis => {
            claim_and_complete_in(RedisStore::connect(url()?).await?, messages).await
        }
        Contestant::IdemPostgres
        | Contestant::IdemPostgresAtomic
        | Contestant::IdemPostgresGrouped => {
            claim_and_complete_in(PostgresStore::connect(url()?).await?, messages).await
        }
        other => Err(format!("{} has no store of ours", other.name()).into()),
    }
}

async fn claim_and_complete_in<S: Store>(store: S, messages: usize) -> Result<Vec<Duration>> {
    let outcome = Outcome::new("null");
    let mut delays = Vec::with_capacity(messages);
    for order in 0..messages {
        let key = Key::new("orders.charge", id(order))?;
        let request = ClaimRequest::new(key, &Policy::DEFAULT);
        let began = Instant::now();
        let Claim::Acquired(lease) = store.claim(&request).await? else {
            return Err("a key is not new".into());
        };
        let applied = store.complete(&lease, &outcome, request.retention).await?;
        delays.push(began.elapsed());
        if applied != Write::Applied {
            return Err("a completion was refused".into());
        }
    }
    Ok(delays)
}

/// Consumes until every message has been executed or known as a copy, and drains.
async fn consume<H, S>(options: &Options, store: S, tally: &Tally) -> Result<Instant>
where
    H: Handler<Tally>,
    H::Mode: RunsOn<S>,
    S: Store,
{
    let place = &options.place;
    let (messages, settled) = (place.messages, AtomicUsize::new(0));
    let all_settled = Arc::new(Notify::new());
    let (settle, done) = (Arc::clone(&all_settled), tally.clone());
    let balance = Worker::builder(store)
        .state(tally.clone())
        .consume::<H>(place.queue(options.prefetch))
        .on_settled(move |message| {
            if let Some((_, id)) = message.key.and_then(|key| key.as_str().split_once(':')) {
                done.done(id);
            }
            let is_done = matches!(
                message.kind,
                ExecutionKind::Executed | ExecutionKind::Duplicate
            );
            if is_done && settled.fetch_add(1, Relaxed) + 1 == messages {
                settle.notify_one();
            }
        })
        .run_until(place.amqp_url.as_str(), all_settled.notified())
        .await?;
    let end = Instant::now();
    let duplicates = messages - tally.orders();
    if balance.of(ExecutionKind::Executed) != tally.orders() as u64
        || balance.of(ExecutionKind::Duplicate) != duplicates as u64
        || !balance.is_even()
    {
        return Err(format!("the worker's balance is {balance}").into());
    }
    Ok(end)
}
