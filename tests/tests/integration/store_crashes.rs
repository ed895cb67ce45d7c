//! Stores that are killed in the middle of the flow, and started again.

use std::{sync::Arc, time::Duration};

use idem_amqp::{Worker, executor::ExecutionKind as Kind};
use idem_servers::{Postgres, Private, Redis, RedisCluster, Server};
use idem_tests::{
    bed::Bed,
    ledger::Ledger,
    postgres_pair::PostgresPair,
    process::{Mode, Process},
    running::assert_balance,
    script::{Script, charge_on_postgres},
    servers::{crash, off_thread},
    store_at::StoreAt,
};
use tokio::sync::Semaphore;

use crate::load::{Charges, Load, assert_once_each};

/// What an acknowledged write of Redis needs to survive a crash.
const DURABLE: [(&str, &str); 2] = [("appendonly", "yes"), ("appendfsync", "always")];

/// The server is killed twice while two workers are at work.
async fn charges_with_crashes<S: Server + Send + Sync + 'static>(
    server: Arc<Private<S>>,
    store: &StoreAt,
    mode: Mode,
) -> Charges {
    // Longer than the server is away: nobody takes over what is still being worked on.
    let load = Load::of(store, mode).await;
    let load = load.with(|settings| settings.lease_ms = 20_000);
    load.charges(async |workers: &mut [Process; 2], _| {
        for executed in [10, 40] {
            Process::one_ended(workers, "executed", executed).await;
            crash(&server, Duration::ZERO).await;
        }
    })
    .await
}

async fn charges_with_crashes_of_postgres(mode: Mode) -> Charges {
    let server = Arc::new(off_thread(Postgres::start).await);
    let store = StoreAt::postgres_on(&server).await;
    charges_with_crashes(server, &store, mode).await
}

/// PostgreSQL is killed under load, and starts again.
///
/// - does: connects again; what was answered is still there, what was not is asked again
/// - atomic: once each
/// - leased: once each, if it is back before the lease has run out
#[tokio::test]
async fn a_postgres_that_is_killed_under_load_loses_and_doubles_nothing_of_atomic_workers() {
    assert_once_each(&charges_with_crashes_of_postgres(Mode::Atomic).await);
}

/// Shares the promise of
/// `store_crashes::a_postgres_that_is_killed_under_load_loses_and_doubles_nothing_of_atomic_workers`.
#[tokio::test]
async fn a_postgres_that_is_killed_under_load_loses_and_repeats_nothing_of_leased_workers() {
    assert_once_each(&charges_with_crashes_of_postgres(Mode::Leased).await);
}

/// Redis with `appendonly yes` and `appendfsync always` is killed under load, and starts again.
///
/// - does: connects again; what was answered is still there, what was not is asked again
/// - leased: once each, if it is back before the lease has run out
#[tokio::test]
async fn a_redis_that_syncs_every_write_and_is_killed_under_load_loses_and_repeats_nothing() {
    let server = Arc::new(off_thread(|| Redis::start_with(&DURABLE)).await);
    let store = StoreAt::redis_on(&server);
    assert_once_each(&charges_with_crashes(server, &store, Mode::Leased).await);
}

/// One server of a Redis Cluster after the other is killed under load, and starts again; they sync every write.
///
/// - does: lets messages wait whose records that server keeps, and goes on by itself
/// - leased: once each, if it is back before the lease has run out
#[tokio::test]
async fn servers_of_a_redis_cluster_that_are_killed_under_load_lose_and_repeat_nothing() {
    let cluster = Arc::new(off_thread(|| RedisCluster::start_with(&DURABLE)).await);
    let load = Load::of(&StoreAt::redis_cluster_of(&cluster), Mode::Leased).await;
    let load = load.with(|settings| settings.lease_ms = 20_000);
    let charges = load.charges(async |workers, _| {
        for (executed, killed) in [(10, 0), (40, 1)] {
            Process::one_ended(workers, "executed", executed).await;
            let cluster = Arc::clone(&cluster);
            off_thread(move || {
                cluster.nodes()[killed].kill()?;
                cluster.nodes()[killed].restart()?;
                cluster.wait_until_sound()
            })
            .await;
        }
    });
    assert_once_each(&charges.await);
}

/// Records move from one server of a Redis Cluster to another, under load.
///
/// - does: follows them
/// - leased: once each
#[tokio::test]
async fn records_that_move_between_servers_of_a_redis_cluster_under_load_are_followed() {
    let cluster = Arc::new(off_thread(RedisCluster::start).await);
    let load = Load::of(&StoreAt::redis_cluster_of(&cluster), Mode::Leased).await;
    // Longer than a busy machine may stall a worker: nobody takes over what is still being worked on.
    let load = load.with(|settings| settings.lease_ms = 20_000);
    let charges = load.charges(async |[worker, _], _| {
        worker.ended("executed", 10).await;
        let cluster = Arc::clone(&cluster);
        off_thread(move || cluster.move_slots(0, 1, 4000)).await;
    });
    assert_once_each(&charges.await);
}

/// A message is done, then the server is killed. What becomes of a copy?
async fn copy_after_a_crash(settings: &'static [(&str, &str)], copy: Kind) -> Script {
    let server = Arc::new(off_thread(move || Redis::start_with(settings)).await);
    let bed = Bed::new().await;
    let script = Script::succeeding();
    let worker = bed.charging(StoreAt::redis_on(&server).open_redis().await, &script);
    bed.order("a").await;
    worker.ended(Kind::Executed, 1).await;
    crash(&server, Duration::ZERO).await;
    bed.order("a").await;

    worker.settled.count("both are settled", 2).await;
    let balance = worker.stop().await;
    assert_eq!(balance.of(copy), 1 + u64::from(copy == Kind::Executed));
    bed.assert_nothing_stuck().await;
    script
}

/// Redis with `appendonly yes` and `appendfsync always` is killed, then a copy of a completed message comes.
///
/// - does: acknowledges it, does not run it
/// - leased: once
#[tokio::test]
async fn a_redis_that_syncs_every_write_remembers_what_was_completed_before_it_was_killed() {
    let script = copy_after_a_crash(&DURABLE, Kind::Duplicate).await;
    script.assert_effects(["a"]);
}

/// Redis without append-only file restarts, then a copy of a completed message comes.
///
/// - does: no longer knows the key
/// - leased: runs again
#[tokio::test]
async fn a_redis_without_append_only_file_forgets_what_was_completed_and_a_copy_runs_again() {
    let script = copy_after_a_crash(&[], Kind::Executed).await;
    assert_eq!(script.attempts(), [1, 1]);
}

/// Redis without append-only file restarts while a handler works.
///
/// - does: refuses its completion, acknowledges nothing, runs the message again
/// - leased: effect may be twice, and the next attempt is not told
///
/// The key is forgotten under the handler's hands.
#[tokio::test]
async fn a_message_whose_claim_redis_forgot_is_not_acknowledged_and_runs_again() {
    let server = Arc::new(off_thread(Redis::start).await);
    let bed = Bed::new().await;
    let go_on = Arc::new(Semaphore::new(0));
    let gate = Arc::clone(&go_on);
    let script = Script::new(move |_| {
        let gate = Arc::clone(&gate);
        async move {
            gate.acquire().await?.forget();
            Ok(())
        }
    });
    let worker = bed.charging(StoreAt::redis_on(&server).open_redis().await, &script);
    bed.order("a").await;
    script.calls.count("the handler runs", 1).await;
    crash(&server, Duration::ZERO).await;
    go_on.add_permits(1);
    worker.ended(Kind::LeaseLost, 1).await;
    go_on.add_permits(1);

    worker.ended(Kind::Executed, 1).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 1), (Kind::LeaseLost, 1)]);
    assert_eq!(script.attempts(), [1, 1]);
    let calls = script.calls.entries();
    assert!(calls[1].redelivered, "it was acknowledged: {calls:?}");
    assert!(!calls[1].in_doubt, "nobody knows any more: {calls:?}");
    bed.assert_nothing_stuck().await;
}

/// A standby of PostgreSQL that lags takes over while a handler works.
///
/// - does: connects to the new server, which knows neither the claim nor the writes, and runs the message again
/// - atomic: once; what was acknowledged before and is missing on the standby is lost
#[tokio::test]
async fn an_atomic_handler_at_work_when_a_postgres_standby_that_lags_takes_over_is_run_again() {
    let (bed, pair) = (Bed::new().await, PostgresPair::start().await);
    let ledger = Ledger::of(&pair.store().await).await;
    let store = ledger.store().open_postgres().await;
    pair.catch_up().await;
    pair.fall_behind().await;
    let go_on = Arc::new(Semaphore::new(0));
    let let_go = Arc::clone(&go_on);
    let script = Script::new(move |_| {
        let go_on = Arc::clone(&go_on);
        async move {
            go_on.acquire().await?.forget();
            Ok(())
        }
    });
    let worker = Worker::builder(store).state(script.clone());
    let worker = bed.start(worker.consume::<charge_on_postgres>(bed.queue()));
    bed.order("a").await;
    script.calls.count("the handler runs", 1).await;
    pair.fail_over().await;
    let_go.add_permits(2);

    worker.ended(Kind::Executed, 1).await;
    bed.until_settled().await;
    worker.stop().await;
    let charges = ledger.charges_per_order().await;
    assert_eq!(charges.get("a"), Some(&1), "{charges:?}");
    assert_eq!(script.calls.entries().len(), 2);
    bed.assert_nothing_stuck().await;
}
