//! Clients with keys and retries, against services with the layer.

use std::{
    convert::Infallible,
    future::poll_fn,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures_util::StreamExt as _;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use idem_core::{ErrorChain, Key, MemoryStore, Policy};
use idem_http::{
    IdempotencyLayer, KeyRule,
    client::{ClientLayer, RetryPolicy, Sending, SentKey, Unanswered},
};
use serde_json::Value;
use tokio::time::timeout;
use tower_layer::Layer as _;
use tower_service::Service as _;
use tracing::Level;

use crate::{
    cutting::{By, Cut, Proxy},
    service::{Effects, PATIENCE, Service},
    spans::Log,
    stores::{TestStore, on_each_store},
};

on_each_store!(
    a_request_that_is_cut_off_is_sent_again_and_has_its_effect_once,
    of_many_requests_over_a_bad_network_each_has_its_effect_once,
);

/// Counts the requests that are sent.
#[derive(Clone)]
struct Counting {
    client: Client<HttpConnector, Full<Bytes>>,
    sent: Arc<AtomicUsize>,
}

impl Counting {
    fn new(sent: &Arc<AtomicUsize>) -> Self {
        let client = Client::builder(TokioExecutor::new()).build_http();
        let sent = Arc::clone(sent);
        Self { client, sent }
    }
}

impl tower_service::Service<Request<Full<Bytes>>> for Counting {
    type Response = Response<hyper::body::Incoming>;
    type Error = hyper_util::client::legacy::Error;
    type Future = hyper_util::client::legacy::ResponseFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.client.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Self::Future {
        self.sent.fetch_add(1, SeqCst);
        self.client.call(request)
    }
}

/// A client that waits little.
#[derive(Clone)]
struct Sender {
    client: Sending<Counting>,
    sent: Arc<AtomicUsize>,
    to: SocketAddr,
}

struct Answer {
    status: u16,
    is_replayed: bool,
    body: Value,
}

impl Sender {
    fn new(to: SocketAddr) -> Self {
        let retries = RetryPolicy::new().max_tries(100);
        Self::with(
            to,
            retries.waits(Duration::from_millis(5), Duration::from_millis(100)),
        )
    }

    fn with(to: SocketAddr, retries: RetryPolicy) -> Self {
        let sent = Arc::new(AtomicUsize::new(0));
        let counting = Counting::new(&sent);
        let client = ClientLayer::new().retries(retries).layer(counting);
        Self { client, sent, to }
    }

    async fn post(&self, body: &str, key: Option<&str>) -> Answer {
        self.try_post(body, key).await.unwrap()
    }

    async fn try_post(
        &self,
        body: &str,
        key: Option<&str>,
    ) -> Result<Answer, Box<dyn std::error::Error + Send + Sync>> {
        let mut request = Request::post(format!("http://{}/charges", self.to));
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let request = request.body(Full::from(body.to_owned())).unwrap();
        let mut client = self.client.clone();
        poll_fn(|cx| client.poll_ready(cx)).await.unwrap();
        let response = timeout(PATIENCE, client.call(request)).await;
        let (head, body) = response.expect("an answer comes")?.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Ok(Answer {
            status: head.status.as_u16(),
            is_replayed: head.headers.contains_key("idempotency-replayed"),
            body: serde_json::from_slice(&body).unwrap_or_default(),
        })
    }

    fn sent(&self) -> usize {
        self.sent.load(SeqCst)
    }
}

async fn service<T: TestStore>() -> Service {
    let opened = T::open().await;
    let layer = IdempotencyLayer::new(opened.store()).unscoped();
    let service = Service::start(layer.wait(Duration::from_secs(30))).await;
    service.keeping(opened)
}

async fn a_request_that_is_cut_off_is_sent_again_and_has_its_effect_once<T: TestStore>() {
    let service = service::<T>().await;
    // In the head and in the body of the request, before the response, in its head and in its body.
    let cuts = [By::End, By::Reset].into_iter().flat_map(|by| {
        let requests = [1, 100, 200, 1000].map(|bytes| Cut::Request(bytes, by));
        let responses = [1, 100, 250, 400].map(|bytes| Cut::Response(bytes, by));
        requests.into_iter().chain(responses)
    });
    for (effects, cut) in (1..).zip(cuts) {
        let proxy = Proxy::start(service.address, move |connection| match connection {
            0..3 => cut,
            _ => Cut::Never,
        });
        let proxy = proxy.await;
        let sender = Sender::new(proxy.address);
        let id = "x".repeat(1000);
        let answer = sender.post(&format!(r#"{{"id":"{id}"}}"#), None).await;
        assert_eq!(
            (answer.status, &answer.body["effects"]),
            (201, &effects.into()),
            "{cut:?}"
        );
        assert_eq!(answer.body["id"], *id, "{cut:?}");
        // What was answered in the end is the first response if that was lost.
        let is_lost = matches!(cut, Cut::Response(..));
        assert_eq!(answer.is_replayed, is_lost, "{cut:?}");
        assert_eq!((proxy.connections(), sender.sent()), (4, 4), "{cut:?}");
        assert_eq!(service.effects.count(), effects, "{cut:?}");
    }
}

async fn of_many_requests_over_a_bad_network_each_has_its_effect_once<T: TestStore>() {
    let service = service::<T>().await;
    // Two of three connections break, every other of them by a reset.
    let proxy = Proxy::start(service.address, |connection| {
        let by = if connection % 12 < 6 {
            By::End
        } else {
            By::Reset
        };
        match connection % 6 {
            0 | 3 => Cut::Never,
            1 => Cut::Request(connection % 300 + 1, by),
            _ => Cut::Response(connection % 400 + 1, by),
        }
    });
    let proxy = proxy.await;
    let sender = Sender::new(proxy.address);
    let sending = (0..200).map(|n| {
        let sender = sender.clone();
        tokio::spawn(async move {
            let answer = sender.post(&format!(r#"{{"id":"{n}"}}"#), None).await;
            assert_eq!(
                (answer.status, &answer.body["id"]),
                (201, &n.to_string().into())
            );
            answer.body["effects"].as_u64().unwrap()
        })
    });
    let sending: Vec<_> = sending.collect();
    let mut effects = Vec::new();
    for sent in sending {
        effects.push(sent.await.unwrap());
    }
    effects.sort_unstable();
    assert_eq!(effects, (1..=200).collect::<Vec<_>>());
    assert_eq!(service.effects.count(), 200);
    assert!(sender.sent() > 200);
}

/// For as long as it lasts at most, a copy is asked to wait.
fn short_lease() -> Policy {
    let policy = Policy::builder().lease(Duration::from_secs(1));
    policy.build().unwrap()
}

#[tokio::test]
async fn a_copy_comes_again_when_it_is_told_to() {
    let layer = IdempotencyLayer::new(MemoryStore::new()).unscoped();
    let layer = layer.policy(short_lease()).wait(Duration::ZERO);
    let service = Service::start(layer.deadline(Duration::from_millis(100))).await;
    let sender = Sender::new(service.address);
    let body = r#"{"behave":"wait"}"#;
    let sent = [(); 2].map(|()| {
        let sender = sender.clone();
        tokio::spawn(async move { sender.post(body, Some("k")).await })
    });
    service.effects.begun().await;
    while sender.sent() < 4 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    service.effects.open();
    for sent in sent {
        let answer = sent.await.unwrap();
        // The first one was let go of after its deadline, and is a copy of itself now.
        assert_eq!((answer.status, answer.is_replayed), (201, true));
    }
    assert_eq!(service.effects.count(), 1);
}

#[tokio::test]
async fn what_is_said_for_good_is_not_asked_again() {
    let layer = IdempotencyLayer::new(MemoryStore::new()).unscoped();
    let layer = layer.max_request(1000).max_response(1000);
    let service = Service::start(layer).await;
    let sender = Sender::new(service.address);
    let large = format!(r#"{{"id":"{}"}}"#, "x".repeat(1000));
    let mut sent = 0;
    for (body, key, status) in [
        ("{}", "done", 201),
        (r#"{"id":"other"}"#, "done", 422),
        (&*large, "large", 413),
        ("{}", "a b", 400),
        (r#"{"status":403}"#, "refused", 403),
        (r#"{"status":500}"#, "failed", 500),
        (r#"{"bytes":1001}"#, "not kept", 400),
        (r#"{"bytes":1001}"#, "not-kept", 201),
        (r#"{"bytes":1001}"#, "not-kept", 409),
    ] {
        sent += 1;
        let answer = sender.post(body, Some(key)).await;
        assert_eq!((answer.status, sender.sent()), (status, sent), "{key}");
    }
}

#[tokio::test]
async fn tries_are_bounded() {
    let layer = IdempotencyLayer::new(MemoryStore::new()).unscoped();
    let service = Service::start(layer).await;
    let quick = RetryPolicy::new().waits(Duration::from_millis(5), Duration::from_millis(5));
    let sender = Sender::with(service.address, quick.clone().max_tries(3));
    let answer = sender.post(r#"{"status":503}"#, None).await;
    assert_eq!(
        (answer.status, sender.sent(), service.effects.count()),
        (503, 3, 3)
    );
    // Somebody who listens and says nothing but that it is over.
    let proxy = Proxy::start(service.address, |_| Cut::Response(1, By::End)).await;
    let sender = Sender::with(proxy.address, quick.max_tries(3));
    assert!(sender.try_post("{}", None).await.is_err());
    assert_eq!((sender.sent(), proxy.connections()), (3, 3));
    // A wait that is asked for, and is longer than there is time.
    let brief = RetryPolicy::new().max_time(Duration::from_millis(500));
    let sender = Sender::with(service.address, brief);
    let body = r#"{"status":503,"behave":"retry-after"}"#;
    assert_eq!(sender.post(body, None).await.status, 503);
    assert_eq!(sender.sent(), 1);
}

#[tokio::test]
async fn a_stream_of_events_is_handed_on_as_it_comes() {
    let events = async || {
        let first = futures_util::stream::once(async { Ok::<_, Infallible>("data: 1\n\n") });
        let endless = first.chain(futures_util::stream::pending());
        let kind = [("content-type", "text/event-stream; charset=utf-8")];
        (kind, axum::body::Body::from_stream(endless))
    };
    let app = axum::Router::new().route("/charges", axum::routing::post(events));
    let service = Service::serve(app, Effects::new());
    let mut client = Sender::new(service.address).client;
    let request = Request::post(format!("http://{}/charges", service.address));
    let request = request.body(Full::default()).unwrap();
    let event = async {
        client
            .call(request)
            .await
            .unwrap()
            .into_body()
            .frame()
            .await
    };
    let event = timeout(Duration::from_secs(10), event).await;
    let event = event.expect("an event comes").unwrap().unwrap();
    assert_eq!(event.into_data().unwrap(), "data: 1\n\n");
}

#[tokio::test]
async fn only_paths_that_the_service_covers_get_keys_and_retries() {
    let layer = IdempotencyLayer::new(MemoryStore::new()).unscoped();
    let service = Service::start(layer.key(KeyRule::Optional)).await;
    let quick = RetryPolicy::new().waits(Duration::from_millis(5), Duration::from_millis(5));
    let layer = ClientLayer::new().retries(quick.max_tries(3));
    let mut sender = Sender::new(service.address);
    sender.client = layer
        .only(|path| path == "/charges")
        .layer(Counting::new(&sender.sent));
    for (path, tries) in [("/charges", 3), ("/refunds/1", 1)] {
        let before = sender.sent();
        let request = Request::post(format!("http://{}{path}", service.address));
        let request = request.body(Full::from(r#"{"status":503}"#)).unwrap();
        let answer = sender.client.call(request).await.unwrap();
        assert_eq!(
            (answer.status().as_u16(), sender.sent() - before),
            (503, tries)
        );
        let has_key = answer.extensions().get::<SentKey>().is_some();
        assert_eq!(has_key, tries > 1, "{path}");
    }
}

#[tokio::test]
async fn who_gets_an_answer_or_none_learns_the_key() {
    let (log, _here) = Log::here(Level::INFO);
    let layer = IdempotencyLayer::new(MemoryStore::new()).unscoped();
    let service = Service::start(layer).await;
    // The answer to the first request is lost, and nobody sends it again.
    let proxy = Proxy::start(service.address, |connection| match connection {
        0 => Cut::Response(1, By::Reset),
        _ => Cut::Never,
    });
    let proxy = proxy.await;
    let mut sender = Sender::with(proxy.address, RetryPolicy::new().max_tries(1));
    let error = sender.try_post("{}", None).await.err().unwrap();
    let key = error.downcast_ref::<Unanswered>().unwrap().key().clone();
    let key = key.header().to_str().unwrap();
    assert!(error.to_string().contains(key), "{error}");
    // As `main` shows it.
    let shown = format!("{error:?}");
    assert_eq!(shown, ErrorChain::of(&*error).to_string());
    assert!(shown.starts_with(&format!("{error}: ")), "{shown}");
    assert!(shown.contains("reset by peer"), "{shown}");
    let warned = log.warnings();
    assert!(warned.len() == 1 && warned[0].contains(key), "{warned:?}");
    assert!(warned[0].contains("/charges"), "{warned:?}");
    // It is asked for later, with the key.
    let answer = sender.post("{}", Some(key)).await;
    assert_eq!((answer.status, answer.is_replayed), (201, true));
    let request = Request::post(format!("http://{}/charges", sender.to));
    let request = request.body(Full::from("{}")).unwrap();
    let answer = sender.client.call(request).await.unwrap();
    let new = answer.extensions().get::<SentKey>().unwrap().header();
    assert_eq!(sender.post("{}", new.to_str().ok()).await.status, 201);
    assert_eq!(service.effects.count(), 2);
}

#[tokio::test]
async fn a_handler_sends_a_key_that_follows_from_its_own() {
    let layer = IdempotencyLayer::new(MemoryStore::new()).unscoped();
    let service = Service::start(layer).await;
    let sender = Sender::new(service.address);
    let longest = "o".repeat(300);
    for (effects, order) in (1..).zip(["o-17", "o 17, or 18; perhaps", &longest]) {
        let key = Key::new("orders.charge", order).unwrap();
        for is_copy in [false, true] {
            let sent = format!("\"{}\"", key.derive_id("charge"));
            let answer = sender.post("{}", Some(&sent)).await;
            assert_eq!(
                (answer.status, answer.is_replayed),
                (201, is_copy),
                "{sent}"
            );
        }
        assert_eq!(service.effects.count(), effects);
    }
}

#[cfg(feature = "tonic")]
mod over_grpc {
    use std::sync::Mutex;

    use idem_http::Grpc;
    use tokio::{net::TcpListener, time::Instant};
    use tonic::{Code, Status, transport::Channel};

    use super::*;
    use crate::grpc::{self, BoxFuture, order};

    fn channel(to: SocketAddr) -> Channel {
        let endpoint = Channel::from_shared(format!("http://{to}")).unwrap();
        endpoint.connect_lazy()
    }

    fn layer() -> ClientLayer {
        let retries = RetryPolicy::new().max_tries(100);
        ClientLayer::new()
            .retries(retries.waits(Duration::from_millis(5), Duration::from_millis(50)))
    }

    async fn service(wait: Duration) -> grpc::Service {
        let layer = IdempotencyLayer::new(MemoryStore::new()).unscoped();
        let layer = layer.policy(short_lease());
        grpc::Service::start(layer.wait(wait).grpc(Grpc::new())).await
    }

    #[tokio::test]
    async fn a_call_that_is_cut_off_is_sent_again_and_has_its_effect_once() {
        let service = service(Duration::from_secs(30)).await;
        let places = (1..400).step_by(40);
        let places = places.flat_map(|bytes| [By::End, By::Reset].map(|by| (bytes, by)));
        let cuts =
            places.flat_map(|(bytes, by)| [Cut::Request(bytes, by), Cut::Response(bytes, by)]);
        for (effects, cut) in (1..).zip(cuts) {
            let proxy = Proxy::start(service.address, move |connection| match connection {
                0..3 => cut,
                _ => Cut::Never,
            });
            let proxy = proxy.await;
            let client = layer().layer(channel(proxy.address));
            let answer = order("o-1").send(client).await;
            assert_eq!(answer.unwrap().get_ref().effects, effects, "{cut:?}");
            assert_eq!(service.effects.count() as u64, effects, "{cut:?}");
        }
    }

    #[tokio::test]
    async fn a_copy_of_a_call_comes_again_when_it_is_told_to() {
        let service = service(Duration::ZERO).await;
        let call = order("o-1").key("k").behave("wait");
        let first = service.spawn(call.clone());
        service.effects.begun().await;
        let client = layer().layer(channel(service.address));
        let copy = tokio::spawn(call.clone().send(client));
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!copy.is_finished());
        service.effects.open();
        first.await.unwrap().assert(Code::Ok, false);
        grpc::Answer(copy.await.unwrap()).assert(Code::Ok, true);
        // What is final comes back at once, with its details.
        let client = layer().layer(channel(service.address));
        let other = order("o-2").key("k").send(client).await;
        grpc::Answer(other).assert_problem(Code::InvalidArgument, "KEY_REUSED");
        assert_eq!(service.effects.count(), 1);
    }
    #[tokio::test]
    async fn a_call_that_nobody_answers_ends_when_its_time_is_over() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = layer().layer(channel(listener.local_addr().unwrap()));
        let begun = Instant::now();
        let call = order("o-1").within(Duration::from_millis(500));
        let answer = timeout(PATIENCE, call.send(client)).await;
        let answer = grpc::Answer(answer.expect("an answer comes"));
        answer.assert(Code::DeadlineExceeded, false);
        let took = begun.elapsed();
        // Not much later; a busy machine may stall a process for some seconds.
        assert!((500..20_000).contains(&took.as_millis()), "{took:?}");
    }

    #[tokio::test]
    async fn each_try_has_what_is_left_of_the_time() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let left = Arc::clone(&told);
        let handler = move |request: tonic::Request<grpc::Order>| -> BoxFuture<grpc::Answered> {
            let left = Arc::clone(&left);
            Box::pin(async move {
                let timeout = request
                    .metadata()
                    .get("grpc-timeout")
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .to_owned();
                let micros = timeout.strip_suffix('u').unwrap().parse::<u64>().unwrap();
                let tries = {
                    let mut left = left.lock().unwrap();
                    left.push(micros);
                    left.len()
                };
                tokio::time::sleep(Duration::from_millis(100)).await;
                if request.get_ref().id == "in the end" && tries > 3 {
                    return Ok(tonic::Response::new(grpc::Receipt::default()));
                }
                Err(Status::unavailable("later"))
            })
        };
        let layer_of_service = IdempotencyLayer::new(MemoryStore::new()).unscoped();
        let effects = Effects::new();
        let service = layer_of_service.grpc(Grpc::new());
        let service = grpc::Service::serve(service, effects, handler).await;
        let client = layer().layer(channel(service.address));
        // Longer than a busy machine may stall a process.
        let call = order("in the end").within(Duration::from_secs(30));
        let answer = timeout(PATIENCE, call.send(client.clone())).await;
        let answer = grpc::Answer(answer.expect("an answer comes"));
        answer.assert(Code::Ok, false);
        let tries = std::mem::take(&mut *told.lock().unwrap());
        assert_eq!(tries.len(), 4, "{tries:?}");
        assert!(
            tries.windows(2).all(|it| it[1] + 100_000 <= it[0]),
            "{tries:?}"
        );
        let call = order("never").within(Duration::from_secs(1));
        let answer = timeout(PATIENCE, call.send(client)).await;
        let answer = grpc::Answer(answer.expect("an answer comes"));
        let codes = [Code::Unavailable, Code::DeadlineExceeded, Code::Cancelled];
        assert!(codes.contains(&answer.code()), "{answer:?}");
        // Each takes a tenth of the time at least.
        let tries = told.lock().unwrap();
        assert!(tries.len() <= 10, "{tries:?}");
    }

    #[tokio::test]
    async fn a_stream_of_messages_is_handed_on_from_the_second() {
        let service = service(Duration::from_secs(30)).await;
        let mut client = tonic::client::Grpc::new(layer().layer(channel(service.address)));
        client.ready().await.unwrap();
        let path = http::uri::PathAndQuery::from_static("/shop.Charges/Follow");
        let codec = tonic_prost::ProstCodec::<grpc::Order, grpc::Receipt>::default();
        let call = order("o-1");
        let followed = client.server_streaming(call.request(call.order.clone()), path, codec);
        let followed = timeout(Duration::from_secs(10), followed).await;
        let mut followed = followed.expect("an answer comes").unwrap().into_inner();
        for _ in 0..2 {
            let receipt = timeout(PATIENCE, followed.message()).await;
            assert!(receipt.expect("a receipt comes").unwrap().is_some());
        }
    }
}
