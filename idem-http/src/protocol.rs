//! What differs between the protocols that requests come by.

use std::fmt;

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode, header, request::Parts, response::Parts as Head};
use http_body::SizeHint;

use crate::{problem::Problem, remember::Remember};

/// How requests of a protocol are understood, and how the layer itself answers them.
pub(crate) trait Protocol: fmt::Debug + Send + Sync {
    /// Whether the layer is for requests to this path.
    fn is_for(&self, path: &str) -> bool;

    /// Whether a request's body is looked at before its handler runs, even if bodies are not compared.
    fn looks_at_body(&self) -> bool;

    /// Whether what was read of a body is one message, or the beginning of one.
    fn is_one(&self, read: &[u8]) -> bool;

    /// The key in a request's body, if that has one. Refuses a body that cannot be handled once.
    fn key_in(&self, request: &Parts, body: &Bytes) -> Result<Option<String>, Problem>;

    /// Whether a response's body of this size may be remembered, if that is at most `limit` bytes.
    fn may_keep(&self, size: &SizeHint, limit: u64) -> bool;

    /// What a response means; `by_status` is what a layer was told of HTTP's statuses. `None` if that is not known before
    /// its trailers are there.
    fn remembers(
        &self,
        head: &Head,
        trailers: Option<&HeaderMap>,
        by_status: fn(StatusCode) -> Remember,
    ) -> Option<Remember>;

    /// The layer's own answer.
    fn tell(&self, problem: Problem) -> Response<Bytes>;
}

/// Any request is one message, and its status says what became of it.
#[derive(Debug)]
pub(crate) struct Http;

impl Protocol for Http {
    fn is_for(&self, _: &str) -> bool {
        true
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
        let comes_again = head.headers.contains_key(header::RETRY_AFTER);
        Some(match by_status(head.status) {
            Remember::Refused if comes_again => Remember::Failed,
            remember => remember,
        })
    }

    fn tell(&self, problem: Problem) -> Response<Bytes> {
        problem.into_response()
    }
}
