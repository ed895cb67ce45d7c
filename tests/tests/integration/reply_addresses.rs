//! Requests whose `reply_to` is none that a worker should, or can, reply to.

use std::collections::BTreeSet;

use idem_amqp::{Balance, ExecutionKind as Kind, Incident, MemoryStore};
use idem_tests::{
    bed::{Bed, persistent},
    requester::Requester,
    running::assert_balance,
    script::Script,
};
use xtask::services::rabbitmq::Version;

use crate::replies::{order, quoting};

/// As many ordinary requests, half of them by direct reply-to, each beside one with another of these
/// addresses. Says how the worker ended that has seen to all of them.
async fn beside(addresses: impl Fn(usize) -> String) -> (Version, Balance) {
    const EACH: usize = 20;
    let bed = Bed::new().await;
    let (queue, direct) = (Requester::on(&bed).await, Requester::direct(&bed).await);
    for number in 0..EACH {
        let odd = persistent().with_reply_to(addresses(number).into());
        bed.send(bed.name(), &order(&format!("odd-{number}")), odd)
            .await;
        let requester = if number % 2 == 0 { &queue } else { &direct };
        let ordinary = format!("ordinary-{number}");
        requester
            .ask(bed.name(), &order(&ordinary), &ordinary)
            .await;
    }
    let worker = quoting(&bed, MemoryStore::new(), &Script::succeeding());
    let mut answered = BTreeSet::new();
    for _ in 0..EACH / 2 {
        for requester in [&queue, &direct] {
            let reply = requester.reply().await;
            let id = reply.correlation().to_owned();
            assert!(answered.insert(id.clone()), "{id} is answered twice");
        }
    }
    worker.ended(Kind::Executed, 2 * EACH).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 40)]);
    // What was sent twice would stand before it.
    let last = persistent().with_correlation_id("last".into());
    bed.send(queue.reply_to(), b"{}", last).await;
    assert_eq!(queue.reply().await.correlation(), "last");
    let version = bed.broker().version();
    bed.assert_nothing_stuck().await;
    (version, balance)
}

/// The broker would close the connection by which something is published to them.
#[tokio::test]
async fn a_malformed_direct_reply_to_disturbs_no_other_request() {
    let malformed = ["!!!.x", "....!.x", "a=b.x", "x.!!!", "x", ""];
    let address = |number: usize| {
        let malformed = malformed[number % malformed.len()];
        format!("amq.rabbitmq.reply-to.{malformed}")
    };
    let (_, balance) = beside(address).await;
    assert_eq!(balance.replies().sent, 20);
    assert_eq!(balance.replies().disallowed, 20);
    assert_eq!(balance.incidents().of(Incident::ConnectionClosed), 0);
}

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
    let (version, balance) = beside(address).await;
    let closed = balance.incidents().of(Incident::ConnectionClosed);
    let replies = balance.replies();
    assert_eq!(replies.sent + replies.lost, 40, "{replies}");
    assert_eq!(replies.disallowed, 0);
    if version < Version::new(4, 0) {
        assert_eq!(replies.lost, 20);
    } else if version < Version::new(4, 2) {
        assert_eq!(replies.lost, 10);
    } else {
        assert_eq!(replies.lost, 0);
    }
    assert!(closed <= replies.lost, "closed {closed} times: {replies}");
}
