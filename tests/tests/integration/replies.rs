//! Requests: messages whose publisher waits for a reply.

use idem_amqp::{
    Failed, MemoryStore, Worker,
    dead_letters::Reason,
    executor::ExecutionKind as Kind,
    prelude::*,
    store::Purge,
    worker::{ReplyOutcome, ReplyStats, Settlement},
};
use idem_tests::{
    bed::{Bed, QUICK, dead, persistent},
    requester::Requester,
    running::{Running, assert_balance},
    script::{Order, Script},
};
use lapin::types::AMQPValue;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{dead_letters::rejecting, reply_faults::Mute};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Quote {
    attempt: u32,
}

/// Says which attempt it was.
#[idempotent(key = "id", scope = "orders.quote")]
pub(crate) async fn quote(
    order: Order,
    State(script): State<Script>,
    attempt: Attempt,
    delivery: Delivery,
) -> Result<Quote, Failed> {
    let number = attempt.number();
    script.play(order, attempt, delivery).await?;
    Ok(Quote { attempt: number })
}

pub(crate) fn quoting<S: Purge + Clone>(bed: &Bed, store: S, script: &Script) -> Running {
    let worker = Worker::builder(store).state(script.clone());
    bed.start(worker.consume::<quote>(bed.queue()))
}

pub(crate) fn order(id: &str) -> Vec<u8> {
    serde_json::to_vec(&Order::new(id)).unwrap()
}

/// A message names a `reply_to` and was handled.
///
/// - does: publishes what its handler returned, then acknowledges
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_request_is_answered_with_what_its_handler_returned() {
    let bed = Bed::new().await;
    let requester = Requester::on(&bed).await;
    let script = Script::succeeding();
    let worker = quoting(&bed, MemoryStore::new(), &script);
    requester.ask(bed.name(), &order("a"), "c-1").await;

    let reply = requester.reply().await;
    assert_eq!(reply.json(), json!({"attempt": 1}));
    assert_eq!(reply.correlation(), "c-1");
    let properties = &reply.properties;
    let content_type = properties.content_type().as_ref().unwrap();
    assert_eq!(content_type.as_str(), "application/json");
    assert_eq!(*properties.delivery_mode(), Some(2));
    assert!(properties.message_id().is_some());
    let replayed = reply.header("idem-replayed");
    assert_eq!(replayed, Some(&AMQPValue::Boolean(false)));
    assert_eq!(reply.refusal(), None);

    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 1)]);
    assert_eq!((balance.replies().sent, balance.replies().replayed), (1, 0));
    bed.assert_nothing_stuck().await;
}

/// Shares the promise of `replies::a_request_is_answered_with_what_its_handler_returned`.
///
/// The worker goes while nobody has confirmed the reply.
#[tokio::test]
async fn a_request_is_acknowledged_only_after_its_reply_is_confirmed() {
    let bed = Bed::with_vhost().await;
    bed.declare(&bed.queue()).await;
    let mute = Mute::declare(&bed).await;
    let (store, script) = (MemoryStore::new(), Script::succeeding());
    let worker = quoting(&bed, store.clone(), &script);
    let request = persistent().with_reply_to(mute.queue.as_str().into());
    bed.send(bed.name(), &order("a"), request).await;
    // What needs no reply is done, and by then so would be the request.
    bed.order("b").await;
    worker.ended(Kind::Executed, 1).await;
    script.effects.count("both are handled", 2).await;
    worker.vanish().await;
    // The other one may come back, too: its acknowledgement may have been under way.
    let request = loop {
        let returned = bed.dead_letter_in(bed.name()).await;
        if returned.body == order("a") {
            break returned;
        }
    };

    mute.speak().await;
    let next = quoting(&bed, store, &script);
    bed.send(bed.name(), &request.body, request.properties)
        .await;
    let from_memory = AMQPValue::Boolean(true);
    while bed.dead_letter_in(&mute.queue).await.value("idem-replayed") != Some(&from_memory) {}
    let balance = next.stop().await;
    assert_eq!((balance.replies().sent, balance.replies().replayed), (1, 1));
    script.assert_effects(["a", "b"]);
    bed.assert_nothing_stuck().await;
}

/// A message names no `reply_to`.
///
/// - does: publishes nothing
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_message_that_asks_for_no_reply_gets_none() {
    let bed = Bed::new().await;
    let worker = quoting(&bed, MemoryStore::new(), &Script::succeeding());
    bed.order("a").await;
    worker.ended(Kind::Executed, 1).await;
    assert_eq!(worker.stop().await.replies(), ReplyStats::default());
    bed.assert_nothing_stuck().await;
}

/// A copy of a request comes after the request was executed.
///
/// - does: repeats the reply from memory, to the `reply_to` and `correlation_id` of the copy
/// - atomic: once
/// - leased: once
///
/// Each copy by its own requester: the one that asked first may be gone.
#[tokio::test]
async fn a_copy_is_answered_from_memory_to_whoever_sent_it() {
    let bed = Bed::new().await;
    let (first, second) = (Requester::on(&bed).await, Requester::on(&bed).await);
    let script = Script::succeeding();
    let worker = quoting(&bed, MemoryStore::new(), &script);
    first.ask(bed.name(), &order("a"), "c-1").await;
    let original = first.reply().await;
    first.leave().await;
    second.ask(bed.name(), &order("a"), "c-2").await;

    let reply = second.reply().await;
    assert_eq!(reply.body, original.body);
    assert_eq!(reply.correlation(), "c-2");
    assert!(reply.is_replayed() && !original.is_replayed());
    assert_eq!(script.attempts(), [1]);
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 1), (Kind::Duplicate, 1)]);
    assert_eq!((balance.replies().sent, balance.replies().replayed), (2, 1));
    bed.assert_nothing_stuck().await;
}

/// A request comes by direct reply-to.
///
/// - does: replies in the same way, and does not ask whether anybody is there
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_request_by_direct_reply_to_is_answered() {
    let bed = Bed::new().await;
    let requester = Requester::direct(&bed).await;
    let worker = quoting(&bed, MemoryStore::new(), &Script::succeeding());
    for replayed in [false, true] {
        requester.ask(bed.name(), &order("a"), "c-1").await;
        let reply = requester.reply().await;
        assert_eq!(reply.json(), json!({"attempt": 1}));
        assert_eq!(
            (reply.correlation(), reply.is_replayed()),
            ("c-1", replayed)
        );
    }
    let balance = worker.stop().await;
    assert_eq!((balance.replies().sent, balance.replies().replayed), (2, 1));
    bed.assert_nothing_stuck().await;
}

/// Shares the promise of `replies::a_request_by_direct_reply_to_is_answered`.
///
/// The broker does not tell whether anybody is still there.
#[tokio::test]
async fn a_request_by_direct_reply_to_whose_requester_is_gone_is_done() {
    let bed = Bed::new().await;
    let requester = Requester::direct(&bed).await;
    requester.ask(bed.name(), &order("a"), "c-1").await;
    requester.leave().await;
    let script = Script::succeeding();
    let worker = quoting(&bed, MemoryStore::new(), &script);
    worker.ended(Kind::Executed, 1).await;
    let balance = worker.stop().await;
    assert_eq!(balance.replies().sent, 1);
    script.assert_effects(["a"]);
    bed.assert_nothing_stuck().await;
}

/// The handler of a request fails, and succeeds later.
///
/// - does: replies once, when it has succeeded; also from the ladder
/// - atomic: once, after the failed attempts
/// - leased: once, after the failed attempts
#[tokio::test]
async fn a_request_that_is_tried_again_is_answered_once_when_it_is_done() {
    let bed = Bed::new().await;
    let requester = Requester::on(&bed).await;
    let script = Script::new(async |call| match call.attempt {
        1 | 2 => Err(Failed::retry("the gateway timed out")),
        _ => Ok(()),
    });
    let worker = quoting(&bed, MemoryStore::new(), &script);
    requester.ask(bed.name(), &order("a"), "c-1").await;
    let reply = requester.reply().await;
    assert_eq!(reply.json(), json!({"attempt": 3}));
    assert_eq!((reply.correlation(), reply.is_replayed()), ("c-1", false));
    assert_eq!(worker.stop().await.replies().sent, 1);
    bed.assert_nothing_stuck().await;
}

/// The handler rejects a request for good.
///
/// - does: replies with the refusal and remembers it; nothing is dead-lettered
/// - atomic: no effect
/// - leased: no effect of its own
#[tokio::test]
async fn a_rejected_request_is_refused_and_its_copies_are_from_memory() {
    let bed = Bed::new().await;
    let requester = Requester::on(&bed).await;
    let script = rejecting();
    let worker = quoting(&bed, MemoryStore::new(), &script);
    for replayed in [false, true] {
        requester.ask(bed.name(), &order("a"), "c-1").await;
        let reply = requester.reply().await;
        let expected = json!({"code": "rejected", "message": "no such customer"});
        assert_eq!(reply.json(), expected);
        assert_eq!(reply.refusal().as_deref(), Some("rejected"));
        assert_eq!(reply.is_replayed(), replayed);
    }
    assert_eq!(script.attempts(), [1]);
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Refused, 1), (Kind::Duplicate, 1)]);
    assert_eq!(balance.replies().refused, 2);
    bed.assert_nothing_stuck().await;
}

/// The handler finds in its own rows that a request was done before.
///
/// - does: replies `done-before`, since nobody knows the output, and remembers it for copies; acknowledges a copy that
///   asks for no reply
/// - atomic: no effect
/// - leased: no effect of its own
#[tokio::test]
async fn a_request_that_its_handler_finds_done_is_told_so_and_so_are_its_copies() {
    let bed = Bed::new().await;
    let requester = Requester::on(&bed).await;
    let script = Script::new(async |_| Err(Failed::done_before()));
    let worker = quoting(&bed, MemoryStore::new(), &script);
    for _ in 0..2 {
        requester.ask(bed.name(), &order("a"), "c-1").await;
        let reply = requester.reply().await;
        assert_eq!(reply.refusal().as_deref(), Some("done-before"));
        assert_eq!(reply.json()["code"], "done-before");
    }
    bed.order("a").await;
    worker.ended(Kind::Duplicate, 3).await;
    assert_eq!(script.attempts(), [1]);
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Duplicate, 3)]);
    assert_eq!(balance.replies().refused, 2);
    assert!(bed.drain(&dead(bed.name())).await.is_empty());
    bed.assert_nothing_stuck().await;
}

/// A copy of a rejected request names no `reply_to`.
///
/// - does: dead-letters it; never acknowledges it in silence
/// - atomic: no effect
/// - leased: no effect of its own
#[tokio::test]
async fn a_copy_of_a_rejected_request_that_asks_for_no_reply_is_dead_lettered() {
    let bed = Bed::new().await;
    let requester = Requester::on(&bed).await;
    let script = rejecting();
    let worker = quoting(&bed, MemoryStore::new(), &script);
    requester.ask(bed.name(), &order("a"), "c-1").await;
    requester.reply().await;
    bed.order("a").await;

    let letter = bed.dead_letter().await;
    assert_eq!(letter.reason(), "rejected");
    assert!(letter.error().contains("no such customer"), "{letter:?}");
    assert_eq!(script.attempts(), [1]);
    worker.ended(Kind::Rejected, 1).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Refused, 1), (Kind::Rejected, 1)]);
    bed.assert_nothing_stuck().await;
}

/// A request's attempts are used up.
///
/// - does: dead-letters it, then replies with a refusal that is not remembered
/// - atomic: no effect
/// - leased: unknown
#[tokio::test]
async fn a_request_whose_attempts_are_used_up_is_refused_and_dead_lettered() {
    let bed = Bed::new().await;
    let requester = Requester::on(&bed).await;
    let script = Script::new(async |_| Err(Failed::retry("the gateway timed out")));
    let worker = quoting(&bed, MemoryStore::new(), &script);
    requester.ask(bed.name(), &order("a"), "c-1").await;
    let reply = requester.reply().await;
    assert_eq!(reply.refusal().as_deref(), Some("exhausted"));
    assert!(!reply.is_replayed());
    let letter = bed.dead_letter().await;
    assert_eq!(letter.reason(), "exhausted");
    let correlation = letter.properties.correlation_id().as_ref().unwrap();
    assert_eq!(correlation.as_str(), "c-1");
    let reply_to = letter.properties.reply_to().as_ref().unwrap();
    assert_eq!(reply_to.as_str(), requester.reply_to());
    worker.stop().await;
    bed.assert_nothing_stuck().await;
}

/// A request cannot be decoded, has no key, or a key that was used for other content.
///
/// - does: dead-letters it, then replies with a refusal that is not remembered
/// - atomic: no effect
/// - leased: no effect
#[tokio::test]
async fn a_request_that_cannot_be_handled_is_refused_with_the_reason() {
    let bed = Bed::new().await;
    let requester = Requester::on(&bed).await;
    let worker = quoting(&bed, MemoryStore::new(), &Script::succeeding());
    let requests = [(b"no JSON".to_vec(), "undecodable"), (order(""), "keyless")];
    for (body, reason) in requests {
        requester.ask(bed.name(), &body, reason).await;
        let reply = requester.reply().await;
        assert_eq!(reply.refusal().as_deref(), Some(reason));
        assert_eq!(reply.json()["code"], reason);
        assert_eq!(reply.correlation(), reason);
        assert_eq!(bed.dead_letter().await.reason(), reason);
    }
    requester.ask(bed.name(), &order("a"), "c-1").await;
    requester.reply().await;
    let mut other = Order::new("a");
    other.amount_cents += 1;
    let other = serde_json::to_vec(&other).unwrap();
    requester.ask(bed.name(), &other, "c-2").await;
    assert_eq!(
        requester.reply().await.refusal().as_deref(),
        Some("key-reused")
    );
    assert_eq!(bed.dead_letter().await.reason(), "key-reused");
    assert_eq!(worker.stop().await.replies().refused, 3);
    bed.assert_nothing_stuck().await;
}

/// The requester's queue is gone.
///
/// - does: counts the lost reply, acknowledges the request; the reply is remembered
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_request_whose_requester_is_gone_is_done_and_counted() {
    let bed = Bed::new().await;
    let requester = Requester::on(&bed).await;
    requester.ask(bed.name(), &order("a"), "c-1").await;
    requester.leave().await;
    let script = Script::succeeding();
    let worker = quoting(&bed, MemoryStore::new(), &script);
    worker.ended(Kind::Executed, 1).await;
    let fates = worker.settled.entries();
    assert_eq!(fates[0].reply, Some(ReplyOutcome::RequesterGone));
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 1)]);
    assert_eq!(
        (balance.replies().sent, balance.replies().requester_gone),
        (0, 1)
    );
    script.assert_effects(["a"]);
    bed.assert_nothing_stuck().await;
}

/// A request is rejected whose requester is gone.
///
/// - does: dead-letters it
/// - atomic: no effect
/// - leased: no effect of its own
///
/// Otherwise nobody would ever hear of it.
#[tokio::test]
async fn a_rejected_request_whose_requester_is_gone_is_dead_lettered() {
    let bed = Bed::new().await;
    let requester = Requester::on(&bed).await;
    for _ in 0..2 {
        requester.ask(bed.name(), &order("a"), "c-1").await;
    }
    requester.leave().await;
    let script = rejecting();
    let worker = quoting(&bed, MemoryStore::new(), &script);
    for _ in 0..2 {
        let letter = bed.dead_letter().await;
        assert_eq!(
            (letter.reason().as_str(), letter.error().as_str()),
            ("rejected", "no such customer")
        );
    }
    assert_eq!(script.attempts(), [1]);
    worker.ended(Kind::Duplicate, 1).await;
    for settled in worker.settled.entries() {
        let dead_lettered = Settlement::DeadLetter(Reason::Rejected);
        assert_eq!(settled.settlement, dead_lettered, "{settled:?}");
    }
    let balance = worker.stop().await;
    assert_eq!(balance.replies().requester_gone, 2);
    bed.assert_nothing_stuck().await;
}

/// `reply_to` names the queue that the request came from.
///
/// - does: treats it as a message that asks for no reply
/// - atomic: once
/// - leased: once
///
/// The reply would come back as a request, and be answered, and so on.
#[tokio::test]
async fn a_request_that_wants_its_reply_in_its_own_queue_gets_none() {
    let bed = Bed::new().await;
    let worker = quoting(&bed, MemoryStore::new(), &Script::succeeding());
    let to_itself = persistent().with_reply_to(bed.name().into());
    bed.send(bed.name(), &order("a"), to_itself).await;
    worker.ended(Kind::Executed, 1).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 1)]);
    assert_eq!(balance.replies(), ReplyStats::default());
    bed.assert_nothing_stuck().await;
}

/// Its output is larger than is remembered; the effect has happened.
#[idempotent(key = "id", scope = "orders.print")]
async fn print(
    order: Order,
    State(script): State<Script>,
    attempt: Attempt,
    delivery: Delivery,
) -> Result<String, Failed> {
    script.play(order, attempt, delivery).await?;
    Ok("x".repeat(64 * 1024))
}

/// An output is larger than what is remembered (64 KiB unless set otherwise).
///
/// - does: refuses the request; the effect of a leased handler has happened and is not repeated
/// - atomic: no effect
/// - leased: once
#[tokio::test]
async fn an_output_that_is_too_large_is_refused_and_its_work_not_done_again() {
    let bed = Bed::new().await;
    let requester = Requester::on(&bed).await;
    let script = Script::succeeding();
    let worker = Worker::builder(MemoryStore::new()).state(script.clone());
    let worker = bed.start(worker.consume::<print>(bed.queue()));
    for replayed in [false, true] {
        requester.ask(bed.name(), &order("a"), "c-1").await;
        let reply = requester.reply().await;
        assert_eq!(reply.refusal().as_deref(), Some("outcome-too-large"));
        assert_eq!(reply.is_replayed(), replayed);
    }
    // It was done, so a copy without a requester is a duplicate like any other.
    bed.order("a").await;
    worker.ended(Kind::Duplicate, 2).await;
    script.assert_effects(["a"]);
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 1), (Kind::Duplicate, 2)]);
    bed.assert_nothing_stuck().await;
}

/// Shares the promise of `replies::a_request_that_is_tried_again_is_answered_once_when_it_is_done`.
///
/// On the ladder, whose messages are published anew.
#[tokio::test]
async fn a_request_that_waited_on_the_ladder_is_still_answered() {
    let bed = Bed::with_vhost().await;
    let requester = Requester::on(&bed).await;
    let script = Script::new(async |call| match call.attempt {
        1 => Err(Failed::retry("the gateway timed out")),
        _ => Ok(()),
    });
    let patient = QUICK
        .to_builder()
        .backoff(idem_amqp::handler::Backoff::new(
            std::time::Duration::from_millis(1500),
            std::time::Duration::from_millis(1500),
        ))
        .build()
        .unwrap();
    let worker = Worker::builder(MemoryStore::new()).state(script.clone());
    let worker = bed.start(worker.consume::<quote>(bed.queue().policy(patient)));
    bed.until_consumed(bed.name(), 1).await;
    requester.ask(bed.name(), &order("a"), "c-1").await;
    let reply = requester.reply().await;
    assert_eq!(reply.json(), json!({"attempt": 2}));
    assert_eq!(reply.correlation(), "c-1");
    worker.stop().await;
    bed.assert_nothing_stuck().await;
}
