//! Stores that are frozen or killed, on servers of a test's own.

use std::time::Duration;

use idem_core::{Policy, PostgresStore, RedisStore, Store, handler::StoreOutage};
use idem_http::IdempotencyLayer;
use idem_servers::{Postgres, Redis};

use crate::{
    client::{Request, post},
    service::{PATIENCE, Service},
};

fn request() -> Request {
    post(r#"{"id":"o-1"}"#).key("k")
}

/// Sends a request again and again, as a client does that is told so, until it is done.
async fn done(service: &Service, request: Request) -> crate::client::Answer {
    let sending = async {
        loop {
            let answer = service.send(request.clone()).await;
            match answer.status {
                409 | 503 => tokio::time::sleep(Duration::from_millis(200)).await,
                _ => return answer,
            }
        }
    };
    let done = tokio::time::timeout(PATIENCE, sending).await;
    done.expect("it is done")
}

/// Nothing runs while the store is away, and all goes on by itself when it is back.
async fn a_request_while_the_store_is_away_does_not_run<S: Store>(
    store: S,
    away: impl FnOnce(),
    back: impl FnOnce(),
) {
    let layer = IdempotencyLayer::new(store).unscoped();
    let service = Service::start(layer.wait(Duration::from_millis(500))).await;
    service.send(request()).await.assert(201, false);
    away();
    for key in ["k", "other"] {
        let told = service.send(post(r#"{"id":"o-1"}"#).key(key)).await;
        told.assert_problem(503, "store-unavailable");
        assert_eq!(told.header("retry-after"), Some("1"));
    }
    assert_eq!(service.effects.count(), 1);
    back();
    done(&service, request()).await.assert(201, true);
    // Its claim may have been recorded before, and be held until its lease runs out; its own task gives it up at once.
    let other = done(&service, post(r#"{"id":"o-1"}"#).key("other")).await;
    assert_eq!(other.status, 201);
    assert_eq!(service.effects.count(), 2);
}

async fn postgres(server: &Postgres) -> PostgresStore {
    PostgresStore::connect(&server.url()).await.unwrap()
}

async fn redis(server: &Redis) -> RedisStore {
    let store = RedisStore::builder(&server.url()).response_timeout(Duration::from_millis(500));
    store.build().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_postgres_is_killed() {
    let server = Postgres::start().unwrap();
    let store = postgres(&server).await;
    let (away, back) = (|| server.kill().unwrap(), || server.restart().unwrap());
    a_request_while_the_store_is_away_does_not_run(store, away, back).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_redis_is_frozen() {
    let server = Redis::start().unwrap();
    let store = redis(&server).await;
    let (away, back) = (|| server.freeze().unwrap(), || server.thaw().unwrap());
    a_request_while_the_store_is_away_does_not_run(store, away, back).await;
}

/// The policy says that it is better to run without protection than not at all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_fails_open_runs_without_its_store() {
    let server = Redis::start().unwrap();
    let policy = Policy::builder()
        .store_outage(StoreOutage::FailOpen)
        .build();
    let layer = IdempotencyLayer::new(redis(&server).await).unscoped();
    let layer = layer.policy(policy.unwrap());
    let service = Service::start(layer.clone()).await;
    server.freeze().unwrap();
    let answer = service.send(request()).await;
    answer.assert(201, false);
    assert_eq!(answer.header("idempotency-retention"), None);
    // This process knows what it has done.
    service.send(request()).await.assert(201, true);
    assert_eq!(service.effects.count(), 1);
    // Nobody else knows it yet.
    assert!(!layer.drain(Duration::from_millis(100)).await);
    server.thaw().unwrap();
    assert!(layer.drain(PATIENCE).await);
    let another = IdempotencyLayer::new(redis(&server).await).unscoped();
    let another = Service::start(another).await;
    done(&another, request()).await.assert(201, true);
    assert_eq!(another.effects.count(), 0);
}
