//! A service of tonic with a layer, on a socket of its own, and its clients.

use std::{
    any::Any,
    collections::HashMap,
    convert::Infallible,
    future::Future,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::HeaderMap;
use http_body_util::BodyExt as _;
use idem_core::Store;
use idem_http::{EndpointMode, IdempotencyLayer};
use prost::Message as _;
use tokio::{net::TcpListener, time::timeout};
use tonic::{
    Code, Request, Response, Status,
    body::Body,
    client::GrpcService,
    codec::CompressionEncoding,
    metadata::MetadataValue,
    server::{
        ClientStreamingService, NamedService, ServerStreamingService, StreamingService,
        UnaryService,
    },
    transport::{Channel, Server, server::TcpIncoming},
};
use tonic_prost::ProstCodec;
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::service::{Effects, PATIENCE};

pub(crate) const CHARGE: &str = "/shop.Charges/Charge";

/// What is charged, and how the handler behaves.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Order {
    #[prost(string, tag = "1")]
    pub(crate) request_id: String,
    #[prost(string, tag = "2")]
    pub(crate) id: String,
    #[prost(string, tag = "3")]
    pub(crate) behave: String,
    #[prost(int32, tag = "4")]
    pub(crate) code: i32,
    #[prost(uint32, tag = "5")]
    pub(crate) bytes: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Receipt {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    /// How many effects there are by now.
    #[prost(uint64, tag = "2")]
    pub(crate) effects: u64,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) padding: Vec<u8>,
}

pub(crate) type Answered = Result<Response<Receipt>, Status>;
type StdError = Box<dyn std::error::Error + Send + Sync>;
pub(crate) type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A handler of unary calls.
pub(crate) trait Handle:
    Fn(Request<Order>) -> BoxFuture<Answered> + Clone + Send + Sync + 'static
{
}

impl<T: Fn(Request<Order>) -> BoxFuture<Answered> + Clone + Send + Sync + 'static> Handle for T {}

/// Does what the order says, and answers with how many effects there are by then.
pub(crate) async fn charge(effects: Effects, order: Order) -> Answered {
    effects.begin();
    if order.behave == "wait" {
        effects.pass().await;
    }
    let count = effects.end();
    let mut details = ErrorDetails::with_error_info("NO_FUNDS", "shop", HashMap::new());
    match &*order.behave {
        "panic" => panic!("the handler panics"),
        "retry-info" => {
            details.set_retry_info(Some(Duration::from_secs(1)));
        }
        _ => {}
    }
    if order.code != 0 {
        let (code, told) = (
            Code::from_i32(order.code),
            format!("no \u{20ac}, {count} runs"),
        );
        let mut status = Status::with_error_details(code, told, details);
        let metadata = status.metadata_mut();
        metadata.insert("x-run", count.into());
        metadata.insert_bin("x-run-bin", MetadataValue::from_bytes(b"\xff\0"));
        if order.behave == "pushback" {
            metadata.insert("grpc-retry-pushback-ms", 100.into());
        }
        return Err(status);
    }
    let mut response = Response::new(Receipt {
        id: order.id,
        effects: count.try_into().unwrap(),
        padding: vec![0; order.bytes.try_into().unwrap()],
    });
    let metadata = response.metadata_mut();
    metadata.insert("x-run", count.into());
    metadata.insert_bin("x-run-bin", MetadataValue::from_bytes(b"\xff\0"));
    Ok(response)
}

/// What a generated server would be.
#[derive(Clone)]
pub(crate) struct Charges<H> {
    handler: H,
    effects: Effects,
}

impl<H> Charges<H> {
    pub(crate) fn new(handler: H, effects: Effects) -> Self {
        Self { handler, effects }
    }
}

impl<H> NamedService for Charges<H> {
    const NAME: &'static str = "shop.Charges";
}

impl<H: Handle> tower_service::Service<http::Request<Body>> for Charges<H> {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Result<http::Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let methods = self.clone();
        let codec = ProstCodec::<Receipt, Order>::default();
        let mut grpc = tonic::server::Grpc::new(codec).send_compressed(CompressionEncoding::Gzip);
        Box::pin(async move {
            Ok(match request.uri().path() {
                CHARGE | "/shop.Charges/Refund" => {
                    let response = grpc.unary(Unary(methods.handler), request).await;
                    response.map(|body| Body::new(body.map_frame(signed)))
                }
                "/shop.Charges/Watch" => grpc.server_streaming(methods, request).await,
                "/shop.Charges/Follow" => grpc.server_streaming(Follow, request).await,
                "/shop.Charges/Echo" => grpc.streaming(Echo, request).await,
                "/shop.Charges/Upload" => grpc.client_streaming(methods, request).await,
                _ => Status::unimplemented("").into_http(),
            })
        })
    }
}

/// With a trailer that no status has.
fn signed(mut frame: http_body::Frame<Bytes>) -> http_body::Frame<Bytes> {
    if let Some(trailers) = frame.trailers_mut() {
        trailers.insert("x-sum", "17".parse().unwrap());
        trailers.append("x-sum", "4".parse().unwrap());
    }
    frame
}

struct Unary<H>(H);

impl<H: Handle> UnaryService<Order> for Unary<H> {
    type Response = Receipt;
    type Future = BoxFuture<Answered>;

    fn call(&mut self, request: Request<Order>) -> Self::Future {
        (self.0)(request)
    }
}

impl<H> ServerStreamingService<Order> for Charges<H> {
    type Response = Receipt;
    type ResponseStream = stream::Iter<std::vec::IntoIter<Result<Receipt, Status>>>;
    type Future = BoxFuture<Result<Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, _: Request<Order>) -> Self::Future {
        let effects = self.effects.end().try_into().unwrap();
        let receipts = (1..=3).map(|n: i32| {
            Ok(Receipt {
                id: n.to_string(),
                effects,
                padding: Vec::new(),
            })
        });
        let receipts: Vec<_> = receipts.collect();
        Box::pin(async { Ok(Response::new(stream::iter(receipts))) })
    }
}

impl<H: Send + 'static> ClientStreamingService<Order> for Charges<H> {
    type Response = Receipt;
    type Future = BoxFuture<Answered>;

    fn call(&mut self, _: Request<tonic::Streaming<Order>>) -> Self::Future {
        self.effects.end();
        Box::pin(async { Ok(Response::new(Receipt::default())) })
    }
}

/// Two receipts at once, and no end.
struct Follow;

impl ServerStreamingService<Order> for Follow {
    type Response = Receipt;
    type ResponseStream = stream::BoxStream<'static, Result<Receipt, Status>>;
    type Future = BoxFuture<Result<Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, _: Request<Order>) -> Self::Future {
        let receipts = stream::iter([Ok(Receipt::default()), Ok(Receipt::default())]);
        let receipts = receipts.chain(stream::pending()).boxed();
        Box::pin(async { Ok(Response::new(receipts)) })
    }
}

/// A receipt for each order, as soon as it is there.
struct Echo;

impl StreamingService<Order> for Echo {
    type Response = Receipt;
    type ResponseStream = stream::BoxStream<'static, Result<Receipt, Status>>;
    type Future = BoxFuture<Result<Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, orders: Request<tonic::Streaming<Order>>) -> Self::Future {
        let echo = |order: Order| Receipt {
            id: order.id,
            ..Receipt::default()
        };
        let receipts = orders.into_inner().map(move |order| order.map(echo));
        Box::pin(async { Ok(Response::new(receipts.boxed())) })
    }
}

/// A service that listens until it is dropped.
pub(crate) struct Service {
    pub(crate) effects: Effects,
    pub(crate) address: SocketAddr,
    pub(crate) channel: Channel,
    task: tokio::task::JoinHandle<()>,
    /// The store, if it is not kept elsewhere.
    store: Option<Box<dyn Any + Send>>,
}

impl Service {
    pub(crate) async fn start<S: Store>(layer: IdempotencyLayer<S>) -> Self {
        let effects = Effects::new();
        let counted = effects.clone();
        let handler = move |request: Request<Order>| -> BoxFuture<Answered> {
            Box::pin(charge(counted.clone(), request.into_inner()))
        };
        Self::serve(layer, effects, handler).await
    }

    /// With a handler of the test's own.
    pub(crate) async fn serve<S, M, H>(
        layer: IdempotencyLayer<S, M>,
        effects: Effects,
        handler: H,
    ) -> Self
    where
        S: Store,
        M: EndpointMode + idem_core::executor::RunsOn<S>,
        H: Handle,
    {
        let charges = Charges::new(handler, effects.clone());
        let server = Server::builder().layer(layer).add_service(charges);
        Self::listen(effects, |incoming| server.serve_with_incoming(incoming)).await
    }

    pub(crate) async fn listen<F>(effects: Effects, serve: impl FnOnce(TcpIncoming) -> F) -> Self
    where
        F: Future<Output = Result<(), tonic::transport::Error>> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let channel = Channel::from_shared(format!("http://{address}")).unwrap();
        let serving = serve(TcpIncoming::from(listener));
        Self {
            effects,
            address,
            channel: channel.connect_lazy(),
            task: tokio::spawn(async { serving.await.unwrap() }),
            store: None,
        }
    }

    /// Keeps the store for as long as the service listens.
    pub(crate) fn keeping(mut self, store: impl Any + Send) -> Self {
        self.store = Some(Box::new(store));
        self
    }

    pub(crate) async fn send(&self, call: Call) -> Answer {
        let answer = timeout(PATIENCE, call.send(self.channel.clone())).await;
        Answer(answer.expect("an answer comes"))
    }

    /// Sends it in the background.
    pub(crate) fn spawn(&self, call: Call) -> tokio::task::JoinHandle<Answer> {
        let channel = self.channel.clone();
        tokio::spawn(async move {
            let answer = timeout(PATIENCE, call.send(channel)).await;
            Answer(answer.expect("an answer comes"))
        })
    }

    /// What goes over the wire, frames and all.
    pub(crate) async fn send_raw(&self, call: &Call, body: Vec<u8>) -> Raw {
        self.send_as(call, Some("application/grpc"), body).await
    }

    /// As what it says it is.
    pub(crate) async fn send_as(&self, call: &Call, kind: Option<&str>, body: Vec<u8>) -> Raw {
        let request = http::Request::post(format!("http://shop{}", call.path));
        let mut request = request.header("te", "trailers");
        if let Some(kind) = kind {
            request = request.header("content-type", kind);
        }
        for (name, value) in &call.metadata {
            request = request.header(*name, value);
        }
        let body = Body::new(http_body_util::Full::new(Bytes::from(body)));
        let mut channel = self.channel.clone();
        std::future::poll_fn(|cx| channel.poll_ready(cx))
            .await
            .unwrap();
        let response = channel.call(request.body(body).unwrap()).await.unwrap();
        let (head, body) = response.into_parts();
        let body = body.collect().await.unwrap();
        Raw {
            http: head.status.as_u16(),
            headers: head.headers,
            trailers: body.trailers().cloned(),
            body: body.to_bytes(),
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A call in the making.
#[derive(Clone)]
pub(crate) struct Call {
    path: &'static str,
    metadata: Vec<(&'static str, String)>,
    timeout: Option<Duration>,
    reads_gzip: bool,
    pub(crate) order: Order,
}

/// A call of `Charge`.
pub(crate) fn order(id: &str) -> Call {
    Call {
        path: CHARGE,
        metadata: Vec::new(),
        timeout: None,
        reads_gzip: false,
        order: Order {
            id: id.into(),
            ..Order::default()
        },
    }
}

impl Call {
    pub(crate) fn key(self, key: &str) -> Self {
        self.header("idempotency-key", key)
    }

    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.metadata.push((name, value.into()));
        self
    }

    pub(crate) fn to(self, path: &'static str) -> Self {
        Self { path, ..self }
    }

    /// Its client asks for responses that are compressed.
    pub(crate) fn reading_gzip(self) -> Self {
        Self {
            reads_gzip: true,
            ..self
        }
    }

    pub(crate) fn within(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    pub(crate) fn but(mut self, change: impl FnOnce(&mut Order)) -> Self {
        change(&mut self.order);
        self
    }

    pub(crate) fn behave(self, behave: &str) -> Self {
        self.but(|order| order.behave = behave.into())
    }

    pub(crate) fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        for (name, value) in &self.metadata {
            request.metadata_mut().append(*name, value.parse().unwrap());
        }
        if let Some(timeout) = self.timeout {
            request.set_timeout(timeout);
        }
        request
    }

    /// By this client.
    pub(crate) async fn send<C>(self, client: C) -> Answered
    where
        C: GrpcService<Body>,
        C::ResponseBody: http_body::Body<Data = Bytes> + Send + 'static,
        <C::ResponseBody as http_body::Body>::Error: Into<StdError>,
    {
        let mut client = tonic::client::Grpc::new(client);
        if self.reads_gzip {
            client = client.accept_compressed(CompressionEncoding::Gzip);
        }
        let ready = client.ready().await.map_err(Into::into);
        ready.map_err(|error| Status::unavailable(error.to_string()))?;
        let path = http::uri::PathAndQuery::from_static(self.path);
        let codec = ProstCodec::<Order, Receipt>::default();
        client
            .unary(self.request(self.order.clone()), path, codec)
            .await
    }

    /// The message as it is sent.
    pub(crate) fn frame(&self) -> Vec<u8> {
        let message = self.order.encode_to_vec();
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        [&[0][..], &length, &message].concat()
    }
}

/// What came back, as tonic's client tells it.
#[derive(Debug)]
pub(crate) struct Answer(pub(crate) Answered);

impl Answer {
    pub(crate) fn code(&self) -> Code {
        self.0.as_ref().map_or_else(Status::code, |_| Code::Ok)
    }

    pub(crate) fn metadata(&self, name: &str) -> Option<&str> {
        let metadata = self
            .0
            .as_ref()
            .map_or_else(Status::metadata, Response::metadata);
        metadata.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn is_replayed(&self) -> bool {
        self.metadata("idempotency-replayed") == Some("true")
    }

    pub(crate) fn effects(&self) -> u64 {
        self.0.as_ref().unwrap().get_ref().effects
    }

    /// Of the first call, or of a copy.
    #[track_caller]
    pub(crate) fn assert(&self, code: Code, is_replayed: bool) -> &Self {
        assert_eq!(
            (self.code(), self.is_replayed()),
            (code, is_replayed),
            "{self:?}"
        );
        self
    }

    /// That it is this problem of the layer's, and not the handler's status.
    #[track_caller]
    pub(crate) fn assert_problem(&self, code: Code, reason: &str) -> &Self {
        self.assert(code, false);
        let info = self.0.as_ref().unwrap_err().get_details_error_info();
        let info = info.unwrap_or_else(|| panic!("{self:?}"));
        assert_eq!((&*info.domain, &*info.reason), ("idem", reason), "{self:?}");
        self
    }

    /// How long the client is asked to wait.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        let info = self.0.as_ref().unwrap_err().get_details_retry_info();
        let wait = info.and_then(|info| info.retry_delay);
        let pushback = self.metadata("grpc-retry-pushback-ms");
        let pushback = pushback.map(|ms| Duration::from_millis(ms.parse().unwrap()));
        assert_eq!(
            wait.map(|wait| wait.as_millis()),
            pushback.map(|wait| wait.as_millis())
        );
        wait
    }
}

/// What came back, as it is.
#[derive(Debug, PartialEq)]
pub(crate) struct Raw {
    pub(crate) http: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) trailers: Option<HeaderMap>,
}

impl Raw {
    pub(crate) fn status(&self) -> Status {
        let trailers = self.trailers.as_ref();
        Status::from_header_map(trailers.unwrap_or(&self.headers)).unwrap()
    }
}
