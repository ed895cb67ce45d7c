//! Keys, copies, and what is told apart.

use std::time::Duration;

use idem_core::MemoryStore;
use idem_http::{Grpc, IdempotencyLayer, KeyRule};
use tonic::{Code, transport::Server};
use tower_layer::Layer as _;
use tracing::Level;

use crate::{
    grpc::service::{CHARGE, Call, Charges, Order, Receipt, Service, charge, order},
    service::{Effects, PATIENCE},
    spans::Log,
    stores::{Memory, TestStore, on_each_store},
};

on_each_store!(
    a_copy_of_a_call_is_answered_with_the_response_of_the_first,
    a_copy_of_a_call_under_way_waits_and_is_then_told_when_to_come_again,
    of_a_hundred_calls_at_once_one_runs,
    another_message_under_the_same_key_does_not_run,
    callers_may_use_the_same_key,
    a_key_may_be_a_field_of_the_message,
);

async fn unscoped<T: TestStore>() -> Service {
    let opened = T::open().await;
    let layer = IdempotencyLayer::new(opened.store()).unscoped();
    let service = Service::start(layer.grpc(Grpc::new())).await;
    service.keeping(opened)
}

async fn a_copy_of_a_call_is_answered_with_the_response_of_the_first<T: TestStore>() {
    let service = unscoped::<T>().await;
    let call = order("o-1").key("k-1");
    let mut first = service.send_raw(&call, call.frame()).await;
    assert_eq!(first.status().code(), Code::Ok);
    assert_eq!(first.headers["idempotency-retention"], "259200");
    assert_eq!(first.headers["x-run"], "1");
    let trailers = first.trailers.clone().unwrap();
    assert_eq!(
        (
            &trailers["grpc-status"],
            trailers.get_all("x-sum").iter().count()
        ),
        (&"0".parse().unwrap(), 2)
    );
    for _ in 0..2 {
        let mut copy = service.send_raw(&call, call.frame()).await;
        assert_eq!(copy.headers.remove("idempotency-replayed").unwrap(), "true");
        for raw in [&mut first, &mut copy] {
            raw.headers.remove("idempotency-retention");
            raw.headers.remove("date");
        }
        assert_eq!(copy, first);
    }
    // As tonic's client sees it.
    let copy = service.send(call).await;
    copy.assert(Code::Ok, true);
    let receipt = copy.0.as_ref().unwrap();
    assert_eq!(
        (receipt.get_ref().effects, &*receipt.get_ref().id),
        (1, "o-1")
    );
    let run = receipt.metadata().get_bin("x-run-bin").unwrap();
    assert_eq!(&*run.to_bytes().unwrap(), b"\xff\0");
    service
        .send(order("o-1").key("k-2"))
        .await
        .assert(Code::Ok, false);
    assert_eq!(service.effects.count(), 2);
}

async fn a_copy_of_a_call_under_way_waits_and_is_then_told_when_to_come_again<T: TestStore>() {
    let opened = T::open().await;
    let layer = IdempotencyLayer::new(opened.store()).unscoped();
    let layer = layer.wait(Duration::from_millis(300)).grpc(Grpc::new());
    let service = Service::start(layer).await;
    let call = order("o-1").key("k").behave("wait");
    let first = service.spawn(call.clone());
    service.effects.begun().await;
    let told = service.send(call.clone()).await;
    told.assert_problem(Code::Aborted, "IN_PROGRESS");
    // The lease has 30 s.
    let wait = told.retry_after().unwrap();
    assert!(
        wait > Duration::ZERO && wait <= Duration::from_secs(30),
        "{wait:?}"
    );
    let copy = service.spawn(call.clone());
    service.effects.open();
    first.await.unwrap().assert(Code::Ok, false);
    copy.await.unwrap().assert(Code::Ok, true);
    assert_eq!(service.effects.count(), 1);
}

async fn of_a_hundred_calls_at_once_one_runs<T: TestStore>() {
    let opened = T::open().await;
    let layer = IdempotencyLayer::new(opened.store()).unscoped();
    let layer = layer.wait(Duration::from_secs(30)).grpc(Grpc::new());
    let service = Service::start(layer).await;
    let calls: Vec<_> = (0..100)
        .map(|_| service.spawn(order("o-1").key("k")))
        .collect();
    let mut replayed = 0;
    for call in calls {
        let answer = call.await.unwrap();
        assert_eq!(
            (answer.code(), answer.effects()),
            (Code::Ok, 1),
            "{answer:?}"
        );
        replayed += usize::from(answer.is_replayed());
    }
    assert_eq!((replayed, service.effects.count()), (99, 1));
}

async fn another_message_under_the_same_key_does_not_run<T: TestStore>() {
    let service = unscoped::<T>().await;
    service
        .send(order("o-1").key("k"))
        .await
        .assert(Code::Ok, false);
    for other in [order("o-2"), order("o-1").to("/shop.Charges/Refund")] {
        let told = service.send(other.key("k")).await;
        told.assert_problem(Code::InvalidArgument, "KEY_REUSED");
        assert_eq!(told.retry_after(), None);
    }
    service
        .send(order("o-1").key("k"))
        .await
        .assert(Code::Ok, true);
    assert_eq!(service.effects.count(), 1);
}

async fn callers_may_use_the_same_key<T: TestStore>() {
    let opened = T::open().await;
    let layer = IdempotencyLayer::new(opened.store()).scoped_by(|request| {
        let tenant = request.headers.get("x-tenant")?;
        tenant.to_str().ok().map(str::to_owned)
    });
    let service = Service::start(layer.grpc(Grpc::new())).await;
    let call = order("o-1").key("k");
    for tenant in ["acme", "umbrella"] {
        for is_copy in [false, true] {
            let answer = service.send(call.clone().header("x-tenant", tenant)).await;
            answer.assert(Code::Ok, is_copy);
        }
    }
    let told = service.send(call).await;
    told.assert_problem(Code::InvalidArgument, "SCOPE_MISSING");
    assert_eq!(service.effects.count(), 2);
}

async fn a_key_may_be_a_field_of_the_message<T: TestStore>() {
    let opened = T::open().await;
    let layer = IdempotencyLayer::new(opened.store()).unscoped();
    let grpc = Grpc::new().key_from("/shop.Charges/Charge", |order: &Order| {
        order.request_id.clone()
    });
    let service = Service::start(layer.grpc(grpc)).await;
    let named = |key: &str| order("o-1").but(|order| order.request_id = key.into());
    service.send(named("k")).await.assert(Code::Ok, false);
    service.send(named("k")).await.assert(Code::Ok, true);
    // What a client's library puts into the metadata is another matter.
    service
        .send(named("k").key("by-the-library"))
        .await
        .assert(Code::Ok, true);
    // The same names space: it is the key that is in the metadata of others.
    let other = service.send(order("o-2").key("k")).await;
    other.assert_problem(Code::InvalidArgument, "KEY_REUSED");
    service
        .send(order("o-1").key("m"))
        .await
        .assert(Code::Ok, false);
    service
        .send(order("o-1").key("m"))
        .await
        .assert(Code::Ok, true);
    assert_eq!(service.effects.count(), 2);
    let nameless = service.send(order("o-1")).await;
    nameless.assert_problem(Code::InvalidArgument, "KEY_MISSING");
    let long = service.send(named(&"k".repeat(256))).await;
    long.assert_problem(Code::InvalidArgument, "KEY_INVALID");
    // Methods that were not named have theirs in the metadata.
    let refund = |call: Call| call.to("/shop.Charges/Refund");
    let told = service.send(refund(named("r"))).await;
    told.assert_problem(Code::InvalidArgument, "KEY_MISSING");
    service
        .send(refund(named("r").key("r")))
        .await
        .assert(Code::Ok, false);
    assert_eq!(service.effects.count(), 3);
}

#[tokio::test]
async fn a_key_whose_function_panics_is_told_and_does_not_run() {
    let layer = IdempotencyLayer::new(MemoryStore::new()).unscoped();
    let grpc = Grpc::new().key_from(CHARGE, |_: &Order| panic!("nobody knows"));
    let service = Service::start(layer.grpc(grpc)).await;
    let told = service.send(order("o-1").key("k")).await;
    told.assert_problem(Code::Internal, "HANDLER_FAILED");
    assert_eq!(service.effects.count(), 0);
}

#[tokio::test]
async fn a_message_whose_key_cannot_be_read_does_not_run() {
    let grpc = Grpc::new().key_from("/shop.Charges/Charge", |order: &Order| {
        order.request_id.clone()
    });
    let layer = IdempotencyLayer::new(MemoryStore::new()).unscoped();
    let service = Service::start(layer.grpc(grpc)).await;
    let call = order("o-1").key("k");
    let mut compressed = call.frame();
    compressed[0] = 1;
    for (frame, code) in [
        (compressed, Code::Unimplemented),
        (b"\0\0\0\0\x02\x0a\xff".to_vec(), Code::InvalidArgument),
        (b"\0\0\0\0\x03\x0a".to_vec(), Code::InvalidArgument),
        (Vec::new(), Code::InvalidArgument),
    ] {
        let told = service.send_raw(&call, frame).await;
        assert_eq!(told.status().code(), code, "{told:?}");
        assert_eq!((told.body.len(), &told.trailers), (0, &None));
    }
    assert_eq!(service.effects.count(), 0);
}

#[tokio::test]
async fn a_call_without_a_usable_key_does_not_run() {
    let service = unscoped::<Memory>().await;
    let told = service.send(order("o-1")).await;
    told.assert_problem(Code::InvalidArgument, "KEY_MISSING");
    for key in ["", "a b", &"k".repeat(256)] {
        let told = service.send(order("o-1").key(key)).await;
        told.assert_problem(Code::InvalidArgument, "KEY_INVALID");
    }
    let twice = service.send(order("o-1").key("a").key("b")).await;
    twice.assert_problem(Code::InvalidArgument, "KEY_INVALID");
    assert_eq!(service.effects.count(), 0);
}

#[tokio::test]
async fn an_optional_key_protects_the_calls_that_have_one() {
    let layer = IdempotencyLayer::new(MemoryStore::new()).unscoped();
    let service = Service::start(layer.grpc(Grpc::new()).key(KeyRule::Optional)).await;
    for _ in 0..2 {
        let answer = service.send(order("o-1")).await;
        answer.assert(Code::Ok, false);
        assert_eq!(answer.metadata("idempotency-retention"), None);
    }
    service
        .send(order("o-1").key("k"))
        .await
        .assert(Code::Ok, false);
    service
        .send(order("o-1").key("k"))
        .await
        .assert(Code::Ok, true);
    assert_eq!(service.effects.count(), 3);
}

#[tokio::test]
async fn a_stream_without_a_key_is_passed_through_if_keys_are_optional() {
    let layer = IdempotencyLayer::new(MemoryStore::new()).unscoped();
    let effects = Effects::new();
    let handler = move |_| -> super::service::BoxFuture<_> { unreachable!("nobody charges") };
    let layer = layer.grpc(Grpc::new()).key(KeyRule::Optional);
    let service = Service::serve(layer, effects, handler).await;
    // Neither side has ended, and each hears of the other: nobody waits for an end.
    let (sender, sent) = tokio::sync::mpsc::unbounded_channel::<Order>();
    sender.send(order("o-1").order).unwrap();
    let sent = futures_util::stream::unfold(sent, async |mut sent| {
        sent.recv().await.map(|order| (order, sent))
    });
    let mut client = tonic::client::Grpc::new(service.channel.clone());
    client.ready().await.unwrap();
    let path = http::uri::PathAndQuery::from_static("/shop.Charges/Echo");
    let codec = tonic_prost::ProstCodec::<Order, Receipt>::default();
    let echoing = client.streaming(tonic::Request::new(sent), path, codec);
    let echoing = tokio::time::timeout(PATIENCE, echoing).await;
    let mut echoes = echoing.expect("an answer comes").unwrap().into_inner();
    for id in ["o-1", "o-2"] {
        let echo = tokio::time::timeout(PATIENCE, echoes.message()).await;
        assert_eq!(echo.expect("an echo comes").unwrap().unwrap().id, id);
        sender.send(order("o-2").order).unwrap();
    }
}

#[tokio::test]
async fn a_key_from_a_field_makes_its_method_one_of_the_chosen() {
    let layer = IdempotencyLayer::new(MemoryStore::new()).unscoped();
    let grpc = Grpc::new().key_from(CHARGE, |order: &Order| order.request_id.clone());
    let grpc = grpc.only(["/shop.Charges/Refund"]);
    let service = Service::start(layer.grpc(grpc)).await;
    for is_copy in [false, true] {
        let call = order("o-1").but(|order| order.request_id = "k".into());
        service.send(call).await.assert(Code::Ok, is_copy);
    }
    assert_eq!(service.effects.count(), 1);
}

#[tokio::test]
async fn a_key_that_nobody_heeds_is_logged_once_for_each_method() {
    let (log, _here) = Log::here(Level::INFO);
    let layer = IdempotencyLayer::new(MemoryStore::new()).unscoped();
    let grpc = Grpc::new().only(["/shop.Charges/Watch"]);
    let service = Service::start(layer.grpc(grpc)).await;
    let refund = order("o-1").to("/shop.Charges/Refund");
    for call in [
        order("o-1"),
        refund.clone().key("k"),
        refund.key("l"),
        order("o-1").key("k"),
    ] {
        service.send(call).await.assert(Code::Ok, false);
    }
    let warned = log.warnings();
    assert_eq!(warned.len(), 2, "{warned:?}");
    assert!(warned[0].contains("/shop.Charges/Refund"), "{warned:?}");
    assert!(warned[1].contains(CHARGE), "{warned:?}");
}

#[tokio::test]
async fn a_request_that_is_not_grpc_does_not_run() {
    let service = unscoped::<Memory>().await;
    let call = order("o-1").key("k");
    for other in [
        None,
        Some("application/json"),
        Some("application/grpc-web"),
        Some("application/grpc-web+proto"),
        Some("application/grpc-web-text"),
        Some("application/grpcs"),
    ] {
        let told = service.send_as(&call, other, call.frame()).await;
        assert_eq!(told.http, 415, "{other:?}");
        assert_eq!(told.headers["content-type"], "application/problem+json");
        let problem: serde_json::Value = serde_json::from_slice(&told.body).unwrap();
        assert_eq!(problem["type"], "urn:idem:http:other-protocol");
    }
    assert_eq!(service.effects.count(), 0);
    for grpc in [
        "application/grpc",
        "application/grpc+proto",
        "application/grpc;charset=utf-8",
    ] {
        let call = order("o-1").key(&format!("\"{grpc}\""));
        let told = service.send_as(&call, Some(grpc), call.frame()).await;
        assert_eq!(told.status().code(), Code::Ok, "{grpc}");
    }
    assert_eq!(service.effects.count(), 3);
}

#[tokio::test]
async fn a_layer_for_http_round_one_for_grpc_says_that_it_is_the_wrong_one() {
    let effects = Effects::new();
    let counted = effects.clone();
    let handler = move |request: tonic::Request<Order>| -> super::service::BoxFuture<_> {
        Box::pin(charge(counted.clone(), request.into_inner()))
    };
    let http = IdempotencyLayer::new(MemoryStore::new()).unscoped();
    let grpc = IdempotencyLayer::new(MemoryStore::new()).unscoped();
    let charges = grpc
        .grpc(Grpc::new())
        .layer(Charges::new(handler, effects.clone()));
    let mut server = Server::builder().layer(http.key(KeyRule::Optional));
    let service = Service::listen(effects, |incoming| {
        server.add_service(charges).serve_with_incoming(incoming)
    });
    let service = service.await;
    let failing = |call: Call| call.but(|order| order.code = Code::Unavailable.into());
    for call in [
        order("o-1").key("k"),
        order("o-1"),
        failing(order("o-1").key("l")),
    ] {
        let told = service.send(call).await;
        told.assert(Code::Unimplemented, false);
    }
    assert_eq!(service.effects.count(), 0);
}

#[tokio::test]
async fn methods_that_were_not_chosen_are_passed_through() {
    let layer = IdempotencyLayer::new(MemoryStore::new()).unscoped();
    let grpc = Grpc::new().only(["/shop.Charges/Charge"]);
    let service = Service::start(layer.grpc(grpc)).await;
    for _ in 0..2 {
        let answer = service
            .send(order("o-1").to("/shop.Charges/Refund").key("k"))
            .await;
        answer.assert(Code::Ok, false);
        assert_eq!(answer.metadata("idempotency-retention"), None);
    }
    service
        .send(order("o-1").key("k"))
        .await
        .assert(Code::Ok, false);
    service
        .send(order("o-1").key("k"))
        .await
        .assert(Code::Ok, true);
}

#[tokio::test]
async fn a_layer_may_be_round_one_service_of_several() {
    let effects = Effects::new();
    let handler = {
        let effects = effects.clone();
        move |request: tonic::Request<Order>| -> super::service::BoxFuture<_> {
            Box::pin(charge(effects.clone(), request.into_inner()))
        }
    };
    let layer = IdempotencyLayer::new(MemoryStore::new()).unscoped();
    let charges = layer
        .grpc(Grpc::new())
        .layer(Charges::new(handler, effects.clone()));
    let mut server = Server::builder();
    let service = Service::listen(effects, |incoming| {
        server.add_service(charges).serve_with_incoming(incoming)
    });
    let service = service.await;
    service
        .send(order("o-1").key("k"))
        .await
        .assert(Code::Ok, false);
    service
        .send(order("o-1").key("k"))
        .await
        .assert(Code::Ok, true);
    assert_eq!(service.effects.count(), 1);
}
