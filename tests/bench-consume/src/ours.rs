//! idem's consumers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Instant,
};

use idem_amqp::{
    ExecutionKind, Handler, MemoryStore, PostgresStore, RedisStore, RunsOn, SqliteStore, Store,
    prelude::*, sqlx::PgConnection,
};
use tokio::sync::Notify;

use crate::{Result, charges, consume::Options, order::Order, tally::Tally};

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
    let settle = Arc::clone(&all_settled);
    let balance = Worker::builder(store)
        .state(tally.clone())
        .consume::<H>(place.queue(options.prefetch))
        .on_settled(move |message| {
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
