//! Bodies at their limits, slow ones, and ones that break off.

use std::time::{Duration, Instant};

use axum::{Router, body::Body, extract::State, routing::post as route};
use http_body_util::BodyExt as _;
use idem_core::MemoryStore;
use idem_http::{IdempotencyLayer, KeyRule};
use tokio::{io::AsyncWriteExt as _, net::TcpStream, time::timeout};

use crate::{
    client::{Answer, answer, post},
    service::{Effects, LEASE, PATIENCE, Service},
};

const LIMIT: usize = 10_000;

async fn limited() -> Service {
    let layer = IdempotencyLayer::new(MemoryStore::new()).unscoped();
    let layer = layer
        .max_request(LIMIT)
        .body_timeout(Duration::from_millis(500));
    Service::start(layer).await
}

fn body(bytes: usize) -> String {
    let empty = r#"{"id":""}"#.len();
    format!(r#"{{"id":"{}"}}"#, "x".repeat(bytes - empty))
}

#[tokio::test]
async fn a_body_that_is_too_large_to_be_compared_does_not_run_and_leaves_no_record() {
    let service = limited().await;
    for (key, bytes) in [("just", LIMIT + 1), ("far", 10 * LIMIT)] {
        let request = post(&body(bytes)).key(key);
        let told = service.send(request.clone()).await;
        told.assert_problem(413, "body-too-large");
        let chunked = request.send_in_chunks(service.address).await;
        chunked.assert_problem(413, "body-too-large");
        assert_eq!(service.effects.count(), 0);
    }
    // The key is as good as new.
    service
        .send(post("{}").key("just"))
        .await
        .assert(201, false);
    for bytes in [LIMIT - 1, LIMIT] {
        let request = post(&body(bytes)).key(&bytes.to_string());
        service.send(request.clone()).await.assert(201, false);
        request
            .send_in_chunks(service.address)
            .await
            .assert(201, true);
    }
}

#[tokio::test]
async fn a_body_that_does_not_arrive_in_time_does_not_run() {
    let service = limited().await;
    let request = post("{}").key("k");
    let mut stream = request.begin(service.address, 100).await;
    stream.write_all(b"{").await.unwrap();
    answer(stream).await.assert_problem(408, "body-timeout");
    assert_eq!(service.effects.count(), 0);
    service.send(request).await.assert(201, false);
}

/// The limit is one for the whole body, not for the time between two of its bytes.
#[tokio::test]
async fn bodies_that_drip_are_given_up_in_time_and_hold_nobody_up() {
    const DRIPPING: usize = 100;
    let limit = LEASE;
    let layer = IdempotencyLayer::new(MemoryStore::new()).unscoped();
    let service = Service::start(layer.body_timeout(limit)).await;
    let (began, drops) = (Instant::now(), Effects::new());
    let dripping = (0..DRIPPING).map(|n| {
        let (request, to) = (post("").key(&n.to_string()), service.address);
        let drops = drops.clone();
        tokio::spawn(async move { drip(request.begin(to, 1_000_000).await, drops).await })
    });
    let dripping: Vec<_> = dripping.collect();
    for _ in 0..DRIPPING {
        drops.begun().await;
    }
    for is_copy in [false, true, true] {
        let answer = service.send(post("{}").key("whole")).await;
        answer.assert(201, is_copy);
    }
    assert!(dripping.iter().all(|it| !it.is_finished()));
    for dripping in dripping {
        let told = timeout(PATIENCE, dripping).await;
        let told = told.expect("nobody waits for the whole body").unwrap();
        told.assert_problem(408, "body-timeout");
    }
    assert!(began.elapsed() >= limit);
    assert_eq!(service.effects.count(), 1);
}

/// Sends a byte after the other, slowly, until there is an answer.
async fn drip(stream: TcpStream, drops: Effects) -> Answer {
    let (from, mut to) = stream.into_split();
    let dripping = tokio::spawn(async move {
        to.write_all(b"x").await.unwrap();
        drops.begin();
        while to.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    let answer = answer(from).await;
    dripping.abort();
    answer
}

#[tokio::test]
async fn a_body_that_breaks_off_does_not_run() {
    let service = limited().await;
    let request = post("{}").key("k");
    let mut stream = request.begin(service.address, 100).await;
    stream.write_all(b"{").await.unwrap();
    drop(stream);
    service.send(request).await.assert(201, false);
    assert_eq!(service.effects.count(), 1);
}

#[tokio::test]
async fn a_body_that_is_not_compared_and_breaks_off_is_not_refused_for_good() {
    let layer = IdempotencyLayer::new(MemoryStore::new()).unscoped();
    let service = Service::start(layer.compare_no_body()).await;
    let request = post("{}").key("k");
    let mut stream = request.begin(service.address, 100).await;
    stream.write_all(b"{").await.unwrap();
    // What the handler is told of it is axum's word for a bad request.
    drop(stream);
    let answer = service.send(request).await;
    answer.assert(201, false);
    assert_eq!(service.effects.count(), 1);
}

/// Neither is one without a key, which is compared with nothing.
#[tokio::test]
async fn a_handler_reads_what_is_not_compared_while_its_client_still_sends() {
    let layer = IdempotencyLayer::new(MemoryStore::new()).unscoped();
    let layer = layer.compare_no_body().key(KeyRule::Optional);
    let effects = Effects::new();
    let app = Router::new().route("/charges", route(read_at_once));
    let app = app.layer(layer).with_state(effects.clone());
    let service = Service::serve(app, effects);
    for request in [post("").key("k"), post("")] {
        let mut stream = request.begin(service.address, 2).await;
        stream.write_all(b"1").await.unwrap();
        service.effects.begun().await;
        stream.write_all(b"2").await.unwrap();
        let answer = answer(stream).await;
        assert_eq!(answer.assert(200, false).body, b"12");
    }
}

/// Begins when the first bytes are there, and answers with all of them.
async fn read_at_once(State(effects): State<Effects>, mut body: Body) -> Vec<u8> {
    let mut read = Vec::new();
    while let Some(frame) = body.frame().await {
        if read.is_empty() {
            effects.begin();
        }
        read.extend(frame.unwrap().into_data().unwrap());
    }
    read
}

#[tokio::test]
async fn a_body_that_is_not_compared_may_have_any_size() {
    let layer = IdempotencyLayer::new(MemoryStore::new()).unscoped();
    let service = Service::start(
        layer
            .max_request(LIMIT)
            .max_response(200 * LIMIT)
            .compare_no_body(),
    )
    .await;
    // Less than axum's own limit of 2 MB.
    let request = post(&body(100 * LIMIT)).key("k");
    let first = request.send_in_chunks(service.address).await;
    first.assert(201, false);
    assert_eq!(first.json()["id"].as_str().unwrap().len(), 100 * LIMIT - 9);
    service.send(post("{}").key("k")).await.assert(201, true);
    // What else makes a request is compared all the same.
    let other = post("{}").key("k").to("/refunds/1");
    service.send(other).await.assert_problem(422, "key-reused");
    assert_eq!(service.effects.count(), 1);
}
