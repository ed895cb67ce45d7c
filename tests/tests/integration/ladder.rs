//! The retry ladder: where a message waits for its next attempt, and what happens to it there.

use std::time::Duration;

use futures_util::future::join_all;
use idem_amqp::{
    ExecutionKind as Kind, Failed, InDoubt, Ladder, MemoryStore, Publication, Publisher, Queue,
    Settlement, Worker, prelude::*,
};
use idem_tests::{
    bed::{Bed, DeadLetter, QUICK, dead, persistent},
    journal::Journal,
    running::{Running, assert_balance},
    script::{Order, Script, charge},
};
use lapin::types::{AMQPValue, FieldTable};
use tokio::time::Instant;

const FIRST_RUNG: Duration = Duration::from_millis(200);
const SECOND_RUNG: Duration = Duration::from_millis(500);
/// Needs the second rung.
const DELAY: Duration = Duration::from_millis(300);
const A_DAY: Duration = Duration::from_hours(24);

fn rungs(rungs: impl IntoIterator<Item = Duration>) -> Ladder {
    Ladder::new(rungs).unwrap()
}

fn laddered(queue: Queue) -> Queue {
    queue.ladder(rungs([FIRST_RUNG, SECOND_RUNG]))
}

/// Fails until it is this attempt, and asks for the delay each time.
fn failing_until(attempt: u32, delay: Duration) -> Script {
    Script::new(move |call| async move {
        if call.attempt < attempt {
            return Err(Failed::retry_after(delay, "the gateway timed out"));
        }
        Ok(())
    })
}

fn start(bed: &Bed, store: &MemoryStore, script: &Script, queue: impl Into<Queue>) -> Running {
    let worker = Worker::builder(store.clone()).state(script.clone());
    bed.start(worker.consume::<charge>(queue))
}

fn body(id: &str) -> Vec<u8> {
    serde_json::to_vec(&Order::new(id)).unwrap()
}

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

#[tokio::test]
async fn a_failed_message_waits_on_the_ladder_for_its_next_attempt() {
    failed_message(Bed::queue).await;
}

#[tokio::test]
async fn a_failed_message_of_a_classic_queue_waits_on_the_ladder_for_its_next_attempt() {
    failed_message(|bed| bed.queue().classic()).await;
}

#[tokio::test]
async fn a_message_on_the_ladder_comes_back_when_it_is_due() {
    let bed = Bed::with_vhost().await;
    let queue = laddered(bed.queue());
    bed.declare(&queue).await;
    let script = failing_until(2, DELAY);
    let worker = start(&bed, &MemoryStore::new(), &script, queue);
    bed.order("a").await;
    script.calls.count("the first attempt", 1).await;
    let failed = Instant::now();
    script.calls.count("the second attempt", 2).await;
    assert!(failed.elapsed() >= DELAY, "{:?}", failed.elapsed());

    worker.ended(Kind::Executed, 1).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Failed, 1), (Kind::Executed, 1)]);
    bed.assert_nothing_stuck().await;
}

#[tokio::test]
async fn messages_behind_very_many_failing_ones_do_not_wait_for_them() {
    const BACK: Duration = Duration::from_secs(4);
    let bed = Bed::with_vhost().await;
    let queue = bed.queue().prefetch(2).held(0).ladder(rungs([BACK]));
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
    let order = Publication::json(bed.name(), &Order::new("a")).unwrap();
    let order = order.exchange("amq.direct", "order.placed").unwrap();
    publisher.publish(&order).await.unwrap();

    worker.ended(Kind::Executed, 1).await;
    let origin = ("amq.direct".to_owned(), "order.placed".to_owned());
    assert_eq!(origins.entries(), [origin.clone(), origin]);
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Failed, 1), (Kind::Executed, 1)]);
    bed.assert_nothing_stuck().await;
}

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

#[tokio::test]
async fn an_existing_queue_has_a_ladder_if_it_is_asked_for() {
    let bed = Bed::with_vhost().await;
    for queue in [bed.name(), &dead(bed.name())] {
        bed.declare_foreign(queue, FieldTable::default()).await;
    }
    let script = failing_until(2, DELAY);
    let queue = laddered(Queue::existing(bed.name()).policy(QUICK));
    let worker = start(&bed, &MemoryStore::new(), &script, queue);
    bed.order("a").await;

    worker.ended(Kind::Executed, 1).await;
    let after = SECOND_RUNG;
    let settled = worker.settled.entries();
    assert_eq!(settled[0].settlement, Settlement::Retry { after });
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Failed, 1), (Kind::Executed, 1)]);
    bed.assert_nothing_stuck().await;
}

#[tokio::test]
async fn a_queue_without_ladder_declares_none() {
    let bed = Bed::with_vhost().await;
    let queue = bed.queue().local_retries();
    bed.declare(&queue).await;
    let script = failing_until(2, DELAY);
    let worker = start(&bed, &MemoryStore::new(), &script, queue);
    bed.order("a").await;

    worker.ended(Kind::Executed, 1).await;
    let settled = worker.settled.entries();
    let after = DELAY;
    assert_eq!(settled[0].settlement, Settlement::Requeue { after });
    assert_eq!(bed.waiting("idem.retry.1s").await, None);
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Failed, 1), (Kind::Executed, 1)]);
    bed.assert_nothing_stuck().await;
}

#[tokio::test]
async fn workers_with_different_ladders_share_a_vhost() {
    let bed = Bed::with_vhost().await;
    let other = bed.another("other");
    let script = failing_until(2, DELAY);
    let worker = Worker::builder(MemoryStore::new())
        .state(script.clone())
        .consume::<charge>(laddered(bed.queue()))
        .consume::<idem_tests::script::notify>(
            Queue::declare(&other)
                .policy(QUICK)
                .ladder(rungs([SECOND_RUNG, A_DAY])),
        );
    let worker = bed.start(worker);
    for queue in [bed.name(), &other] {
        bed.until_consumed(queue, 1).await;
        bed.send(queue, &body("a"), persistent()).await;
    }

    worker.ended(Kind::Executed, 2).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Failed, 2), (Kind::Executed, 2)]);
    bed.assert_nothing_stuck().await;
}

#[tokio::test]
async fn many_workers_that_start_at_once_declare_one_ladder() {
    let bed = Bed::with_vhost().await;
    let script = failing_until(2, DELAY);
    let store = MemoryStore::new();
    let workers: Vec<_> = (0..8)
        .map(|_| start(&bed, &store, &script, laddered(bed.queue())))
        .collect();
    bed.until_consumed(bed.name(), 8).await;
    let ids: Vec<_> = (0..40).map(|number| format!("o-{number}")).collect();
    for id in &ids {
        bed.order(id).await;
    }

    script.effects.count("all take effect", ids.len()).await;
    bed.until_settled().await;
    join_all(workers.into_iter().map(Running::stop)).await;
    script.assert_effects(ids);
    bed.assert_nothing_stuck().await;
}

#[tokio::test]
async fn a_queue_may_have_the_longest_name_there_is() {
    let bed = Bed::with_vhost().await;
    let name = format!("{}-{}", bed.name(), "x".repeat(250 - bed.name().len() - 1));
    assert_eq!(name.len(), 250);
    let queue = laddered(Queue::declare(&name).policy(QUICK));
    bed.declare(&queue).await;
    let script = failing_until(2, DELAY);
    let worker = start(&bed, &MemoryStore::new(), &script, queue);
    bed.send(&name, &body("a"), persistent()).await;

    worker.ended(Kind::Executed, 1).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Failed, 1), (Kind::Executed, 1)]);
    assert_eq!(bed.waiting(&name).await, Some((0, 0)));
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

    script.effects.count("all take effect", ids.len()).await;
    bed.until_settled().await;
    worker.stop().await;
    script.assert_effects(ids);
    bed.assert_nothing_stuck().await;
}

#[tokio::test]
async fn a_deleted_queue_of_a_rung_is_declared_again() {
    deleted_rung(Deleted::Queue).await;
}

#[tokio::test]
async fn a_deleted_exchange_of_a_rung_is_declared_again() {
    deleted_rung(Deleted::Exchange).await;
}

#[tokio::test]
async fn a_deleted_binding_of_a_rung_is_declared_again() {
    deleted_rung(Deleted::Binding).await;
}

#[tokio::test]
async fn retries_of_a_deleted_queue_block_nobody_and_are_kept_apart() {
    let bed = Bed::with_vhost().await;
    let deleted = bed.another("deleted");
    let script = failing_until(2, DELAY);
    let store = MemoryStore::new();
    let queue = laddered(Queue::declare(&deleted).policy(QUICK));
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

/// Lets the second rung take nothing any more: what has its name leads nowhere, and cannot be
/// declared as a rung.
async fn close_ladder(bed: &Bed) {
    bed.delete_exchange("idem.retry.500ms").await;
    bed.declare_foreign_exchange("idem.retry.500ms").await;
}

async fn open_ladder(bed: &Bed) {
    bed.delete_exchange("idem.retry.500ms").await;
}

#[tokio::test]
async fn a_message_that_the_ladder_refuses_is_kept_and_tried_again() {
    let bed = Bed::with_vhost().await;
    let queue = laddered(bed.queue()).prefetch(1).held(1);
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
        stopping.elapsed() < Duration::from_secs(5),
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
    const WHILE_QUARANTINED: Duration = Duration::from_secs(3);
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
    headers.insert(
        "idem-reason".into(),
        AMQPValue::LongString("in-doubt".into()),
    );
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

#[tokio::test]
async fn a_publisher_declares_what_a_worker_would() {
    let bed = Bed::with_vhost().await;
    bed.declare(&bed.queue()).await;
    let rungs = ["1s", "5s", "15s", "1m", "5m", "15m", "1h"];
    for rung in rungs {
        let queue = format!("idem.retry.{rung}");
        assert_eq!(bed.waiting(&queue).await, Some((0, 0)), "{queue}");
    }
    assert_eq!(bed.waiting("idem.unrouted").await, Some((0, 0)));
    let publisher = Publisher::connect(bed.url()).await.unwrap();
    let back = Publication::json(bed.name(), &Order::new("a")).unwrap();
    let back = back.exchange("idem.return", bed.name()).unwrap();
    publisher.publish(&back).await.unwrap();
    bed.until_waiting(1).await;
    bed.delete(bed.name()).await;
    bed.assert_nothing_stuck().await;
}

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
