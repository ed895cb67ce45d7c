//! What differs between the protocols that requests come by.

use std::fmt;

use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header, request::Parts,
    response::Parts as Head,
};
use http_body::SizeHint;

use crate::{problem::Problem, remember::Remember};

/// How requests of a protocol are understood, and how the layer itself answers them.
pub(crate) trait Protocol: fmt::Debug + Send + Sync {
    /// Whether the layer is for requests to this path.
    fn is_for(&self, path: &str, headers: &HeaderMap) -> bool;

    /// The answer to a request of another protocol, which nobody behind the layer would understand, or the layer would
    /// not understand the answer.
    fn refuses(&self, headers: &HeaderMap) -> Option<Response<Bytes>>;

    /// Whether the key of requests to this path may be in their bodies.
    fn has_key_in_body(&self, path: &str) -> bool;

    /// Whether a request without a key may be a stream, which has to be passed through as it comes.
    fn has_streams(&self) -> bool;

    /// Whether a request's body is looked at before its handler runs, even if bodies are not compared.
    fn looks_at_body(&self) -> bool;

    /// Whether what was read of a body is one message, or the beginning of one.
    fn is_one(&self, read: &[u8]) -> bool;

    /// The key in a request's body, if that has one. Refuses a body that cannot be handled once.
    fn key_in(&self, request: &Parts, body: &Bytes) -> Result<Option<String>, Problem>;

    /// Takes out of a request's headers what would make its response one that other clients cannot read.
    fn uncompressed(&self, request: &mut HeaderMap);

    /// Whether a response's body of this size may be remembered, if that is at most `limit` bytes.
    fn may_keep(&self, size: &SizeHint, limit: u64) -> bool;

    /// What a response means; `by_status` is what a layer was told of HTTP's statuses. `None` if that is not known
    /// before its trailers are there.
    fn remembers(
        &self,
        head: &Head,
        trailers: Option<&HeaderMap>,
        by_status: fn(StatusCode) -> Remember,
    ) -> Option<Remember>;

    /// The layer's own answer.
    fn tell(&self, problem: Problem) -> Response<Bytes>;
}

pub(crate) const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");

/// The content type of a call, or what it begins with.
pub(crate) const GRPC: &[u8] = b"application/grpc";

/// `…` is in three escaped bytes, as `grpc-message` has it.
const NOT_TOLD: &str =
    "this idempotency layer was not told `.grpc(%E2%80%A6)`: the call has not run";

/// Whether it begins so, in letters of any size.
pub(crate) fn has_prefix(value: &[u8], prefix: &[u8]) -> bool {
    let begin = value.get(..prefix.len());
    begin.is_some_and(|begin| begin.eq_ignore_ascii_case(prefix))
}

/// Whether these headers are of a call of any kind of gRPC, or of its answer.
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE);
    kind.is_some_and(|kind| has_prefix(kind.as_bytes(), GRPC))
}

/// The error with this code, as the whole answer to a call with these headers.
pub(crate) fn grpc_error(
    call: &HeaderMap,
    code: &'static str,
    message: &'static str,
) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    // For a layer outside of this one: it says nothing about the call for good.
    response.extensions_mut().insert(Remember::Failed);
    let headers = response.headers_mut();
    if let Some(kind) = call.get(header::CONTENT_TYPE) {
        headers.insert(header::CONTENT_TYPE, kind.clone());
    }
    headers.insert(GRPC_STATUS, HeaderValue::from_static(code));
    headers.insert("grpc-message", HeaderValue::from_static(message));
    response
}

/// Any request is one message, and its status says what became of it.
#[derive(Debug)]
pub(crate) struct Http;

impl Protocol for Http {
    fn is_for(&self, _: &str, _: &HeaderMap) -> bool {
        true
    }

    /// The error of a call has the status 200, and what it is in places that this protocol does not know.
    fn refuses(&self, headers: &HeaderMap) -> Option<Response<Bytes>> {
        let unimplemented = || grpc_error(headers, "12", NOT_TOLD);
        is_grpc(headers).then(unimplemented)
    }

    fn has_key_in_body(&self, _: &str) -> bool {
        false
    }

    fn has_streams(&self) -> bool {
        false
    }

    fn looks_at_body(&self) -> bool {
        false
    }

    fn is_one(&self, _: &[u8]) -> bool {
        true
    }

    fn key_in(&self, _: &Parts, _: &Bytes) -> Result<Option<String>, Problem> {
        Ok(None)
    }

    /// What compresses stands outside of the layer, or looks at the request's `Accept-Encoding` by itself.
    fn uncompressed(&self, _: &mut HeaderMap) {}

    /// One whose length is not known beforehand is a stream, which nobody should wait for.
    fn may_keep(&self, size: &SizeHint, limit: u64) -> bool {
        size.exact().is_some_and(|bytes| bytes <= limit)
    }

    fn remembers(
        &self,
        head: &Head,
        _: Option<&HeaderMap>,
        by_status: fn(StatusCode) -> Remember,
    ) -> Option<Remember> {
        let asks = head.status == StatusCode::FORBIDDEN
            && head.headers.contains_key(header::WWW_AUTHENTICATE);
        let comes_again = asks || head.headers.contains_key(header::RETRY_AFTER);
        Some(match by_status(head.status) {
            Remember::Refused if comes_again => Remember::Failed,
            remember => remember,
        })
    }

    fn tell(&self, problem: Problem) -> Response<Bytes> {
        problem.into_response()
    }
}
