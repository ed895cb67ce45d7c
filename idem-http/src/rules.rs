//! What a layer is told: which requests it is for, what of them is compared, what of a response is remembered.

use std::{collections::HashSet, fmt, sync::Arc, time::Duration};

use http::{HeaderName, Method, Request, StatusCode, header, request::Parts};
use idem_core::{
    Policy,
    handler::{Backoff, Enforcement, Mode},
};

use crate::{
    key::IDEMPOTENCY_KEY,
    protocol::{Http, Protocol},
    remember::Remember,
};

/// What becomes of a request without a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyRule {
    /// It is answered with 400, and its handler does not run.
    Required,
    /// Its handler runs, and a copy of the request runs it again. The first such request of a layer is logged (WARN),
    /// and those that are done are counted as `unclaimed`.
    Optional,
}

pub(crate) type Scope = dyn Fn(&Parts) -> Option<String> + Send + Sync;

/// What a layer is told. Clones share it.
#[derive(Clone)]
pub(crate) struct Rules {
    pub(crate) name: Arc<str>,
    /// Who asks; `None` if it is all the same.
    pub(crate) scope: Option<Arc<Scope>>,
    pub(crate) policy: Policy,
    pub(crate) protocol: Arc<dyn Protocol>,
    pub(crate) key: KeyRule,
    pub(crate) methods: Arc<HashSet<Method>>,
    /// Which headers of the request are compared, besides its content type.
    pub(crate) compared: Arc<[HeaderName]>,
    /// Whether the bodies of requests under the same key are compared.
    pub(crate) compares_body: bool,
    pub(crate) max_request: usize,
    pub(crate) body_timeout: Duration,
    pub(crate) max_response: usize,
    /// Headers of a response that are not remembered, besides those of a connection.
    pub(crate) forgotten: Arc<HashSet<HeaderName>>,
    pub(crate) remember: fn(StatusCode) -> Remember,
    /// How long a copy waits for the first request to end.
    pub(crate) wait: Duration,
    /// How long a client is kept waiting at most.
    pub(crate) deadline: Option<Duration>,
}

impl Rules {
    pub(crate) fn of(scope: Option<Arc<Scope>>) -> Self {
        Self {
            name: "http".into(),
            scope,
            policy: heeded(Policy::DEFAULT),
            protocol: Arc::new(Http),
            key: KeyRule::Required,
            methods: Arc::new([Method::POST, Method::PATCH].into()),
            compared: Arc::new([]),
            compares_body: true,
            max_request: 1024 * 1024,
            body_timeout: Duration::from_secs(30),
            max_response: 256 * 1024,
            forgotten: Arc::new([header::DATE, header::SET_COOKIE].into()),
            remember: Remember::by_status,
            wait: Duration::from_secs(5),
            deadline: None,
        }
    }

    /// Whether requests like this one are handled once.
    pub(crate) fn are_for<B>(&self, request: &Request<B>) -> bool {
        let path = request.uri().path();
        self.methods.contains(request.method()) && self.protocol.is_for(path, request.headers())
    }

    /// Whether a request that may be a stream has no key, and needs none.
    pub(crate) fn let_through<B>(&self, request: &Request<B>) -> bool {
        self.key == KeyRule::Optional
            && self.protocol.has_streams()
            && !request.headers().contains_key(IDEMPOTENCY_KEY)
            && !self.protocol.has_key_in_body(request.uri().path())
    }

    /// Whether all requests run, and it is only counted what would have become of them.
    pub(crate) fn only_observe(&self) -> bool {
        self.policy.enforcement() == Enforcement::Observe
    }
}

/// The shortest wait that a policy can have: of an attempt that panicked, say.
const SHORTEST: Duration = Duration::from_millis(1);

/// How long a handler may take, if the policy does not say: one that hangs would keep its key for ever, also when its
/// client is long gone.
const LONGEST_RUN: Duration = Duration::from_mins(10);

/// The policy, as a client with a key needs it: it decides itself how often and when it tries, so a failed key is free
/// at once, however often it has failed; and the limit for what is remembered is the layer's.
pub(crate) fn heeded(policy: Policy) -> Policy {
    let enforcement = policy.enforcement();
    assert_ne!(
        enforcement,
        Enforcement::Plain,
        "a plain policy claims nothing: leave the layer out where nothing is to be enforced"
    );
    let mut heeded = policy
        .to_builder()
        .max_attempts(u32::MAX)
        .backoff(Backoff::new(SHORTEST, SHORTEST))
        .max_outcome(Policy::LARGEST_OUTCOME);
    // What is only observed ends when it would end without a layer.
    if enforcement == Enforcement::Enforce {
        heeded = heeded.timeout(policy.timeout().unwrap_or(LONGEST_RUN));
    }
    heeded.build().expect("what was changed of it can be")
}

/// Whether handlers of a mode can be only observed: those that run without a claim can.
pub(crate) fn check_observed<M: Mode>(policy: &Policy) {
    assert!(
        M::RUNS_UNCLAIMED || policy.enforcement() != Enforcement::Observe,
        "an atomic layer commits what its handlers write with their claims, and runs none without one: observe the handlers \
         by a layer that is not atomic, or enforce the policy"
    );
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rules")
            .field("name", &self.name)
            .field("is_scoped", &self.scope.is_some())
            .field("policy", &self.policy)
            .field("protocol", &self.protocol)
            .field("key", &self.key)
            .field("methods", &self.methods)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "a plain policy claims nothing")]
    fn a_plain_policy_is_none_for_a_layer() {
        heeded(Policy::DEFAULT.plain());
    }

    #[test]
    fn the_default_policy_can_be_heeded() {
        assert_eq!(heeded(Policy::DEFAULT).max_attempts(), u32::MAX);
    }
}
