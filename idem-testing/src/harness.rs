//! A handler under test, and what is delivered to it.

use std::{
    fmt,
    marker::PhantomData,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::future::join_all;
use tokio::time::sleep;

use idem_core::{
    executor::{Execution, Prepared, RunsOn},
    handler::{Handler, Leased, Operation, OutgoingContent, Policy},
};

use super::{
    CrashPoint, FaultyStore, Ground, InMemory, Message,
    ground::published,
    process::{Ran, Worker, not_reached},
    watched::Watched,
};

mod rehearse;

/// What makes the application's state, of what a handler stands on.
pub(super) type Make<St, G> = Arc<dyn Fn(&G) -> St>;

/// A delivery under way.
type Handling<'a, T, E> = Pin<Box<dyn Future<Output = Execution<T, E>> + 'a>>;

/// One handler under test, with its state, in a worker's process that can vanish.
///
/// Each delivery is one claim and at most one run, and ends in an [`Execution`]: whoever would deliver
/// again, or wait, is the test.
///
/// ```test_harness
/// # use idem_core::{Failed, executor::ExecutionKind, idempotent};
/// # use idem_testing::{Message, Setup};
/// # #[idempotent(key = message_id(), scope = "orders.note")]
/// # async fn note(_: serde_json::Value) -> Result<(), Failed> { Ok(()) }
/// #[tokio::test(start_paused = true)]
/// async fn of_two_copies_at_once_one_runs() {
///     let harness = Setup::new(|| ()).handler::<note>();
///     let [one, other] = harness.deliver_at_once(&Message::json("hello").id("m-1")).await;
///     let kinds = [one.kind(), other.kind()];
///     assert!(kinds.contains(&ExecutionKind::Executed));
///     assert!(kinds.contains(&ExecutionKind::Conflict) || kinds.contains(&ExecutionKind::Duplicate));
/// }
/// ```
pub struct Harness<H, St = (), G: Ground = InMemory> {
    make: Make<St, G>,
    state: Arc<St>,
    ground: G,
    policy: Policy,
    process: Mutex<Worker<G::Store>>,
    handler: PhantomData<fn() -> H>,
}

/// Between two looks at a message that nobody says when to look at again.
const LATER: Duration = Duration::from_secs(1);

/// How often a message is delivered before it is said that this does not end.
const MOST_DELIVERIES: u32 = 1_000;

impl<H, St, G> Harness<H, St, G>
where
    H: Handler<St>,
    H::Mode: RunsOn<FaultyStore<G::Store>>,
    St: Send + Sync + 'static,
    G: Ground,
{
    pub(super) fn new(policy: Policy, make: Make<St, G>, ground: G) -> Self {
        let state = Arc::new(make(&ground));
        Self::on(ground, state, make, policy)
    }

    fn on(ground: G, state: Arc<St>, make: Make<St, G>, policy: Policy) -> Self {
        Self {
            process: Mutex::new(Worker::start(ground.store())),
            handler: PhantomData,
            make,
            state,
            ground,
            policy,
        }
    }

    /// The application's state.
    pub fn state(&self) -> &St {
        &self.state
    }

    /// The store, which can be made to fail.
    pub fn store(&self) -> &FaultyStore<G::Store> {
        self.ground.store()
    }

    /// What handlers have published by their [`Outbox`](idem_core::handler::Outbox) and have committed, in the order in
    /// which they did. It stays: no broker takes it.
    ///
    /// # Panics
    /// If the store cannot be read.
    pub async fn published(&self) -> Vec<OutgoingContent> {
        published(&self.ground).await
    }

    /// Delivers a message, once.
    ///
    /// # Panics
    /// If the delivery does not end within a day of the paused clock.
    pub async fn deliver(&self, message: &Message) -> Execution<H::Output, H::Error> {
        let process = self.process().clone();
        self.deliver_to(&process, message).await
    }

    /// Delivers a message to two workers at once.
    ///
    /// # Panics
    /// If a delivery does not end within a day of the paused clock.
    pub async fn deliver_at_once(&self, message: &Message) -> [Execution<H::Output, H::Error>; 2] {
        let [one, other] = [self.start_process(), self.start_process()];
        let both = tokio::join!(
            self.deliver_to(&one, message),
            self.deliver_to(&other, message)
        );
        both.into()
    }

    /// Delivers messages to one worker at once: those of a [grouped](idem_core::handler::Grouped) handler share
    /// transactions, those of a handler of [batches](idem_core::handler::Batch) share calls, as many as the handler
    /// allows. How each ended, in their order.
    ///
    /// # Panics
    /// If a delivery does not end within a day of the paused clock.
    pub async fn deliver_together(
        &self,
        messages: &[Message],
    ) -> Vec<Execution<H::Output, H::Error>> {
        let process = self.start_sharing_process();
        let deliveries = messages.iter().map(|it| self.deliver_to(&process, it));
        join_all(deliveries).await
    }

    /// Delivers a message to a worker that vanishes at this point. Nothing more is heard of it; another
    /// worker gets what is delivered from then on. Its lease runs out when the clock says so.
    ///
    /// # Panics
    /// If the delivery ends without coming as far as that.
    pub async fn crash(&self, point: CrashPoint, message: &Message) {
        if let Some(ended) = self.try_crash(point, message).await {
            not_reached(point, ended.kind());
        }
    }

    /// Delivers messages [together](Self::deliver_together) to a worker that vanishes when any of them comes to this
    /// point. Nothing more is heard of any of them.
    ///
    /// # Panics
    /// If there is none, or all deliveries end without one that comes as far as that.
    pub async fn crash_together(&self, point: CrashPoint, messages: &[Message]) {
        if let Some(ended) = self.try_crash_together(point, messages).await {
            not_reached(point, ended.kind());
        }
    }

    /// Delivers a message to a worker that stands still where the handler waits first, or else when it has
    /// returned; until its lease has run out, and another worker has been delivered the message until it
    /// was done with. Then the first goes on. How both ended, the one that stood still first.
    ///
    /// # Panics
    /// If the handler does not run for it.
    pub async fn lose_lease(&self, message: &Message) -> [Execution<H::Output, H::Error>; 2]
    where
        H: Operation<Mode = Leased>,
    {
        let first = self.start_process();
        let meanwhile = self.deliver_until_done(message);
        let both = first
            .stand_still(self.handle(&first, message), meanwhile)
            .await;
        let Some(((first, _), second)) = both else {
            panic!("the handler did not run: there is no lease to lose");
        };
        [first, second]
    }

    /// Delivers a message, again and again, as soon as there is a point in it, until it is done with.
    ///
    /// # Panics
    /// If it is not after a thousand deliveries.
    pub async fn deliver_until_done(&self, message: &Message) -> Execution<H::Output, H::Error> {
        let process = self.process().clone();
        self.deliver_until_done_by(&process, message).await
    }

    async fn deliver_until_done_by(
        &self,
        process: &Worker<G::Store>,
        message: &Message,
    ) -> Execution<H::Output, H::Error> {
        let mut message = message.clone();
        for _ in 0..MOST_DELIVERIES {
            let ended = self.deliver_to(process, &message).await;
            let Some(pause) = pause(&ended) else {
                return ended;
            };
            sleep(pause).await;
            message = message.redelivered();
        }
        panic!("the message is not done with after {MOST_DELIVERIES} deliveries")
    }

    async fn try_crash(
        &self,
        point: CrashPoint,
        message: &Message,
    ) -> Option<Execution<H::Output, H::Error>> {
        let process = self.process().clone();
        let delivery = self.handle(&process, message);
        match process.vanish(point, delivery).await {
            Ran::Ended(ended, _) => Some(ended),
            Ran::Vanished => {
                *self.process() = self.start_process();
                None
            }
        }
    }

    /// `None` if one of them has come to that; else how the first ended.
    async fn try_crash_together(
        &self,
        point: CrashPoint,
        messages: &[Message],
    ) -> Option<Execution<H::Output, H::Error>> {
        let process = self.start_sharing_process();
        let deliveries = messages.iter().map(|it| self.handle(&process, it));
        match process.vanish_together(point, deliveries).await {
            Ran::Ended(ended, _) => Some(ended),
            Ran::Vanished => None,
        }
    }

    async fn deliver_to(
        &self,
        process: &Worker<G::Store>,
        message: &Message,
    ) -> Execution<H::Output, H::Error> {
        process.run(self.handle(process, message)).await.0
    }

    /// Boxed: unoptimised, an executor's future is a large part of a test's stack.
    fn handle<'a>(
        &'a self,
        process: &'a Worker<G::Store>,
        message: &'a Message,
    ) -> Handling<'a, H::Output, H::Error> {
        Box::pin(async move {
            let prepared = Prepared::<Watched<H>>::new(message.envelope(), &self.policy);
            let mut prepared = match prepared {
                Ok(prepared) => prepared
                    .replay(message.replay)
                    .redelivered(message.redelivered),
                Err(ended) => return ended,
            };
            process.program.handle(&mut prepared, self.state()).await
        })
    }

    fn start_process(&self) -> Worker<G::Store> {
        Worker::start(self.ground.store())
    }

    /// One whose messages share what they may: also the first of them, which would find nobody to share with.
    fn start_sharing_process(&self) -> Worker<G::Store> {
        let process = Worker::start(&self.ground.store().sharing_transactions());
        process.program.crowd(H::SCOPE);
        process
    }

    fn process(&self) -> MutexGuard<'_, Worker<G::Store>> {
        // What is written under the lock is never half done.
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(feature = "postgres")]
impl<H, St> Harness<H, St, crate::OnPostgres> {
    /// A connection of the test's own, which sees what is committed.
    ///
    /// # Panics
    /// If the server cannot be reached.
    pub async fn database(&self) -> crate::Database<idem_core::sqlx::PgConnection> {
        self.ground.database().await
    }
}

#[cfg(feature = "sqlite")]
impl<H, St> Harness<H, St, crate::OnSqlite> {
    /// A connection of the test's own, which sees what is committed.
    ///
    /// # Panics
    /// If the file cannot be opened.
    pub async fn database(&self) -> crate::Database<idem_core::sqlx::SqliteConnection> {
        self.ground.database().await
    }
}

/// How long to wait before the message is delivered again; `None` if it is done with.
fn pause<T, E>(ended: &Execution<T, E>) -> Option<Duration> {
    match ended {
        Execution::Conflict { remaining } => Some(*remaining),
        Execution::Failed { retry_after, .. } => Some(*retry_after),
        Execution::LeaseLost { .. }
        | Execution::Abandoned
        | Execution::Ahead { .. }
        | Execution::StoreUnavailable { .. } => Some(LATER),
        _ => None,
    }
}

impl<H: Operation, St, G: Ground> fmt::Debug for Harness<H, St, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Harness")
            .field("scope", &H::SCOPE)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}
