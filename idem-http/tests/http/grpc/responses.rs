//! What of a response is remembered, what frees the key, and streams.

use std::time::Duration;

use idem_core::MemoryStore;
use idem_http::{Grpc, IdempotencyLayer, KeyRule, Remember};
use tonic::Code;
use tonic_prost::ProstCodec;
use tonic_types::StatusExt as _;

use crate::{
    grpc::service::{Answer, Order, Receipt, Service, order},
    stores::{Memory, TestStore, on_each_store},
};

on_each_store!(
    a_final_status_is_remembered_with_its_details,
    a_status_of_the_moment_frees_the_key_at_once,
    a_message_that_is_too_large_is_sent_and_not_kept,
    a_call_of_more_than_one_message_does_not_run,
    a_response_of_more_than_one_message_is_sent_and_not_kept,
    a_copy_whose_client_reads_nothing_compressed_can_read_it,
);

const LIMIT: usize = 10_000;

async fn unscoped<T: TestStore>() -> Service {
    let opened = T::open().await;
    let layer = IdempotencyLayer::new(opened.store()).unscoped();
    let layer = layer.max_request(LIMIT).max_response(LIMIT);
    let service = Service::start(layer.grpc(Grpc::new())).await;
    service.keeping(opened)
}

const FINAL: [Code; 6] = [
    Code::InvalidArgument,
    Code::NotFound,
    Code::AlreadyExists,
    Code::PermissionDenied,
    Code::FailedPrecondition,
    Code::OutOfRange,
];

async fn a_final_status_is_remembered_with_its_details<T: TestStore>() {
    let service = unscoped::<T>().await;
    for (run, code) in (1..).zip(FINAL) {
        let call = order("o-1").key(&format!("{code:?}"));
        let call = call.but(|order| order.code = code.into());
        let mut first = service.send_raw(&call, call.frame()).await;
        assert_eq!(first.status().code(), code);
        let mut copy = service.send_raw(&call, call.frame()).await;
        assert_eq!(copy.headers.remove("idempotency-replayed").unwrap(), "true");
        for raw in [&mut first, &mut copy] {
            raw.headers.remove("idempotency-retention");
            raw.headers.remove("date");
        }
        assert_eq!(copy, first);
        let copy = service.send(call).await;
        copy.assert(code, true);
        let status = copy.0.unwrap_err();
        assert_eq!(status.message(), format!("no \u{20ac}, {run} runs"));
        assert_eq!(status.get_details_error_info().unwrap().reason, "NO_FUNDS");
        let bytes = status.metadata().get_bin("x-run-bin").unwrap();
        assert_eq!(&*bytes.to_bytes().unwrap(), b"\xff\0");
    }
    assert_eq!(service.effects.count(), FINAL.len());
}

async fn a_status_of_the_moment_frees_the_key_at_once<T: TestStore>() {
    let service = unscoped::<T>().await;
    let mut runs = 0;
    let codes = (1..=16)
        .map(Code::from_i32)
        .filter(|code| !FINAL.contains(code));
    let codes = codes.map(|code| (code, ""));
    // A final one, but for the word to come again.
    let told = ["pushback", "retry-info"].map(|behave| (Code::FailedPrecondition, behave));
    for (code, behave) in codes.chain(told) {
        let call = order("o-1")
            .behave(behave)
            .key(&format!("{code:?}-{behave}"));
        let call = call.but(|order| order.code = code.into());
        for _ in 0..3 {
            runs += 1;
            let answer = service.send(call.clone()).await;
            answer.assert(code, false);
            assert_eq!(answer.metadata("x-run"), Some(&*runs.to_string()));
            assert_eq!(answer.metadata("idempotency-retention"), None);
        }
    }
    for _ in 0..2 {
        runs += 1;
        let told = service
            .send(order("o-1").behave("panic").key("panic"))
            .await;
        told.assert_problem(Code::Internal, "HANDLER_FAILED");
    }
    assert_eq!(service.effects.count(), runs);
    // A method that is not there may be a newer instance's.
    for _ in 0..2 {
        let absent = service
            .send(order("o-1").to("/shop.Charges/Absent").key("absent"))
            .await;
        absent.assert(Code::Unimplemented, false);
    }
}

async fn a_message_that_is_too_large_is_sent_and_not_kept<T: TestStore>() {
    let service = unscoped::<T>().await;
    // Of the limit a frame's head, the id and the padding's own head are taken.
    let padded = |bytes: usize| {
        let call = order("o").key(&bytes.to_string());
        call.but(|order| order.bytes = bytes.try_into().unwrap())
    };
    let frame = |padding: usize| 5 + 3 + 2 + 3 + padding;
    for is_copy in [false, true] {
        let answer = service.send(padded(LIMIT - frame(0))).await;
        answer.assert(Code::Ok, is_copy);
        assert_eq!(answer.0.unwrap().get_ref().padding.len(), LIMIT - frame(0));
    }
    for bytes in [LIMIT - frame(0) + 1, 100 * LIMIT] {
        let before = service.effects.count();
        let answer = service.send(padded(bytes)).await;
        answer.assert(Code::Ok, false);
        assert_eq!(answer.0.unwrap().get_ref().padding.len(), bytes);
        for _ in 0..2 {
            let copy = service.send(padded(bytes)).await;
            copy.assert_problem(Code::AlreadyExists, "RESPONSE_NOT_KEPT");
            assert_eq!(copy.retry_after(), None);
        }
        assert_eq!(service.effects.count(), before + 1);
    }
}

async fn a_copy_whose_client_reads_nothing_compressed_can_read_it<T: TestStore>() {
    let opened = T::open().await;
    let layer = IdempotencyLayer::new(opened.store()).unscoped();
    let layer = layer.key(KeyRule::Optional).grpc(Grpc::new());
    let service = Service::start(layer).await.keeping(opened);
    let call = order("o-1").but(|order| order.bytes = 1000);
    // The server compresses for whoever asks for it, where nothing is kept.
    let asks = call.clone().header("grpc-accept-encoding", "gzip");
    let raw = service.send_raw(&asks, call.frame()).await;
    assert_eq!(raw.headers["grpc-encoding"], "gzip");
    let call = call.key("k");
    let first = service.send(call.clone().reading_gzip()).await;
    first.assert(Code::Ok, false);
    for call in [call.clone(), call.reading_gzip()] {
        let copy = service.send(call).await;
        copy.assert(Code::Ok, true);
        assert_eq!(copy.0.unwrap().get_ref().padding.len(), 1000);
    }
}

#[tokio::test]
async fn a_message_that_is_too_large_to_be_compared_does_not_run() {
    let service = unscoped::<Memory>().await;
    // Of a frame its head, the id and the padding's own head are taken.
    let padded = |bytes: usize| {
        let call = order("o").behave(&"x".repeat(bytes - 5 - 3 - 3));
        assert_eq!(call.frame().len(), bytes);
        call
    };
    let far = order("o").behave(&"x".repeat(10 * LIMIT));
    for (key, call) in [("just", padded(LIMIT + 1)), ("far", far)] {
        let told = service.send(call.key(key)).await;
        told.assert_problem(Code::ResourceExhausted, "BODY_TOO_LARGE");
    }
    assert_eq!(service.effects.count(), 0);
    // The key is as good as new.
    let call = order("o-1").key("just");
    service.send(call).await.assert(Code::Ok, false);
    for bytes in [LIMIT - 1, LIMIT] {
        for is_copy in [false, true] {
            let call = padded(bytes).key(&bytes.to_string());
            service.send(call).await.assert(Code::Ok, is_copy);
        }
    }
}

async fn a_call_of_more_than_one_message_does_not_run<T: TestStore>() {
    let service = unscoped::<T>().await;
    let call = order("o-1").key("k").to("/shop.Charges/Upload");
    let orders = futures_util::stream::iter([call.order.clone(), call.order.clone()]);
    // One that never ends is not waited for.
    let orders = futures_util::StreamExt::chain(orders, futures_util::stream::pending());
    let mut client = tonic::client::Grpc::new(service.channel.clone());
    client.ready().await.unwrap();
    let path = http::uri::PathAndQuery::from_static("/shop.Charges/Upload");
    let codec = ProstCodec::<Order, Receipt>::default();
    let answer = client
        .client_streaming(call.request(orders), path, codec)
        .await;
    Answer(answer).assert_problem(Code::Unimplemented, "STREAMED");
    assert_eq!(service.effects.count(), 0);
    // Nothing is recorded.
    service
        .send(order("o-1").key("k"))
        .await
        .assert(Code::Ok, false);
}

async fn a_response_of_more_than_one_message_is_sent_and_not_kept<T: TestStore>() {
    let service = unscoped::<T>().await;
    let call = order("o-1").key("k").to("/shop.Charges/Watch");
    let watch = async || {
        let mut client = tonic::client::Grpc::new(service.channel.clone());
        client.ready().await.unwrap();
        let path = http::uri::PathAndQuery::from_static("/shop.Charges/Watch");
        let codec = ProstCodec::<Order, Receipt>::default();
        let request = call.request(call.order.clone());
        client.server_streaming(request, path, codec).await
    };
    let mut receipts = watch().await.unwrap().into_inner();
    for id in ["1", "2", "3"] {
        assert_eq!(receipts.message().await.unwrap().unwrap().id, id);
    }
    assert_eq!(receipts.message().await.unwrap(), None);
    for _ in 0..2 {
        let told = watch().await.unwrap_err();
        Answer(Err(told)).assert_problem(Code::AlreadyExists, "RESPONSE_NOT_KEPT");
    }
    assert_eq!(service.effects.count(), 1);
}

#[tokio::test]
async fn a_layer_is_told_what_a_code_means() {
    let layer = IdempotencyLayer::new(MemoryStore::new()).unscoped();
    let grpc = Grpc::new().remember(|code| match code {
        Code::NotFound => Remember::Failed,
        Code::Internal => Remember::Refused,
        _ => Remember::by_code(code),
    });
    let service = Service::start(layer.grpc(grpc)).await;
    for (code, is_remembered) in [
        (Code::NotFound, false),
        (Code::Internal, true),
        (Code::OutOfRange, true),
    ] {
        let call = order("o-1").key(&format!("{code:?}"));
        let call = call.but(|order| order.code = code.into());
        service.send(call.clone()).await.assert(code, false);
        service.send(call).await.assert(code, is_remembered);
    }
}

/// Whoever sends a part of a message and waits is not waited for.
#[tokio::test]
async fn a_message_that_does_not_arrive_in_time_does_not_run() {
    let layer = IdempotencyLayer::new(MemoryStore::new()).unscoped();
    let layer = layer.body_timeout(Duration::from_millis(300));
    let service = Service::start(layer.grpc(Grpc::new())).await;
    let call = order("o-1").key("k").to("/shop.Charges/Upload");
    let mut client = tonic::client::Grpc::new(service.channel.clone());
    client.ready().await.unwrap();
    let path = http::uri::PathAndQuery::from_static("/shop.Charges/Upload");
    let codec = ProstCodec::<Order, Receipt>::default();
    let answer =
        client.client_streaming(call.request(futures_util::stream::pending()), path, codec);
    Answer(answer.await).assert_problem(Code::DeadlineExceeded, "BODY_TIMEOUT");
    assert_eq!(service.effects.count(), 0);
}
