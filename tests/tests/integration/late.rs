//! Messages that come later than their copies are remembered.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use idem_amqp::{
    Failed, MemoryStore, Policy, Worker,
    executor::ExecutionKind as Kind,
    handler::{Enforcement, Handler, Late, Operation, PolicyBuilder},
};
use idem_tests::{
    batches_on_each_store,
    bed::{Bed, QUICK, persistent},
    cell::Cell,
    ledger::Ledger,
    on_each_store,
    requester::Requester,
    running::{Running, assert_balance},
    script::{Order, Script, charge},
    store_at::Product,
};
use lapin::{
    BasicProperties,
    types::{AMQPValue, FieldTable},
};

use crate::{dead_letters::send_again, groups, replies};

const HOUR: Duration = Duration::from_hours(1);

/// Seconds since 1970, so long ago.
fn ago(age: Duration) -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    since.saturating_sub(age).as_secs()
}

fn made_at(seconds: u64) -> BasicProperties {
    persistent().with_timestamp(seconds)
}

async fn send(bed: &Bed, id: &str, properties: BasicProperties) {
    let body = serde_json::to_vec(&Order::new(id)).unwrap();
    bed.send(bed.name(), &body, properties).await;
}

/// Remembers for an hour, and quarantines what is older.
fn quarantining() -> PolicyBuilder {
    let hour = Policy::builder().retention(HOUR);
    hour.late(Late::Quarantine).backoff(QUICK.backoff())
}

fn worker<C: Cell>(bed: &Bed, cell: &C, script: &Script, policy: PolicyBuilder) -> Running {
    let queue = bed.queue().policy(policy.build().unwrap());
    bed.start(cell.worker(script).consume::<C::Charge>(queue))
}

/// A message is older than its key would be remembered, and the policy is to quarantine such messages.
///
/// - does: dead-letters it, `late`, does not run it, counts no attempt; runs it when somebody sends it again
/// - atomic: once, when it is sent again
/// - leased: once, when it is sent again
async fn a_message_that_is_older_than_the_retention_is_quarantined<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let script = Script::succeeding();
    let worker = worker(&bed, &cell, &script, quarantining());
    // Each copy of it, too.
    for count in 1..=2 {
        send(&bed, "a", made_at(ago(2 * HOUR))).await;
        worker.ended(Kind::Late, count).await;
    }
    let letter = bed.dead_letter().await;
    assert_eq!(
        (letter.reason(), letter.attempt()),
        ("late".into(), "0".into())
    );
    let error = letter.error();
    assert!(
        error.starts_with("it is older than its key would be remembered"),
        "{error}"
    );
    assert_eq!(bed.dead_letter().await.reason(), "late");
    cell.assert_effects(&script, [""; 0]).await;

    send_again(&bed, letter).await;
    worker.ended(Kind::Executed, 1).await;
    send(&bed, "a", made_at(ago(2 * HOUR))).await;
    worker.ended(Kind::Duplicate, 1).await;
    let expected = [(Kind::Late, 2), (Kind::Executed, 1), (Kind::Duplicate, 1)];
    assert_balance(&worker.stop().await, expected);
    assert_eq!(script.attempts(), [1]);
    cell.assert_effects(&script, ["a"]).await;
    bed.assert_nothing_stuck().await;
}

/// The policy is to quarantine what is older than the retention. A message is younger, or tells no time, or one in the
/// future, or its key is known.
///
/// - does: runs it, or knows it for what it is
/// - atomic: once
/// - leased: once
async fn what_may_be_known_is_not_quarantined<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let script = Script::new(async |call| match (call.id.as_str(), call.attempt) {
        ("fails", 1) => Err(Failed::retry("not today")),
        _ => Ok(()),
    });
    let worker = worker(&bed, &cell, &script, quarantining());
    let ahead = ago(Duration::ZERO) + 48 * 3600;
    let at_the_bound = ago(Duration::from_mins(59));
    send(&bed, "young", made_at(ago(HOUR / 2))).await;
    send(&bed, "timeless", persistent()).await;
    send(&bed, "zero", made_at(0)).await;
    send(&bed, "ahead", made_at(ahead)).await;
    send(&bed, "bound", made_at(at_the_bound)).await;
    send(&bed, "fails", made_at(ago(HOUR / 2))).await;
    worker.ended(Kind::Executed, 6).await;
    // A copy whose time is another.
    send(&bed, "young", made_at(ago(2 * HOUR))).await;
    worker.ended(Kind::Duplicate, 1).await;

    let expected = [(Kind::Executed, 6), (Kind::Failed, 1), (Kind::Duplicate, 1)];
    assert_balance(&worker.stop().await, expected);
    let ids = ["young", "timeless", "zero", "ahead", "bound", "fails"];
    cell.assert_effects(&script, ids).await;
    bed.assert_nothing_stuck().await;
}

/// A message is late at its second attempt, and was not at its first; or it is exactly as old as its key would be
/// remembered.
///
/// - does: attempts the one again, quarantines the other
/// - atomic: once, and not
/// - leased: once, and not
async fn a_message_that_gets_too_old_between_its_attempts_is_attempted_again<C: Cell>() {
    /// In seconds. Longer than a busy machine may stall a process: its first attempt begins before.
    const UNTIL_TOO_OLD: u64 = 8;
    let (bed, cell) = (Bed::new().await, C::open().await);
    let script = Script::new(async |call| match (call.id.as_str(), call.attempt) {
        ("ages", 1) => {
            // Until it is too old, and its attempt has failed.
            tokio::time::sleep(Duration::from_secs(UNTIL_TOO_OLD + 2)).await;
            Err(Failed::retry("not today"))
        }
        _ => Ok(()),
    });
    let worker = worker(&bed, &cell, &script, quarantining());
    send(&bed, "exact", made_at(ago(HOUR))).await;
    worker.ended(Kind::Late, 1).await;
    send(&bed, "ages", made_at(ago(HOUR) + UNTIL_TOO_OLD)).await;
    worker.ended(Kind::Executed, 1).await;
    let expected = [(Kind::Late, 1), (Kind::Failed, 1), (Kind::Executed, 1)];
    assert_balance(&worker.stop().await, expected);
    assert_eq!(bed.dead_letter().await.reason(), "late");
    cell.assert_effects(&script, ["ages"]).await;
    bed.assert_nothing_stuck().await;
}

/// A late message is delivered again, because its worker stopped before it was dead-lettered.
///
/// - does: dead-letters it all the same
/// - atomic: nothing
/// - leased: nothing
async fn a_late_message_that_is_delivered_again_is_quarantined_all_the_same<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let script = Script::succeeding();
    bed.declare(&bed.queue()).await;
    send(&bed, "a", made_at(ago(2 * HOUR))).await;
    bed.give_back(bed.name()).await;
    let worker = worker(&bed, &cell, &script, quarantining());
    worker.ended(Kind::Late, 1).await;
    assert_balance(&worker.stop().await, [(Kind::Late, 1)]);
    let letter = bed.dead_letter().await;
    assert_eq!(
        (letter.reason(), letter.attempt()),
        ("late".into(), "0".into())
    );
    cell.assert_effects(&script, [""; 0]).await;
    bed.assert_nothing_stuck().await;
}

/// Sends messages of which every other one is late before there is a worker, so that they come together.
async fn send_mixed(bed: &Bed) {
    bed.declare(&bed.queue()).await;
    for number in 0..8_u32 {
        let age = if number.is_multiple_of(2) {
            HOUR / 2
        } else {
            2 * HOUR
        };
        send(bed, &format!("o-{number}"), made_at(ago(age))).await;
    }
}

const IN_TIME: [&str; 4] = ["o-0", "o-2", "o-4", "o-6"];

/// Late messages come in a batch with others.
///
/// - does: quarantines the late ones, calls the handler with the others
/// - atomic: once each, nothing of the late ones
/// - leased: once each, nothing of the late ones
async fn late_messages_of_a_batch_are_quarantined_alone<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    send_mixed(&bed).await;
    let script = Script::succeeding();
    let worker = worker(&bed, &cell, &script, quarantining());
    worker.ended(Kind::Executed, 4).await;
    worker.ended(Kind::Late, 4).await;
    let ends = [(Kind::Executed, 4), (Kind::Late, 4)];
    assert_balance(&worker.stop().await, ends);
    for _ in 0..4 {
        assert_eq!(bed.dead_letter().await.reason(), "late");
    }
    assert!(script.largest_batch() > 1, "{:?}", script.batches.entries());
    cell.assert_effects(&script, IN_TIME).await;
    bed.assert_nothing_stuck().await;
}

/// Late messages come in a group with others.
///
/// - does: quarantines the late ones, commits the others
/// - effect: once each, nothing of the late ones
#[tokio::test]
async fn late_messages_of_a_group_are_quarantined_alone() {
    let (bed, ledger) = (Bed::new().await, Ledger::on(Product::Postgres).await);
    send_mixed(&bed).await;
    let script = Script::succeeding();
    let worker = Worker::builder(ledger.store().open_postgres().await).state(script);
    let queue = bed.queue().policy(quarantining().build().unwrap());
    let worker = bed.start(worker.consume::<groups::charge>(queue));
    worker.ended(Kind::Executed, 4).await;
    worker.ended(Kind::Late, 4).await;
    let ends = [(Kind::Executed, 4), (Kind::Late, 4)];
    assert_balance(&worker.stop().await, ends);
    for _ in 0..4 {
        assert_eq!(bed.dead_letter().await.reason(), "late");
    }
    let charges = ledger.charges_per_order().await;
    assert_eq!(charges.into_keys().collect::<Vec<_>>(), IN_TIME);
    bed.assert_nothing_stuck().await;
}

fn on_memory<H>(bed: &Bed, script: &Script, policy: PolicyBuilder) -> Running
where
    H: Handler<Script> + Operation<Mode = idem_amqp::handler::Leased>,
{
    let worker = Worker::builder(MemoryStore::new()).state(script.clone());
    let queue = bed.queue().policy(policy.build().unwrap());
    bed.start(worker.consume::<H>(queue))
}

/// A request is late.
///
/// - does: tells its requester so, dead-letters it
/// - atomic: no effect
/// - leased: no effect
#[tokio::test]
async fn who_sends_a_late_request_is_told_so() {
    let bed = Bed::new().await;
    let requester = Requester::on(&bed).await;
    let script = Script::succeeding();
    let worker = on_memory::<replies::quote>(&bed, &script, quarantining());
    let (body, late) = (replies::order("a"), made_at(ago(2 * HOUR)));
    requester.ask_with(bed.name(), &body, "c-1", late).await;
    let reply = requester.reply().await;
    assert_eq!(reply.refusal(), Some("late".into()));
    assert_eq!(bed.dead_letter().await.reason(), "late");
    assert_balance(&worker.stop().await, [(Kind::Late, 1)]);
    script.assert_effects([""; 0]);
    bed.assert_nothing_stuck().await;
}

/// A message is late, and its handler is only observed.
///
/// - does: runs it, and counts what would have been `late`
/// - effect: once
#[tokio::test]
async fn an_observed_handler_runs_a_late_message_and_counts_it() {
    let bed = Bed::new().await;
    let script = Script::succeeding();
    let observing = quarantining().enforcement(Enforcement::Observe);
    let worker = on_memory::<charge>(&bed, &script, observing);
    send(&bed, "a", made_at(ago(2 * HOUR))).await;
    worker.ended(Kind::Observed, 1).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Observed, 1)]);
    assert_eq!(balance.would_have_been(Kind::Late), 1);
    script.assert_effects(["a"]);
    bed.assert_nothing_stuck().await;
}

/// The policy names a header that tells a message's own time.
///
/// - does: quarantines by that header, as a number of seconds or milliseconds, whatever AMQP's `timestamp` says
/// - atomic: once for each that is not late
/// - leased: once for each that is not late
async fn a_header_tells_when_a_message_was_made<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let script = Script::succeeding();
    let worker = worker(
        &bed,
        &cell,
        &script,
        quarantining().time_header("x-made-at"),
    );
    let with = |value: AMQPValue, timestamp: u64| {
        let mut headers = FieldTable::default();
        headers.insert("x-made-at".into(), value);
        made_at(timestamp).with_headers(headers)
    };
    let (old, young) = (ago(2 * HOUR), ago(HOUR / 2));
    let millis = AMQPValue::LongString((old * 1000).to_string().into());
    for late in [
        millis,
        AMQPValue::Timestamp(old),
        AMQPValue::LongLongInt(old.cast_signed()),
    ] {
        send(&bed, "late", with(late, young)).await;
        assert_eq!(bed.dead_letter().await.reason(), "late");
    }
    send(&bed, "young", with(AMQPValue::Timestamp(young), old)).await;
    send(&bed, "without", made_at(old)).await;
    let words = AMQPValue::LongString("yesterday".into());
    send(&bed, "words", with(words, old)).await;
    worker.ended(Kind::Executed, 3).await;

    let expected = [(Kind::Late, 3), (Kind::Executed, 3)];
    assert_balance(&worker.stop().await, expected);
    cell.assert_effects(&script, ["young", "without", "words"])
        .await;
    bed.assert_nothing_stuck().await;
}

/// A message is older than its key would be remembered, and nothing is said of such messages.
///
/// - does: runs it, as a new one
/// - atomic: once
/// - leased: once
async fn a_late_message_runs_unless_the_policy_says_otherwise<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let script = Script::succeeding();
    let worker = worker(&bed, &cell, &script, quarantining().late(Late::Run));
    send(&bed, "a", made_at(ago(2 * HOUR))).await;
    worker.ended(Kind::Executed, 1).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, 1)]);
    cell.assert_effects(&script, ["a"]).await;
    bed.assert_nothing_stuck().await;
}

on_each_store! {
    a_message_that_is_older_than_the_retention_is_quarantined,
    what_may_be_known_is_not_quarantined,
    a_message_that_gets_too_old_between_its_attempts_is_attempted_again,
    a_late_message_that_is_delivered_again_is_quarantined_all_the_same,
    a_header_tells_when_a_message_was_made,
    a_late_message_runs_unless_the_policy_says_otherwise,
}

batches_on_each_store! {
    late_messages_of_a_batch_are_quarantined_alone,
}
