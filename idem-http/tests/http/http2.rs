//! HTTP/2: many requests on one connection, each of which its client may reset.

use std::{io, net::SocketAddr, time::Duration};

use bytes::Bytes;
use futures_util::stream;
use http::Request;
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::BoxBody};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use idem_core::MemoryStore;
use idem_http::IdempotencyLayer;
use serde_json::Value;
use tokio::{task::JoinHandle, time::timeout};

use crate::{
    cutting::{By, Cut, Proxy},
    service::{PATIENCE, Service},
    stores::{TestStore, on_each_store},
};

on_each_store!(
    of_copies_at_once_on_one_connection_one_runs,
    a_request_that_its_client_resets_runs_to_its_end,
    requests_whose_connection_breaks_run_to_their_end,
    a_key_is_heeded_as_over_any_connection,
    a_body_whose_stream_is_reset_does_not_run,
    a_body_whose_connection_breaks_does_not_run,
);

type Body = BoxBody<Bytes, io::Error>;
type Sender = Client<HttpConnector, Body>;

/// What came back: the status, whether it is a replay, and the body.
type Answer = (u16, bool, Value);

fn sender() -> Sender {
    let mut client = Client::builder(TokioExecutor::new());
    client.http2_only(true).build_http()
}

/// A body whose length is told beforehand.
fn whole(body: &str) -> Body {
    let body = Full::from(body.to_owned());
    body.map_err(|never| match never {}).boxed()
}

/// A body that comes in pieces, and breaks off if one is an error.
fn pieces(pieces: Vec<io::Result<Bytes>>) -> Body {
    let pieces = pieces.into_iter().map(|piece| piece.map(Frame::data));
    StreamBody::new(stream::iter(pieces)).boxed()
}

/// Sends it in the background. `None` if there was no answer.
fn spawn(sender: &Sender, to: SocketAddr, key: &str, body: &str) -> JoinHandle<Option<Answer>> {
    spawn_with(sender, to, Some(key), whole(body))
}

fn spawn_with(
    sender: &Sender,
    to: SocketAddr,
    key: Option<&str>,
    body: Body,
) -> JoinHandle<Option<Answer>> {
    let mut request = Request::post(format!("http://{to}/charges"));
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    let sent = sender.request(request.body(body).unwrap());
    tokio::spawn(async move {
        let response = timeout(PATIENCE, sent).await.expect("it ends").ok()?;
        assert_eq!(response.version(), http::Version::HTTP_2);
        let is_replayed = response.headers().contains_key("idempotency-replayed");
        let status = response.status().as_u16();
        let body = response.collect().await.ok()?.to_bytes();
        let body = serde_json::from_slice(&body).unwrap();
        Some((status, is_replayed, body))
    })
}

async fn service<T: TestStore>() -> Service {
    let opened = T::open().await;
    let layer = IdempotencyLayer::new(opened.store()).unscoped();
    let service = Service::start(layer.wait(Duration::from_secs(30))).await;
    service.keeping(opened)
}

async fn of_copies_at_once_on_one_connection_one_runs<T: TestStore>() {
    let service = service::<T>().await;
    let sender = sender();
    let copies = (0..100).map(|_| spawn(&sender, service.address, "k", "{}"));
    let copies: Vec<_> = copies.collect();
    let mut replayed = 0;
    for copy in copies {
        let (status, is_replayed, body) = copy.await.unwrap().unwrap();
        assert_eq!((status, &body["effects"]), (201, &1.into()));
        replayed += usize::from(is_replayed);
    }
    assert_eq!((replayed, service.effects.count()), (99, 1));
}

async fn a_request_that_its_client_resets_runs_to_its_end<T: TestStore>() {
    let service = service::<T>().await;
    let sender = sender();
    let waiting = r#"{"behave":"wait"}"#;
    let sent = spawn(&sender, service.address, "k", waiting);
    service.effects.begun().await;
    sent.abort();
    assert!(sent.await.unwrap_err().is_cancelled());
    // On the same connection.
    let copy = spawn(&sender, service.address, "k", waiting);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(service.effects.count(), 0);
    service.effects.open();
    let (status, is_replayed, _) = copy.await.unwrap().unwrap();
    assert_eq!(
        (status, is_replayed, service.effects.count()),
        (201, true, 1)
    );
}

async fn requests_whose_connection_breaks_run_to_their_end<T: TestStore>() {
    for by in [By::End, By::Reset] {
        let service = service::<T>().await;
        // In the middle of the responses.
        let proxy = Proxy::start(service.address, move |_| Cut::Response(1000, by)).await;
        let first = sender();
        let sent = (0..50).map(|n| spawn(&first, proxy.address, &n.to_string(), "{}"));
        let sent: Vec<_> = sent.collect();
        let mut lost = 0;
        for sent in sent {
            lost += usize::from(sent.await.unwrap().is_none());
        }
        assert!(lost > 10, "{lost} by {by:?}");
        assert!(proxy.connections() > 0);
        let again = sender();
        let mut effects = Vec::new();
        for n in 0..50 {
            let answer = spawn(&again, service.address, &n.to_string(), "{}").await;
            let (status, _, body) = answer.unwrap().unwrap();
            assert_eq!(status, 201);
            effects.push(body["effects"].as_u64().unwrap());
        }
        effects.sort_unstable();
        assert_eq!(effects, (1..=50).collect::<Vec<_>>(), "{by:?}");
        assert_eq!(service.effects.count(), 50);
    }
}

/// That it is this problem.
#[track_caller]
fn assert_problem(answer: Option<Answer>, status: u16, kind: &str) {
    let (told, is_replayed, problem) = answer.expect("an answer comes");
    assert_eq!((told, is_replayed), (status, false), "{problem}");
    assert_eq!(problem["type"], format!("urn:idem:http:{kind}"));
}

async fn a_key_is_heeded_as_over_any_connection<T: TestStore>() {
    let opened = T::open().await;
    let layer = IdempotencyLayer::new(opened.store()).unscoped();
    let service = Service::start(layer.wait(Duration::from_millis(50))).await;
    let (sender, to) = (sender(), service.address);
    let keyless = spawn_with(&sender, to, None, whole("{}")).await.unwrap();
    assert_problem(keyless, 400, "key-missing");
    let (status, is_replayed, _) = spawn(&sender, to, "k", "{}").await.unwrap().unwrap();
    assert_eq!((status, is_replayed), (201, false));
    let other = spawn(&sender, to, "k", r#"{"id":"o-2"}"#).await.unwrap();
    assert_problem(other, 422, "key-reused");
    let waiting = r#"{"behave":"wait"}"#;
    let first = spawn(&sender, to, "w", waiting);
    for _ in 0..2 {
        service.effects.begun().await;
    }
    let copy = spawn(&sender, to, "w", waiting).await.unwrap();
    assert_problem(copy, 409, "in-progress");
    service.effects.open();
    let (status, is_replayed, _) = first.await.unwrap().unwrap();
    assert_eq!((status, is_replayed), (201, false));
    assert_eq!(service.effects.count(), 2);
}

#[tokio::test]
async fn a_body_is_compared_up_to_its_limit() {
    const LIMIT: usize = 10_000;
    let layer = IdempotencyLayer::new(MemoryStore::new()).unscoped();
    let service = Service::start(layer.max_request(LIMIT)).await;
    let (sender, to) = (sender(), service.address);
    let body = |bytes: usize| format!("{{}}{}", " ".repeat(bytes - 2));
    let in_pieces = |bytes: usize| {
        let body = body(bytes).into_bytes();
        let chunks = body.chunks(1000);
        pieces(chunks.map(|it| Ok(Bytes::copy_from_slice(it))).collect())
    };
    // The larger one is more than a client may send before the server reads on.
    for bytes in [LIMIT + 1, 20 * LIMIT] {
        for body in [whole(&body(bytes)), in_pieces(bytes)] {
            let told = spawn_with(&sender, to, Some("k"), body).await.unwrap();
            assert_problem(told, 413, "body-too-large");
        }
    }
    assert_eq!(service.effects.count(), 0);
    for bytes in [LIMIT - 1, LIMIT] {
        let key = bytes.to_string();
        for (body, is_copy) in [(whole(&body(bytes)), false), (in_pieces(bytes), true)] {
            let answer = spawn_with(&sender, to, Some(&key), body).await.unwrap();
            let (status, is_replayed, _) = answer.unwrap();
            assert_eq!((status, is_replayed), (201, is_copy), "{bytes}");
        }
    }
    assert_eq!(service.effects.count(), 2);
}

async fn a_body_whose_stream_is_reset_does_not_run<T: TestStore>() {
    let service = service::<T>().await;
    let proxy = Proxy::start(service.address, |_| Cut::Never).await;
    let (sender, to) = (sender(), proxy.address);
    let broken = pieces(vec![Ok("{".into()), Err(io::Error::other("it broke off"))]);
    let sent = spawn_with(&sender, to, Some("k"), broken).await;
    assert_eq!(sent.unwrap(), None);
    let (status, is_replayed, body) = spawn(&sender, to, "k", "{}").await.unwrap().unwrap();
    assert_eq!(
        (status, is_replayed, &body["effects"]),
        (201, false, &1.into())
    );
    // The connection stays.
    assert_eq!((proxy.connections(), service.effects.count()), (1, 1));
}

async fn a_body_whose_connection_breaks_does_not_run<T: TestStore>() {
    let service = service::<T>().await;
    for (effects, by) in (1..).zip([By::End, By::Reset]) {
        let key = format!("{by:?}");
        let proxy = Proxy::start(service.address, move |connection| match connection {
            0 => Cut::Request(50_000, by),
            _ => Cut::Never,
        });
        let (sender, proxy) = (sender(), proxy.await);
        let order = format!(r#"{{"id":"{}"}}"#, "x".repeat(100_000));
        let sent = spawn(&sender, proxy.address, &key, &order).await;
        assert_eq!(sent.unwrap(), None);
        let answer = spawn(&sender, proxy.address, &key, &order).await;
        let (status, is_replayed, body) = answer.unwrap().unwrap();
        assert_eq!(
            (status, is_replayed, &body["effects"]),
            (201, false, &effects.into())
        );
        assert_eq!((proxy.connections(), service.effects.count()), (2, effects));
    }
}
