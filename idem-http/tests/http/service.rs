//! A service with a layer, on a socket of its own.

use std::{
    any::Any,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    routing::any,
};
use idem_core::Store;
use idem_http::{IdempotencyLayer, Remember};
use serde_json::{Value, json};
use tokio::{net::TcpSocket, sync::Semaphore, time::timeout};

use crate::client::{Answer, Request};

/// As long as a test waits for what has to happen.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// Longer than a busy machine may stall a process, which is to keep it.
pub(crate) const LEASE: Duration = Duration::from_secs(9);

/// How long requests wait for a transaction that they do not get: longer than a busy machine may stall a process, so
/// that those that get it have it in time.
pub(crate) const WAIT_FOR_TRANSACTION: Duration = Duration::from_secs(8);

/// What handlers have done, and when they may go on.
#[derive(Clone)]
pub(crate) struct Effects {
    begun: Arc<Semaphore>,
    done: Arc<AtomicUsize>,
    gate: Arc<Semaphore>,
}

impl Effects {
    pub(crate) fn new() -> Self {
        Self {
            begun: Arc::new(Semaphore::new(0)),
            done: Arc::new(AtomicUsize::new(0)),
            gate: Arc::new(Semaphore::new(0)),
        }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.done.load(SeqCst)
    }

    /// Waits until one more handler has begun.
    pub(crate) async fn begun(&self) {
        let begun = timeout(PATIENCE, self.begun.acquire()).await;
        begun.expect("a handler begins").unwrap().forget();
    }

    /// Lets one handler go on that waits.
    pub(crate) fn open(&self) {
        self.gate.add_permits(1);
    }

    pub(crate) fn begin(&self) {
        self.begun.add_permits(1);
    }

    pub(crate) async fn pass(&self) {
        self.gate.acquire().await.unwrap().forget();
    }

    pub(crate) fn end(&self) -> usize {
        self.done.fetch_add(1, SeqCst) + 1
    }
}

/// What a handler that is to behave so says of its response.
pub(crate) fn meaning(behave: &str) -> Option<Remember> {
    match behave {
        "done" => Some(Remember::Done),
        "done-not-kept" => Some(Remember::DoneNotKept),
        "refused" => Some(Remember::Refused),
        "failed" => Some(Remember::Failed),
        _ => None,
    }
}

/// Does what the request's `behave` says, and answers with how many effects there are by then.
pub(crate) async fn charge(State(effects): State<Effects>, body: Bytes) -> Response {
    effects.begin();
    let order: Value = serde_json::from_slice(&body).unwrap_or_default();
    let behave = order["behave"].as_str().unwrap_or_default();
    if behave == "wait" {
        effects.pass().await;
    }
    let count = effects.end();
    let id = order["id"].as_str().unwrap_or_default();
    let answer = (
        StatusCode::CREATED,
        Json(json!({ "id": id, "effects": count })),
    );
    let mut response = answer.into_response();
    let headers = response.headers_mut();
    headers.insert(header::LOCATION, HeaderValue::from_static("/charges/1"));
    headers.insert(header::SET_COOKIE, HeaderValue::from_static("session=1"));
    match behave {
        "panic" => panic!("the handler panics"),
        "no-store" => {
            headers.insert(
                header::CACHE_CONTROL,
                HeaderValue::from_static("private, No-Store"),
            );
        }
        "retry-after" => {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        "challenge" => {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        "binary" => *response.body_mut() = Body::from(b"\xff\x00\xfe".to_vec()),
        "streamed" => {
            let chunks = ["one ", "two"].map(|it| Ok::<_, std::io::Error>(Bytes::from(it)));
            *response.body_mut() = Body::from_stream(futures_util::stream::iter(chunks));
        }
        "broken" => *response.body_mut() = Body::new(Broken),
        _ => {}
    }
    if let Some(means) = meaning(behave) {
        response.extensions_mut().insert(means);
    }
    if let Some(bytes) = order["bytes"].as_u64() {
        *response.body_mut() = Body::from(vec![b'x'; usize::try_from(bytes).unwrap()]);
    }
    if let Some(status) = order["status"].as_u64() {
        *response.status_mut() = StatusCode::from_u16(status.try_into().unwrap()).unwrap();
    }
    response
}

/// A body that announces two bytes and breaks off.
struct Broken;

impl axum::body::HttpBody for Broken {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, std::io::Error>>> {
        std::task::Poll::Ready(Some(Err(std::io::Error::other("it broke off"))))
    }

    fn size_hint(&self) -> http_body::SizeHint {
        http_body::SizeHint::with_exact(2)
    }
}

/// A service that listens until it is dropped.
pub(crate) struct Service {
    pub(crate) address: SocketAddr,
    pub(crate) effects: Effects,
    task: tokio::task::JoinHandle<()>,
    /// The store, if it is not kept elsewhere.
    store: Option<Box<dyn Any + Send>>,
}

impl Service {
    /// `charge` under any method at `/charges` and `/refunds/{id}`, and nested at `/v1` and `/v2`.
    #[expect(
        clippy::unused_async,
        reason = "it needs the runtime, whose sockets it opens"
    )]
    pub(crate) async fn start<S: Store>(layer: IdempotencyLayer<S>) -> Self {
        let effects = Effects::new();
        let charges = || Router::new().route("/charges", any(charge));
        let nested = charges().layer(layer.clone()).with_state(effects.clone());
        let app = charges().route("/refunds/{id}", any(charge)).layer(layer);
        let app = app.with_state(effects.clone());
        let app = app.nest("/v1", nested.clone()).nest("/v2", nested);
        Self::serve(app, effects)
    }

    pub(crate) fn serve(app: Router, effects: Effects) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
        // So many connections may wait to be accepted; the kernel resets what is beyond that.
        let listener = socket.listen(4096).unwrap();
        let address = listener.local_addr().unwrap();
        let serving = async { axum::serve(listener, app).await.unwrap() };
        Self {
            address,
            effects,
            task: tokio::spawn(serving),
            store: None,
        }
    }

    /// Keeps the store for as long as the service listens.
    pub(crate) fn keeping(mut self, store: impl Any + Send) -> Self {
        self.store = Some(Box::new(store));
        self
    }

    pub(crate) async fn send(&self, request: Request) -> Answer {
        let answer = timeout(PATIENCE, request.send(self.address)).await;
        answer.expect("an answer comes")
    }

    /// Sends it in the background.
    pub(crate) fn spawn(&self, request: Request) -> tokio::task::JoinHandle<Answer> {
        let address = self.address;
        tokio::spawn(async move {
            timeout(PATIENCE, request.send(address))
                .await
                .expect("an answer comes")
        })
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.task.abort();
    }
}
