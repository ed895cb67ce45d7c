//! idem's consumers.

use std::time::{Duration, Instant};

use bench_driver::consume::{Contestant, QueueKind};
use bench_orders::{Options, Order, Tally, id};
use idem_amqp::{
    Key, MemoryStore, Policy, PostgresStore, Queue, RedisStore, SqliteStore, Store, WorkerBuilder,
    executor::{ExecutionKind, RunsOn},
    handler::{Handler, Outcome},
    outbox::{Outbox, Outboxes},
    prelude::*,
    sqlx::{PgConnection, SqliteConnection},
    store::{Claim, ClaimRequest, Purge, PurgeTask, StreamStore, Write},
};

use crate::{Result, charges, events, shift::Shift};

#[idempotent(key = "id", scope = "orders.charge")]
async fn count(order: Order, State(tally): State<Tally>) -> Result<(), Failed> {
    tally.work().await;
    tally.execute(&order);
    Ok(())
}

#[idempotent(key = "id", ordered_by = "customer", scope = "orders.charge")]
async fn count_in_order(order: Order, State(tally): State<Tally>) -> Result<(), Failed> {
    tally.work().await;
    tally.execute(&order);
    Ok(())
}

#[idempotent(key = "id", scope = "orders.charge", lease = "2s", retention = "2s")]
async fn count_briefly(order: Order, State(tally): State<Tally>) -> Result<(), Failed> {
    tally.work().await;
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
    tally.work().await;
    tally.execute(&order);
    Ok(())
}

#[idempotent(key = "id", scope = "orders.charge")]
async fn charge_in_file(
    order: Order,
    State(tally): State<Tally>,
    db: &mut SqliteConnection,
) -> Result<(), Failed> {
    charges::charge_in_file(db, &order).await?;
    tally.work().await;
    tally.execute(&order);
    Ok(())
}

#[idempotent(key = "id", scope = "orders.charge")]
async fn charge_and_tell(
    order: Order,
    outbox: Outbox,
    State(tally): State<Tally>,
    db: &mut PgConnection,
) -> Result<(), Failed> {
    charges::charge(db, &order).await?;
    tally.work().await;
    tell(&order, &outbox, &tally)
}

#[idempotent(key = "id", scope = "orders.charge")]
async fn charge_in_file_and_tell(
    order: Order,
    outbox: Outbox,
    State(tally): State<Tally>,
    db: &mut SqliteConnection,
) -> Result<(), Failed> {
    charges::charge_in_file(db, &order).await?;
    tally.work().await;
    tell(&order, &outbox, &tally)
}

#[idempotent(key = "id", scope = "orders.charge", group = 32)]
async fn charge_in_group(
    order: Order,
    State(tally): State<Tally>,
    db: &mut PgConnection,
) -> Result<(), Failed> {
    charges::charge(db, &order).await?;
    tally.work().await;
    tally.execute(&order);
    Ok(())
}

#[idempotent(key = "id", scope = "orders.charge", batch = 256)]
async fn count_batch(orders: Batch<Order>, State(tally): State<Tally>) -> Result<(), Failed> {
    tally.work().await;
    for order in &orders {
        tally.execute(order);
    }
    Ok(())
}

#[idempotent(key = "id", scope = "orders.charge", batch = 256)]
async fn charge_batch(
    orders: Batch<Order>,
    State(tally): State<Tally>,
    db: &mut PgConnection,
) -> Result<(), Failed> {
    charges::charge_all(db, orders.iter().map(|order| &**order)).await?;
    tally.work().await;
    for order in &orders {
        tally.execute(order);
    }
    Ok(())
}

#[idempotent(key = position(), scope = "orders.charge", batch = 256)]
async fn charge_batch_by_mark(
    orders: Batch<Order>,
    State(tally): State<Tally>,
    db: &mut PgConnection,
) -> Result<(), Failed> {
    charges::charge_all(db, orders.iter().map(|order| &**order)).await?;
    tally.work().await;
    for order in &orders {
        tally.execute(order);
    }
    Ok(())
}

#[idempotent(key = "id", scope = "orders.charge", batch = 256)]
async fn charge_batch_in_file(
    orders: Batch<Order>,
    State(tally): State<Tally>,
    db: &mut SqliteConnection,
) -> Result<(), Failed> {
    charges::charge_all_in_file(db, orders.iter().map(|order| &**order)).await?;
    tally.work().await;
    for order in &orders {
        tally.execute(order);
    }
    Ok(())
}

#[idempotent(key = "id", scope = "orders.charge", batch = 256)]
async fn charge_batch_and_tell(
    orders: Batch<Order>,
    outboxes: Outboxes,
    State(tally): State<Tally>,
    db: &mut PgConnection,
) -> Result<(), Failed> {
    charges::charge_all(db, orders.iter().map(|order| &**order)).await?;
    tally.work().await;
    tell_all(&orders, &outboxes, &tally)
}

#[idempotent(key = "id", scope = "orders.charge", batch = 256)]
async fn charge_batch_in_file_and_tell(
    orders: Batch<Order>,
    outboxes: Outboxes,
    State(tally): State<Tally>,
    db: &mut SqliteConnection,
) -> Result<(), Failed> {
    charges::charge_all_in_file(db, orders.iter().map(|order| &**order)).await?;
    tally.work().await;
    tell_all(&orders, &outboxes, &tally)
}

fn tell_all(orders: &Batch<Order>, outboxes: &Outboxes, tally: &Tally) -> Result<(), Failed> {
    for (place, order) in orders.iter().enumerate() {
        tell(order, &outboxes[place], tally)?;
    }
    Ok(())
}

fn tell(order: &Order, outbox: &Outbox, tally: &Tally) -> Result<(), Failed> {
    let (event, after) = (events::of(order), tally.events_after());
    if after.is_zero() {
        outbox.publish(event)?;
    } else {
        outbox.after(after).publish(event)?;
    }
    tally.execute(order);
    tally.published(order);
    Ok(())
}

/// Consumes as one of ours, which its options name, until the shift is over.
pub(crate) async fn consume(options: &Options, tally: &Tally, shift: &Shift) -> Result<Instant> {
    let url = || options.store_url();
    match options.contestant {
        Contestant::IdemMemory => {
            consume_with::<count, _>(options, MemoryStore::new(), tally, shift).await
        }
        Contestant::IdemMemoryOrdered => {
            consume_with::<count_in_order, _>(options, MemoryStore::new(), tally, shift).await
        }
        Contestant::IdemPostgresOrdered => {
            let store = PostgresStore::connect(url()?).await?;
            consume_with::<count_in_order, _>(options, store, tally, shift).await
        }
        Contestant::IdemSqlite => {
            let folder = tempfile::tempdir()?;
            let store = SqliteStore::connect(folder.path().join("idem.db")).await?;
            consume_with::<count, _>(options, store, tally, shift).await
        }
        Contestant::IdemRedis => {
            let store = RedisStore::connect(url()?).await?;
            consume_with::<count, _>(options, store, tally, shift).await
        }
        Contestant::IdemPostgres => {
            let store = PostgresStore::connect(url()?).await?;
            consume_with::<count, _>(options, store, tally, shift).await
        }
        Contestant::IdemPostgresAtomic => {
            let store = PostgresStore::connect(url()?).await?;
            consume_with::<charge, _>(options, store, tally, shift).await
        }
        Contestant::IdemPostgresAtomicOutbox => {
            let store = PostgresStore::connect(url()?).await?;
            consume_with::<charge_and_tell, _>(options, store, tally, shift).await
        }
        Contestant::IdemPostgresBatchOutbox => {
            let store = PostgresStore::connect(url()?).await?;
            consume_with::<charge_batch_and_tell, _>(options, store, tally, shift).await
        }
        Contestant::IdemSqliteAtomicOutbox => {
            let store = SqliteStore::connect(url()?).await?;
            consume_with::<charge_in_file_and_tell, _>(options, store, tally, shift).await
        }
        Contestant::IdemSqliteBatchOutbox => {
            let store = SqliteStore::connect(url()?).await?;
            consume_with::<charge_batch_in_file_and_tell, _>(options, store, tally, shift).await
        }
        Contestant::IdemPostgresGrouped => {
            let store = PostgresStore::connect(url()?).await?;
            consume_with::<charge_in_group, _>(options, store, tally, shift).await
        }
        Contestant::IdemSqliteAtomic => {
            let store = SqliteStore::connect(url()?).await?;
            consume_with::<charge_in_file, _>(options, store, tally, shift).await
        }
        Contestant::IdemMemoryBatch => {
            consume_with::<count_batch, _>(options, MemoryStore::new(), tally, shift).await
        }
        Contestant::IdemRedisBatch => {
            let store = RedisStore::connect(url()?).await?;
            consume_with::<count_batch, _>(options, store, tally, shift).await
        }
        Contestant::IdemPostgresBatch => {
            let store = PostgresStore::connect(url()?).await?;
            consume_with::<charge_batch, _>(options, store, tally, shift).await
        }
        Contestant::IdemPostgresByMark => {
            let store = PostgresStore::connect(url()?).await?;
            consume_with::<charge_batch_by_mark, _>(options, store, tally, shift).await
        }
        Contestant::IdemSqliteBatch => {
            let store = SqliteStore::connect(url()?).await?;
            consume_with::<charge_batch_in_file, _>(options, store, tally, shift).await
        }
        other => Err(format!("{} is none of ours", other.name()).into()),
    }
}

/// Consumes with keys that are remembered for two seconds only, while so many purge every second.
pub(crate) async fn consume_briefly(
    options: &Options,
    tally: &Tally,
    shift: &Shift,
    purgers: u8,
) -> Result<Instant> {
    let store = PostgresStore::connect(options.store_url()?).await?;
    let purging: Vec<_> = (0..purgers)
        .map(|_| PurgeTask::spawn(store.clone(), PurgeTask::MIN_INTERVAL))
        .collect();
    let worker = Worker::builder(store)
        .state(tally.clone())
        .consume::<count_briefly>(queue(options))
        .purge_never();
    let end = work(options, worker, tally, shift).await;
    drop(purging);
    end
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

async fn consume_with<H, S>(
    options: &Options,
    store: S,
    tally: &Tally,
    shift: &Shift,
) -> Result<Instant>
where
    H: Handler<Tally>,
    H::Mode: RunsOn<S>,
    S: Purge + StreamStore + Clone,
{
    let worker = Worker::builder(store).state(tally.clone());
    let worker = match options.place.kind {
        QueueKind::Stream => {
            let stream = Queue::existing_stream(&options.place.queue);
            worker.consume_stream::<H>(stream.prefetch(options.prefetch))
        }
        _ => worker.consume::<H>(queue(options)),
    };
    work(options, worker, tally, shift).await
}

fn queue(options: &Options) -> Queue {
    Queue::existing(&options.place.queue).prefetch(options.prefetch)
}

/// Works until the shift is over, and drains.
async fn work<S: Store>(
    options: &Options,
    worker: WorkerBuilder<S, Tally>,
    tally: &Tally,
    shift: &Shift,
) -> Result<Instant> {
    let (settled, done) = (shift.clone(), tally.clone());
    let worker = worker
        .on_settled(move |message| {
            if let Some((_, id)) = message.key.and_then(|key| key.as_str().split_once(':')) {
                done.done(id);
            }
            if matches!(
                message.kind,
                ExecutionKind::Executed | ExecutionKind::Duplicate
            ) {
                settled.settled();
            }
        })
        .build(options.place.amqp_url.as_str())?;
    shift.ready(worker.health()).await;
    let balance = worker.run_until(shift.over()).await?;
    let end = Instant::now();
    let executed: u64 = tally.counts().into_iter().map(u64::from).sum();
    let copies = shift.count() as u64 - executed;
    if balance.of(ExecutionKind::Executed) != executed
        || balance.of(ExecutionKind::Duplicate) != copies
        || !balance.is_balanced()
    {
        return Err(format!("the worker's balance is {balance}").into());
    }
    Ok(end)
}
