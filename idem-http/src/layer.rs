//! The layer, and how it is told what it is for.

use std::{
    fmt,
    marker::PhantomData,
    sync::{Arc, OnceLock},
    time::Duration,
};

use http::{HeaderName, Method, StatusCode, header, request::Parts};
use idem_core::{
    Executor, Key, Policy, Store,
    handler::{AtomicOwned, Leased, Mode},
    store::TransactionalStore,
};
use tokio::time::{Instant, timeout};
use tokio_util::task::TaskTracker;
use tower_layer::Layer;

use crate::{
    remember::Remember,
    rules::{self, KeyRule, Rules},
    service::Idempotency,
    telemetry::Meters,
};

/// A layer that has yet to be told how requests of different clients are kept apart.
#[derive(Debug)]
#[must_use = "say who asks: `.scoped_by(…)`, or `.unscoped()`"]
pub struct Unscoped<S>(S);

impl<S: Store> Unscoped<S> {
    /// Keeps requests apart by who asks: a tenant, an account, a user. Two clients may then use the same key. `None` is
    /// answered with 400. Take it from what the client cannot choose: what an authentication layer outside of this one
    /// has put into the request's extensions, say.
    pub fn scoped_by<F>(self, scope: F) -> IdempotencyLayer<S>
    where
        F: Fn(&Parts) -> Option<String> + Send + Sync + 'static,
    {
        IdempotencyLayer::of(self.0, Rules::of(Some(Arc::new(scope))))
    }

    /// Does not keep them apart: whoever sends a key that somebody else has used, and the same content, gets the
    /// other's response. For services with one client.
    pub fn unscoped(self) -> IdempotencyLayer<S> {
        IdempotencyLayer::of(self.0, Rules::of(None))
    }
}

/// Runs the handlers behind it once for each `Idempotency-Key`, and answers copies with the response of the first.
///
/// `M` is the mode: [`Leased`] works on any store; with [`atomic`](Self::atomic) the response is recorded in the
/// transaction in which the handler writes.
///
/// A handler that has begun runs to its end, also when its client has gone away. Before a process ends,
/// [`drain`](Self::drain) waits for such handlers.
pub struct IdempotencyLayer<S, M = Leased> {
    executor: Executor<S>,
    rules: Rules,
    tasks: TaskTracker,
    /// Registered when the layer is laid, under the name that it has by then.
    meters: Arc<OnceLock<Arc<Meters>>>,
    mode: PhantomData<fn() -> M>,
}

impl<S: Store> IdempotencyLayer<S> {
    /// A layer on this store.
    #[expect(
        clippy::new_ret_no_self,
        reason = "a layer is one when it is said who asks, which nobody should forget"
    )]
    pub fn new(store: S) -> Unscoped<S> {
        Unscoped(store)
    }

    fn of(store: S, rules: Rules) -> Self {
        Self {
            executor: Executor::new(store),
            rules,
            tasks: TaskTracker::new(),
            meters: Arc::default(),
            mode: PhantomData,
        }
    }

    /// Records the response in the transaction in which the handler writes, which it takes as
    /// [`Tx<Connection>`](crate::Tx). A response that is an error rolls back what was written.
    ///
    /// # Panics
    /// If the policy is to observe: nothing runs in a transaction without its claim.
    pub fn atomic<Connection>(self) -> IdempotencyLayer<S, AtomicOwned<Connection>>
    where
        S: TransactionalStore<Connection>,
        Connection: Send + 'static,
    {
        rules::check_observed::<AtomicOwned<Connection>>(&self.rules.policy);
        IdempotencyLayer {
            executor: self.executor,
            rules: self.rules,
            tasks: self.tasks,
            meters: self.meters,
            mode: PhantomData,
        }
    }
}

impl<S: Store, M> IdempotencyLayer<S, M> {
    fn with(mut self, change: impl FnOnce(&mut Rules)) -> Self {
        change(&mut self.rules);
        self
    }

    /// The service's name in its keys, `http` unless this says otherwise. Services that share a store need names of
    /// their own; changing the name forgets all requests.
    ///
    /// # Panics
    /// If it is not 1 to 100 bytes of letters, digits, `.`, `_`, `-` and `/`.
    pub fn named(self, name: &str) -> Self {
        assert!(
            Key::is_scope(name),
            "`{name}` cannot be a layer's name: use letters, digits, `.`, `_`, `-` and `/`"
        );
        let named = self.with(|rules| rules.name = name.into());
        Self {
            meters: Arc::default(),
            ..named
        }
    }

    /// How long a request is remembered, how long its lease is, how long its handler may take (10 minutes if the policy
    /// has no timeout), what happens while the store is away, and after an attempt that ended without a word. A client
    /// decides itself how often it tries, so nothing else of a policy is heeded.
    ///
    /// With a policy that [observes](idem_core::handler::Enforcement::Observe) every request runs and every response is
    /// the handler's own, whatever the layer knows; what would have become of it is counted and logged.
    ///
    /// # Panics
    /// If the policy is plain, or if it is to observe and the layer is atomic.
    pub fn policy(self, policy: Policy) -> Self
    where
        M: Mode,
    {
        rules::check_observed::<M>(&policy);
        self.with(|rules| rules.policy = rules::heeded(policy))
    }

    /// Makes it a layer for servers of gRPC: unary calls are understood, and answered, as their clients expect. A
    /// call with more than one message does not run, and a response of more than one is not remembered.
    #[cfg(feature = "tonic")]
    pub fn grpc(self, grpc: crate::Grpc) -> Self {
        self.with(|rules| rules.protocol = Arc::new(grpc))
    }

    /// What becomes of a request without a key: [`KeyRule::Required`] unless this says otherwise.
    pub fn key(self, rule: KeyRule) -> Self {
        self.with(|rules| rules.key = rule)
    }

    /// Requests with these methods; POST and PATCH unless this says otherwise. All others are passed through.
    pub fn methods(self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.with(|rules| rules.methods = Arc::new(methods.into_iter().collect()))
    }

    /// Compares these headers of requests under the same key, too, besides method, path, query, content type and body.
    pub fn compare_headers(self, headers: impl IntoIterator<Item = HeaderName>) -> Self {
        self.with(|rules| rules.compared = headers.into_iter().collect())
    }

    /// Does not compare the bodies of requests under the same key. They are handed on as they come, and may have any
    /// size. A handler's 4xx is then a failure, unless it says otherwise: the body may have broken off.
    pub fn compare_no_body(self) -> Self {
        self.with(|rules| rules.compares_body = false)
    }

    /// The largest body of a request in bytes, 1 MiB unless this says otherwise: it is read before its handler runs.
    pub fn max_request(self, bytes: usize) -> Self {
        self.with(|rules| rules.max_request = bytes)
    }

    /// How long a request's body may take to arrive, 30 s unless this says otherwise.
    pub fn body_timeout(self, timeout: Duration) -> Self {
        self.with(|rules| rules.body_timeout = timeout)
    }

    /// The largest body of a response in bytes that is remembered, 256 KiB unless this says otherwise. A larger one is
    /// sent, and not remembered: copies of its request are answered with 409, and do not run.
    pub fn max_response(self, bytes: usize) -> Self {
        self.with(|rules| rules.max_response = bytes)
    }

    /// Does not remember these headers of a response either, besides `date`, `set-cookie` and those of a connection.
    pub fn forget_headers(self, headers: impl IntoIterator<Item = HeaderName>) -> Self {
        self.with(|rules| Arc::make_mut(&mut rules.forgotten).extend(headers))
    }

    /// Stores `set-cookie`, too, and sends it to copies: whoever has the key and the content gets the cookies of the
    /// first client, a session perhaps.
    pub fn send_set_cookie_to_copies(self) -> Self {
        self.with(|rules| {
            Arc::make_mut(&mut rules.forgotten).remove(&header::SET_COOKIE);
        })
    }

    /// What a response's status says about its request: [`Remember::by_status`] unless this says otherwise.
    pub fn remember(self, by_status: fn(StatusCode) -> Remember) -> Self {
        self.with(|rules| rules.remember = by_status)
    }

    /// How long a copy of a request that is under way waits for it, 5 s unless this says otherwise; then it is answered
    /// with 409 and `Retry-After`.
    ///
    /// Two other waits are as long, and at least 1 s:
    ///
    /// - A client with a key waits for the store to record the response when its handler has answered, unless there is
    ///   a [`deadline`](Self::deadline). Then it gets the response, or 503 if nobody knows whether that is committed.
    /// - A request waits for a transaction, and for the service behind the layer to be ready. Then it is answered with
    ///   503, and has not run.
    pub fn wait(self, wait: Duration) -> Self {
        self.with(|rules| rules.wait = wait)
    }

    /// How long a client with a key is kept waiting. Then it is answered with 503 and `Retry-After`, and the handler
    /// goes on: the next request with this key is told what has come of it.
    pub fn deadline(self, deadline: Duration) -> Self {
        self.with(|rules| rules.deadline = Some(deadline))
    }

    /// Lets no further handler start, and waits until those that run have ended, and until the store has been told of
    /// what was done while it was away; no longer than this. Says whether all that has come to pass. Handlers that have
    /// not ended are dropped with the process: atomic ones are rolled back then, and the keys of others are free when
    /// their leases run out.
    ///
    /// # Cancel safety
    /// Dropping it only ends the wait: running handlers go on. Once it has been polled, no further handler starts; it
    /// can be called again.
    pub async fn drain(&self, grace: Duration) -> bool {
        self.executor.close();
        self.tasks.close();
        let begun = Instant::now();
        let ended = timeout(grace, self.tasks.wait()).await.is_ok();
        let left = grace.saturating_sub(begun.elapsed());
        let pending = self.executor.report(left).await.pending();
        ended && pending == 0
    }
}

impl<S: Store, M, Inner> Layer<Inner> for IdempotencyLayer<S, M> {
    type Service = Idempotency<S, M, Inner>;

    fn layer(&self, inner: Inner) -> Self::Service {
        let name = &self.rules.name;
        let meters = self.meters.get_or_init(|| Arc::new(Meters::of(name)));
        self.executor.register_scope(name);
        let (executor, tasks) = (self.executor.clone(), self.tasks.clone());
        Idempotency::new(
            executor,
            self.rules.clone(),
            tasks,
            Arc::clone(meters),
            inner,
        )
    }
}

impl<S, M> Clone for IdempotencyLayer<S, M> {
    fn clone(&self) -> Self {
        Self {
            executor: self.executor.clone(),
            rules: self.rules.clone(),
            tasks: self.tasks.clone(),
            meters: Arc::clone(&self.meters),
            mode: PhantomData,
        }
    }
}

impl<S, M> fmt::Debug for IdempotencyLayer<S, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyLayer")
            .field("rules", &self.rules)
            .field("running", &self.tasks.len())
            .finish_non_exhaustive()
    }
}
