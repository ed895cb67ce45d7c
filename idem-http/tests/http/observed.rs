//! Layers that only observe: every request runs, and what would have become of it is counted.

use std::time::Duration;

use axum::{Router, body::Bytes, routing::post as route};
use idem_core::{MemoryStore, Policy, handler::Enforcement};
use idem_http::{IdempotencyLayer, KeyRule};
use tokio::io::AsyncWriteExt as _;

use crate::{
    client::{answer, post},
    service::{Effects, Service},
    stores::{TestStore, on_each_store},
};

on_each_store!(copies_run_and_leave_records_for_a_layer_that_enforces);

fn observing() -> Policy {
    let policy = Policy::builder().enforcement(Enforcement::Observe);
    policy.build().unwrap()
}

async fn copies_run_and_leave_records_for_a_layer_that_enforces<T: TestStore>() {
    let opened = T::open().await;
    let layer = || IdempotencyLayer::new(opened.store()).unscoped();
    let service = Service::start(layer().policy(observing())).await;
    let request = post(r#"{"id":"o-1"}"#).key("k");
    for effects in 1..=3 {
        let answer = service.send(request.clone()).await;
        answer.assert(201, false);
        assert_eq!(answer.json()["effects"], effects);
        // Nobody promises that a copy would be answered.
        assert_eq!(answer.header("idempotency-retention"), None);
        assert_eq!(answer.header("set-cookie"), Some("session=1"));
    }
    let other = service.send(post(r#"{"id":"o-2"}"#).key("k")).await;
    other.assert(201, false);
    let enforcing = Service::start(layer()).await;
    let copy = enforcing.send(request).await;
    copy.assert(201, true);
    assert_eq!(
        (copy.json()["effects"].as_u64(), enforcing.effects.count()),
        (Some(1), 0)
    );
}

#[tokio::test]
async fn copies_that_come_at_once_run_at_once() {
    let layer = IdempotencyLayer::new(MemoryStore::new()).unscoped();
    let layer = layer
        .policy(observing())
        .deadline(Duration::from_millis(50));
    let service = Service::start(layer).await;
    let request = post(r#"{"behave":"wait"}"#).key("k");
    let sent = [service.spawn(request.clone()), service.spawn(request)];
    for _ in 0..2 {
        service.effects.begun().await;
    }
    // Past the deadline, which is for clients that a layer may send away.
    tokio::time::sleep(Duration::from_millis(200)).await;
    for _ in 0..2 {
        service.effects.open();
    }
    for sent in sent {
        sent.await.unwrap().assert(201, false);
    }
    assert_eq!(service.effects.count(), 2);
}

/// Answers with how many bytes there were.
fn measuring(layer: IdempotencyLayer<MemoryStore>) -> Service {
    let effects = Effects::new();
    let count = effects.clone();
    let length = move |body: Bytes| {
        count.end();
        async move { body.len().to_string() }
    };
    let app = Router::new().route("/charges", route(length)).layer(layer);
    Service::serve(app, effects)
}

#[tokio::test]
async fn what_would_be_refused_reaches_its_handler_as_a_whole() {
    let layer = IdempotencyLayer::new(MemoryStore::new()).scoped_by(|request| {
        let tenant = request.headers.get("x-tenant")?;
        tenant.to_str().ok().map(str::to_owned)
    });
    let layer = layer
        .policy(observing())
        .max_request(1000)
        .body_timeout(Duration::from_millis(100));
    let service = measuring(layer);
    let send = |body: usize| post(&"x".repeat(body)).header("x-tenant", "acme");
    let long = "k".repeat(256);
    let grpc = send(10)
        .without("content-type")
        .header("content-type", "application/grpc");
    for (what, request, bytes) in [
        ("no key", send(10), 10),
        ("a key that is too long", send(10).key(&long), 10),
        ("two keys", send(10).key("a").key("b"), 10),
        ("nobody asks", send(10).key("a").without("x-tenant"), 10),
        ("too large", send(5000).key("large"), 5000),
        ("a call of gRPC", grpc.key("grpc"), 10),
        ("the first", send(10).key("reused"), 10),
        ("other content", send(11).key("reused"), 11),
    ] {
        let told = service.send(request.clone()).await;
        assert_eq!(
            (told.status, &*told.body),
            (200, bytes.to_string().as_bytes()),
            "{what}"
        );
        let chunked = request.send_in_chunks(service.address).await;
        assert_eq!(
            (chunked.status, &*chunked.body),
            (200, bytes.to_string().as_bytes()),
            "{what}"
        );
    }
    assert_eq!(service.effects.count(), 16);

    let slow = send(0).key("slow");
    let mut stream = slow.begin(service.address, 20).await;
    stream.write_all(&[b'x'; 10]).await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    stream.write_all(&[b'x'; 10]).await.unwrap();
    let told = answer(stream).await;
    assert_eq!((told.status, &*told.body), (200, &b"20"[..]));
}

#[tokio::test]
async fn an_optional_key_is_as_optional() {
    let layer = IdempotencyLayer::new(MemoryStore::new()).unscoped();
    let layer = layer.policy(observing()).key(KeyRule::Optional);
    let service = Service::start(layer).await;
    for _ in 0..2 {
        service.send(post("{}")).await.assert(201, false);
    }
    assert_eq!(service.effects.count(), 2);
}

#[cfg(feature = "redis")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_away_stops_nothing_for_long() {
    let server = idem_servers::Redis::start().unwrap();
    let store = idem_core::RedisStore::connect(&server.url()).await.unwrap();
    let layer = IdempotencyLayer::new(store).unscoped();
    let service = Service::start(layer.policy(observing())).await;
    server.freeze().unwrap();
    let begun = std::time::Instant::now();
    let request = post(r#"{"id":"o-1"}"#).key("k");
    service.send(request.clone()).await.assert(201, false);
    service.send(request).await.assert(201, false);
    // A second each, and what this machine is busy with.
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "{:?}",
        begun.elapsed()
    );
    server.thaw().unwrap();
}

#[cfg(feature = "sqlite")]
mod atomic {
    use idem_core::sqlx::SqliteConnection;

    use super::*;
    use crate::stores::Sqlite;

    async fn layer() -> IdempotencyLayer<idem_core::SqliteStore> {
        IdempotencyLayer::new(Sqlite::open().await.store()).unscoped()
    }

    #[tokio::test]
    #[should_panic(expected = "runs none without one")]
    async fn an_atomic_layer_cannot_only_observe() {
        let layer = layer().await.policy(observing());
        let _ = layer.atomic::<SqliteConnection>();
    }

    #[tokio::test]
    #[should_panic(expected = "runs none without one")]
    async fn nor_can_it_be_told_so_afterwards() {
        let _ = layer()
            .await
            .atomic::<SqliteConnection>()
            .policy(observing());
    }
}
