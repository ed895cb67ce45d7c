//! Handlers that are only observed: everything runs, and what would have been suppressed is counted.

use std::{
    sync::{Arc, atomic::Ordering::SeqCst},
    time::Duration,
};

use idem_amqp::{
    BuildError, Policy, RunError, SqliteStore, Worker,
    executor::ExecutionKind as Kind,
    handler::{Backoff, Enforcement},
    prelude::*,
    sqlx::SqliteConnection,
};
use idem_tests::{
    bed::{Bed, QUICK},
    cell::Cell,
    interfered::{Call, Interfered},
    leased_on_each_store,
    running::assert_balance,
    script::{Order, Script},
};
use tokio::sync::Semaphore;

fn observing() -> Policy {
    let policy = QUICK.to_builder().enforcement(Enforcement::Observe);
    policy.build().unwrap()
}

/// A copy comes to an observed handler after the first has run.
///
/// - does: runs it, and counts what would have been a `duplicate`; once the handler is enforced, further copies are
///   suppressed
/// - effect: for each copy
async fn an_observed_handler_runs_for_every_copy_and_then_for_none<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let script = Script::succeeding();
    let worker = cell.worker(&script);
    let worker = bed.start(worker.consume::<C::Charge>(bed.queue().policy(observing())));
    for sent in 1..=3 {
        bed.order("a").await;
        worker.ended(Kind::Observed, sent).await;
    }
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Observed, 3)]);
    assert_eq!(balance.would_have_been(Kind::Duplicate), 2);
    assert_eq!(
        balance.to_string(),
        "deliveries=3 observed=3 would_have_been: duplicate=2"
    );
    script.assert_effects(["a", "a", "a"]);

    let enforcing = cell.charging(&bed, &script);
    bed.order("a").await;
    enforcing.ended(Kind::Duplicate, 1).await;
    let balance = enforcing.stop().await;
    assert_balance(&balance, [(Kind::Duplicate, 1)]);
    script.assert_effects(["a", "a", "a"]);
    bed.assert_nothing_stuck().await;
}

/// A key comes to an observed handler again with other content, or a message without a key.
///
/// - does: runs it, and counts what would have been `key-reused` or `keyless`; dead-letters nothing
/// - effect: for each
async fn other_content_and_a_missing_key_run_and_dead_letter_nothing<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let script = Script::succeeding();
    let worker = cell.worker(&script);
    let worker = bed.start(worker.consume::<C::Charge>(bed.queue().policy(observing())));
    let order = Order::new("a");
    let dearer = Order {
        amount_cents: 1300,
        ..order.clone()
    };
    for (sent, order) in [order, dearer, Order::new("")].iter().enumerate() {
        bed.json(order).await;
        worker.ended(Kind::Observed, sent + 1).await;
    }
    let told = worker.settled.entries();
    let told: Vec<_> = told.iter().map(|ended| ended.would_have_been).collect();
    assert_eq!(told, [None, Some(Kind::KeyReused), Some(Kind::Keyless)]);
    worker.stop().await;
    script.assert_effects(["a", "a", ""]);
    bed.assert_nothing_stuck().await;
}

/// A copy, or other content under the same key, comes to an observed handler while the first is under way.
///
/// - does: runs both; counts other content as `key-reused`, a copy as `conflict`
/// - effect: for each
///
/// Both orders are at work at once, with one key.
async fn other_content_that_comes_while_the_first_is_under_way_is_counted_as_a_reused_key<
    C: Cell,
>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let go_on = Arc::new(Semaphore::new(0));
    let gate = Arc::clone(&go_on);
    let script = Script::new(move |_| {
        let gate = Arc::clone(&gate);
        async move {
            gate.acquire().await?.forget();
            Ok(())
        }
    });
    let worker = cell.worker(&script);
    let worker = bed.start(worker.consume::<C::Charge>(bed.queue().policy(observing())));
    let order = Order::new("a");
    let dearer = Order {
        amount_cents: 1300,
        ..order.clone()
    };
    for (running, order) in [&order, &dearer, &order].into_iter().enumerate() {
        bed.json(order).await;
        script.calls.count("it runs", running + 1).await;
    }
    go_on.add_permits(3);
    worker.ended(Kind::Observed, 3).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Observed, 3)]);
    assert_eq!(balance.would_have_been(Kind::KeyReused), 1, "{balance}");
    assert_eq!(balance.would_have_been(Kind::Conflict), 1, "{balance}");
    script.assert_effects(["a", "a", "a"]);
    bed.assert_nothing_stuck().await;
}

/// The store is away, and an observed handler fails.
///
/// - does: waits for the store for a second at most; tries the message again after the backoff, as often as its policy
///   says, by the count that the message carries
/// - effect: for each attempt
///
/// What has no claim has no record that counts its attempts: the message on the ladder tells.
async fn what_fails_while_the_store_is_away_is_tried_as_often_as_any_message<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let script = Script::new(async |_| Err(Failed::retry("no paper")));
    let (store, away) = Interfered::switched(cell.store());
    away.store(true, SeqCst);
    let second = Backoff::new(Duration::from_secs(1), Duration::from_secs(1));
    let policy = observing().to_builder().backoff(second).max_attempts(2);
    let queue = bed.queue().policy(policy.build().unwrap());
    let worker = Worker::builder(store.clone()).state(script.clone());
    let worker = bed.start(worker.consume::<C::Charge>(queue));
    bed.until_consumed(bed.name(), 1).await;
    let sent = tokio::time::Instant::now();
    bed.order("a").await;
    worker.ended(Kind::Exhausted, 1).await;
    assert_eq!(bed.dead_letter().await.reason(), "exhausted");
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Failed, 1), (Kind::Exhausted, 1)]);
    assert_eq!(balance.would_have_been(Kind::StoreUnavailable), 2);
    assert_eq!(script.attempts(), [1, 2]);
    let calls = script.calls.entries();
    let between = calls[1].at - calls[0].at;
    assert!(between >= Duration::from_secs(1), "no backoff: {calls:?}");
    // It asked, and gave up after a second: an enforced handler would never have run.
    assert!(store.count(Call::Claim) >= 2, "the store was asked");
    let waited = calls[0].at - sent;
    assert!(waited < Duration::from_secs(10), "{waited:?}");
    bed.assert_nothing_stuck().await;
}

/// The store is away, and an observed handler fails on a message of a classic queue, which counts no deliveries.
///
/// - does: sends the message to the retry ladder at once, where its attempts are counted
/// - effect: for each attempt
///
/// A classic queue does not count what is returned to it: only what comes from the ladder carries a number.
async fn what_fails_while_the_store_is_away_is_exhausted_in_a_classic_queue_too<C: Cell>() {
    let (bed, cell) = (Bed::bare().await, C::open().await);
    let script = Script::new(async |_| Err(Failed::retry("no paper")));
    let (store, away) = Interfered::switched(cell.store());
    away.store(true, SeqCst);
    // Below the first rung, where a message that is counted waits in the worker.
    let soon = Backoff::new(Duration::from_millis(100), Duration::from_millis(100));
    let policy = observing().to_builder().backoff(soon).max_attempts(3);
    let queue = bed.classic_queue().policy(policy.build().unwrap());
    bed.declare(&queue).await;
    let worker = Worker::builder(store).state(script.clone());
    let worker = bed.start(worker.consume::<C::Charge>(queue));
    bed.order("a").await;
    worker.ended(Kind::Exhausted, 1).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Failed, 2), (Kind::Exhausted, 1)]);
    assert_eq!(script.attempts(), [1, 2, 3]);
}

#[idempotent(key = "id", scope = "orders.charge")]
async fn charge_atomically(order: Order, _db: &mut SqliteConnection) -> Result<(), Failed> {
    drop(order);
    Ok(())
}

/// A handler that is to be observed is atomic.
///
/// - does: does not start: its writes commit with its claim, so it cannot run without one
#[tokio::test]
async fn an_atomic_handler_that_is_to_be_observed_ends_the_worker_with_a_clear_error() {
    let bed = Bed::new().await;
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::connect(folder.path().join("idem.db")).await;
    let queue = bed.queue().policy(observing());
    let worker = Worker::builder(store.unwrap()).consume::<charge_atomically>(queue);
    let error = bed.start(worker).failed().await;
    assert!(
        matches!(&error, RunError::Build(BuildError::AtomicObserved { queue }) if queue == bed.name()),
        "{error}"
    );
}

leased_on_each_store! {
    an_observed_handler_runs_for_every_copy_and_then_for_none,
    other_content_and_a_missing_key_run_and_dead_letter_nothing,
    other_content_that_comes_while_the_first_is_under_way_is_counted_as_a_reused_key,
    what_fails_while_the_store_is_away_is_tried_as_often_as_any_message,
    what_fails_while_the_store_is_away_is_exhausted_in_a_classic_queue_too,
}
