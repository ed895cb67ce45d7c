//! Bodies at their limits, slow ones, and ones that break off.

use std::time::Duration;

use axum::{Router, body::Body, extract::State, routing::post as route};
use http_body_util::BodyExt as _;
use idem_core::MemoryStore;
use idem_http::{IdempotencyLayer, KeyRule};
use tokio::io::AsyncWriteExt as _;

use crate::{
    client::{answer, post},
    service::{Effects, Service},
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
