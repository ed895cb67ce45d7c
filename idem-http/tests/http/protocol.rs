//! Keys, copies, and what is told apart.

use std::time::Duration;

use axum::{Router, http::HeaderName, routing::any};
use idem_core::{MemoryStore, Policy, handler::Enforcement};
use idem_http::{IdempotencyLayer, KeyRule};
use tracing::Level;

use crate::{
    client::post,
    service::{Effects, Service, charge},
    spans::Log,
    stores::{TestStore, on_each_store},
};

on_each_store!(
    a_copy_is_answered_with_the_response_of_the_first,
    a_copy_that_comes_at_once_waits_for_the_first,
    a_copy_that_has_waited_long_enough_is_told_when_to_come_again,
    of_a_thousand_copies_at_once_one_runs,
    another_request_under_the_same_key_does_not_run,
    clients_may_use_the_same_key,
);

async fn unscoped<T: TestStore>() -> Service {
    let opened = T::open().await;
    let service = Service::start(IdempotencyLayer::new(opened.store()).unscoped()).await;
    service.keeping(opened)
}

async fn a_copy_is_answered_with_the_response_of_the_first<T: TestStore>() {
    let service = unscoped::<T>().await;
    let request = post(r#"{"id":"o-1"}"#).key("k-1");
    let first = service.send(request.clone()).await;
    first.assert(201, false);
    assert_eq!(first.json()["effects"], 1);
    assert_eq!(first.header("set-cookie"), Some("session=1"));
    assert_eq!(first.header("idempotency-retention"), Some("259200"));
    // The same key, quoted as the draft has it.
    let quoted = post(r#"{"id":"o-1"}"#).key("\"k-1\"");
    for copy in [request.clone(), quoted, request] {
        let copy = service.send(copy).await;
        copy.assert(201, true);
        assert_eq!(copy.body, first.body);
        assert_eq!(copy.header("location"), Some("/charges/1"));
        assert_eq!(copy.header("content-type"), Some("application/json"));
        assert_eq!(copy.header("set-cookie"), None);
        let seconds: u64 = copy
            .header("idempotency-retention")
            .unwrap()
            .parse()
            .unwrap();
        assert!((258_000..=259_200).contains(&seconds), "{seconds}");
    }
    service
        .send(post(r#"{"id":"o-1"}"#).key("k-2"))
        .await
        .assert(201, false);
    assert_eq!(service.effects.count(), 2);
}

#[tokio::test]
async fn a_call_of_grpc_does_not_run() {
    let layer = IdempotencyLayer::new(MemoryStore::new()).unscoped();
    let service = Service::start(layer.key(KeyRule::Optional)).await;
    for kind in [
        "application/grpc",
        "application/grpc-web+proto",
        "Application/gRPC",
    ] {
        let call = post("{}")
            .without("content-type")
            .header("content-type", kind);
        for call in [call.clone(), call.key("k")] {
            let told = service.send(call).await;
            let status = (told.header("grpc-status"), told.header("content-type"));
            assert_eq!(status, (Some("12"), Some(kind)), "{told:?}");
            assert!(told.body.is_empty());
        }
    }
    assert_eq!(service.effects.count(), 0);
}

async fn a_copy_that_comes_at_once_waits_for_the_first<T: TestStore>() {
    let opened = T::open().await;
    let layer = IdempotencyLayer::new(opened.store()).unscoped();
    let service = Service::start(layer.wait(Duration::from_secs(30))).await;
    let request = post(r#"{"behave":"wait"}"#).key("k");
    let first = service.spawn(request.clone());
    service.effects.begun().await;
    let copy = service.spawn(request);
    // It has time to run, if it would.
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!copy.is_finished());
    service.effects.open();
    let (first, copy) = (first.await.unwrap(), copy.await.unwrap());
    first.assert(201, false);
    copy.assert(201, true);
    assert_eq!(first.body, copy.body);
    assert_eq!(service.effects.count(), 1);
}

async fn a_copy_that_has_waited_long_enough_is_told_when_to_come_again<T: TestStore>() {
    let opened = T::open().await;
    let layer = IdempotencyLayer::new(opened.store()).unscoped();
    let service = Service::start(layer.wait(Duration::from_millis(50))).await;
    let request = post(r#"{"behave":"wait"}"#).key("k");
    let first = service.spawn(request.clone());
    service.effects.begun().await;
    let copy = service.send(request.clone()).await;
    copy.assert_problem(409, "in-progress");
    let seconds: u64 = copy.header("retry-after").unwrap().parse().unwrap();
    // The lease has 30 s, but the first may end at any time.
    assert_eq!(seconds, 1);
    service.effects.open();
    first.await.unwrap().assert(201, false);
    service.send(request).await.assert(201, true);
    assert_eq!(service.effects.count(), 1);
}

async fn of_a_thousand_copies_at_once_one_runs<T: TestStore>() {
    let opened = T::open().await;
    let layer = IdempotencyLayer::new(opened.store()).unscoped();
    let service = Service::start(layer.wait(Duration::from_mins(1))).await;
    let copies: Vec<_> = (0..1000)
        .map(|_| service.spawn(post("{}").key("k")))
        .collect();
    let mut replayed = 0;
    for copy in copies {
        let copy = copy.await.unwrap();
        assert_eq!((copy.status, &copy.json()["effects"]), (201, &1.into()));
        replayed += usize::from(copy.is_replayed());
    }
    assert_eq!((replayed, service.effects.count()), (999, 1));
}

async fn another_request_under_the_same_key_does_not_run<T: TestStore>() {
    let opened = T::open().await;
    let layer = IdempotencyLayer::new(opened.store()).unscoped();
    let layer = layer.compare_headers([HeaderName::from_static("x-api-version")]);
    let service = Service::start(layer).await;
    let request = || post(r#"{"id":"o-1"}"#);
    let cases = [
        ("body", request(), post(r#"{"id":"o-2"}"#)),
        ("method", request(), request().method("PATCH")),
        (
            "path",
            request().to("/refunds/1"),
            request().to("/refunds/2"),
        ),
        ("route", request(), request().to("/refunds/2")),
        (
            "mount",
            request().to("/v1/charges"),
            request().to("/v2/charges"),
        ),
        (
            "query",
            request().to("/charges?a=1"),
            request().to("/charges?a=2"),
        ),
        ("no query", request().to("/charges?"), request()),
        ("content type", request(), request().without("content-type")),
        (
            "chosen header",
            request().header("x-api-version", "1"),
            request().header("x-api-version", "2"),
        ),
    ];
    let conditional = [
        "if-match",
        "if-none-match",
        "if-unmodified-since",
        "content-range",
        "content-encoding",
    ]
    .map(|name| {
        let with = |value| request().header(name, value);
        (name, with("1"), with("2"))
    });
    for (what, first, other) in cases.into_iter().chain(conditional) {
        let before = service.effects.count();
        service
            .send(first.clone().key(what.replace(' ', "-").as_str()))
            .await
            .assert(201, false);
        let other = service.send(other.key(&what.replace(' ', "-"))).await;
        other.assert_problem(422, "key-reused");
        service
            .send(first.key(&what.replace(' ', "-")))
            .await
            .assert(201, true);
        assert_eq!(service.effects.count(), before + 1, "{what}");
    }
    // A header that was not chosen makes no other request.
    service
        .send(request().key("h").header("x-trace", "1"))
        .await
        .assert(201, false);
    service
        .send(request().key("h").header("x-trace", "2"))
        .await
        .assert(201, true);
}

async fn clients_may_use_the_same_key<T: TestStore>() {
    let opened = T::open().await;
    let layer = IdempotencyLayer::new(opened.store()).scoped_by(|request| {
        request
            .headers
            .get("x-tenant")?
            .to_str()
            .ok()
            .map(str::to_owned)
    });
    let service = Service::start(layer).await;
    let request = |tenant: &str| post("{}").key("k").header("x-tenant", tenant);
    // Text that separates a key's parts does not bring them together.
    for tenant in ["acme", "umbrella", "a:k", "a", "acme:k"] {
        service.send(request(tenant)).await.assert(201, false);
        service.send(request(tenant)).await.assert(201, true);
    }
    assert_eq!(service.effects.count(), 5);
    for nobody in [post("{}").key("k"), request("")] {
        service
            .send(nobody)
            .await
            .assert_problem(400, "scope-missing");
    }
    assert_eq!(service.effects.count(), 5);
}

#[tokio::test]
async fn a_scope_that_panics_is_told_and_does_not_run() {
    let layer = IdempotencyLayer::new(MemoryStore::new());
    let service = Service::start(layer.scoped_by(|_| panic!("nobody knows"))).await;
    let told = service.send(post("{}").key("k")).await;
    told.assert_problem(500, "handler-failed");
    assert_eq!(service.effects.count(), 0);
}

#[tokio::test]
async fn a_request_without_a_usable_key_does_not_run() {
    let service = unscoped::<crate::stores::Memory>().await;
    service
        .send(post("{}"))
        .await
        .assert_problem(400, "key-missing");
    let longest = "k".repeat(255);
    let longer = "k".repeat(256);
    for key in ["", "\"\"", "a b", "a,b", "\"a", &longer] {
        let answer = service.send(post("{}").key(key)).await;
        answer.assert_problem(400, "key-invalid");
    }
    let twice = post("{}").key("a").key("a");
    service.send(twice).await.assert_problem(400, "key-invalid");
    assert_eq!(service.effects.count(), 0);
    service
        .send(post("{}").key(&longest))
        .await
        .assert(201, false);
    // One that differs from it in its last byte is another one, though neither fits a store's key as it is.
    let other = format!("{}j", &longest[1..]);
    service
        .send(post("{}").key(&other))
        .await
        .assert(201, false);
    service
        .send(post("{}").key(&longest))
        .await
        .assert(201, true);
}

#[tokio::test]
async fn an_optional_key_protects_those_who_send_one() {
    let layer = IdempotencyLayer::new(MemoryStore::new()).unscoped();
    let service = Service::start(layer.key(KeyRule::Optional)).await;
    for _ in 0..2 {
        let answer = service.send(post("{}")).await;
        answer.assert(201, false);
        assert_eq!(answer.header("idempotency-retention"), None);
    }
    service.send(post("{}").key("k")).await.assert(201, false);
    service.send(post("{}").key("k")).await.assert(201, true);
    assert_eq!(service.effects.count(), 3);
    service
        .send(post("{}").key("a b"))
        .await
        .assert_problem(400, "key-invalid");
}

/// Each is counted: `metered` has the tests of that.
#[tokio::test]
async fn that_requests_run_without_a_key_is_logged_once() {
    let (log, _here) = Log::here(Level::INFO);
    let layer = IdempotencyLayer::new(MemoryStore::new()).unscoped();
    let service = Service::start(layer.key(KeyRule::Optional)).await;
    service.send(post("{}").key("k")).await.assert(201, false);
    assert!(log.warnings().is_empty(), "{}", log.text());
    for path in ["/v1/charges", "/charges", "/v1/charges"] {
        service.send(post("{}").to(path)).await.assert(201, false);
    }
    let warned = log.warnings();
    assert_eq!(warned.len(), 1, "{warned:?}");
    assert!(warned[0].contains(r#"path="/v1/charges""#), "{warned:?}");
}

#[tokio::test]
async fn other_methods_are_passed_through() {
    let service = unscoped::<crate::stores::Memory>().await;
    for method in ["GET", "PUT", "DELETE"] {
        for _ in 0..2 {
            let request = post("{}").method(method).key("k");
            let answer = service.send(request).await;
            answer.assert(201, false);
            assert_eq!(answer.header("idempotency-retention"), None);
        }
    }
    assert_eq!(service.effects.count(), 6);
}

/// The inner one would find the key held by the outer one.
#[tokio::test]
async fn a_layer_inside_of_another_one_leaves_its_requests_alone() {
    let layer = IdempotencyLayer::new(MemoryStore::new()).unscoped();
    let effects = Effects::new();
    let route = any(charge).layer(layer.clone());
    let app = Router::new().route("/charges", route).layer(layer);
    let service = Service::serve(app.with_state(effects.clone()), effects);
    service.send(post("{}").key("k")).await.assert(201, false);
    service.send(post("{}").key("k")).await.assert(201, true);
    assert_eq!(service.effects.count(), 1);
}

/// The inner one is all that protects it.
#[tokio::test]
async fn a_layer_inside_of_one_that_protects_nothing_handles_each_request_once() {
    let layer = || IdempotencyLayer::new(MemoryStore::new()).unscoped();
    let observing = Policy::builder().enforcement(Enforcement::Observe);
    let observing = layer().policy(observing.build().unwrap()).named("watch");
    let optional = layer().key(KeyRule::Optional).named("outer");
    let effects = Effects::new();
    let route = any(charge).layer(layer());
    let app = Router::new().route("/charges", route);
    let watched = app.clone().layer(observing).with_state(effects.clone());
    let service = Service::serve(watched, effects.clone());
    service.send(post("{}").key("k")).await.assert(201, false);
    service.send(post("{}").key("k")).await.assert(201, true);
    assert_eq!(service.effects.count(), 1);
    let unkeyed = Service::serve(app.layer(optional).with_state(effects.clone()), effects);
    let told = unkeyed.send(post("{}")).await;
    told.assert_problem(400, "key-missing");
}

#[tokio::test]
async fn a_copy_may_wait_for_ever() {
    let layer = IdempotencyLayer::new(MemoryStore::new()).unscoped();
    let service = Service::start(layer.wait(Duration::MAX)).await;
    service.send(post("{}").key("k")).await.assert(201, false);
    service.send(post("{}").key("k")).await.assert(201, true);
}

#[tokio::test]
async fn layers_of_other_names_share_a_store_and_no_keys() {
    let store = MemoryStore::new();
    for name in ["orders", "refunds"] {
        let layer = IdempotencyLayer::new(store.clone()).unscoped().named(name);
        let service = Service::start(layer).await;
        service.send(post("{}").key("k")).await.assert(201, false);
        service.send(post("{}").key("k")).await.assert(201, true);
    }
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn a_record_that_cannot_be_read_is_told_and_does_not_run() {
    let opened = crate::stores::Sqlite::open().await;
    let layer = IdempotencyLayer::new(opened.store()).unscoped();
    let service = Service::start(layer).await;
    service.send(post("{}").key("k")).await.assert(201, false);
    opened
        .execute("UPDATE idem_records SET state = 'torn'")
        .await;
    let told = service.send(post("{}").key("k")).await;
    told.assert_problem(500, "record-unreadable");
    assert_eq!(service.effects.count(), 1);
}
