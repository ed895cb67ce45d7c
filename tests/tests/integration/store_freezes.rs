//! Stores that hang (SIGSTOP) for less and for more than a lease, and then go on.

use std::{future::ready, sync::Arc, time::Duration};

use idem_amqp::{
    Failed, PostgresStore, RedisStore, Worker,
    executor::{ExecutionKind as Kind, RunsOn},
    handler::Handler,
    prelude::*,
    sqlx::{self, PgConnection},
    store::Purge,
};
use idem_servers::{Postgres, Private, Redis, Server, postgres};
use idem_tests::{
    bed::{Bed, QUICK},
    journal::Journal,
    process::Mode,
    proxy::Proxy,
    running::assert_balance,
    script::{Order, Script, charge},
    servers::{hang, off_thread},
    store_at::StoreAt,
};

use crate::load::{Charges, Load, assert_none_lost, assert_once_each};

async fn freeze<S: Server + Send + Sync + 'static>(server: &Arc<Private<S>>) {
    let server = Arc::clone(server);
    off_thread(move || server.freeze()).await;
}

async fn thaw<S: Server + Send + Sync + 'static>(server: &Arc<Private<S>>) {
    let server = Arc::clone(server);
    off_thread(move || server.thaw()).await;
}

/// How long the store hangs, and how long leases are, in milliseconds.
#[derive(Clone, Copy)]
struct Times {
    hangs: u64,
    lease: u64,
}

/// The lease is also longer than the store hangs and a busy machine stalls a worker.
const SHORTER_THAN_THE_LEASE: Times = Times {
    hangs: 1000,
    lease: 20_000,
};
const LONGER_THAN_THE_LEASE: Times = Times {
    hangs: 2500,
    lease: 1000,
};
const TEN_SECONDS: Times = Times {
    hangs: 10_000,
    lease: 2000,
};

/// The server hangs while two workers are at work.
async fn charges<S: Server + Send + Sync + 'static>(
    server: &Arc<Private<S>>,
    store: StoreAt,
    mode: Mode,
    times: Times,
) -> Charges {
    let store = store.answering_within(times.lease / 2);
    let load = Load::of(&store, mode).await.with(|settings| {
        settings.lease_ms = times.lease;
        // A takeover is one attempt more.
        settings.max_attempts = 3;
    });
    load.charges(async |[worker, _], _| {
        worker.ended("executed", 10).await;
        hang(server, Duration::from_millis(times.hangs)).await;
    })
    .await
}

async fn charges_on_postgres(mode: Mode, times: Times) -> Charges {
    let server = Arc::new(off_thread(Postgres::start).await);
    let store = StoreAt::postgres_on(&server).await;
    charges(&server, store, mode, times).await
}

async fn charges_on_redis(times: Times) -> Charges {
    let server = Arc::new(off_thread(Redis::start).await);
    let store = StoreAt::redis_on(&server);
    charges(&server, store, Mode::Leased, times).await
}

/// The store hangs for less than the lease under load.
///
/// - does: waits for it
/// - atomic: once each
/// - leased: once each
#[tokio::test]
async fn a_postgres_that_hangs_for_less_than_the_lease_doubles_nothing_of_atomic_workers() {
    assert_once_each(&charges_on_postgres(Mode::Atomic, SHORTER_THAN_THE_LEASE).await);
}

/// Shares the promise of
/// `store_freezes::a_postgres_that_hangs_for_less_than_the_lease_doubles_nothing_of_atomic_workers`.
#[tokio::test]
async fn a_postgres_that_hangs_for_less_than_the_lease_doubles_nothing_of_leased_workers() {
    assert_once_each(&charges_on_postgres(Mode::Leased, SHORTER_THAN_THE_LEASE).await);
}

/// Shares the promise of
/// `store_freezes::a_postgres_that_hangs_for_less_than_the_lease_doubles_nothing_of_atomic_workers`.
#[tokio::test]
async fn a_redis_that_hangs_for_less_than_the_lease_doubles_nothing() {
    assert_once_each(&charges_on_redis(SHORTER_THAN_THE_LEASE).await);
}

/// The store hangs for longer than the lease under load.
///
/// - does: waits for it; a copy may take over what was being worked on
/// - atomic: once each
/// - leased: none lost; what was being worked on may be twice, in doubt
#[tokio::test]
async fn a_postgres_that_hangs_for_longer_than_the_lease_doubles_nothing_of_atomic_workers() {
    assert_once_each(&charges_on_postgres(Mode::Atomic, LONGER_THAN_THE_LEASE).await);
}

/// Shares the promise of
/// `store_freezes::a_postgres_that_hangs_for_longer_than_the_lease_doubles_nothing_of_atomic_workers`.
#[tokio::test]
async fn a_postgres_that_hangs_for_longer_than_the_lease_loses_nothing_of_leased_workers() {
    assert_none_lost(&charges_on_postgres(Mode::Leased, LONGER_THAN_THE_LEASE).await);
}

/// Shares the promise of
/// `store_freezes::a_postgres_that_hangs_for_longer_than_the_lease_doubles_nothing_of_atomic_workers`.
#[tokio::test]
async fn a_redis_that_hangs_for_longer_than_the_lease_loses_nothing() {
    assert_none_lost(&charges_on_redis(LONGER_THAN_THE_LEASE).await);
}

/// The store hangs for ten seconds under load, five leases long.
///
/// - does: gives its connections up, and connects again
/// - atomic: once each
/// - leased: none lost; what was being worked on may be twice, in doubt
/// - settled by: `store_freezes::a_postgres_that_hangs_for_longer_than_the_lease_loses_nothing_of_leased_workers`
///   `store_freezes::a_redis_that_hangs_for_longer_than_the_lease_loses_nothing`
#[tokio::test]
async fn a_postgres_that_hangs_for_ten_seconds_doubles_nothing_of_atomic_workers() {
    assert_once_each(&charges_on_postgres(Mode::Atomic, TEN_SECONDS).await);
}

const STEPS: usize = 30;

/// A handler that takes a step every 50 ms.
fn stepping() -> (Script, Journal<usize>) {
    let steps = Journal::default();
    let taken = steps.clone();
    let script = Script::new(move |_| {
        let taken = taken.clone();
        async move {
            for step in 0..STEPS {
                tokio::time::sleep(Duration::from_millis(50)).await;
                taken.write(step);
            }
            Ok(())
        }
    });
    (script, steps)
}

/// The store hangs for a while in the middle of a handler whose lease is shorter. How many steps
/// did it take meanwhile, after the lease had ended?
async fn steps_while_frozen<H, S, St>(server: Arc<Private<S>>, store: St) -> usize
where
    H: Handler<Script>,
    H::Mode: RunsOn<St>,
    S: Server + Send + Sync + 'static,
    St: Purge + Clone,
{
    let bed = Bed::new().await;
    let (script, steps) = stepping();
    let lease = Duration::from_millis(300);
    let policy = QUICK.to_builder().lease(lease).build().unwrap();
    let worker = Worker::builder(store).state(script.clone());
    let worker = bed.start(worker.consume::<H>(bed.queue().policy(policy)));
    bed.order("a").await;
    steps.count("the handler is at work", 2).await;
    freeze(&server).await;
    tokio::time::sleep(2 * lease).await;
    let before = steps.entries().len();
    assert!(before < STEPS, "it was done before the lease ran out");
    tokio::time::sleep(2 * lease).await;
    let meanwhile = steps.entries().len() - before;
    thaw(&server).await;

    worker.ended(Kind::Executed, 1).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, 1)]);
    assert_eq!(script.attempts(), [1]);
    script.assert_effects(["a"]);
    bed.assert_nothing_stuck().await;
    meanwhile
}

/// Shares the promise of `store_freezes::an_atomic_handler_goes_on_while_postgres_hangs_for_longer_than_its_lease`.
#[tokio::test]
async fn a_leased_handler_rests_while_postgres_hangs_for_longer_than_its_lease() {
    let server = Arc::new(off_thread(Postgres::start).await);
    let store = StoreAt::postgres_on(&server).await.open_postgres().await;
    let meanwhile = steps_while_frozen::<charge, _, PostgresStore>(server, store).await;
    assert_eq!(meanwhile, 0, "it went on without its lease");
}

/// Shares the promise of `store_freezes::an_atomic_handler_goes_on_while_postgres_hangs_for_longer_than_its_lease`.
#[tokio::test]
async fn a_leased_handler_rests_while_redis_hangs_for_longer_than_its_lease() {
    let server = Arc::new(off_thread(Redis::start).await);
    let store = StoreAt::redis_on(&server).open_redis().await;
    let meanwhile = steps_while_frozen::<charge, _, RedisStore>(server, store).await;
    assert_eq!(meanwhile, 0, "it went on without its lease");
}

#[idempotent(key = "id", scope = "orders.charge")]
async fn charge_atomically(
    order: Order,
    State(script): State<Script>,
    attempt: Attempt,
    delivery: Delivery,
    _db: &mut PgConnection,
) -> Result<(), Failed> {
    script.play(order, attempt, delivery).await
}

/// The store hangs for longer than the lease while a handler works.
///
/// - does: pauses leased work, and lets it go on if nobody has taken over; atomic work goes on
/// - atomic: goes on; its commit decides
/// - leased: once
#[tokio::test]
async fn an_atomic_handler_goes_on_while_postgres_hangs_for_longer_than_its_lease() {
    let server = Arc::new(off_thread(Postgres::start).await);
    let store = StoreAt::postgres_on(&server).await.open_postgres().await;
    let meanwhile = steps_while_frozen::<charge_atomically, _, PostgresStore>(server, store).await;
    assert!(meanwhile > 0, "its commit would have told");
}

/// Its statement goes out on a link that has fallen silent.
#[idempotent(key = "id", scope = "orders.charge")]
async fn ask(
    order: Order,
    State(script): State<Script>,
    attempt: Attempt,
    delivery: Delivery,
    db: &mut PgConnection,
) -> Result<(), Failed> {
    script.play(order, attempt, delivery).await?;
    sqlx::query("SELECT 1").execute(db).await?;
    Ok(())
}

/// The link to PostgreSQL falls silent in the middle of an atomic handler's statement.
///
/// - does: drops the handler when its time is up (10 min unless set otherwise), and connects again
/// - atomic: once, after a failed attempt
#[tokio::test]
async fn an_atomic_handler_whose_link_to_postgres_falls_silent_fails_and_is_run_again() {
    let server = off_thread(postgres::shared).await;
    let link = Arc::new(Proxy::open(server.port()).await);
    let store = StoreAt::postgres().await;
    let store = store.by(link.port()).answering_within(1000);
    let store = store.keeping_transactions_open_for(3000);
    let silent = Arc::clone(&link);
    let script = Script::new(move |call| {
        if call.attempt == 1 {
            silent.freeze();
        }
        ready(Ok(()))
    });
    let bed = Bed::new().await;
    let worker = Worker::builder(store.open_postgres().await).state(script.clone());
    let worker = bed.start(worker.consume::<ask>(bed.queue()));
    bed.order("a").await;
    worker.ended(Kind::Executed, 1).await;
    let ends = [(Kind::Failed, 1), (Kind::Executed, 1)];
    assert_balance(&worker.stop().await, ends);
    assert_eq!(script.attempts(), [1, 2]);
    bed.assert_nothing_stuck().await;
}
