//! Workers purge their store, unless they are told not to. On paused time: a broker that is away is waited for.

use std::time::Duration;

use idem_amqp::{
    MemoryStore, Store as _, WorkerBuilder,
    handler::Outcome,
    operator::{Listing, OperatorStore as _},
    prelude::*,
    store::{Claim, ClaimRequest, Write},
};

const HOUR: Duration = Duration::from_hours(1);

/// Nobody listens there.
const NO_BROKER: &str = "amqp://127.0.0.1:1/%2f";

#[idempotent(key = message_id(), scope = "orders.charge")]
async fn charge(_: String) -> Result<(), Failed> {
    Ok(())
}

/// How many keys of two are left in a store when its worker has run for two hours: one whose retention has ended, and
/// one that is to be remembered for three days.
async fn left_by(change: fn(WorkerBuilder<MemoryStore>) -> WorkerBuilder<MemoryStore>) -> usize {
    let store = MemoryStore::new();
    for (id, retention) in [("over", Duration::ZERO), ("kept", 72 * HOUR)] {
        let key = Key::new("orders.charge", id).expect("it is a key");
        let request = ClaimRequest::new(key, &Policy::DEFAULT);
        let Ok(Claim::Acquired(lease)) = store.claim(&request).await else {
            panic!("the key is free")
        };
        let completed = store.complete(&lease, &Outcome::default(), retention).await;
        assert_eq!(
            completed.expect("a store in memory answers"),
            Write::Applied
        );
    }
    let worker = Worker::builder(store.clone()).consume::<charge>("orders.charge");
    let two_hours = tokio::time::sleep(2 * HOUR);
    let ran = change(worker).run_until(NO_BROKER, two_hours).await;
    ran.expect("it stops when it is told to");
    let left = store.list(&Listing::all()).await.expect("it answers");
    left.records.len()
}

#[tokio::test(start_paused = true)]
async fn a_worker_purges_its_store_every_hour() {
    assert_eq!(left_by(|worker| worker).await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_worker_purges_as_often_as_it_is_told() {
    assert_eq!(left_by(|worker| worker.purge_every(HOUR / 6)).await, 1);
    assert_eq!(
        left_by(|worker| worker.purge_every(1_000_000 * HOUR)).await,
        2
    );
}

#[tokio::test(start_paused = true)]
async fn its_health_tells_when_a_worker_has_purged_last() {
    let told = async |change: fn(WorkerBuilder<MemoryStore>) -> WorkerBuilder<MemoryStore>| {
        let worker = Worker::builder(MemoryStore::new()).consume::<charge>("orders.charge");
        let worker = change(worker).build(NO_BROKER).expect("it can be built");
        let health = worker.health();
        assert_eq!(health.last_purge(), None);
        let ran = worker.run_until(tokio::time::sleep(2 * HOUR)).await;
        ran.expect("it stops when it is told to");
        health.last_purge()
    };
    let last = told(|worker| worker).await.expect("it has purged");
    assert!(last.ago < HOUR, "{last:?}");
    assert_eq!((last.removed, last.error), (0, None));
    assert_eq!(told(WorkerBuilder::purge_never).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_worker_leaves_it_to_others_if_it_is_told_so() {
    assert_eq!(left_by(WorkerBuilder::purge_never).await, 2);
}
