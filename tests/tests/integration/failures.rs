//! Handlers that fail.

use std::{future::pending, time::Duration};

use idem_amqp::{
    Failed, MemoryStore, Policy, Queue, Worker,
    executor::ExecutionKind as Kind,
    handler::{Backoff, GivenUp},
};
use idem_servers::rabbitmq::Version;
use idem_tests::{
    bed::{Bed, QUICK, dead},
    cell::Cell,
    log::Log,
    metered::Metered,
    on_each_store, on_further_stores,
    running::{assert_balance, assert_dropped},
    script::{Script, charge},
};
use lapin::types::{AMQPValue, FieldTable};

fn failing_until(attempt: u32) -> Script {
    Script::new(move |call| async move {
        if call.attempt < attempt {
            return Err(Failed::retry("the gateway timed out"));
        }
        Ok(())
    })
}

/// The handler fails.
///
/// - does: releases the key; returns the message after the backoff, or lets it wait on the ladder; it runs again
/// - atomic: writes rolled back
/// - leased: runs again; earlier effects stay
async fn a_failed_message_is_delivered_again_and_its_handler_runs_again<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let script = failing_until(2);
    let worker = cell.charging(&bed, &script);
    bed.order("a").await;

    worker.ended(Kind::Executed, 1).await;
    let calls = script.calls.entries();
    assert_eq!(calls.len(), 2);
    assert!(!calls[0].redelivered && calls[1].redelivered, "{calls:?}");
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Failed, 1), (Kind::Executed, 1)]);
    cell.assert_effects(&script, ["a"]).await;
    bed.assert_nothing_stuck().await;
}

/// The handler fails again and again.
///
/// - does: counts attempts in the store, over redeliveries and workers
/// - atomic: counted
/// - leased: counted
async fn attempts_are_counted_over_redeliveries<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let script = failing_until(3);
    let worker = cell.charging(&bed, &script);
    bed.order("a").await;

    worker.ended(Kind::Executed, 1).await;
    let balance = worker.stop().await;
    assert_eq!(script.attempts(), [1, 2, 3]);
    assert_balance(&balance, [(Kind::Failed, 2), (Kind::Executed, 1)]);
    cell.assert_effects(&script, ["a"]).await;
    bed.assert_nothing_stuck().await;
}

/// A message's attempts are used up.
///
/// - does: dead-letters it, reason `exhausted`, with the last error
/// - atomic: kept as dead letter
/// - leased: kept as dead letter
async fn a_message_whose_attempts_are_used_up_is_dead_lettered<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let script = failing_until(u32::MAX);
    let worker = cell.charging(&bed, &script);
    bed.order("a").await;

    let letter = bed.dead_letter().await;
    assert_eq!(letter.reason(), "exhausted");
    assert_eq!(letter.error(), "the gateway timed out");
    assert_eq!(letter.attempt(), "3");
    worker.ended(Kind::Exhausted, 1).await;
    let balance = worker.stop().await;
    assert_eq!(script.attempts(), [1, 2, 3]);
    assert_balance(&balance, [(Kind::Failed, 2), (Kind::Exhausted, 1)]);
    bed.assert_nothing_stuck().await;
}

/// The handler rejects the message.
///
/// - does: dead-letters it at once, reason `rejected`
/// - atomic: kept as dead letter
/// - leased: kept as dead letter
async fn a_rejected_message_is_dead_lettered_at_once<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let script = Script::new(async |_| Err(Failed::rejected("amount must be positive")));
    let worker = cell.charging(&bed, &script);
    bed.order("a").await;

    let letter = bed.dead_letter().await;
    assert_eq!(letter.reason(), "rejected");
    assert_eq!(letter.error(), "amount must be positive");
    assert_eq!(letter.attempt(), "1");
    worker.ended(Kind::Rejected, 1).await;
    assert_balance(&worker.stop().await, [(Kind::Rejected, 1)]);
    assert_eq!(script.attempts(), [1]);
    bed.assert_nothing_stuck().await;
}

/// The handler rejects messages, or uses their attempts up, and its policy is to drop them.
///
/// - does: acknowledges them, logs and counts them as dropped; no dead letter is left
/// - atomic: dropped
/// - leased: dropped
async fn what_is_given_up_is_dropped_if_the_policy_says_so<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let script = Script::new(async |call| match call.id.as_str() {
        "bad" => Err(Failed::rejected("amount must be positive")),
        _ => Err(Failed::retry("the gateway timed out")),
    });
    let policy = Policy::builder().max_attempts(1);
    let policy = policy.on_rejected(GivenUp::Ack).on_exhausted(GivenUp::Ack);
    let queue = bed.queue().policy(policy.build().unwrap());
    let (log, metered) = (Log::default(), Metered::default());
    let _kept = log.capture();
    let worker = {
        let _recorded = metered.record();
        bed.start(cell.worker(&script).consume::<C::Charge>(queue))
    };
    bed.order("bad").await;
    bed.order("unlucky").await;

    worker.ended(Kind::Rejected, 1).await;
    worker.ended(Kind::Exhausted, 1).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Rejected, 1), (Kind::Exhausted, 1)]);
    assert_dropped(&balance, &metered, &log, 2);
    assert!(bed.drain(&dead(bed.name())).await.is_empty());
    bed.assert_nothing_stuck().await;
}

/// The handler panics.
///
/// - does: counts it as a failed attempt
/// - atomic: as a failure
/// - leased: as a failure
async fn a_panic_is_a_failed_attempt<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let script = Script::new(async |call| {
        assert!(call.attempt > 1, "a bug in the handler");
        Ok(())
    });
    let worker = cell.charging(&bed, &script);
    bed.order("a").await;

    worker.ended(Kind::Executed, 1).await;
    let settled = worker.settled.entries();
    let error = settled[0].error.as_deref().unwrap();
    assert_eq!(error, "the handler panicked: a bug in the handler");
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Failed, 1), (Kind::Executed, 1)]);
    cell.assert_effects(&script, ["a"]).await;
    bed.assert_nothing_stuck().await;
}

/// An attempt takes longer than its `timeout`.
///
/// - does: drops the handler; the attempt has failed, "timed out after 30s"
/// - atomic: writes rolled back
/// - leased: runs again; earlier effects stay
async fn an_attempt_that_takes_too_long_has_failed<C: Cell>() {
    /// Longer than a busy machine may stall a process: an atomic handler writes its row before.
    const TIMEOUT: Duration = Duration::from_secs(6);
    let (bed, cell) = (Bed::new().await, C::open().await);
    let script = Script::new(async |call| {
        if call.attempt == 1 {
            pending::<()>().await;
        }
        Ok(())
    });
    let limited = QUICK.to_builder().timeout(TIMEOUT).build().unwrap();
    let worker = cell.worker(&script);
    let worker = bed.start(worker.consume::<C::Charge>(bed.queue().policy(limited)));
    bed.order("a").await;

    worker.ended(Kind::Executed, 1).await;
    let settled = worker.settled.entries();
    assert_eq!(settled[0].error.as_deref(), Some("timed out after 6s"));
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Failed, 1), (Kind::Executed, 1)]);
    assert_eq!(script.attempts(), [1, 2]);
    cell.assert_effects(&script, ["a"]).await;
    bed.assert_nothing_stuck().await;
}

/// The failure asks for a delay.
///
/// - does: waits that long, not the backoff
/// - atomic: not before
/// - leased: not before
async fn a_failure_that_asks_for_a_delay_waits_that_long<C: Cell>() {
    const DELAY: Duration = Duration::from_millis(700);
    let (bed, cell) = (Bed::new().await, C::open().await);
    let script = Script::new(async |call| {
        if call.attempt == 1 {
            return Err(Failed::retry_after(DELAY, "come back later"));
        }
        Ok(())
    });
    let worker = cell.charging(&bed, &script);
    bed.order("a").await;

    let calls = script.calls.count("the second attempt", 2).await;
    assert!(calls[1].at - calls[0].at >= DELAY, "{calls:?}");
    worker.ended(Kind::Executed, 1).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Failed, 1), (Kind::Executed, 1)]);
    cell.assert_effects(&script, ["a"]).await;
    bed.assert_nothing_stuck().await;
}

/// Copies come before the next attempt is due.
///
/// - does: lets them wait; none of them is an attempt
/// - atomic: once
/// - leased: once
async fn copies_of_a_failed_message_wait_for_its_next_attempt_and_use_none_up<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let script = Script::new(async |call| {
        if call.attempt == 1 {
            let while_copies_come = Duration::from_secs(1);
            return Err(Failed::retry_after(while_copies_come, "closed"));
        }
        Ok(())
    });
    let worker = cell.charging(&bed, &script);
    bed.order("a").await;
    script.calls.count("the first attempt", 1).await;
    for _ in 0..5 {
        bed.order("a").await;
    }

    worker.ended(Kind::Executed, 1).await;
    worker.ended(Kind::Duplicate, 5).await;
    let balance = worker.stop().await;
    assert_balance(
        &balance,
        [(Kind::Failed, 1), (Kind::Executed, 1), (Kind::Duplicate, 5)],
    );
    assert_eq!(script.attempts(), [1, 2]);
    cell.assert_effects(&script, ["a"]).await;
    bed.assert_nothing_stuck().await;
}

/// A message keeps failing, and others are behind it.
///
/// - does: handles the others meanwhile
/// - atomic: once each
/// - leased: once each
async fn a_failing_message_does_not_stop_the_ones_behind_it<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let script = Script::new(async |call| match call.id.as_str() {
        "poison" => Err(Failed::retry("no such customer")),
        _ => Ok(()),
    });
    let worker = cell
        .worker(&script)
        .consume::<C::Charge>(bed.queue().prefetch(1));
    let worker = bed.start(worker);
    bed.order("poison").await;
    let others: Vec<_> = (0..20).map(|number| format!("o-{number}")).collect();
    for id in &others {
        bed.order(id).await;
    }

    worker.ended(Kind::Executed, 20).await;
    assert_eq!(bed.dead_letter().await.reason(), "exhausted");
    worker.ended(Kind::Exhausted, 1).await;
    let balance = worker.stop().await;
    assert_balance(
        &balance,
        [
            (Kind::Failed, 2),
            (Kind::Exhausted, 1),
            (Kind::Executed, 20),
        ],
    );
    cell.assert_effects(&script, others).await;
    bed.assert_nothing_stuck().await;
}

/// A message fails so often that its queue's delivery limit is near.
///
/// - does: keeps it and runs it again in the worker, instead of returning it to a broker that would drop it
/// - atomic: as a failure
/// - leased: as a failure
/// - settled by: `failures::a_failed_message_is_delivered_again_and_its_handler_runs_again`
#[tokio::test]
async fn a_message_close_to_its_delivery_limit_is_kept_and_not_returned() {
    let bed = Bed::bare().await;
    let mut as_rabbitmq_4_does = FieldTable::default();
    let quorum = AMQPValue::LongString("quorum".into());
    as_rabbitmq_4_does.insert("x-queue-type".into(), quorum);
    as_rabbitmq_4_does.insert("x-delivery-limit".into(), AMQPValue::LongInt(20));
    bed.declare_foreign(bed.name(), as_rabbitmq_4_does).await;
    bed.declare_foreign(&dead(bed.name()), FieldTable::default())
        .await;
    let soon = Duration::from_millis(10);
    let patient = Policy::builder()
        .max_attempts(30)
        .backoff(Backoff::new(soon, soon));
    let queue = Queue::existing(bed.name()).policy(patient.build().unwrap());
    let script = failing_until(25);
    let worker = Worker::builder(MemoryStore::new()).state(script.clone());
    let worker = bed.start(worker.consume::<charge>(queue));
    bed.order("a").await;

    worker.ended(Kind::Executed, 1).await;
    script.assert_effects(["a"]);
    let balance = worker.stop().await;
    // Since RabbitMQ 4.3 only crashes count, and so every attempt is a delivery of its own.
    let counts_returns = bed.broker().version() < Version::new(4, 3);
    let failed = if counts_returns { 18 } else { 24 };
    assert_balance(&balance, [(Kind::Failed, failed), (Kind::Executed, 1)]);
    bed.assert_nothing_stuck().await;
}

/// The queue's delivery limit is 2 or less.
///
/// - does: keeps the message in the worker from its first failure on
/// - atomic: once
/// - leased: once
/// - settled by: `failures::a_failed_message_is_delivered_again_and_its_handler_runs_again`
///
/// RabbitMQ drops such a message when it is returned for the first time, up to 4.2.
#[tokio::test]
async fn a_message_that_may_not_be_returned_at_all_is_kept_from_its_first_failure_on() {
    let bed = Bed::bare().await;
    let mut never_again = FieldTable::default();
    let quorum = AMQPValue::LongString("quorum".into());
    never_again.insert("x-queue-type".into(), quorum);
    never_again.insert("x-delivery-limit".into(), AMQPValue::LongInt(0));
    bed.declare_foreign(bed.name(), never_again).await;
    bed.declare_foreign(&dead(bed.name()), FieldTable::default())
        .await;
    let queue = Queue::existing(bed.name()).policy(QUICK);
    let script = failing_until(3);
    let worker = Worker::builder(MemoryStore::new()).state(script.clone());
    let worker = bed.start(worker.consume::<charge>(queue));
    bed.order("a").await;

    worker.ended(Kind::Executed, 1).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, 1)]);
    assert_eq!(script.attempts(), [1, 2, 3]);
    bed.assert_nothing_stuck().await;
}

on_each_store! {
    a_failed_message_is_delivered_again_and_its_handler_runs_again,
    attempts_are_counted_over_redeliveries,
    a_message_whose_attempts_are_used_up_is_dead_lettered,
    a_rejected_message_is_dead_lettered_at_once,
    what_is_given_up_is_dropped_if_the_policy_says_so,
    a_panic_is_a_failed_attempt,
    an_attempt_that_takes_too_long_has_failed,
    a_failure_that_asks_for_a_delay_waits_that_long,
    copies_of_a_failed_message_wait_for_its_next_attempt_and_use_none_up,
    a_failing_message_does_not_stop_the_ones_behind_it,
}

on_further_stores! {
    a_failed_message_is_delivered_again_and_its_handler_runs_again,
    attempts_are_counted_over_redeliveries,
    a_message_whose_attempts_are_used_up_is_dead_lettered,
    a_rejected_message_is_dead_lettered_at_once,
}
