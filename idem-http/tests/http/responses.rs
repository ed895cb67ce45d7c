//! What of a response is remembered, and what frees the key.

use axum::Router;
use idem_core::{MemoryStore, Policy, handler::InDoubt};
use idem_http::{IdempotencyLayer, Remember};

use crate::{
    client::post,
    service::{Effects, Service, charge},
    stores::{TestStore, on_each_store},
};

on_each_store!(
    a_refusal_is_remembered,
    a_failure_frees_the_key_at_once,
    a_response_that_is_too_large_is_sent_and_not_kept,
);

async fn unscoped<T: TestStore>() -> Service {
    let opened = T::open().await;
    let layer = IdempotencyLayer::new(opened.store()).unscoped();
    let service = Service::start(layer.max_response(1000)).await;
    service.keeping(opened)
}

async fn a_refusal_is_remembered<T: TestStore>() {
    let service = unscoped::<T>().await;
    for status in [400, 403, 404, 409, 422] {
        let request = post(&format!(r#"{{"status":{status}}}"#)).key(&status.to_string());
        let first = service.send(request.clone()).await;
        first.assert(status, false);
        let copy = service.send(request).await;
        copy.assert(status, true);
        assert_eq!(copy.body, first.body);
        assert_eq!(copy.header("location"), Some("/charges/1"));
    }
    assert_eq!(service.effects.count(), 5);
}

async fn a_failure_frees_the_key_at_once<T: TestStore>() {
    let service = unscoped::<T>().await;
    let mut runs = 0;
    for status in [
        401, 405, 406, 408, 412, 421, 423, 425, 426, 428, 429, 500, 502, 503,
    ] {
        let request = post(&format!(r#"{{"status":{status}}}"#)).key(&status.to_string());
        // Far more often than a queue's message is attempted.
        for _ in 0..12 {
            runs += 1;
            let answer = service.send(request.clone()).await;
            answer.assert(status, false);
            assert_eq!(answer.json()["effects"], runs);
            assert_eq!(answer.header("idempotency-retention"), None);
        }
    }
    for behave in ["panic", "broken"] {
        let request = post(&format!(r#"{{"behave":"{behave}"}}"#)).key(behave);
        for _ in 0..3 {
            runs += 1;
            service
                .send(request.clone())
                .await
                .assert_problem(500, "handler-failed");
            assert_eq!(service.effects.count(), runs);
        }
    }
}

async fn a_response_that_is_too_large_is_sent_and_not_kept<T: TestStore>() {
    let service = unscoped::<T>().await;
    let fits = post(r#"{"bytes":1000}"#).key("fits");
    for is_copy in [false, true] {
        assert_eq!(
            service
                .send(fits.clone())
                .await
                .assert(201, is_copy)
                .body
                .len(),
            1000
        );
    }
    for (key, body, sent) in [
        ("large", r#"{"bytes":1001}"#, 1001),
        ("streamed", r#"{"behave":"streamed"}"#, 7),
        ("not-kept", r#"{"behave":"done-not-kept","bytes":9}"#, 9),
        ("no-store", r#"{"behave":"no-store","bytes":9}"#, 9),
    ] {
        let before = service.effects.count();
        let request = post(body).key(key);
        assert_eq!(
            service
                .send(request.clone())
                .await
                .assert(201, false)
                .body
                .len(),
            sent
        );
        for _ in 0..2 {
            let copy = service.send(request.clone()).await;
            copy.assert_problem(409, "response-not-kept");
            assert_eq!(copy.header("retry-after"), None);
        }
        assert_eq!(service.effects.count(), before + 1, "{key}");
    }
    // A refusal that cannot be told again frees the key: nothing was done.
    for body in [
        r#"{"status":404,"bytes":1001}"#,
        r#"{"status":404,"behave":"no-store"}"#,
    ] {
        let request = post(body).key(&format!("r{}", body.len()));
        for _ in 0..2 {
            service.send(request.clone()).await.assert(404, false);
        }
    }
}

#[tokio::test]
async fn a_handler_says_itself_what_its_response_means() {
    let service = unscoped::<crate::stores::Memory>().await;
    let request = post(r#"{"behave":"failed"}"#).key("k");
    for _ in 0..2 {
        service.send(request.clone()).await.assert(201, false);
    }
    assert_eq!(service.effects.count(), 2);
}

#[tokio::test]
async fn a_layer_is_told_what_a_status_means() {
    let layer = IdempotencyLayer::new(MemoryStore::new()).unscoped();
    let layer = layer.remember(|status| match status.as_u16() {
        403 => Remember::Failed,
        500 => Remember::Refused,
        _ => Remember::by_status(status),
    });
    let service = Service::start(layer).await;
    for (status, is_remembered) in [(403, false), (500, true), (404, true), (503, false)] {
        let request = post(&format!(r#"{{"status":{status}}}"#)).key(&status.to_string());
        service.send(request.clone()).await.assert(status, false);
        service.send(request).await.assert(status, is_remembered);
    }
}

#[tokio::test]
async fn a_body_that_is_no_text_is_remembered() {
    let service = unscoped::<crate::stores::Memory>().await;
    for is_copy in [false, true] {
        let answer = service.send(post(r#"{"behave":"binary"}"#).key("k")).await;
        assert_eq!(answer.assert(201, is_copy).body, b"\xff\x00\xfe");
    }
}

#[tokio::test]
async fn headers_that_are_to_be_forgotten_are_sent_once() {
    let layer = IdempotencyLayer::new(MemoryStore::new()).unscoped();
    let service = Service::start(layer.forget_headers([axum::http::header::LOCATION])).await;
    for is_copy in [false, true] {
        let answer = service.send(post("{}").key("k")).await;
        answer.assert(201, is_copy);
        let location = answer.header("location");
        assert_eq!(location.is_some(), !is_copy, "{answer:?}");
        // A session is the first client's alone, whatever else is forgotten.
        let cookie = answer.header("set-cookie");
        assert_eq!(cookie.is_some(), !is_copy, "{answer:?}");
    }
}

/// Whoever says so wants copies to have the first client's session.
#[tokio::test]
async fn cookies_are_sent_to_copies_if_the_layer_says_so() {
    let layer = IdempotencyLayer::new(MemoryStore::new()).unscoped();
    let layer = layer.forget_headers([axum::http::header::LOCATION]);
    let service = Service::start(layer.send_set_cookie_to_copies()).await;
    for is_copy in [false, true] {
        let answer = service.send(post("{}").key("k")).await;
        answer.assert(201, is_copy);
        assert_eq!(answer.header("set-cookie"), Some("session=1"));
        // The others are forgotten as ever.
        assert_eq!(answer.header("location").is_some(), !is_copy, "{answer:?}");
    }
}

#[tokio::test]
async fn what_vanished_is_left_to_a_person_if_the_policy_says_so() {
    let store = MemoryStore::new();
    let policy = Policy::builder()
        .lease(std::time::Duration::from_secs(1))
        .in_doubt(InDoubt::Quarantine);
    let layer = || {
        IdempotencyLayer::new(store.clone())
            .unscoped()
            .policy(policy.build().unwrap())
    };
    let request = post(r#"{"behave":"wait"}"#).key("k");
    {
        // A process that ends in the middle of the work.
        let runtime = tokio::task::spawn_blocking({
            let (layer, request) = (layer(), request.clone());
            move || {
                let runtime = tokio::runtime::Runtime::new().unwrap();
                runtime.block_on(async {
                    let service = Service::start(layer).await;
                    let _sent = service.spawn(request);
                    service.effects.begun().await;
                });
                runtime
            }
        });
        runtime.await.unwrap().shutdown_background();
    }
    let service = Service::start(layer().wait(std::time::Duration::from_secs(10))).await;
    service.send(request).await.assert_problem(409, "in-doubt");
    assert_eq!(service.effects.count(), 0);
}

/// It may be another instance's, which is newer.
#[tokio::test]
async fn a_route_that_is_not_there_is_not_refused_for_good() {
    let service = unscoped::<crate::stores::Memory>().await;
    let request = post("{}").to("/v3/charges").key("k");
    for _ in 0..2 {
        service.send(request.clone()).await.assert(404, false);
    }
}

/// Other credentials may be better.
#[tokio::test]
async fn a_refusal_that_asks_for_credentials_is_not_for_good() {
    let service = unscoped::<crate::stores::Memory>().await;
    let request = post(r#"{"status":403,"behave":"challenge"}"#).key("k");
    for _ in 0..2 {
        service.send(request.clone()).await.assert(403, false);
    }
}

/// Of all that a fallback or a nested service refuses, only that there is no such thing may be another instance's to
/// know.
#[tokio::test]
async fn a_refusal_behind_a_fallback_is_remembered() {
    let layer = IdempotencyLayer::new(MemoryStore::new()).unscoped();
    let effects = Effects::new();
    let inner = Router::new().fallback(charge).with_state(effects.clone());
    let app = Router::new().fallback_service(inner).layer(layer);
    let service = Service::serve(app, effects);
    for (status, is_remembered) in [(422, true), (404, false)] {
        let request = post(&format!(r#"{{"status":{status}}}"#)).key(&status.to_string());
        service.send(request.clone()).await.assert(status, false);
        service.send(request).await.assert(status, is_remembered);
    }
}

/// The client was told to come again.
#[tokio::test]
async fn a_refusal_with_retry_after_is_not_for_good() {
    let service = unscoped::<crate::stores::Memory>().await;
    let request = post(r#"{"status":409,"behave":"retry-after"}"#).key("k");
    for _ in 0..2 {
        service.send(request.clone()).await.assert(409, false);
    }
}
