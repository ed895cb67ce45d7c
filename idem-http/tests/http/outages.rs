//! Stores that are frozen or killed, on servers of a test's own.

use std::time::Duration;

use axum::{Router, extract::State, http::StatusCode, routing::post as route};
use idem_core::{
    Policy, PostgresStore, RedisStore, Store,
    handler::{InDoubt, StoreOutage},
    sqlx::{Connection as _, PgConnection, query, query_scalar},
};
use idem_http::{IdempotencyLayer, Tx};
use idem_servers::{Postgres, Redis};
use tokio::task::JoinHandle;

use crate::{
    claims::attempt,
    client::{Request, post},
    service::{Effects, PATIENCE, Service},
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

/// Sends a request in the background, again and again until its handler has begun: the store may answer too late at
/// first.
pub(crate) async fn begun(
    service: &Service,
    request: &Request,
) -> JoinHandle<crate::client::Answer> {
    let mut sent = service.spawn(request.clone());
    let beginning = async {
        loop {
            tokio::select! {
                () = service.effects.begun() => return,
                told = &mut sent => {
                    let told = told.unwrap();
                    assert!(matches!(told.status, 409 | 503), "{told:?}");
                    tokio::time::sleep(Duration::from_millis(200)).await;
                    sent = service.spawn(request.clone());
                }
            }
        }
    };
    let begun = tokio::time::timeout(PATIENCE, beginning).await;
    begun.expect("its handler begins");
    sent
}

/// Opens a store, again and again until its server has answered in time.
async fn opened<S, E>(open: impl AsyncFn() -> Result<S, E>) -> S {
    let opening = async {
        loop {
            match open().await {
                Ok(store) => return store,
                Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
            }
        }
    };
    let opened = tokio::time::timeout(PATIENCE, opening).await;
    opened.expect("the server answers")
}

/// Nothing runs while the store is away, and all goes on by itself when it is back.
async fn a_request_while_the_store_is_away_does_not_run<S: Store>(
    store: S,
    away: impl FnOnce(),
    back: impl FnOnce(),
) {
    let layer = IdempotencyLayer::new(store).unscoped();
    let service = Service::start(layer.wait(Duration::from_millis(500))).await;
    done(&service, request()).await.assert(201, false);
    away();
    for key in ["k", "other"] {
        let told = service.send(post(r#"{"id":"o-1"}"#).key(key)).await;
        told.assert_problem(503, "store-unavailable");
        assert_eq!(told.header("retry-after"), Some("1"));
        // One of the two was handled before.
        let detail = told.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.starts_with("this copy has done nothing"), "{detail}");
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

pub(crate) async fn redis(server: &Redis) -> RedisStore {
    opened(async || {
        let store = RedisStore::builder(&server.url());
        let store = store.response_timeout(Duration::from_millis(500));
        store.build().await
    })
    .await
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

/// Its handler has answered. Until the store is back nobody can record that, and the client is not to wait for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_gets_its_response_though_the_store_goes_away_while_it_is_recorded() {
    let server = Redis::start().unwrap();
    let layer = IdempotencyLayer::new(redis(&server).await).unscoped();
    let service = Service::start(layer.wait(Duration::from_secs(1))).await;
    for (key, status) in [("done", 201), ("refused", 422), ("failed", 500)] {
        let request = post(&format!(r#"{{"behave":"wait","status":{status}}}"#)).key(key);
        let sent = begun(&service, &request).await;
        server.freeze().unwrap();
        service.effects.open();
        let answer = sent.await.unwrap();
        answer.assert(status, false);
        assert_eq!(answer.header("set-cookie"), Some("session=1"));
        assert_eq!(answer.header("idempotency-retention"), None);
        let copy = service.send(request.clone()).await;
        assert!(matches!(copy.status, 409 | 503), "{copy:?}");
        server.thaw().unwrap();
        if status != 500 {
            done(&service, request).await.assert(status, true);
        }
    }
    assert_eq!(service.effects.count(), 3);
}

/// The store has recorded a claim of which nobody heard. No second delivery asks for it, as a queue's would: its layer
/// gives it up, also while it drains.
async fn a_claim_that_was_recorded_unheard_is_given_up<S: Store + Clone>(
    store: S,
    freeze: impl Fn(),
    thaw: impl Fn(),
) {
    // No lease ends within this test.
    let lease = 10 * PATIENCE;
    let policy = Policy::builder()
        .lease(lease)
        .in_doubt(InDoubt::Quarantine)
        .build();
    let policy = policy.unwrap();
    let layer = IdempotencyLayer::new(store.clone()).unscoped();
    let layer = layer.policy(policy).wait(Duration::from_millis(100));
    let service = Service::start(layer.clone()).await;
    freeze();
    let told = service.send(request()).await;
    told.assert_problem(503, "store-unavailable");
    assert!(!layer.drain(Duration::from_millis(100)).await);
    thaw();
    assert!(layer.drain(PATIENCE).await);
    // Another process, which knows nothing of it.
    let attempts = Router::new().route("/charges", route(attempt));
    let layer = IdempotencyLayer::new(store).unscoped().policy(policy);
    let another = Service::serve(attempts.layer(layer), Effects::new());
    let answer = done(&another, request()).await;
    answer.assert(200, false);
    assert_eq!(answer.json(), serde_json::json!([1, false]));
    assert_eq!(service.effects.count(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_postgres_has_recorded_unheard_is_given_up() {
    let server = Postgres::start().unwrap();
    let store = PostgresStore::builder(&server.url()).response_timeout(Duration::from_millis(500));
    let store = opened(async || store.clone().build().await).await;
    let (freeze, thaw) = (|| server.freeze().unwrap(), || server.thaw().unwrap());
    a_claim_that_was_recorded_unheard_is_given_up(store, freeze, thaw).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_redis_has_recorded_unheard_is_given_up() {
    let server = Redis::start().unwrap();
    let (freeze, thaw) = (|| server.freeze().unwrap(), || server.thaw().unwrap());
    a_claim_that_was_recorded_unheard_is_given_up(redis(&server).await, freeze, thaw).await;
}

async fn insert(
    State(effects): State<Effects>,
    Tx(mut db): Tx<PgConnection>,
    order: String,
) -> StatusCode {
    let insert = query("INSERT INTO charges (id) VALUES ($1)").bind(&order);
    insert.execute(db.as_mut()).await.unwrap();
    effects.begin();
    effects.pass().await;
    effects.end();
    StatusCode::from_bytes(order.as_bytes()).unwrap()
}

/// What an error has written is rolled back, whoever knows it. Whether the rest is committed is known when the store is
/// back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_is_told_to_come_again_if_nobody_knows_whether_its_writes_are_committed() {
    let server = Postgres::start().unwrap();
    let mut db = PgConnection::connect(&server.url()).await.unwrap();
    let create = query("CREATE TABLE charges (id TEXT NOT NULL)");
    create.execute(&mut db).await.unwrap();
    let layer = IdempotencyLayer::new(postgres(&server).await).unscoped();
    let layer = layer.wait(Duration::from_secs(1)).atomic::<PgConnection>();
    for status in [201, 422] {
        // One each: a handler may have begun twice.
        let effects = Effects::new();
        let app = Router::new().route("/charges", route(insert));
        let app = app.layer(layer.clone()).with_state(effects.clone());
        let service = Service::serve(app, effects);
        let request = post(&status.to_string()).key(&status.to_string());
        let sent = begun(&service, &request).await;
        server.freeze().unwrap();
        service.effects.open();
        let answer = sent.await.unwrap();
        if status == 201 {
            answer.assert_problem(503, "deadline");
            assert_eq!(answer.header("retry-after"), Some("1"));
        } else {
            answer.assert(422, false);
        }
        server.thaw().unwrap();
        // Should its writes be lost, it runs again.
        service.effects.open();
        done(&service, request).await.assert(status, true);
    }
    let written = query_scalar::<_, String>("SELECT id FROM charges");
    assert_eq!(written.fetch_all(&mut db).await.unwrap(), ["201"]);
}

/// Without a response of its handler's there is still a problem to be told, and the key is free when the store is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_is_told_that_its_handler_panicked_though_the_store_is_away() {
    let server = Redis::start().unwrap();
    let layer = IdempotencyLayer::new(redis(&server).await).unscoped();
    let layer = layer.wait(Duration::from_secs(1));
    let effects = Effects::new();
    let app = Router::new().route("/charges", route(panicking));
    let app = app.layer(layer).with_state(effects.clone());
    let service = Service::serve(app, effects);
    let sent = begun(&service, &request()).await;
    server.freeze().unwrap();
    service.effects.open();
    let told = sent.await.unwrap();
    told.assert_problem(500, "handler-failed");
    server.thaw().unwrap();
    // It runs again, and not beside the first.
    service.effects.open();
    done(&service, request())
        .await
        .assert_problem(500, "handler-failed");
    service.effects.begun().await;
}

async fn panicking(State(effects): State<Effects>) -> StatusCode {
    effects.begin();
    effects.pass().await;
    panic!("the handler panics")
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
