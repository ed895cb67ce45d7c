//! Gives requests a key.

use std::task::{Context, Poll};

use http::{HeaderValue, Method, Request};
use idem_core::store::Owner;
use tower_layer::Layer;
use tower_service::Service;

use super::retries::{Tries, has_key};
use crate::key::IDEMPOTENCY_KEY;

/// Gives each POST and PATCH that has no `Idempotency-Key` one of its own, a UUID. Outside of whatever sends a request
/// again: inside of it, each try would have another key. A handler that may run again sends a key of its own instead:
/// [`SentKey`](super::SentKey).
#[derive(Debug, Clone, Copy, Default)]
pub struct KeyLayer(());

impl KeyLayer {
    /// A layer for clients.
    pub fn new() -> Self {
        Self(())
    }
}

impl<S> Layer<S> for KeyLayer {
    type Service = WithKeys<S>;

    fn layer(&self, inner: S) -> WithKeys<S> {
        WithKeys(inner)
    }
}

/// A client whose requests have keys: see [`KeyLayer`].
#[derive(Debug, Clone)]
pub struct WithKeys<S>(S);

impl<S: Service<Request<B>>, B> Service<Request<B>> for WithKeys<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> S::Future {
        give_key(&mut request);
        self.0.call(request)
    }
}

/// Whether the request has a key now, of its own or this one.
pub(super) fn give_key<B>(request: &mut Request<B>) -> bool {
    let needs_one = matches!(*request.method(), Method::POST | Method::PATCH);
    if needs_one && !has_key(request) {
        let key = uuid::Builder::from_random_bytes(*Owner::new().as_bytes()).into_uuid();
        let key = HeaderValue::from_str(&key.to_string()).expect("a UUID is text");
        request.headers_mut().insert(IDEMPOTENCY_KEY, key);
    }
    if has_key(request) {
        let tries = Tries::begin(request.headers());
        request.extensions_mut().insert(tries);
    }
    has_key(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key_of(request: http::request::Builder) -> Option<String> {
        let mut request = request.body(()).unwrap();
        let has_one = give_key(&mut request);
        let key = request.headers().get(IDEMPOTENCY_KEY);
        assert_eq!(has_one, key.is_some());
        key.map(|key| key.to_str().unwrap().to_owned())
    }

    #[test]
    fn each_request_that_needs_a_key_gets_one_of_its_own() {
        let keys = [(); 2].map(|()| key_of(Request::post("/charges")).unwrap());
        assert_ne!(keys[0], keys[1]);
        let key = uuid::Uuid::parse_str(&keys[0]).unwrap();
        assert_eq!(key.get_version_num(), 4);
        assert!(key_of(Request::patch("/charges/1")).is_some());
        for method in ["GET", "PUT", "DELETE"] {
            assert_eq!(key_of(Request::builder().method(method)), None, "{method}");
        }
        for method in ["POST", "PUT"] {
            let own = Request::builder()
                .method(method)
                .header(IDEMPOTENCY_KEY, "mine");
            assert_eq!(key_of(own).unwrap(), "mine");
        }
    }
}
