//! Which node lets a worker in: the one that there is, one of several, or none.

use std::net::TcpListener;

use idem_amqp::{
    MemoryStore, Publication, PublishError, Publisher, RunError, Worker,
    executor::ExecutionKind as Kind,
    worker::{Health, Incident},
};
use idem_tests::{
    bed::Bed,
    proxy::Proxy,
    running::{Running, assert_balance},
    script::{Order, Script, charge},
};

fn worker(bed: &Bed, urls: &[String], script: &Script) -> Running {
    let worker = Worker::builder(MemoryStore::new()).state(script.clone());
    Running::start(worker.consume::<charge>(bed.queue()), urls)
}

fn with_wrong_password(bed: &Bed) -> String {
    bed.url().replace("guest:guest", "guest:wrong")
}

/// Some nodes are away, refuse, or accept and never answer.
///
/// - does: tries all in turn, for ever, and takes the one that lets it in
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn nodes_that_are_away_or_refuse_or_never_answer_are_passed_over() {
    let bed = Bed::new().await;
    let away = Proxy::closed(bed.broker().port());
    // Connections are accepted by the system, and nobody reads them.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().map(|address| (address.port(), silent));
    let (silent, _listening) = silent.unwrap();
    let mut good = Proxy::closed(bed.broker().port());
    let urls = [
        bed.url_by(away.port(), ""),
        with_wrong_password(&bed),
        bed.url_by(silent, "?connection_timeout=300"),
        bed.url_by(good.port(), ""),
    ];
    let script = Script::succeeding();
    let worker = worker(&bed, &urls, &script);
    let tried = |health: &Health| {
        let incidents = health.incidents();
        incidents.of(Incident::Refused) > 1 && incidents.of(Incident::Unreachable) > 3
    };
    worker
        .until("all are tried, and none is taken", tried)
        .await;
    let told = worker.health().to_string();
    for url in &urls {
        let (_, host) = url.split_once('@').unwrap();
        let (host, _) = host.split_once('/').unwrap();
        assert!(told.contains(host), "{host} is not in: {told}");
    }
    good.listen().await;
    worker.until("it is ready", Health::is_ready).await;
    let broker = worker.health().broker().unwrap();
    assert!(broker.contains(&good.port().to_string()), "{broker}");
    bed.order("a").await;

    worker.ended(Kind::Executed, 1).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, 1)]);
    script.assert_effects(["a"]);
    bed.assert_nothing_stuck().await;
}

/// The worker's own node is lost, and there are URLs of others.
///
/// - does: goes on by the next one
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_worker_goes_on_by_another_node_when_its_own_is_lost() {
    let bed = Bed::new().await;
    let mut nodes = [
        Proxy::open(bed.broker().port()).await,
        Proxy::open(bed.broker().port()).await,
    ];
    let urls: Vec<_> = nodes
        .iter()
        .map(|node| bed.url_by(node.port(), ""))
        .collect();
    let script = Script::succeeding();
    let worker = worker(&bed, &urls, &script);
    for (number, id) in ["a", "b", "c"].into_iter().enumerate() {
        worker.until("it is ready", Health::is_ready).await;
        bed.order(id).await;
        worker.ended(Kind::Executed, number + 1).await;
        bed.until_settled().await;
        let broker = worker.health().broker().unwrap();
        let is_own = |node: &&mut Proxy| broker.contains(&node.port().to_string());
        let own = nodes.iter_mut().find(is_own).unwrap();
        own.close().await;
        own.cut();
        let moved = |health: &Health| health.broker().is_some_and(|now| now != broker);
        worker.until("it has gone to the other node", moved).await;
        own.listen().await;
    }
    let balance = worker.stop().await;
    let incidents = balance.incidents();
    assert_eq!(incidents.of(Incident::ConnectionBroken), 3, "{incidents}");
    assert_balance(&balance, [(Kind::Executed, 3)]);
    script.assert_effects(["a", "b", "c"]);
    bed.assert_nothing_stuck().await;
}

/// Every node refuses user, password or vhost.
///
/// - does: ends with an error that names them all
#[tokio::test]
async fn a_worker_that_every_node_refuses_ends_with_a_clear_error() {
    let bed = Bed::bare().await;
    let urls = [
        with_wrong_password(&bed),
        bed.url().replace("%2f", "no-such-vhost"),
    ];
    let error = worker(&bed, &urls, &Script::succeeding()).failed().await;
    assert!(matches!(error, RunError::Broker(_)), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("(vhost `/`), "), "{text}");
    assert!(text.contains("(vhost `no-such-vhost`)"), "{text}");
}

async fn refused(bed: &Bed, url: String) -> RunError {
    worker(bed, &[url], &Script::succeeding()).failed().await
}

/// User or password is wrong.
///
/// - does: ends with an error that says so, without the password
#[tokio::test]
async fn wrong_credentials_end_the_worker_with_a_clear_error() {
    let bed = Bed::bare().await;
    let error = refused(&bed, with_wrong_password(&bed)).await;
    assert!(matches!(error, RunError::Broker(_)), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("check user, password and vhost"), "{text}");
    assert!(
        !format!("{error:?}").contains("wrong"),
        "it shows the password"
    );
}

/// The vhost does not exist.
///
/// - does: ends with an error that says so
#[tokio::test]
async fn a_vhost_that_does_not_exist_ends_the_worker_with_a_clear_error() {
    let bed = Bed::bare().await;
    let error = refused(&bed, bed.url().replace("%2f", "no-such-vhost")).await;
    assert!(matches!(error, RunError::Broker(_)), "{error:?}");
    assert!(error.to_string().contains("no-such-vhost"), "{error}");
}

/// The publisher's node is lost, and there are URLs of others.
///
/// - does: connects to another node at the next call
#[tokio::test]
async fn a_publisher_goes_on_by_another_node_when_its_own_is_lost() {
    let bed = Bed::new().await;
    let mut nodes = [
        Proxy::open(bed.broker().port()).await,
        Proxy::open(bed.broker().port()).await,
    ];
    let urls = [0, 1].map(|at: usize| bed.url_by(nodes[at].port(), ""));
    let publisher = Publisher::connect(&urls).await.unwrap();
    for at in [0, 1] {
        nodes[at].close().await;
        nodes[at].cut();
        let order = Publication::json(bed.name(), &Order::new("a"));
        // Whether the loss is seen before or after the message is sent is a matter of luck.
        if let Err(error) = publisher.publish(&order).await {
            assert!(matches!(error, PublishError::Unconfirmed(_)), "{error:?}");
            publisher.publish(&order).await.unwrap();
        }
        nodes[at].listen().await;
    }
    let script = Script::succeeding();
    let worker = worker(&bed, &urls, &script);
    worker.ended(Kind::Executed, 1).await;
    worker.ended(Kind::Duplicate, 1).await;
    worker.stop().await;
    script.assert_effects(["a"]);
    bed.assert_nothing_stuck().await;
}
