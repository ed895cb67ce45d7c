//! HTTP/2: many requests on one connection, each of which its client may reset.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use idem_http::IdempotencyLayer;
use serde_json::Value;
use tokio::{task::JoinHandle, time::timeout};

use crate::{
    cutting::{Cut, Proxy},
    service::{PATIENCE, Service},
    stores::{TestStore, on_each_store},
};

on_each_store!(
    of_copies_at_once_on_one_connection_one_runs,
    a_request_that_its_client_resets_runs_to_its_end,
    requests_whose_connection_breaks_run_to_their_end,
);

type Sender = Client<HttpConnector, Full<Bytes>>;

fn sender() -> Sender {
    let mut client = Client::builder(TokioExecutor::new());
    client.http2_only(true).build_http()
}

/// Sends it in the background. `None` if there was no answer.
fn spawn(
    sender: &Sender,
    to: std::net::SocketAddr,
    key: &str,
    body: &str,
) -> JoinHandle<Option<(u16, bool, Value)>> {
    let request = Request::post(format!("http://{to}/charges")).header("idempotency-key", key);
    let request = request.body(Full::from(body.to_owned())).unwrap();
    let sent = sender.request(request);
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
    let service = service::<T>().await;
    // In the middle of the responses.
    let proxy = Proxy::start(service.address, |_| Cut::Response(1000)).await;
    let first = sender();
    let sent = (0..50).map(|n| spawn(&first, proxy.address, &n.to_string(), "{}"));
    let sent: Vec<_> = sent.collect();
    let mut lost = 0;
    for sent in sent {
        lost += usize::from(sent.await.unwrap().is_none());
    }
    assert!(lost > 10, "{lost}");
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
    assert_eq!(effects, (1..=50).collect::<Vec<_>>());
    assert_eq!(service.effects.count(), 50);
}
