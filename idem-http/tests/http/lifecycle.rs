//! Clients that go away or wait for long, and services that end.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    Json, Router,
    response::{IntoResponse as _, Response},
};
use idem_core::{MemoryStore, Policy, handler::Attempt};
use idem_http::{IdempotencyLayer, KeyRule};
use tower_layer::Layer as _;

use crate::{
    client::post,
    service::{Effects, PATIENCE, Service},
    stores::{TestStore, on_each_store},
};

on_each_store!(
    a_handler_whose_client_has_gone_runs_to_its_end,
    a_client_that_waits_too_long_gets_its_response_later,
    a_request_whose_service_is_not_ready_does_not_run,
);

/// A service that is not ready before it is told.
#[derive(Clone)]
pub(crate) struct Unready(pub(crate) Arc<AtomicBool>);

impl tower_service::Service<axum::extract::Request> for Unready {
    type Response = Response;
    type Error = Infallible;
    type Future = Ready<Result<Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        if self.0.load(SeqCst) {
            Poll::Ready(Ok(()))
        } else {
            Poll::Pending
        }
    }

    fn call(&mut self, request: axum::extract::Request) -> Self::Future {
        let attempt = request.extensions().get::<Attempt>().unwrap().number();
        ready(Ok(Json(attempt).into_response()))
    }
}

/// Nothing of it is recorded.
async fn a_request_whose_service_is_not_ready_does_not_run<T: TestStore>() {
    let opened = T::open().await;
    // No lease ends within this test.
    let policy = Policy::builder().lease(10 * PATIENCE).build().unwrap();
    let layer = IdempotencyLayer::new(opened.store()).unscoped();
    let layer = layer.policy(policy).wait(Duration::from_secs(1));
    let is_ready = Arc::new(AtomicBool::new(false));
    let app = layer.layer(Unready(Arc::clone(&is_ready)));
    let app = Router::new().route_service("/charges", app);
    let service = Service::serve(app, Effects::new());
    let request = post("{}").key("k");
    let told = service.send(request.clone()).await;
    told.assert_problem(503, "busy");
    assert_eq!(told.header("retry-after"), Some("1"));
    is_ready.store(true, SeqCst);
    for is_copy in [false, true] {
        let answer = service.send(request.clone()).await;
        answer.assert(200, is_copy);
        assert_eq!(answer.json(), 1);
    }
}

async fn a_handler_whose_client_has_gone_runs_to_its_end<T: TestStore>() {
    let opened = T::open().await;
    let layer = IdempotencyLayer::new(opened.store()).unscoped();
    let service = Service::start(layer.wait(Duration::from_secs(30))).await;
    let request = post(r#"{"behave":"wait"}"#).key("k");
    request
        .send_and_leave(service.address, service.effects.begun())
        .await;
    let copy = service.spawn(request);
    // The server has time to notice.
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(service.effects.count(), 0);
    service.effects.open();
    copy.await.unwrap().assert(201, true);
    assert_eq!(service.effects.count(), 1);
}

async fn a_client_that_waits_too_long_gets_its_response_later<T: TestStore>() {
    let opened = T::open().await;
    let layer = IdempotencyLayer::new(opened.store()).unscoped();
    let layer = layer.wait(Duration::from_secs(30));
    let service = Service::start(layer.deadline(Duration::from_millis(100))).await;
    let request = post(r#"{"behave":"wait"}"#).key("k");
    for _ in 0..2 {
        let answer = service.send(request.clone()).await;
        answer.assert_problem(503, "deadline");
        assert_eq!(answer.header("retry-after"), Some("1"));
    }
    service.effects.open();
    let mut copy = service.send(request.clone()).await;
    while copy.status == 503 {
        copy = service.send(request.clone()).await;
    }
    copy.assert(201, true);
    assert_eq!(service.effects.count(), 1);
}

/// It would be told to come again while its handler runs, and another one would run beside it.
#[tokio::test]
async fn a_client_without_a_key_waits_for_its_response() {
    let layer = IdempotencyLayer::new(MemoryStore::new()).unscoped();
    let layer = layer
        .key(KeyRule::Optional)
        .deadline(Duration::from_millis(50));
    let service = Service::start(layer).await;
    let sent = service.spawn(post(r#"{"behave":"wait"}"#));
    service.effects.begun().await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    service.effects.open();
    sent.await.unwrap().assert(201, false);
    assert_eq!(service.effects.count(), 1);
}

#[tokio::test]
async fn a_service_that_ends_waits_for_its_handlers_and_starts_none() {
    let layer = IdempotencyLayer::new(MemoryStore::new()).unscoped();
    let service = Service::start(layer.clone()).await;
    let request = post(r#"{"behave":"wait"}"#).key("k");
    request
        .send_and_leave(service.address, service.effects.begun())
        .await;
    assert!(!layer.drain(Duration::from_millis(50)).await);
    let refused = service.send(post("{}").key("other")).await;
    refused.assert_problem(503, "shutting-down");
    assert_eq!(refused.header("retry-after"), Some("1"));
    service.effects.open();
    assert!(layer.drain(PATIENCE).await);
    assert_eq!(service.effects.count(), 1);
    // What is done is told to the last.
    service.send(request).await.assert(201, true);
}
