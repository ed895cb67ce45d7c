//! gRPC: a call is a POST with one message, whose status stands in its response's trailers.

mod frame;
mod status;

#[cfg(feature = "client")]
pub(crate) use frame::is_one;

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, Response, StatusCode, header, request::Parts, response::Parts as Head,
};
use http_body::SizeHint;
use prost::Message;
use tonic::Code;

use crate::{
    key::{self, IDEMPOTENCY_KEY},
    problem::{Problem, ProblemKind},
    protocol::{GRPC, Protocol, has_prefix},
    remember::Remember,
};

type KeyIn = dyn Fn(&[u8]) -> Result<String, prost::DecodeError> + Send + Sync;

/// What a layer for gRPC is told: [`IdempotencyLayer::grpc`](crate::IdempotencyLayer::grpc).
///
/// ```
/// use idem_http::Grpc;
/// # #[derive(Clone, PartialEq, prost::Message)]
/// # struct ChargeRequest { #[prost(string, tag = "1")] request_id: String }
///
/// let grpc = Grpc::new().key_from("/shop.Charges/Charge", |charge: &ChargeRequest| charge.request_id.clone());
/// # let _ = grpc;
/// ```
#[derive(Clone)]
pub struct Grpc {
    /// `None` if the layer is for all methods.
    only: Option<HashSet<String>>,
    keys: HashMap<String, Arc<KeyIn>>,
    by_code: fn(Code) -> Remember,
    /// The methods whose calls have keys that nobody heeds.
    warned: Arc<Mutex<HashSet<String>>>,
}

const ACCEPT_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");

const MOST_WARNINGS: usize = 1000;

impl Grpc {
    /// The protocol for all methods, with the key in the metadata `idempotency-key`.
    pub fn new() -> Self {
        Self {
            only: None,
            keys: HashMap::new(),
            by_code: Remember::by_code,
            warned: Arc::default(),
        }
    }

    /// Keeps the layer to these methods, by their paths (`/package.Service/Method`), and to those of
    /// [`key_from`](Self::key_from). Calls of others are passed through: those that only read, and streams. If one of
    /// them has a key, that is logged, once for each method.
    ///
    /// # Panics
    /// If one is no such path.
    pub fn only<P: Into<String>>(self, paths: impl IntoIterator<Item = P>) -> Self {
        let only = paths.into_iter().map(path).collect();
        Self {
            only: Some(only),
            ..self
        }
    }

    /// The key of calls of this method is a field of their message. Where it is empty, it is the metadata's. A message
    /// that is compressed is answered with `UNIMPLEMENTED`.
    ///
    /// # Panics
    /// If it is no path of a method, `/package.Service/Method`.
    pub fn key_from<M>(
        mut self,
        method: impl Into<String>,
        key: impl Fn(&M) -> String + Send + Sync + 'static,
    ) -> Self
    where
        M: Message + Default,
    {
        let key_in = move |message: &[u8]| M::decode(message).map(|message| key(&message));
        self.keys.insert(path(method), Arc::new(key_in));
        self
    }

    /// What a status says about its call: [`Remember::by_code`] unless this says otherwise.
    pub fn remember(self, by_code: fn(Code) -> Remember) -> Self {
        Self { by_code, ..self }
    }

    fn warn_once(&self, method: &str) {
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        // Clients may make up as many methods as they like.
        if warned.len() < MOST_WARNINGS && warned.insert(method.to_owned()) {
            tracing::warn!(
                method,
                "a call has an idempotency key, and may run twice all the same: its method is not in `Grpc::only`"
            );
        }
    }
}

fn path(path: impl Into<String>) -> String {
    let path = path.into();
    let names = path.strip_prefix('/').and_then(|path| path.split_once('/'));
    let is_one = names.is_some_and(|(service, method)| {
        !service.is_empty() && !method.is_empty() && !method.contains('/')
    });
    assert!(
        is_one,
        "`{path}` is no path of a method: write `/package.Service/Method`"
    );
    path
}

impl Protocol for Grpc {
    fn is_for(&self, path: &str, headers: &HeaderMap) -> bool {
        let is_chosen = self.only.as_ref().is_none_or(|only| only.contains(path));
        if is_chosen || self.keys.contains_key(path) {
            return true;
        }
        if headers.contains_key(IDEMPOTENCY_KEY) {
            self.warn_once(path);
        }
        false
    }

    /// All but `application/grpc`, with or without a format or parameters. The answers to gRPC-Web have their status
    /// elsewhere.
    fn refuses(&self, headers: &HeaderMap) -> Option<Response<Bytes>> {
        let kind = headers.get(header::CONTENT_TYPE);
        let kind = kind.map_or(&b""[..], |kind| kind.as_bytes());
        if has_prefix(kind, GRPC) && matches!(kind.get(GRPC.len()), None | Some(b'+' | b';' | b' '))
        {
            return None;
        }
        let detail =
            "send `application/grpc`: the layer is told `.grpc(…)`, and the request has not run";
        Some(Problem::new(ProblemKind::OtherProtocol, detail).into_response())
    }

    fn has_key_in_body(&self, path: &str) -> bool {
        self.keys.contains_key(path)
    }

    fn has_streams(&self) -> bool {
        true
    }

    fn looks_at_body(&self) -> bool {
        true
    }

    fn is_one(&self, read: &[u8]) -> bool {
        frame::is_one(read)
    }

    fn key_in(&self, request: &Parts, body: &Bytes) -> Result<Option<String>, Problem> {
        let frame = frame::of(body).ok_or_else(|| {
            let detail = "a call needs one message, and this is none or a part of one";
            Problem::new(ProblemKind::BodyBroken, detail)
        })?;
        let Some(key_in) = self.keys.get(request.uri.path()) else {
            return Ok(None);
        };
        if frame.is_compressed {
            let detail = "send the message as it is: its key is a field of it";
            return Err(Problem::new(ProblemKind::BodyEncoded, detail));
        }
        let sent = key_in(frame.message).map_err(|error| {
            let detail = format!("the message, which has the key, cannot be read: {error}");
            Problem::new(ProblemKind::KeyInvalid, detail)
        })?;
        if sent.is_empty() {
            return Ok(None);
        }
        Ok(Some(key::checked(sent)?))
    }

    /// A client that sends the call again may be another one, or may have forgotten what it can read. A server of tonic
    /// compresses only what its client asks for.
    fn uncompressed(&self, request: &mut HeaderMap) {
        request.remove(ACCEPT_ENCODING);
    }

    fn may_keep(&self, size: &SizeHint, limit: u64) -> bool {
        size.lower() <= limit
    }

    fn remembers(
        &self,
        head: &Head,
        trailers: Option<&HeaderMap>,
        _: fn(StatusCode) -> Remember,
    ) -> Option<Remember> {
        if head.status != StatusCode::OK {
            return Some(Remember::Failed);
        }
        let told = if status::is_in(&head.headers) {
            &head.headers
        } else {
            trailers?
        };
        Some(match (self.by_code)(status::code(told)) {
            Remember::Refused if status::comes_again(told) => Remember::Failed,
            remember => remember,
        })
    }

    fn tell(&self, problem: Problem) -> Response<Bytes> {
        status::tell(&problem)
    }
}

impl Default for Grpc {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Grpc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grpc")
            .field("only", &self.only)
            .field("keys_of", &self.keys.keys())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_a_service_and_a_method() {
        assert_eq!(path("/shop.Charges/Charge"), "/shop.Charges/Charge");
        for other in [
            "",
            "/",
            "shop.Charges/Charge",
            "/shop.Charges/",
            "//Charge",
            "/a/b/c",
        ] {
            assert!(std::panic::catch_unwind(|| path(other)).is_err(), "{other}");
        }
    }
}
