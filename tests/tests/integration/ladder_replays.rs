//! Dead letters that are sent again, and have to wait on the retry ladder.

use std::time::Duration;

use idem_amqp::{
    MemoryStore, Queue,
    dead_letters::{Replayer, Selection},
    executor::ExecutionKind as Kind,
    handler::InDoubt,
    worker::Settlement,
};
use idem_tests::{
    bed::{Bed, DeadLetter, QUICK, dead, persistent},
    journal::eventually,
    laddered::{DELAY, body, failing_until, laddered, rungs, start},
    running::assert_balance,
    script::Script,
};
use lapin::types::{AMQPValue, FieldTable};

use crate::replays::tally;

async fn send_again(bed: &Bed, queue: &str, letter: &DeadLetter) {
    bed.send(queue, &letter.body, letter.properties.clone())
        .await;
}

/// A dead letter is sent again and fails.
///
/// - does: counts its attempts on, over the ladder
/// - atomic: ends
/// - leased: ends
#[tokio::test]
async fn a_replay_that_fails_goes_over_the_ladder_and_its_attempts_are_counted_on() {
    let bed = Bed::with_vhost().await;
    let queue = laddered(bed.queue());
    bed.declare(&queue).await;
    let script = failing_until(u32::MAX, DELAY);
    let worker = start(&bed, &MemoryStore::new(), &script, queue);
    bed.order("a").await;
    let letter = bed.dead_letter().await;
    send_again(&bed, bed.name(), &letter).await;

    assert_eq!(bed.dead_letter().await.attempt(), "3");
    worker.ended(Kind::Exhausted, 2).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Failed, 4), (Kind::Exhausted, 2)]);
    assert_eq!(script.attempts(), [1, 2, 3, 1, 2, 3]);
    bed.assert_nothing_stuck().await;
}

/// A dead letter is sent again and meets a conflict.
///
/// - does: keeps it marked as a replay on the ladder: under a quarantined key only a replay may run
/// - leased: runs
///
/// The key is quarantined again while a replay waits on the ladder: only as one may it run then.
#[tokio::test]
async fn a_replay_that_meets_a_conflict_goes_over_the_ladder_and_is_one_still() {
    /// Longer than a busy machine may stall a process: the holder keeps its key until it vanishes.
    const LEASE: Duration = Duration::from_secs(8);
    /// Much longer than the lease, after which the key is quarantined.
    const WHILE_QUARANTINED: Duration = Duration::from_secs(30);
    let bed = Bed::with_vhost().await;
    let policy = QUICK.to_builder().in_doubt(InDoubt::Quarantine);
    let policy = policy.lease(LEASE).build().unwrap();
    let queue = bed.queue().prefetch(1).policy(policy);
    let queue = queue.ladder(rungs([WHILE_QUARANTINED]));
    let elsewhere = bed.another("elsewhere");
    let other = laddered(Queue::quorum(&elsewhere).policy(policy));
    for queue in [&queue, &other] {
        bed.declare(queue).await;
    }
    let store = MemoryStore::new();
    let hanging = Script::hanging();
    let holder = start(&bed, &store, &hanging, other.clone());
    bed.send(&elsewhere, &body("a"), persistent()).await;
    hanging.calls.count("the first attempt", 1).await;
    let mut replay = persistent();
    let mut headers = FieldTable::default();
    for (name, value) in [("idem-reason", "in-doubt"), ("idem-queue", bed.name())] {
        headers.insert(name.into(), AMQPValue::LongString(value.into()));
    }
    replay = replay.with_headers(headers);
    let script = Script::succeeding();
    let worker = start(&bed, &store, &script, queue);
    bed.send(bed.name(), &body("a"), replay).await;
    worker.ended(Kind::Conflict, 1).await;
    let after = WHILE_QUARANTINED;
    let conflict = &worker.settled.entries()[0];
    assert_eq!(conflict.settlement, Settlement::Retry { after });

    holder.vanish().await;
    let next = start(&bed, &store, &script, other);
    let letter = bed.dead_letter_in(&dead(&elsewhere)).await;
    assert_eq!(letter.reason(), "in-doubt");
    assert!(script.calls.entries().is_empty(), "it ran in doubt");
    worker.ended(Kind::Executed, 1).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Conflict, 1), (Kind::Executed, 1)]);
    next.stop().await;
    script.assert_effects(["a"]);
    bed.assert_nothing_stuck().await;
}

/// A retry in `idem.unrouted` is looked at again and again, and sent back when its queue is there again.
///
/// - does: handles it as the retry that it was
/// - atomic: once
/// - leased: once
///
/// Each look is a return, and close to the delivery limit a letter is replaced by a copy.
#[tokio::test]
async fn a_retry_of_a_deleted_queue_is_sent_back_however_often_it_was_looked_at() {
    /// The queue is deleted before it is over, also if a busy machine stalls a process for seconds.
    const RUNG: Duration = Duration::from_secs(15);
    const UNROUTED: &str = "idem.unrouted";
    let bed = Bed::with_vhost().await;
    bed.also(UNROUTED);
    let queue = bed.queue().ladder(rungs([RUNG]));
    bed.declare(&queue).await;
    let (store, script) = (MemoryStore::new(), failing_until(2, RUNG));
    let worker = start(&bed, &store, &script, queue.clone());
    bed.order("a").await;
    worker.ended(Kind::Failed, 1).await;
    worker.stop().await;
    bed.delete(bed.name()).await;
    let until_back = async || {
        eventually("the retry is kept", async || {
            match bed.waiting(UNROUTED).await {
                Some((1, _)) => Ok(()),
                seen => Err(seen),
            }
        })
        .await;
    };
    until_back().await;
    let replayer = Replayer::new(bed.url(), UNROUTED).unwrap();
    let replayer = replayer.assume_delivery_limit(4);
    for _ in 0..6 {
        let found = replayer.look(&Selection::all()).await.unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].queue(), Some(bed.name()));
        assert_eq!(found[0].reason(), "broker-expired");
        until_back().await;
    }

    let worker = start(&bed, &store, &script, queue);
    bed.until_consumed(bed.name(), 1).await;
    let sent = replayer.replay(&Selection::all()).await.unwrap();
    assert_eq!(tally(sent), [1, 1, 0, 0, 0]);
    worker.ended(Kind::Executed, 1).await;
    let settled = worker.settled.entries();
    assert!(!settled[0].replay, "it had not ended");
    assert_balance(&worker.stop().await, [(Kind::Executed, 1)]);
    assert_eq!(script.attempts(), [1, 2]);
    bed.assert_nothing_stuck().await;
}
