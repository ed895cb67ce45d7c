//! The retry ladder when a part of it is missing, or takes nothing.

use std::time::Duration;

use idem_amqp::{
    Failed, MemoryStore, Publication, Publisher, Queue, executor::ExecutionKind as Kind,
};
use idem_tests::{
    bed::{Bed, QUICK, persistent},
    journal::eventually,
    laddered::{DELAY, FIRST_RUNG, SECOND_RUNG, body, failing_until, laddered, rungs, start},
    running::assert_balance,
    script::{Order, Script},
};
use tokio::time::Instant;

/// Lets the second rung take nothing any more: what has its name leads nowhere, and cannot be
/// declared as a rung.
async fn close_ladder(bed: &Bed) {
    bed.delete_exchange("idem.retry.500ms").await;
    bed.declare_foreign_exchange("idem.retry.500ms").await;
}

async fn open_ladder(bed: &Bed) {
    bed.delete_exchange("idem.retry.500ms").await;
}

/// The broker does not take the message for the ladder.
///
/// - does: keeps it and tries again; handles the others meanwhile
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_message_that_the_ladder_refuses_is_kept_and_tried_again() {
    let bed = Bed::with_vhost().await;
    let queue = laddered(bed.queue()).prefetch(2).concurrency(1);
    bed.declare(&queue).await;
    let script = Script::new(async |call| match (call.id.as_str(), call.attempt) {
        ("poison", 1) => Err(Failed::retry_after(DELAY, "the gateway timed out")),
        _ => Ok(()),
    });
    let worker = start(&bed, &MemoryStore::new(), &script, queue);
    bed.until_consumed(bed.name(), 1).await;
    close_ladder(&bed).await;
    bed.order("poison").await;
    script.calls.count("the first attempt", 1).await;
    // Long enough for a first try, and for the message to be lost if that ended it.
    tokio::time::sleep(SECOND_RUNG).await;
    assert!(worker.settled.entries().is_empty());
    bed.order("b").await;
    worker.ended(Kind::Executed, 1).await;

    open_ladder(&bed).await;
    worker.ended(Kind::Executed, 2).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Failed, 1), (Kind::Executed, 2)]);
    script.assert_effects(["b", "poison"]);
    bed.assert_nothing_stuck().await;
}

/// The broker does not take the message for the ladder, and the worker is stopped.
///
/// - does: returns it to its queue
/// - atomic: attempts kept
/// - leased: attempts kept
#[tokio::test]
async fn a_worker_that_is_stopped_while_the_ladder_refuses_returns_the_message() {
    let bed = Bed::with_vhost().await;
    let queue = laddered(bed.queue());
    bed.declare(&queue).await;
    let store = MemoryStore::new();
    let failing = failing_until(2, DELAY);
    let worker = start(&bed, &store, &failing, queue.clone());
    bed.until_consumed(bed.name(), 1).await;
    close_ladder(&bed).await;
    bed.order("a").await;
    failing.calls.count("the first attempt", 1).await;
    let stopping = Instant::now();
    assert_balance(&worker.stop().await, [(Kind::Failed, 1)]);
    assert!(
        stopping.elapsed() < Duration::from_secs(15),
        "it waited for the ladder"
    );
    bed.until_waiting(1).await;
    open_ladder(&bed).await;

    let script = Script::succeeding();
    let worker = start(&bed, &store, &script, queue);
    worker.ended(Kind::Executed, 1).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, 1)]);
    assert_eq!(script.attempts(), [2]);
    bed.assert_nothing_stuck().await;
}

/// What an operator may have done.
enum Deleted {
    Queue,
    Exchange,
    Binding,
}

async fn deleted_rung(deleted: Deleted) {
    let bed = Bed::with_vhost().await;
    let queue = laddered(bed.queue());
    bed.declare(&queue).await;
    let script = failing_until(2, DELAY);
    let worker = start(&bed, &MemoryStore::new(), &script, queue);
    bed.until_consumed(bed.name(), 1).await;
    let rung = "idem.retry.500ms";
    match deleted {
        Deleted::Queue => bed.delete(rung).await,
        Deleted::Exchange => bed.delete_exchange(rung).await,
        Deleted::Binding => bed.unbind(rung, rung, "").await,
    }
    let ids: Vec<_> = (0..20).map(|number| format!("o-{number}")).collect();
    for id in &ids {
        bed.order(id).await;
    }

    worker.ended(Kind::Executed, ids.len()).await;
    let failed = u64::try_from(ids.len()).unwrap();
    // What somebody else sends to the rung comes back by it: exchange, binding and queue are there.
    bed.send_by(rung, bed.name(), &body("by-the-rung")).await;
    script
        .calls
        .until("it comes back", |calls| {
            calls.iter().any(|call| call.id == "by-the-rung")
        })
        .await;
    worker.ended(Kind::Executed, ids.len() + 1).await;
    let ends = [(Kind::Failed, failed + 1), (Kind::Executed, failed + 1)];
    assert_balance(&worker.stop().await, ends);
    script.assert_effects(ids.iter().map(String::as_str).chain(["by-the-rung"]));
    bed.assert_nothing_stuck().await;
}

/// Somebody deletes a rung's queue, exchange or binding.
///
/// - does: declares it again
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_deleted_queue_of_a_rung_is_declared_again() {
    deleted_rung(Deleted::Queue).await;
}

/// Shares the promise of `ladder_faults::a_deleted_queue_of_a_rung_is_declared_again`.
#[tokio::test]
async fn a_deleted_exchange_of_a_rung_is_declared_again() {
    deleted_rung(Deleted::Exchange).await;
}

/// Shares the promise of `ladder_faults::a_deleted_queue_of_a_rung_is_declared_again`.
#[tokio::test]
async fn a_deleted_binding_of_a_rung_is_declared_again() {
    deleted_rung(Deleted::Binding).await;
}

/// Somebody deletes the queue of messages that are on the ladder.
///
/// - does: keeps them in `idem.unrouted`; others' retries go on
/// - atomic: kept
/// - leased: kept
#[tokio::test]
async fn retries_of_a_deleted_queue_block_nobody_and_are_kept_apart() {
    // So long that the queue is gone before its message comes back.
    const LONG: Duration = Duration::from_secs(10);
    let laddered = |queue: Queue| queue.ladder(rungs([FIRST_RUNG, LONG]));
    let bed = Bed::with_vhost().await;
    let deleted = bed.another("deleted");
    let script = failing_until(2, LONG);
    let store = MemoryStore::new();
    let queue = laddered(Queue::quorum(&deleted).policy(QUICK));
    bed.declare(&queue).await;
    let worker = start(&bed, &store, &script, queue);
    bed.send(&deleted, &body("gone"), persistent()).await;
    worker.ended(Kind::Failed, 1).await;
    worker.stop().await;
    bed.delete(&deleted).await;

    let queue = laddered(bed.queue());
    bed.declare(&queue).await;
    let worker = start(&bed, &store, &script, queue);
    bed.order("a").await;
    worker.ended(Kind::Executed, 1).await;
    let unrouted = bed.dead_letter_in("idem.unrouted").await;
    assert_eq!(unrouted.body, body("gone"));
    assert_eq!(unrouted.header("idem-queue").as_deref(), Some(&*deleted));
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Failed, 1), (Kind::Executed, 1)]);
    bed.assert_nothing_stuck().await;
}

/// Somebody deletes the exchange `idem.return` or the queue `idem.unrouted`, by which messages come back.
///
/// - does: declares them again within 15 s; what comes back meanwhile waits, or goes to `idem.unrouted`
/// - atomic: once
/// - leased: once
///
/// Nothing that is published to a rung would tell.
#[tokio::test]
async fn a_deleted_way_back_is_declared_again() {
    let bed = Bed::with_vhost().await;
    let queue = laddered(bed.queue());
    bed.declare(&queue).await;
    let script = Script::succeeding();
    let worker = start(&bed, &MemoryStore::new(), &script, queue);
    bed.until_consumed(bed.name(), 1).await;
    bed.delete("idem.unrouted").await;
    bed.delete_exchange("idem.unrouted").await;
    // Its bindings go with it.
    bed.delete_exchange("idem.return").await;

    let publisher = Publisher::connect(bed.url()).await.unwrap();
    let back = |id: &str, queue: &str| {
        let back = Publication::json(queue, &Order::new(id));
        back.exchange("idem.return", queue)
    };
    eventually("the queue is bound", async || {
        let sent = publisher.publish(&back("a", bed.name())).await;
        sent.map_err(|error| error.to_string())?;
        tokio::time::sleep(Duration::from_millis(100)).await;
        let calls = script.calls.entries().len();
        if calls > 0 {
            Ok(())
        } else {
            Err("it was not routed".to_owned())
        }
    })
    .await;
    publisher.publish(&back("b", "deleted")).await.unwrap();
    let unrouted = bed.dead_letter_in("idem.unrouted").await;
    assert!([body("a"), body("b")].contains(&unrouted.body));
    worker.stop().await;
    script.assert_effects(["a"]);
    bed.assert_nothing_stuck().await;
}
