//! How a harness is made.

use std::{fmt, sync::Arc, time::Duration};

use idem_core::{
    executor::RunsOn,
    handler::{Handler, Policy},
};

use super::{FaultyStore, Ground, Harness, InMemory, clock::insist_on_paused, harness::Make};

/// A harness in the making: how the application's state is made, and what it stands on.
///
/// ```test_harness
/// # use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
/// # use idem_core::{Failed, FromRef, Policy, State, idempotent};
/// # use idem_testing::{Message, Setup};
/// # #[derive(Clone, Default)] struct Counter(std::sync::Arc<AtomicU32>);
/// # #[idempotent(key = message_id(), scope = "orders.count")]
/// # async fn count(_: serde_json::Value, State(counter): State<Counter>) -> Result<(), Failed> {
/// #     counter.0.fetch_add(1, Relaxed);
/// #     Ok(())
/// # }
/// #[tokio::test(start_paused = true)]
/// async fn a_message_counts_once() {
///     let twice = Policy::builder().max_attempts(2).build_const();
///     let harness = Setup::new(Counter::default).policy(twice).handler::<count>();
///     for _ in 0..3 {
///         harness.deliver(&Message::json("one").id("m-1")).await;
///     }
///     assert_eq!(harness.state().0.load(Relaxed), 1);
/// }
/// ```
#[must_use]
pub struct Setup<St, G = InMemory> {
    make: Make<St, G>,
    ground: G,
    policy: Option<Policy>,
}

impl<St: Send + Sync + 'static> Setup<St> {
    /// Starts with what makes the application's state: the harness makes one, and
    /// [`assert_idempotent`](super::assert_idempotent) makes one for each run. `Setup::new(|| ())` is for
    /// handlers that take none.
    ///
    /// # Panics
    /// If tokio's clock is not paused.
    pub fn new(make_state: impl Fn() -> St + 'static) -> Self {
        insist_on_paused();
        // Waits are jittered; a test that failed is to fail again.
        fastrand::seed(7);
        Self {
            make: Arc::new(move |_| make_state()),
            ground: InMemory::new(),
            policy: None,
        }
    }

    /// For atomic handlers that take `&mut SqliteConnection`: on a temporary file with these tables, by
    /// `CREATE TABLE` statements.
    ///
    /// # Panics
    /// If the file cannot be written, or SQLite does not understand the statements.
    #[cfg(feature = "sqlite")]
    pub async fn sqlite(self, schema: &str) -> Setup<St, super::OnSqlite> {
        self.on(super::OnSqlite::new(schema.into()).await)
    }

    /// For handlers that take `&mut PgConnection`, grouped and recorded ones, too: on a PostgreSQL server that runs
    /// already, in a schema of its own with these tables, by `CREATE TABLE` statements. The schema is dropped with
    /// the last harness on it.
    ///
    /// # Panics
    /// If the URL is none, the server cannot be reached, or does not understand the statements.
    #[cfg(feature = "postgres")]
    pub async fn postgres(self, url: &str, schema: &str) -> Setup<St, crate::OnPostgres> {
        let server = match url.parse() {
            Ok(server) => server,
            Err(error) => panic!("`{url}` is no URL of a PostgreSQL server: {error}"),
        };
        self.on(crate::OnPostgres::new(server, schema.into()).await)
    }

    /// The state is made as before, of what was there before.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    fn on<G: Ground>(self, ground: G) -> Setup<St, G> {
        let (make, before) = (self.make, self.ground);
        let patience = before.store().patience().max(ground.store().patience());
        Setup {
            make: Arc::new(move |_| make(&before)),
            ground: ground.with_patience(patience),
            policy: self.policy,
        }
    }
}

impl<St: Send + Sync + 'static, G: Ground> Setup<St, G> {
    /// Makes the application's state of what the handler stands on, instead of by what [`new`](Self::new) was given: a
    /// handler's own pool is then one to the same database as its transaction. Each run of
    /// [`assert_idempotent`](super::assert_idempotent) makes a state of its own database.
    ///
    /// ```no_run
    /// # #[cfg(feature = "postgres")]
    /// # mod charges {
    /// # use idem_core::{Failed, State, idempotent, sqlx::PgPool};
    /// # use idem_testing::Setup;
    /// # #[idempotent(key = "0", scope = "orders.charge")]
    /// # async fn charge(order: (String, i64), State(pool): State<PgPool>) -> Result<(), Failed> {
    /// #     let _ = (order, pool);
    /// #     Ok(())
    /// # }
    /// # async fn test(url: &str) {
    /// let setup = Setup::new(|| ()).postgres(url, "CREATE TABLE charges (…)").await;
    /// let harness = setup.state(|database| database.pool()).handler::<charge>();
    /// # }
    /// # }
    /// ```
    pub fn state<T: Send + Sync + 'static>(
        self,
        make_state: impl Fn(&G) -> T + 'static,
    ) -> Setup<T, G> {
        Setup {
            make: Arc::new(make_state),
            ground: self.ground,
            policy: self.policy,
        }
    }

    /// For handlers that wait for something real, such as a server behind a socket: while one waits, the paused clock
    /// stands still, for so long (real time) at most. Unless this is set, it goes on at once where the store is in
    /// memory, after 20 ms on SQLite and after 2 s on PostgreSQL, which this makes no shorter; a
    /// [`timeout`](Policy::timeout) passes in no time then, and so does a lease.
    ///
    /// A handler that waits for a timer is waited for that much longer, so do not set it without need. What answers in
    /// the test's own process (a stand-in in the state) does not need it.
    pub fn real_waits(self, longest: Duration) -> Self {
        let known = self.ground.store().patience();
        Self {
            ground: self.ground.with_patience(known.max(Some(longest))),
            ..self
        }
    }

    /// Uses this policy instead of the handler's own.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = Some(policy);
        self
    }

    /// Puts a handler into the harness: `.handler::<charge>()`.
    pub fn handler<H>(self) -> Harness<H, St, G>
    where
        H: Handler<St>,
        H::Mode: RunsOn<FaultyStore<G::Store>>,
    {
        Harness::new(self.policy.unwrap_or(H::POLICY), self.make, self.ground)
    }

    /// Consumes a queue with a handler, as a worker does: `.consume::<charge>("orders.charge")`. What the
    /// queue says about retries and policy is heeded; a policy of this setup is used instead of the handler's.
    #[cfg(feature = "amqp")]
    pub fn consume<H>(self, queue: impl Into<idem_amqp::Queue>) -> crate::amqp::Harness<H, St, G>
    where
        H: Handler<St>,
        H::Mode: RunsOn<FaultyStore<G::Store>>,
    {
        let queue = self.by_policy(queue.into());
        let state = Arc::new((self.make)(&self.ground));
        crate::amqp::Harness::on(self.ground, state, self.make, queue)
    }

    /// Consumes a queue whose clients may [open sessions](crate::amqp::Harness::open_session):
    /// `.consume_in_sessions::<grant>("leases", Sessions::default())`. Else as [`consume`](Self::consume).
    ///
    /// [`assert_idempotent`](super::assert_idempotent) opens in each of its runs the sessions that the harness has
    /// opened: a request is to be of one of these.
    ///
    /// # Panics
    /// With what `build` of a worker says, if the handler, the queue or the sessions cannot be so: a handler with
    /// `recorded_by`, say, or a window of 0.
    #[cfg(feature = "amqp")]
    pub fn consume_in_sessions<H>(
        self,
        queue: impl Into<idem_amqp::Queue>,
        sessions: idem_amqp::session::Sessions,
    ) -> crate::amqp::Harness<H, St, G>
    where
        H: Handler<St>,
        H::Mode: RunsOn<FaultyStore<G::Store>>,
    {
        let queue = self.by_policy(queue.into());
        let state = Arc::new((self.make)(&self.ground));
        match crate::amqp::Harness::in_sessions(self.ground, state, self.make, queue, sessions) {
            Ok(harness) => harness,
            Err(error) => panic!("{error}"),
        }
    }

    #[cfg(feature = "amqp")]
    fn by_policy(&self, queue: idem_amqp::Queue) -> idem_amqp::Queue {
        match self.policy {
            Some(policy) => queue.policy(policy),
            None => queue,
        }
    }
}

#[cfg(feature = "http")]
impl<St: Send + Sync + 'static, G: Ground> Setup<St, G> {
    /// Serves requests by a service, which is made of the store for its
    /// [layer](idem_http::IdempotencyLayer) and of the state, once for each process:
    /// `.service(|store, state| Router::new()….layer(IdempotencyLayer::new(store)…))`.
    ///
    /// # Panics
    /// If this setup has a policy: it is the layer's.
    pub fn service<S, R>(
        self,
        make: impl Fn(FaultyStore<G::Store>, &St) -> S + 'static,
    ) -> crate::http::Harness<St, G>
    where
        S: tower_service::Service<
                http::Request<http_body_util::Full<bytes::Bytes>>,
                Response = http::Response<R>,
                Error: fmt::Display,
                Future: 'static,
            > + Clone
            + 'static,
        R: http_body::Body<Error: fmt::Display> + 'static,
    {
        assert!(
            self.policy.is_none(),
            "a service has the policy of its layer: `IdempotencyLayer::policy`"
        );
        crate::http::Harness::new(self.make, self.ground, make)
    }
}

impl<St, G: fmt::Debug> fmt::Debug for Setup<St, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Setup")
            .field("ground", &self.ground)
            .finish_non_exhaustive()
    }
}
