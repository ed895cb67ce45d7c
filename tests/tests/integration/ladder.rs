//! The retry ladder: where a message waits for its next attempt, and what it says there.

use std::time::Duration;

use idem_amqp::{
    Failed, MemoryStore, Publication, Publisher, Queue, Worker, executor::ExecutionKind as Kind,
    prelude::*, worker::Settlement,
};
use idem_tests::{
    bed::{Bed, persistent},
    journal::Journal,
    laddered::{DELAY, FIRST_RUNG, SECOND_RUNG, body, failing_until, laddered, rungs, start},
    running::{Running, assert_balance},
    script::{Order, Script, charge},
};
use lapin::types::{AMQPValue, FieldTable};

use crate::dead_letters::send_filling_a_frame;

const A_DAY: Duration = Duration::from_hours(24);

async fn failed_message(queue: impl FnOnce(&Bed) -> Queue) {
    let bed = Bed::with_vhost().await;
    let queue = laddered(queue(&bed));
    bed.declare(&queue).await;
    let script = failing_until(3, DELAY);
    let worker = start(&bed, &MemoryStore::new(), &script, queue);
    bed.order("a").await;

    worker.ended(Kind::Executed, 1).await;
    let calls = script.calls.entries();
    let attempts: Vec<_> = calls.iter().map(|c| (c.attempt, c.redelivered)).collect();
    assert_eq!(attempts, [(1, false), (2, false), (3, false)]);
    let settled = worker.settled.entries();
    let after = SECOND_RUNG;
    assert_eq!(settled[0].settlement, Settlement::Retry { after });
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Failed, 2), (Kind::Executed, 1)]);
    script.assert_effects(["a"]);
    bed.assert_nothing_stuck().await;
}

/// The handler fails, and its queue has a ladder.
///
/// - does: publishes the message to a rung, waits for the confirm, acknowledges; the broker returns it to its queue
/// - atomic: runs again
/// - leased: runs again
#[tokio::test]
async fn a_failed_message_waits_on_the_ladder_for_its_next_attempt() {
    failed_message(Bed::queue).await;
}

/// Shares the promise of `ladder::a_failed_message_waits_on_the_ladder_for_its_next_attempt`.
#[tokio::test]
async fn a_failed_message_of_a_classic_queue_waits_on_the_ladder_for_its_next_attempt() {
    failed_message(Bed::classic_queue).await;
}

/// The delay lies between two rungs.
///
/// - does: takes the longer one: never too early
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_message_on_the_ladder_comes_back_when_it_is_due() {
    let bed = Bed::with_vhost().await;
    let queue = laddered(bed.queue());
    bed.declare(&queue).await;
    let script = failing_until(2, DELAY);
    let worker = start(&bed, &MemoryStore::new(), &script, queue);
    bed.order("a").await;
    let calls = script.calls.count("the second attempt", 2).await;
    assert!(calls[1].at - calls[0].at >= DELAY, "{calls:?}");

    worker.ended(Kind::Executed, 1).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Failed, 1), (Kind::Executed, 1)]);
    bed.assert_nothing_stuck().await;
}

/// Very many messages fail, and others are behind them.
///
/// - does: handles the others meanwhile
/// - atomic: once each
/// - leased: once each
#[tokio::test]
async fn messages_behind_very_many_failing_ones_do_not_wait_for_them() {
    const BACK: Duration = Duration::from_secs(15);
    let bed = Bed::with_vhost().await;
    let queue = bed.queue().prefetch(2).max_waiting(0).ladder(rungs([BACK]));
    bed.declare(&queue).await;
    let script = Script::new(async |call| {
        if call.id.starts_with("poison") && call.attempt == 1 {
            return Err(Failed::retry_after(BACK, "the gateway timed out"));
        }
        Ok(())
    });
    let poison: Vec<_> = (0..100).map(|number| format!("poison-{number}")).collect();
    let others: Vec<_> = (0..20).map(|number| format!("o-{number}")).collect();
    for id in poison.iter().chain(&others) {
        bed.order(id).await;
    }

    let worker = start(&bed, &MemoryStore::new(), &script, queue);
    worker.ended(Kind::Executed, 20).await;
    assert_eq!(script.attempts(), [1; 120], "a failed one ran again before");
    worker.ended(Kind::Executed, 120).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Failed, 100), (Kind::Executed, 120)]);
    script.assert_effects(poison.into_iter().chain(others));
    bed.assert_nothing_stuck().await;
}

/// An operator looks at a message on the ladder.
///
/// - does: shows the origin, queue, key, attempt, last error and times of failure
#[tokio::test]
async fn a_message_on_the_ladder_tells_where_it_came_from_and_what_went_wrong() {
    let bed = Bed::with_vhost().await;
    let queue = bed.queue().ladder(rungs([A_DAY]));
    bed.declare(&queue).await;
    let script = failing_until(2, A_DAY);
    let worker = start(&bed, &MemoryStore::new(), &script, queue);
    let mut headers = FieldTable::default();
    headers.insert("x-tenant".into(), AMQPValue::LongString("acme".into()));
    let properties = persistent()
        .with_message_id("m-1".into())
        .with_expiration("600000".into())
        .with_priority(3)
        .with_headers(headers);
    bed.send(bed.name(), &body("a"), properties).await;

    let waiting = bed.dead_letter_in("idem.retry.24h").await;
    worker.ended(Kind::Failed, 1).await;
    assert_eq!(waiting.body, body("a"));
    let expected = [
        ("idem-queue", bed.name()),
        ("idem-exchange", ""),
        ("idem-routing-key", bed.name()),
        ("idem-key", "orders.charge:a"),
        ("idem-error", "the gateway timed out"),
        ("idem-attempt", "1"),
        ("idem-expiration", "600000"),
        ("x-tenant", "acme"),
    ];
    for (name, value) in expected {
        assert_eq!(waiting.header(name).as_deref(), Some(value), "{name}");
    }
    assert_eq!(waiting.header("idem-reason"), None);
    let [first, last] = ["idem-first-failure", "idem-last-failure"].map(|name| waiting.value(name));
    assert!(matches!(first, Some(AMQPValue::Timestamp(_))), "{first:?}");
    assert_eq!(first, last);
    let properties = &waiting.properties;
    assert_eq!(properties.message_id(), &Some("m-1".into()));
    assert_eq!(properties.priority(), &Some(3));
    assert_eq!(properties.delivery_mode(), &Some(2));
    assert_eq!(properties.expiration(), &None);
    assert_balance(&worker.stop().await, [(Kind::Failed, 1)]);
    bed.assert_nothing_stuck().await;
}

/// Where a message came from, as the handler is told.
type Origins = Journal<(String, String)>;

#[idempotent(key = "id", scope = "orders.origin")]
async fn tell_origin(
    order: Order,
    State(origins): State<Origins>,
    attempt: Attempt,
    delivery: Delivery,
) -> Result<(), Failed> {
    let origin = (
        delivery.exchange().to_owned(),
        delivery.routing_key().to_owned(),
    );
    origins.write(origin);
    if attempt.number() == 1 {
        return Err(Failed::retry_after(DELAY, format!("{} is early", order.id)));
    }
    Ok(())
}

/// The handler asks where a message came from that was on the ladder.
///
/// - does: tells the exchange and the routing key that it was published with
#[tokio::test]
async fn a_message_that_comes_back_still_tells_its_handler_where_it_came_from() {
    let bed = Bed::with_vhost().await;
    let queue = laddered(bed.queue());
    bed.declare(&queue).await;
    bed.bind(bed.name(), "amq.direct", "order.placed").await;
    let origins = Origins::default();
    let worker = Worker::builder(MemoryStore::new()).state(origins.clone());
    let worker = bed.start(worker.consume::<tell_origin>(queue));
    let publisher = Publisher::connect(bed.url()).await.unwrap();
    let order = Publication::json(bed.name(), &Order::new("a"));
    let order = order.exchange("amq.direct", "order.placed");
    publisher.publish(&order).await.unwrap();

    worker.ended(Kind::Executed, 1).await;
    let origin = ("amq.direct".to_owned(), "order.placed".to_owned());
    assert_eq!(origins.entries(), [origin.clone(), origin]);
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Failed, 1), (Kind::Executed, 1)]);
    bed.assert_nothing_stuck().await;
}

/// A message on the ladder fails again and again.
///
/// - does: counts attempts in the store, dead-letters after the last
/// - atomic: kept as dead letter
/// - leased: kept as dead letter
#[tokio::test]
async fn attempts_are_counted_over_the_ladder_and_end_as_a_dead_letter() {
    let bed = Bed::with_vhost().await;
    let queue = laddered(bed.queue());
    bed.declare(&queue).await;
    let script = failing_until(u32::MAX, DELAY);
    let worker = start(&bed, &MemoryStore::new(), &script, queue);
    bed.order("a").await;

    let letter = bed.dead_letter().await;
    assert_eq!(letter.reason(), "exhausted");
    assert_eq!(letter.attempt(), "3");
    assert_eq!(letter.header("idem-exchange").as_deref(), Some(""));
    assert_eq!(
        letter.header("idem-routing-key").as_deref(),
        Some(bed.name())
    );
    worker.ended(Kind::Exhausted, 1).await;
    let balance = worker.stop().await;
    assert_eq!(script.attempts(), [1, 2, 3]);
    assert_balance(&balance, [(Kind::Failed, 2), (Kind::Exhausted, 1)]);
    bed.assert_nothing_stuck().await;
}

/// The worker dies between the rung's confirm and its own ack.
///
/// - does: handles both copies: one runs, the other is a duplicate
/// - atomic: once
/// - leased: once
///
/// As if the worker had died between the rung's confirm and its own ack.
#[tokio::test]
async fn a_second_copy_on_the_ladder_is_a_duplicate() {
    let bed = Bed::with_vhost().await;
    let queue = laddered(bed.queue());
    bed.declare(&queue).await;
    let script = failing_until(2, DELAY);
    let worker = start(&bed, &MemoryStore::new(), &script, queue);
    bed.order("a").await;
    worker.ended(Kind::Failed, 1).await;
    bed.order("a").await;

    worker.ended(Kind::Executed, 1).await;
    worker.ended(Kind::Duplicate, 1).await;
    let balance = worker.stop().await;
    assert_balance(
        &balance,
        [(Kind::Failed, 1), (Kind::Executed, 1), (Kind::Duplicate, 1)],
    );
    assert_eq!(script.attempts(), [1, 2]);
    script.assert_effects(["a"]);
    bed.assert_nothing_stuck().await;
}

/// The delay is shorter than the first rung.
///
/// - does: keeps the message, returns it when it is due
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_delay_below_the_first_rung_is_waited_out_in_the_worker() {
    let bed = Bed::with_vhost().await;
    let queue = laddered(bed.queue());
    bed.declare(&queue).await;
    let script = failing_until(2, FIRST_RUNG / 2);
    let worker = start(&bed, &MemoryStore::new(), &script, queue);
    bed.order("a").await;

    worker.ended(Kind::Executed, 1).await;
    let settled = worker.settled.entries();
    let after = FIRST_RUNG / 2;
    assert_eq!(settled[0].settlement, Settlement::Requeue { after });
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Failed, 1), (Kind::Executed, 1)]);
    bed.assert_nothing_stuck().await;
}

/// The publisher's headers leave no room in a frame for those that a retry adds.
///
/// - does: leaves the largest headers out, and says so in the message's headers
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn headers_that_leave_no_room_in_a_frame_are_left_behind_by_the_retry() {
    let bed = Bed::with_vhost().await;
    let queue = laddered(bed.queue());
    bed.declare(&queue).await;
    let script = Script::new(async |call| match call.attempt {
        1 => Err(Failed::retry_after(DELAY, "x".repeat(1000))),
        _ => Ok(()),
    });
    let worker = Worker::builder(MemoryStore::new()).state(script.clone());
    let small_frames = bed.url_by(bed.broker().port(), "?frame_max=8192");
    let worker = Running::start(worker.consume::<charge>(queue), small_frames);
    send_filling_a_frame(&bed, "a").await;

    worker.ended(Kind::Executed, 1).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Failed, 1), (Kind::Executed, 1)]);
    assert_eq!(script.attempts(), [1, 2]);
    bed.assert_nothing_stuck().await;
}
