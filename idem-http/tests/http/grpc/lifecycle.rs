//! Clients that go away or wait for long, and services that end.

use std::time::Duration;

use idem_core::MemoryStore;
use idem_http::{Grpc, IdempotencyLayer};
use tonic::Code;

use crate::{
    grpc::service::{Service, order},
    service::PATIENCE,
    stores::{TestStore, on_each_store},
};

on_each_store!(
    a_call_that_its_client_cancels_runs_to_its_end,
    a_call_whose_deadline_passes_runs_to_its_end,
    a_caller_that_waits_too_long_gets_its_response_later,
);

async fn a_call_that_its_client_cancels_runs_to_its_end<T: TestStore>() {
    let opened = T::open().await;
    let layer = IdempotencyLayer::new(opened.store()).unscoped();
    let layer = layer.wait(Duration::from_secs(30)).grpc(Grpc::new());
    let service = Service::start(layer).await;
    let call = order("o-1").key("k").behave("wait");
    let sent = service.spawn(call.clone());
    service.effects.begun().await;
    // Which resets its stream.
    sent.abort();
    assert!(sent.await.unwrap_err().is_cancelled());
    let copy = service.spawn(call);
    // The server has time to notice.
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(service.effects.count(), 0);
    service.effects.open();
    copy.await.unwrap().assert(Code::Ok, true);
    assert_eq!(service.effects.count(), 1);
}

async fn a_call_whose_deadline_passes_runs_to_its_end<T: TestStore>() {
    let opened = T::open().await;
    let layer = IdempotencyLayer::new(opened.store()).unscoped();
    let layer = layer.wait(Duration::from_secs(30)).grpc(Grpc::new());
    let service = Service::start(layer).await;
    let call = order("o-1").key("k").behave("wait");
    // Its handler begins before that, though a busy machine stalls a process.
    let late = service.spawn(call.clone().within(Duration::from_secs(8)));
    service.effects.begun().await;
    let late = late.await.unwrap();
    // Client and server look at the same clock; whoever is first says so.
    assert!(
        matches!(late.code(), Code::Cancelled | Code::DeadlineExceeded),
        "{late:?}"
    );
    let copy = service.spawn(call);
    service.effects.open();
    copy.await.unwrap().assert(Code::Ok, true);
    assert_eq!(service.effects.count(), 1);
}

async fn a_caller_that_waits_too_long_gets_its_response_later<T: TestStore>() {
    let opened = T::open().await;
    let layer = IdempotencyLayer::new(opened.store()).unscoped();
    let layer = layer.wait(Duration::from_secs(30)).grpc(Grpc::new());
    let layer = layer.deadline(Duration::from_millis(100));
    let service = Service::start(layer).await;
    let call = order("o-1").key("k").behave("wait");
    for _ in 0..2 {
        let told = service.send(call.clone()).await;
        told.assert_problem(Code::Aborted, "DEADLINE");
        assert_eq!(told.retry_after(), Some(Duration::from_secs(1)));
    }
    service.effects.open();
    let mut copy = service.send(call.clone()).await;
    while copy.code() == Code::Aborted {
        copy = service.send(call.clone()).await;
    }
    copy.assert(Code::Ok, true);
    assert_eq!(service.effects.count(), 1);
}

#[tokio::test]
async fn a_server_that_ends_waits_for_its_calls_and_starts_none() {
    let layer = IdempotencyLayer::new(MemoryStore::new()).unscoped();
    let layer = layer.grpc(Grpc::new());
    let service = Service::start(layer.clone()).await;
    let call = order("o-1").key("k").behave("wait");
    let sent = service.spawn(call.clone());
    service.effects.begun().await;
    assert!(!layer.drain(Duration::from_millis(50)).await);
    let refused = service.send(order("o-2").key("other")).await;
    refused.assert_problem(Code::Unavailable, "SHUTTING_DOWN");
    assert_eq!(refused.retry_after(), Some(Duration::from_secs(1)));
    service.effects.open();
    assert!(layer.drain(PATIENCE).await);
    sent.await.unwrap().assert(Code::Ok, false);
    service.send(call).await.assert(Code::Ok, true);
    assert_eq!(service.effects.count(), 1);
}
