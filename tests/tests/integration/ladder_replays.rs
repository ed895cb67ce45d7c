//! Dead letters that are sent again, and have to wait on the retry ladder.

use std::time::Duration;

use idem_amqp::{ExecutionKind as Kind, InDoubt, MemoryStore, Queue, Settlement};
use idem_tests::{
    bed::{Bed, DeadLetter, QUICK, dead, persistent},
    laddered::{DELAY, body, failing_until, laddered, rungs, start},
    running::assert_balance,
    script::Script,
};
use lapin::types::{AMQPValue, FieldTable};

async fn send_again(bed: &Bed, queue: &str, letter: &DeadLetter) {
    bed.send(queue, &letter.body, letter.properties.clone())
        .await;
}

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

/// The key is quarantined again while a replay waits on the ladder: only as one may it run then.
#[tokio::test]
async fn a_replay_that_meets_a_conflict_goes_over_the_ladder_and_is_one_still() {
    const WHILE_QUARANTINED: Duration = Duration::from_secs(15);
    let bed = Bed::with_vhost().await;
    let policy = QUICK.to_builder().in_doubt(InDoubt::Quarantine);
    let policy = policy.lease(Duration::from_millis(300)).build().unwrap();
    let queue = bed.queue().prefetch(1).held(0).policy(policy);
    let queue = queue.ladder(rungs([WHILE_QUARANTINED]));
    let elsewhere = bed.another("elsewhere");
    let other = laddered(Queue::declare(&elsewhere).policy(policy));
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
