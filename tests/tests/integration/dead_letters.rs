//! What dead letters carry, and what happens when one is sent again.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use idem_amqp::{
    BuildError, Failed, MemoryStore, Queue, RunError, Worker, error::TopologyProblem,
    executor::ExecutionKind as Kind, handler::InDoubt, store::Purge,
};
use idem_tests::{
    bed::{Bed, DeadLetter, QUICK, dead, persistent},
    cell::Cell,
    leased_on_each_store, on_each_store, on_further_stores,
    proxy::Proxy,
    running::{Running, assert_balance},
    script::{Order, Script, charge},
};
use lapin::types::{AMQPValue, FieldTable, ShortString};

pub(crate) fn rejecting() -> Script {
    Script::new(async |_| Err(Failed::rejected("no such customer")))
}

fn body(id: &str) -> Vec<u8> {
    serde_json::to_vec(&Order::new(id)).unwrap()
}

/// What a person does with a dead letter once the cause is gone.
pub(crate) async fn send_again(bed: &Bed, letter: DeadLetter) {
    bed.send(bed.name(), &letter.body, letter.properties).await;
}

/// A message is dead-lettered.
///
/// - does: keeps body, properties and headers; adds reason, error, attempt, key, origin and failure times; takes
///   `expiration` off
/// - atomic: nothing lost
/// - leased: nothing lost
#[tokio::test]
async fn a_dead_letter_keeps_what_the_publisher_said_and_tells_where_it_came_from() {
    let bed = Bed::new().await;
    let worker = bed.charging(MemoryStore::new(), &rejecting());
    let mut headers = FieldTable::default();
    headers.insert("x-tenant".into(), AMQPValue::LongString("acme".into()));
    let properties = persistent()
        .with_message_id("m-1".into())
        .with_correlation_id("c-1".into())
        .with_reply_to("replies".into())
        .with_type("order.placed".into())
        .with_content_type("application/json".into())
        .with_expiration("600000".into())
        .with_headers(headers);
    bed.send(bed.name(), &body("a"), properties).await;

    let letter = bed.dead_letter().await;
    assert_eq!(letter.body, body("a"));
    let text = |text: &Option<ShortString>| text.as_ref().map(ToString::to_string);
    let kept = [
        text(letter.properties.message_id()),
        text(letter.properties.correlation_id()),
        text(letter.properties.reply_to()),
        text(letter.properties.kind()),
        text(letter.properties.content_type()),
        text(letter.properties.expiration()),
    ];
    let expected = ["m-1", "c-1", "replies", "order.placed", "application/json"];
    let mut expected: Vec<_> = expected.map(|text| Some(text.to_owned())).into();
    expected.push(None);
    assert_eq!(kept.to_vec(), expected);
    let expected = [
        ("idem-reason", "rejected"),
        ("idem-error", "no such customer"),
        ("idem-attempt", "1"),
        ("idem-key", "orders.charge:a"),
        ("idem-queue", bed.name()),
        ("idem-exchange", ""),
        ("idem-routing-key", bed.name()),
        ("idem-expiration", "600000"),
        ("x-tenant", "acme"),
    ];
    for (name, value) in expected {
        assert_eq!(letter.header(name).as_deref(), Some(value), "{name}");
    }
    // Its requester is not there: a rejection would else have been told to nobody.
    worker.ended(Kind::Refused, 1).await;
    assert_balance(&worker.stop().await, [(Kind::Refused, 1)]);
    bed.assert_nothing_stuck().await;
}

/// The message was transient.
///
/// - does: makes the dead letter persistent
/// - atomic: survives
/// - leased: survives
#[tokio::test]
async fn a_dead_letter_is_persistent_whatever_the_message_was() {
    let bed = Bed::new().await;
    let worker = bed.charging(MemoryStore::new(), &rejecting());
    let transient = persistent().with_delivery_mode(1);
    bed.send(bed.name(), &body("a"), transient).await;

    let letter = bed.dead_letter().await;
    assert_eq!(letter.properties.delivery_mode(), &Some(2));
    worker.ended(Kind::Rejected, 1).await;
    assert_balance(&worker.stop().await, [(Kind::Rejected, 1)]);
    bed.assert_nothing_stuck().await;
}

/// Seconds since 1970, as the header tells.
fn time(letter: &DeadLetter, name: &str) -> Option<u64> {
    letter.value(name)?.as_timestamp()
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap().as_secs()
}

/// A message fails for good at its first attempt, and again when it is replayed.
///
/// - does: tells when it failed first and last; the first stays the first
/// - atomic: kept as dead letter
/// - leased: kept as dead letter
#[tokio::test]
async fn a_dead_letter_tells_when_its_message_failed_first_and_last() {
    let bed = Bed::new().await;
    let worker = bed.charging(MemoryStore::new(), &rejecting());
    let began = now();
    bed.order("a").await;
    let letter = bed.dead_letter().await;
    let (first, last) = ("idem-first-failure", "idem-last-failure");
    let failed = time(&letter, first).unwrap();
    assert!((began..=now()).contains(&failed), "{failed}");
    assert_eq!(time(&letter, last), Some(failed));

    // The times are to the second.
    tokio::time::sleep(Duration::from_secs(1)).await;
    send_again(&bed, letter).await;
    let again = bed.dead_letter().await;
    assert_eq!(time(&again, first), Some(failed));
    assert!(time(&again, last) > Some(failed));
    worker.ended(Kind::Rejected, 2).await;
    assert_balance(&worker.stop().await, [(Kind::Rejected, 2)]);
    bed.assert_nothing_stuck().await;
}

/// The error is longer than a frame.
///
/// - does: cuts it at 1 KiB
/// - atomic: kept as dead letter
/// - leased: kept as dead letter
#[tokio::test]
async fn an_error_longer_than_a_header_may_be_is_cut() {
    let bed = Bed::new().await;
    let script = Script::new(async |_| Err(Failed::rejected("ö".repeat(1_000_000))));
    let worker = bed.charging(MemoryStore::new(), &script);
    bed.order("a").await;

    assert_eq!(bed.dead_letter().await.error(), "ö".repeat(512));
    worker.ended(Kind::Rejected, 1).await;
    assert_balance(&worker.stop().await, [(Kind::Rejected, 1)]);
    bed.assert_nothing_stuck().await;
}

/// A message that fills a frame of 8 KiB almost, so that what idem says about its end has no room.
pub(crate) async fn send_filling_a_frame(bed: &Bed, id: &str) {
    let mut headers = FieldTable::default();
    for (name, value) in [("x-large", "x".repeat(7300)), ("x-small", "kept".into())] {
        headers.insert(name.into(), AMQPValue::LongString(value.into()));
    }
    let properties = persistent().with_headers(headers);
    bed.send(bed.name(), &body(id), properties).await;
}

/// The publisher's headers leave no room in a frame for those that a dead letter adds.
///
/// - does: leaves the largest headers out, and says so in the dead letter's headers
/// - atomic: kept as dead letter
/// - leased: kept as dead letter
#[tokio::test]
async fn headers_that_leave_no_room_in_a_frame_are_left_behind_by_the_dead_letter() {
    let bed = Bed::new().await;
    let script = Script::new(async |_| Err(Failed::rejected("x".repeat(1000))));
    let worker = Worker::builder(MemoryStore::new()).state(script);
    let small_frames = bed.url_by(bed.broker().port(), "?frame_max=8192");
    let worker = Running::start(worker.consume::<charge>(bed.queue()), small_frames);
    send_filling_a_frame(&bed, "a").await;

    let letter = bed.dead_letter().await;
    assert_eq!(letter.error().len(), 1000);
    assert_eq!(letter.header("x-large"), None);
    assert_eq!(letter.header("x-small").as_deref(), Some("kept"));
    let cut = letter.value("idem-headers-cut");
    assert_eq!(cut, Some(&AMQPValue::Boolean(true)));
    worker.ended(Kind::Rejected, 1).await;
    assert_balance(&worker.stop().await, [(Kind::Rejected, 1)]);
    bed.assert_nothing_stuck().await;
}

/// The dead letter of a rejected message is sent again.
///
/// - does: runs it, attempts counted from 1
/// - atomic: once
/// - leased: once
async fn a_rejected_message_runs_when_its_dead_letter_is_sent_again<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let before = cell.charging(&bed, &rejecting());
    bed.order("a").await;
    let letter = bed.dead_letter().await;
    before.ended(Kind::Rejected, 1).await;
    assert_balance(&before.stop().await, [(Kind::Rejected, 1)]);

    let repaired = Script::succeeding();
    let after = cell.charging(&bed, &repaired);
    send_again(&bed, letter).await;
    after.ended(Kind::Executed, 1).await;
    assert_balance(&after.stop().await, [(Kind::Executed, 1)]);
    assert_eq!(repaired.attempts(), [1]);
    cell.assert_effects(&repaired, ["a"]).await;
    bed.assert_nothing_stuck().await;
}

/// The dead letter of an exhausted message is sent again, and fails again.
///
/// - does: gives it all its attempts once more, then dead-letters it
/// - atomic: ends
/// - leased: ends
async fn an_exhausted_message_has_all_its_attempts_when_its_dead_letter_is_sent_again<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let script = Script::new(async |_| Err(Failed::retry("still down")));
    let worker = cell.charging(&bed, &script);
    bed.order("a").await;
    send_again(&bed, bed.dead_letter().await).await;

    let letter = bed.dead_letter().await;
    assert_eq!(
        (letter.reason(), letter.attempt()),
        ("exhausted".into(), "3".into())
    );
    worker.ended(Kind::Exhausted, 2).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Failed, 4), (Kind::Exhausted, 2)]);
    assert_eq!(script.attempts(), [1, 2, 3, 1, 2, 3]);
    bed.assert_nothing_stuck().await;
}

/// A dead letter is sent again twice.
///
/// - does: runs one copy
/// - atomic: once
/// - leased: once
async fn a_dead_letter_sent_again_twice_runs_once<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let before = cell.charging(&bed, &rejecting());
    bed.order("a").await;
    let letter = bed.dead_letter().await;
    before.ended(Kind::Rejected, 1).await;
    before.stop().await;

    let repaired = Script::succeeding();
    let after = cell.charging(&bed, &repaired);
    for _ in 0..2 {
        let properties = letter.properties.clone();
        bed.send(bed.name(), &letter.body, properties).await;
    }
    after.ended(Kind::Executed, 1).await;
    after.ended(Kind::Duplicate, 1).await;
    let balance = after.stop().await;
    assert_balance(&balance, [(Kind::Executed, 1), (Kind::Duplicate, 1)]);
    cell.assert_effects(&repaired, ["a"]).await;
    bed.assert_nothing_stuck().await;
}

/// A worker that ends without a word in the middle of a message, under a policy of quarantine.
pub(crate) async fn quarantined(bed: &Bed, store: &(impl Purge + Clone)) -> DeadLetter {
    let policy = QUICK.to_builder().in_doubt(InDoubt::Quarantine);
    let policy = policy.lease(Duration::from_millis(300)).build().unwrap();
    let queue = bed.queue().policy(policy);
    let worker = |script: &Script| {
        let worker = Worker::builder(store.clone()).state(script.clone());
        bed.start(worker.consume::<charge>(queue.clone()))
    };
    let hanging = Script::hanging();
    let vanishing = worker(&hanging);
    bed.order("a").await;
    hanging.calls.count("the first attempt", 1).await;
    vanishing.vanish().await;

    let next = Script::succeeding();
    let worker = worker(&next);
    let letter = bed.dead_letter().await;
    worker.ended(Kind::InDoubt, 1).await;
    assert_balance(&worker.stop().await, [(Kind::InDoubt, 1)]);
    assert!(next.calls.entries().is_empty(), "it ran in doubt");
    letter
}

/// A worker vanished in the middle of an attempt, policy `quarantine`.
///
/// - does: dead-letters it, `in-doubt`, without running
/// - atomic: never in doubt
/// - leased: effect at most once
#[tokio::test]
async fn a_message_in_doubt_is_quarantined_if_its_policy_says_so() {
    let bed = Bed::new().await;
    let letter = quarantined(&bed, &MemoryStore::new()).await;
    assert_eq!(letter.reason(), "in-doubt");
    bed.assert_nothing_stuck().await;
}

/// A copy of a quarantined message comes.
///
/// - does: quarantines it, too; only the dead letter, sent again, is run
/// - atomic: never in doubt
/// - leased: runs when a person says so
async fn a_quarantined_message_runs_only_when_its_dead_letter_is_sent_again<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let letter = quarantined(&bed, &cell.store()).await;
    let script = Script::succeeding();
    let worker = cell.charging(&bed, &script);
    bed.order("a").await;
    worker.ended(Kind::InDoubt, 1).await;
    assert_eq!(bed.dead_letter().await.reason(), "in-doubt");
    assert!(script.calls.entries().is_empty(), "a copy ran in doubt");

    send_again(&bed, letter).await;
    worker.ended(Kind::Executed, 1).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::InDoubt, 1), (Kind::Executed, 1)]);
    cell.assert_effects(&script, ["a"]).await;
    bed.assert_nothing_stuck().await;
}

/// A handler was stopped by its `timeout`, policy `quarantine`.
///
/// - does: dead-letters it, `in-doubt`
/// - atomic: never in doubt: a failed attempt
/// - leased: effect at most once
async fn a_message_that_was_stopped_in_the_middle_is_quarantined_if_its_policy_says_so<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let policy = QUICK.to_builder().in_doubt(InDoubt::Quarantine);
    let policy = policy.timeout(Duration::from_millis(300)).build().unwrap();
    let script = Script::hanging();
    let worker = cell.worker(&script);
    let worker = bed.start(worker.consume::<C::Charge>(bed.queue().policy(policy)));
    bed.order("a").await;

    let letter = bed.dead_letter().await;
    assert_eq!(letter.reason(), "in-doubt");
    assert_eq!(
        letter.error(),
        "timed out after 300ms: its effects may have happened"
    );
    assert_eq!(letter.attempt(), "1");
    bed.order("a").await;
    worker.ended(Kind::InDoubt, 2).await;
    assert_eq!(bed.dead_letter().await.reason(), "in-doubt");
    assert_balance(&worker.stop().await, [(Kind::InDoubt, 2)]);
    assert_eq!(script.attempts(), [1]);
    bed.assert_nothing_stuck().await;
}

/// The dead-letter queue is gone.
///
/// - does: keeps the message and tries again
/// - atomic: nothing lost
/// - leased: nothing lost
#[tokio::test]
async fn a_message_is_kept_while_its_dead_letter_queue_is_missing() {
    let bed = Bed::bare().await;
    let dead = dead(bed.name());
    for queue in [bed.name(), &dead] {
        bed.declare_foreign(queue, FieldTable::default()).await;
    }
    let script = rejecting();
    let worker = Worker::builder(MemoryStore::new()).state(script.clone());
    let worker = bed.start(worker.consume::<charge>(Queue::existing(bed.name())));
    bed.until_consumed(bed.name(), 1).await;
    bed.delete(&dead).await;
    bed.order("a").await;
    script.calls.count("the handler rejects it", 1).await;
    // Long enough for a first try, and for the message to be lost if that ended it.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(worker.settled.entries().is_empty());

    bed.declare_foreign(&dead, FieldTable::default()).await;
    assert_eq!(bed.dead_letter().await.reason(), "rejected");
    worker.ended(Kind::Rejected, 1).await;
    assert_balance(&worker.stop().await, [(Kind::Rejected, 1)]);
    bed.assert_nothing_stuck().await;
}

/// The link is lost while a dead letter cannot be published. Its key is given up already, so the message starts over
/// when it comes again, and ends in the dead-letter queue once.
async fn is_dead_lettered_once_although_the_link_is_lost<const N: usize>(
    script: Script,
    attempts: &[u32],
    reason: &str,
    counts: [(Kind, u64); N],
) {
    let bed = Bed::bare().await;
    let dead = dead(bed.name());
    for queue in [bed.name(), &dead] {
        bed.declare_foreign(queue, FieldTable::default()).await;
    }
    let proxy = Proxy::open(bed.broker().port()).await;
    let worker = Worker::builder(MemoryStore::new()).state(script.clone());
    let worker = worker.consume::<charge>(Queue::existing(bed.name()).policy(QUICK));
    let worker = Running::start(worker, bed.url_by(proxy.port(), ""));
    bed.until_consumed(bed.name(), 1).await;
    bed.delete(&dead).await;
    bed.order("a").await;
    let (kind, _) = counts[N - 1];
    let runs = attempts.len();
    script.calls.count("it is given up", runs).await;
    worker
        .until("the dead letter is not published", |health| {
            !health.is_ready()
        })
        .await;
    proxy.cut();
    worker.ended(kind, 1).await;
    // Without it the worker does not consume again.
    bed.declare_foreign(&dead, FieldTable::default()).await;
    script
        .calls
        .count("it comes again, and is given up again", 2 * runs)
        .await;
    assert_eq!(script.attempts(), attempts.repeat(2), "it starts over");
    assert_eq!(bed.dead_letter().await.reason(), reason);
    worker.ended(kind, 2).await;
    let twice = counts.map(|(kind, count)| (kind, 2 * count));
    assert_balance(&worker.stop().await, twice);
    assert_eq!(bed.drain(&dead).await.len(), 0, "once");
    bed.assert_nothing_stuck().await;
}

/// The link is lost while the dead letter cannot be published.
///
/// - does: runs it again when it is redelivered, because its key was given up; dead-letters it once
/// - atomic: each attempt once more
/// - leased: each attempt once more
#[tokio::test]
async fn a_rejected_message_whose_link_is_lost_before_its_dead_letter_is_there_is_dead_lettered_once()
 {
    let counts = [(Kind::Rejected, 1)];
    is_dead_lettered_once_although_the_link_is_lost(rejecting(), &[1], "rejected", counts).await;
}

/// Shares the promise of
/// `dead_letters::a_rejected_message_whose_link_is_lost_before_its_dead_letter_is_there_is_dead_lettered_once`.
#[tokio::test]
async fn an_exhausted_message_whose_link_is_lost_before_its_dead_letter_is_there_is_dead_lettered_once()
 {
    let script = Script::new(async |_| Err(Failed::retry("the gateway timed out")));
    let counts = [(Kind::Failed, 2), (Kind::Exhausted, 1)];
    let all = [1, 2, 3];
    is_dead_lettered_once_although_the_link_is_lost(script, &all, "exhausted", counts).await;
}

/// The dead-letter queue of a declared queue is gone.
///
/// - does: declares it again
/// - atomic: nothing lost
/// - leased: nothing lost
#[tokio::test]
async fn a_deleted_dead_letter_queue_of_a_declared_queue_is_declared_again() {
    let bed = Bed::new().await;
    let worker = bed.charging(MemoryStore::new(), &rejecting());
    bed.until_consumed(bed.name(), 1).await;
    bed.delete(&dead(bed.name())).await;
    bed.order("a").await;

    worker.ended(Kind::Rejected, 1).await;
    assert_eq!(bed.dead_letter().await.reason(), "rejected");
    assert_balance(&worker.stop().await, [(Kind::Rejected, 1)]);
    bed.assert_nothing_stuck().await;
}

/// The queue names its dead-letter queue.
///
/// - does: publishes there
/// - atomic: kept as dead letter
/// - leased: kept as dead letter
#[tokio::test]
async fn dead_letters_go_where_the_queue_says() {
    let bed = Bed::bare().await;
    let graveyard = bed.another("graveyard");
    let queue = bed.queue().dead_letters(&graveyard);
    bed.declare(&queue).await;
    let worker = Worker::builder(MemoryStore::new()).state(rejecting());
    let worker = bed.start(worker.consume::<charge>(queue));
    bed.order("a").await;

    assert_eq!(bed.dead_letter_in(&graveyard).await.reason(), "rejected");
    worker.ended(Kind::Rejected, 1).await;
    assert_balance(&worker.stop().await, [(Kind::Rejected, 1)]);
    bed.assert_nothing_stuck().await;
}

/// Dead letters are to go to an exchange (`Queue::dead_letter_exchange`).
///
/// - does: publishes them there, with the routing key that was said or their own; keeps a letter that the exchange
///   leads nowhere, and tries again
/// - atomic: kept
/// - leased: kept
#[tokio::test]
async fn dead_letters_go_to_the_exchange_that_the_queue_says_and_are_kept_while_it_leads_nowhere() {
    let bed = Bed::bare().await;
    let (failed, graveyard) = (format!("{}-failed", bed.name()), bed.another("graveyard"));
    bed.declare_foreign_exchange(&failed).await;
    bed.declare_foreign(&graveyard, FieldTable::default()).await;
    let queue = bed.queue().dead_letter_exchange(&failed, "orders");
    bed.declare(&queue).await;
    let worker = Worker::builder(MemoryStore::new()).state(rejecting());
    let worker = bed.start(worker.consume::<charge>(queue));
    bed.order("a").await;
    worker
        .until("the letter cannot be published", |health| {
            health.to_string().contains("no queue")
        })
        .await;
    assert!(worker.settled.entries().is_empty());

    bed.bind(&graveyard, &failed, "orders").await;
    assert_eq!(bed.dead_letter_in(&graveyard).await.reason(), "rejected");
    worker.ended(Kind::Rejected, 1).await;
    assert_balance(&worker.stop().await, [(Kind::Rejected, 1)]);
    bed.delete_exchange(&failed).await;
    bed.assert_nothing_stuck().await;
}

/// Shares the promise of
/// `dead_letters::dead_letters_go_to_the_exchange_that_the_queue_says_and_are_kept_while_it_leads_nowhere`.
#[tokio::test]
async fn a_dead_letter_has_its_messages_routing_key_if_the_exchange_is_to_go_by_that() {
    let bed = Bed::bare().await;
    let (failed, graveyard) = (format!("{}-failed", bed.name()), bed.another("graveyard"));
    bed.declare_foreign_exchange(&failed).await;
    bed.declare_foreign(&graveyard, FieldTable::default()).await;
    bed.bind(&graveyard, &failed, bed.name()).await;
    let queue = bed.queue().dead_letter_exchange(&failed, None);
    bed.declare(&queue).await;
    let worker = Worker::builder(MemoryStore::new()).state(rejecting());
    let worker = bed.start(worker.consume::<charge>(queue));
    bed.order("a").await;

    assert_eq!(bed.dead_letter_in(&graveyard).await.reason(), "rejected");
    worker.ended(Kind::Rejected, 1).await;
    assert_balance(&worker.stop().await, [(Kind::Rejected, 1)]);
    bed.delete_exchange(&failed).await;
    bed.assert_nothing_stuck().await;
}

/// The exchange for dead letters is missing at the start.
///
/// - does: ends with an error that says so
#[tokio::test]
async fn a_dead_letter_exchange_that_is_missing_ends_the_worker_with_a_clear_error() {
    let bed = Bed::bare().await;
    let failed = format!("{}-failed", bed.name());
    let queue = bed.queue().dead_letter_exchange(&failed, None);
    let worker = Worker::builder(MemoryStore::new()).state(rejecting());
    let worker = bed.start(worker.consume::<charge>(queue));
    let RunError::Topology(error) = worker.failed().await else {
        panic!("it is the exchange that is missing");
    };
    assert_eq!(error.name(), failed);
    assert_eq!(error.problem(), &TopologyProblem::Missing, "{error}");
    bed.assert_nothing_stuck().await;
}

/// A queue is to be its own dead-letter queue.
///
/// - does: ends with an error that says so, before it connects: a rejected message would come back at once, for ever
#[tokio::test]
async fn a_queue_cannot_be_its_own_dead_letter_queue() {
    let queue = Queue::existing("orders").dead_letters("orders");
    let worker = Worker::builder(MemoryStore::new())
        .state(Script::succeeding())
        .consume::<charge>(queue);
    let error = worker.build("amqp://127.0.0.1:1").unwrap_err();
    assert!(
        matches!(&error, BuildError::DeadLettersToItself { queue } if queue == "orders"),
        "{error}"
    );
}

on_each_store! {
    a_rejected_message_runs_when_its_dead_letter_is_sent_again,
    an_exhausted_message_has_all_its_attempts_when_its_dead_letter_is_sent_again,
    a_dead_letter_sent_again_twice_runs_once,
}

leased_on_each_store! {
    a_message_that_was_stopped_in_the_middle_is_quarantined_if_its_policy_says_so,
    a_quarantined_message_runs_only_when_its_dead_letter_is_sent_again,
}

on_further_stores! {
    a_rejected_message_runs_when_its_dead_letter_is_sent_again,
    an_exhausted_message_has_all_its_attempts_when_its_dead_letter_is_sent_again,
    a_dead_letter_sent_again_twice_runs_once,
}
