//! Requests whose `reply_to` is none that a worker should, or can, reply to.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use idem_amqp::{
    MemoryStore, Queue, Worker,
    executor::ExecutionKind as Kind,
    session::Sessions,
    worker::{Incident, ReplyOutcome, WorkerStats},
};
use idem_servers::rabbitmq::Version;
use idem_tests::{
    bed::{Bed, persistent},
    log::Log,
    requester::Requester,
    running::{Running, assert_balance},
    script::Script,
    session::{Session, control, control_properties},
};
use lapin::types::FieldTable;

use crate::{
    dead_letters::rejecting,
    replies::{order, quote, quoting},
    sessions::building,
};

/// How the worker ended that has seen to all requests.
struct Seen {
    by: Version,
    balance: WorkerStats,
    worked_for: Duration,
}

/// So many ordinary requests, half of them by direct reply-to, each beside one with another of these
/// addresses.
async fn beside(each: usize, addresses: impl Fn(usize) -> String) -> Seen {
    let bed = Bed::new().await;
    let (queue, direct) = (Requester::on(&bed).await, Requester::direct(&bed).await);
    for number in 0..each {
        let odd = persistent().with_reply_to(addresses(number).into());
        bed.send(bed.name(), &order(&format!("odd-{number}")), odd)
            .await;
        let requester = if number % 2 == 0 { &queue } else { &direct };
        let ordinary = format!("ordinary-{number}");
        requester
            .ask(bed.name(), &order(&ordinary), &ordinary)
            .await;
    }
    let started = Instant::now();
    let worker = quoting(&bed, MemoryStore::new(), &Script::succeeding());
    let mut answered = BTreeSet::new();
    for _ in 0..each / 2 {
        for requester in [&queue, &direct] {
            let reply = requester.reply().await;
            let id = reply.correlation().to_owned();
            assert!(answered.insert(id.clone()), "{id} is answered twice");
        }
    }
    worker.ended(Kind::Executed, 2 * each).await;
    let balance = worker.stop().await;
    let worked_for = started.elapsed();
    assert_balance(&balance, [(Kind::Executed, 2 * each as u64)]);
    // What was sent twice would stand before it.
    let last = persistent().with_correlation_id("last".into());
    bed.send(queue.reply_to(), b"{}", last).await;
    assert_eq!(queue.reply().await.correlation(), "last");
    let by = bed.broker().version();
    bed.assert_nothing_stuck().await;
    Seen {
        by,
        balance,
        worked_for,
    }
}

/// `reply_to` is a malformed address of a direct reply.
///
/// - does: publishes nothing to it, counts it as disallowed; other requests are answered once, over the same connection
/// - atomic: once
/// - leased: once
///
/// The broker would close the connection by which something is published to them.
#[tokio::test]
async fn a_malformed_direct_reply_to_disturbs_no_other_request() {
    let malformed = ["!!!.x", "....!.x", "a=b.x", "x.!!!", "x", ""];
    let address = |number: usize| {
        let malformed = malformed[number % malformed.len()];
        format!("amq.rabbitmq.reply-to.{malformed}")
    };
    let Seen { balance, .. } = beside(20, address).await;
    assert_eq!(balance.replies().sent, 20);
    assert_eq!(balance.replies().disallowed, 20);
    assert_eq!(balance.incidents().of(Incident::ConnectionClosed), 0);
}

/// `reply_to` is an address at which the broker closes the connection.
///
/// - does: publishes that reply alone, once, and gives it up as lost; other requests are answered once
/// - atomic: once
/// - leased: once
///
/// It has the form of an address, or one that a later version might write: only the broker can tell. Each
/// may end the connection once, and no other reply with it.
#[tokio::test]
async fn a_direct_reply_to_that_the_broker_cannot_bear_disturbs_no_other_request() {
    let address = |number: usize| match number % 4 {
        // In another alphabet; no process; a process in another form.
        0 => format!("amq.rabbitmq.reply-to.a-b_{number}.x"),
        1 => format!("amq.rabbitmq.reply-to.g2EB.x{number}"),
        2 => "amq.rabbitmq.reply-to.g1h3B3JlcGx5QDEAAAH0AAAAAAAAAAA=.x".into(),
        // On the node "reply@0" to "reply@9", which the cluster does not have.
        _ => {
            let digit = char::from(b"wxyz012345"[number / 4 % 10]);
            format!("amq.rabbitmq.reply-to.g1h2AAdyZXBseUA{digit}AAAB9AAAAAAAAAAB.x")
        }
    };
    let Seen { by, balance, .. } = beside(20, address).await;
    let closed = balance.incidents().of(Incident::ConnectionClosed);
    let replies = balance.replies();
    assert_eq!(replies.sent + replies.lost, 40, "{replies}");
    assert_eq!(replies.disallowed, 0);
    if by < Version::new(4, 0) {
        assert_eq!(replies.lost, 20);
    } else if by < Version::new(4, 2) {
        assert_eq!(replies.lost, 10);
    } else {
        assert_eq!(replies.lost, 0);
    }
    assert!(closed <= replies.lost, "closed {closed} times: {replies}");
}

/// Very many requests name an address at which the broker closes the connection, more than 16 at once.
///
/// - does: gives up unsent, as lost, the replies that cannot wait: the connection is closed at most about once a
///   second, and other requests are answered meanwhile
/// - atomic: once
/// - leased: once
///
/// Each would hold the others up for as long as a connection takes.
#[tokio::test]
async fn of_very_many_direct_reply_tos_that_the_broker_cannot_bear_most_are_given_up_unsent() {
    const EACH: usize = 260;
    let seen = beside(EACH, |number| {
        format!("amq.rabbitmq.reply-to.a-b_{number}.x")
    })
    .await;
    let (replies, incidents) = (seen.balance.replies(), seen.balance.incidents());
    let ordinary = EACH as u64;
    if seen.by < Version::new(4, 2) {
        assert_eq!((replies.sent, replies.lost), (ordinary, ordinary));
    } else {
        assert_eq!((replies.sent, replies.lost), (2 * ordinary, 0));
    }
    let closed = incidents.of(Incident::ConnectionClosed);
    let most = 16 + 1 + seen.worked_for.as_secs();
    assert!(closed <= most, "closed {closed} times: {replies}");
    // Each that is sent closes the connection.
    assert!(
        closed < ordinary / 2,
        "most were sent: closed {closed} times"
    );
}

fn answering(bed: &Bed, queue: Queue, script: &Script) -> Running {
    let worker = Worker::builder(MemoryStore::new()).state(script.clone());
    bed.start(worker.consume::<quote>(queue))
}

/// `reply_to` is not one that the queue's options allow (`no_replies`, `reply_to_prefixes`).
///
/// - does: handles the message as one that asks for no reply; counts and logs it
/// - atomic: once
/// - leased: once
///
/// A publisher that may write to one queue could have the worker write to any other.
#[tokio::test]
async fn a_reply_goes_only_where_its_queue_allows() {
    let bed = Bed::new().await;
    let requester = Requester::on(&bed).await;
    let payments = bed.another("payments");
    bed.declare_foreign(&payments, FieldTable::default()).await;
    let log = Log::default();
    let _kept = log.capture();
    let allowed = bed.queue().reply_to_prefixes(["amq.gen-"]);
    let worker = answering(&bed, allowed, &Script::succeeding());
    let hostile = persistent().with_reply_to(payments.as_str().into());
    bed.send(bed.name(), &order("a"), hostile).await;
    worker.ended(Kind::Executed, 1).await;
    let fate = worker.settled.entries()[0].reply;
    assert_eq!(fate, Some(ReplyOutcome::Disallowed));
    assert_eq!(bed.waiting(&payments).await, Some((0, 0)));
    let text = log.text();
    assert!(
        text.contains("do not allow") && text.contains(&payments),
        "{text}"
    );

    requester.ask(bed.name(), &order("b"), "c-1").await;
    assert_eq!(requester.reply().await.correlation(), "c-1");
    let replies = worker.stop().await.replies();
    assert_eq!((replies.sent, replies.disallowed), (1, 1));
    bed.assert_nothing_stuck().await;
}

/// Shares the promise of `reply_addresses::a_reply_goes_only_where_its_queue_allows`.
///
/// It is handled as one that asks for no reply.
#[tokio::test]
async fn a_request_that_is_rejected_is_dead_lettered_where_nobody_is_replied_to() {
    let bed = Bed::new().await;
    let requester = Requester::on(&bed).await;
    let worker = answering(&bed, bed.queue().no_replies(), &rejecting());
    requester.ask(bed.name(), &order("a"), "c-1").await;
    assert_eq!(bed.dead_letter().await.reason(), "rejected");
    worker.ended(Kind::Rejected, 1).await;
    let replies = worker.stop().await.replies();
    assert_eq!((replies.sent, replies.disallowed), (0, 1));
    let last = persistent().with_correlation_id("last".into());
    bed.send(requester.reply_to(), b"{}", last).await;
    assert_eq!(requester.reply().await.correlation(), "last");
    bed.assert_nothing_stuck().await;
}

/// Shares the promise of `reply_addresses::a_reply_goes_only_where_its_queue_allows`.
#[tokio::test]
async fn a_session_is_told_only_where_its_queue_allows() {
    let bed = Bed::bare().await;
    bed.also(&control(bed.name()));
    let requester = Requester::on(&bed).await;
    let payments = bed.another("payments");
    bed.declare_foreign(&payments, FieldTable::default()).await;
    let queue = bed.queue().reply_to_prefixes(["amq.gen-"]);
    bed.declare(&queue).await;
    let script = Script::succeeding();
    let worker = building(MemoryStore::new(), &script, Sessions::default(), queue);
    let worker = bed.start(worker);
    bed.until_consumed(&control(bed.name()), 1).await;
    let session = Session::open(&requester, bed.name()).await;
    let close = control_properties("idem.close", "").with_reply_to(payments.as_str().into());
    let body = format!(r#"{{"session": "{}"}}"#, session.id);
    bed.send(&control(bed.name()), body.as_bytes(), close).await;
    bed.until_settled().await;
    let sessions = worker.stop().await.sessions();
    assert_eq!((sessions.closed, sessions.undelivered), (1, 1));
    assert_eq!(bed.waiting(&payments).await, Some((0, 0)));
    bed.assert_nothing_stuck().await;
}
