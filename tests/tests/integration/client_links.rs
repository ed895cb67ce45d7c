//! What a client does when its connection, or its broker, goes away.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use idem_amqp::{
    Client,
    client::{CallError, ClientBuilder, ReplyTo},
    worker::Incident,
};
use idem_servers::RabbitMq;
use idem_tests::{
    bed::Bed,
    journal::{LIMIT, eventually, within},
    leases::CreateLease,
    proxy::Proxy,
    responder::{Asked, Responder},
    servers::off_thread,
};
use tokio::sync::Semaphore;

/// A client that sends a request again only because of its connection. A broker may take its time to
/// restart.
fn patient(bed: &Bed) -> ClientBuilder {
    let client = Client::builder().queue(bed.name());
    client.timeout(5 * LIMIT).deadline(5 * LIMIT)
}

/// Answers when the gate is open.
fn gated(bed: &Bed) -> (Responder, Arc<Semaphore>) {
    let gate = Arc::new(Semaphore::new(0));
    let shut = Arc::clone(&gate);
    let responder = Responder::start(bed, bed.name(), move |asked: Asked| {
        let gate = Arc::clone(&shut);
        async move {
            gate.acquire().await.unwrap().forget();
            vec![asked.granted().replayed(asked.number > 0)]
        }
    });
    (responder, gate)
}

/// Every request came twice: the same, but for where the reply was to go.
fn assert_asked_again(asked: &[Asked], calls: usize) {
    assert_eq!(asked.len(), 2 * calls, "{asked:#?}");
    for first in &asked[..calls] {
        let same = |other: &&Asked| other.message_id() == first.message_id();
        let again = asked[calls..].iter().find(same).unwrap();
        assert_eq!(again.correlation_id(), first.correlation_id());
        assert_eq!(again.body, first.body);
        assert_ne!(again.reply_to(), first.reply_to());
    }
}

/// The link is cut while calls wait.
///
/// - does: connects again, sends their requests again with the new reply queue, each under its key
#[tokio::test]
async fn calls_whose_link_is_cut_are_sent_again_with_another_reply_queue() {
    links_are_cut(ReplyTo::Queue).await;
}

/// Shares the promise of `client_links::calls_whose_link_is_cut_are_sent_again_with_another_reply_queue`.
#[tokio::test]
async fn calls_by_direct_reply_to_whose_link_is_cut_are_sent_again() {
    links_are_cut(ReplyTo::Direct).await;
}

async fn links_are_cut(reply_to: ReplyTo) {
    let bed = Bed::new().await;
    let proxy = Proxy::open(bed.broker().port()).await;
    let (responder, gate) = gated(&bed);
    let client = patient(&bed).reply_to(reply_to);
    let client = client.connect(bed.url_by(proxy.port(), "")).await.unwrap();
    let calls = (0..20).map(|number| {
        let call = client.call(&CreateLease::of(&number.to_string()));
        tokio::spawn(call.into_future())
    });
    let calls: Vec<_> = calls.collect();
    responder.asked.count("all are asked", 20).await;
    proxy.cut();
    responder.asked.count("all are asked again", 40).await;
    gate.add_permits(1000);
    let ended = within("all are answered", join_all(calls)).await;
    for (number, call) in ended.into_iter().enumerate() {
        let replied = call.unwrap().unwrap();
        assert_eq!(replied.reply.name, number.to_string());
        assert!(
            replied.replayed,
            "by the second try: the first had no queue"
        );
    }
    assert_asked_again(&responder.asked.entries(), 20);
    let counts = client.counts();
    assert_eq!((counts.replies, counts.in_flight), (20, 0), "{counts}");
}

/// A client's link goes silent.
///
/// - does: notices it by the heartbeat; connects again, sends the requests again with the new reply queue, each under
///   its key
#[tokio::test]
async fn a_call_whose_link_goes_silent_is_sent_again_by_another_one() {
    let bed = Bed::new().await;
    let proxy = Proxy::open(bed.broker().port()).await;
    let (responder, gate) = gated(&bed);
    let url = bed.url_by(proxy.port(), "?heartbeat=2");
    let client = patient(&bed).connect(url).await.unwrap();
    let call = client.call(&CreateLease::of("printer"));
    let call = tokio::spawn(call.into_future());
    responder.asked.count("it is asked", 1).await;
    proxy.freeze();
    responder.asked.count("it is asked again", 2).await;
    gate.add_permits(1000);
    let replied = within("it is answered", call).await.unwrap().unwrap();
    assert!(replied.replayed, "the first reply went to the silent link");
    // A machine that is busy may miss heartbeats of its own.
    assert_asked_again(&responder.asked.entries()[..2], 1);
    let incidents = client.incidents();
    assert!(incidents.of(Incident::HeartbeatMissed) > 0, "{incidents}");
}

/// The broker is away until the deadline.
///
/// - does: says that nothing was sent; goes on when it is back
#[tokio::test]
async fn a_client_whose_broker_is_away_says_that_nothing_was_sent_and_goes_on_when_it_is_back() {
    let bed = Bed::new().await;
    let mut proxy = Proxy::open(bed.broker().port()).await;
    let client = patient(&bed).connect(bed.url_by(proxy.port(), ""));
    let client = client.await.unwrap();
    let responder = Responder::granting(&bed);
    proxy.close().await;
    proxy.cut();
    eventually("it notices", async || match client.incidents() {
        incidents if incidents.of(Incident::Unreachable) > 0 => Ok(()),
        incidents => Err(incidents),
    })
    .await;
    let request = CreateLease::of("printer");
    match client
        .call(&request)
        .deadline(Duration::from_millis(300))
        .await
    {
        Err(CallError::Unsent(why)) => {
            assert!(why.to_string().contains("cannot be reached"), "{why}");
        }
        other => panic!("{other:?}"),
    }
    let call = tokio::spawn(client.call(&request).into_future());
    proxy.listen().await;
    within("it is answered", call).await.unwrap().unwrap();
    assert_eq!(responder.asked.entries().len(), 1, "the other was not sent");
}

/// An operator deletes the reply queue.
///
/// - does: connects again, sends the requests again with the new reply queue, each under its key
#[tokio::test]
async fn a_reply_queue_that_an_operator_deletes_is_replaced() {
    let bed = Bed::new().await;
    let (responder, gate) = gated(&bed);
    let client = patient(&bed).connect(bed.url()).await.unwrap();
    let call = client.call(&CreateLease::of("printer"));
    let call = tokio::spawn(call.into_future());
    let asked = responder.asked.count("it is asked", 1).await;
    let (broker, queue) = (bed.broker().clone(), asked[0].reply_to());
    off_thread(move || broker.rabbitmqctl(["delete_queue", &queue])).await;
    responder.asked.count("it is asked again", 2).await;
    gate.add_permits(1000);
    within("it is answered", call).await.unwrap().unwrap();
    assert_asked_again(&responder.asked.entries(), 1);
}

/// The broker restarts while a call waits.
///
/// - does: connects again, sends the request again with the new reply queue, under its key
#[tokio::test]
async fn a_call_is_answered_although_its_broker_restarts() {
    let broker = Arc::new(off_thread(RabbitMq::start).await);
    let bed = Bed::on(&broker);
    bed.declare(&bed.queue()).await;
    let (responder, gate) = gated(&bed);
    let client = patient(&bed).connect(bed.url()).await.unwrap();
    let call = client.call(&CreateLease::of("printer"));
    let call = tokio::spawn(call.into_future());
    responder.asked.count("it is asked", 1).await;
    let own = Arc::clone(&broker);
    off_thread(move || own.restart()).await;
    gate.add_permits(1000);
    within("it is answered", call).await.unwrap().unwrap();
    assert_eq!(client.counts().in_flight, 0);
}

/// The broker takes no messages: its memory or disk is short.
///
/// - does: waits, and sends no copies meanwhile
#[tokio::test]
async fn requests_wait_while_the_broker_takes_no_messages_and_are_not_piled_up() {
    let broker = Arc::new(off_thread(RabbitMq::start).await);
    let bed = Bed::on(&broker);
    bed.declare(&bed.queue()).await;
    let responder = Responder::granting(&bed);
    let client = patient(&bed).timeout(Duration::from_millis(50));
    let client = client.connect(bed.url()).await.unwrap();
    client.call(&CreateLease::of("printer")).await.unwrap();
    alarm(&broker, true).await;
    let call = client
        .call(&CreateLease::of("scanner"))
        .timeout(Duration::from_millis(50));
    let call = tokio::spawn(call.into_future());
    eventually("it is blocked", async || match client.incidents() {
        incidents if incidents.of(Incident::Blocked) > 0 => Ok(()),
        incidents => Err(incidents),
    })
    .await;
    let before = client.counts().tries;
    // Many times the time-out.
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(client.counts().tries, before, "nothing is sent meanwhile");
    assert!(!call.is_finished());
    alarm(&broker, false).await;
    within("it is answered", call).await.unwrap().unwrap();
    let asked = responder.asked.entries();
    assert!(!asked.is_empty());
}

/// Makes the broker short of memory, or not.
async fn alarm(broker: &Arc<RabbitMq>, on: bool) {
    let broker = Arc::clone(broker);
    off_thread(move || {
        let part = if on { "0" } else { "0.6" };
        broker.rabbitmqctl(["set_vm_memory_high_watermark", part])?;
        let told = || broker.rabbitmqctl(["eval", "rabbit_alarm:get_alarms() =/= []."]);
        while told()?.trim() != on.to_string() {
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    })
    .await;
}
