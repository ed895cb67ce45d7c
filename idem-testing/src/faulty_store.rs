//! A store behind a link that fails on command.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, sleep};

use idem_core::{
    handler::Outcome,
    message::PositionKind,
    store::{Claim, ClaimRequest, Lease, Release, Store, StoreError, Write},
    stores::MemoryStore,
};

use super::{
    clock::StandingStill,
    faults::{Call, Fault, Faults},
    link::Link,
    probe,
};

/// Any store, behind a link that fails on command. Clones share the store and what is wrong with it.
///
/// What a harness runs on; also for tests of an [`Executor`](idem_core::Executor) of one's own.
///
/// ```test_harness
/// use std::time::Duration;
/// use idem_core::{Execution, Executor, Failed, Key, MemoryStore, Policy};
/// use idem_testing::FaultyStore;
///
/// #[tokio::test(start_paused = true)]
/// async fn nothing_runs_while_the_store_is_away() {
///     let store = FaultyStore::new(MemoryStore::new());
///     store.fail_for(Duration::from_secs(5));
///     let key = Key::new("orders.charge", "o-17").unwrap();
///     let executor = Executor::new(store);
///     let ended = executor.execute(key, &Policy::DEFAULT, async |_| Ok::<_, Failed>(()));
///     assert!(matches!(ended.await, Execution::StoreUnavailable { .. }));
/// }
/// ```
#[derive(Debug, Clone)]
pub struct FaultyStore<S = MemoryStore> {
    pub(super) store: S,
    faults: Faults,
    pub(super) link: Link,
    clock: Clock<S>,
    /// How long a handler's wait may be one for something real, of which tokio does not know. The clock stands still
    /// for that long.
    patience: Option<Duration>,
    /// Whether messages share a transaction that are delivered together.
    pub(super) shares_transactions: bool,
}

/// Whose time the store keeps.
#[derive(Debug, Clone)]
enum Clock<S> {
    Tokios,
    /// It does not stand still while tokio's is paused, and has to be moved as tokio's moves.
    Own(Own<S>),
}

#[derive(Debug, Clone)]
struct Own<S> {
    started: Instant,
    moved: Arc<Mutex<Duration>>,
    advance: fn(&S, Duration),
}

/// How long a call may take on the host's clock before tokio's goes on without it.
const LONGEST_CALL: Duration = Duration::from_mins(1);

/// How long a batch waits for others, on the paused clock.
const GATHERING: Duration = Duration::from_millis(1);

/// How long a handler may wait for its database before tokio's clock goes on: it may wait for that.
const LONGEST_STATEMENT: Duration = Duration::from_millis(20);

impl<S: Store> FaultyStore<S> {
    /// Puts a store whose time is tokio's behind a link.
    pub fn new(store: S) -> Self {
        Self {
            store,
            faults: Faults::default(),
            link: Link::open(),
            clock: Clock::Tokios,
            patience: None,
            shares_transactions: false,
        }
    }

    /// Puts a store behind a link whose time is its own: `advance` moves its clock forward, and is called
    /// as tokio's paused one moves, which stands still while the store works.
    pub fn with_own_clock(store: S, advance: fn(&S, Duration)) -> Self {
        let own = Own {
            started: Instant::now(),
            moved: Arc::default(),
            advance,
        };
        Self {
            clock: Clock::Own(own),
            patience: Some(LONGEST_STATEMENT),
            ..Self::new(store)
        }
    }

    /// The store itself, whose link does not fail.
    pub fn inner(&self) -> &S {
        &self.store
    }

    /// From now on, for so long, nobody reaches the store: calls fail, and have no effect.
    pub fn fail_for(&self, duration: Duration) {
        self.faults.away_for(duration);
    }

    /// From now on, for so long, the store does not answer: calls wait, and go on then.
    pub fn freeze_for(&self, duration: Duration) {
        self.faults.silent_for(duration);
    }

    /// The next call of this kind does not reach the store. Said twice, so do the next two.
    pub fn fail_next(&self, call: Call) {
        self.faults.next_time(call, Fault::Unreached);
    }

    /// The next call of this kind has its effect, and its answer is lost.
    pub fn lose_next_answer(&self, call: Call) {
        self.faults.next_time(call, Fault::AnswerLost);
    }

    /// Lets the store work while tokio's clock stands still: else it may go on by a day, because what the store waits
    /// for is on another thread.
    pub(super) async fn undisturbed<T>(&self, work: impl Future<Output = T>) -> T {
        let _standing_still = self.clock.catch_up(&self.store);
        work.await
    }

    /// Lets all who are delivered together come to their batch before its transaction is there: the paused clock moves on
    /// when none of them has anything else to do, and no call of the store is under way.
    pub(super) async fn gather(&self) {
        if self.shares_transactions {
            sleep(GATHERING).await;
        }
    }

    pub(super) async fn call<T>(
        &self,
        call: Call,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.link.is_open().await;
        let fault = self.faults.next_fault(call).await;
        if fault == Some(Fault::Unreached) {
            return Err(StoreError::unavailable("told to fail"));
        }
        let answer = self.undisturbed(work).await;
        // A process that is gone hears no answer.
        self.link.is_open().await;
        match fault {
            Some(_) => answer.and(Err(StoreError::unavailable("the answer was lost"))),
            None => answer,
        }
    }
}

impl<S: Clone> FaultyStore<S> {
    /// The same store, where messages of grouped handlers share a transaction.
    pub(super) fn sharing_transactions(&self) -> Self {
        Self {
            shares_transactions: true,
            ..self.clone()
        }
    }

    /// The same store and what is wrong with it, by another link.
    pub(super) fn linked_by(&self, link: Link) -> Self {
        Self {
            link,
            ..self.clone()
        }
    }
}

impl<S> FaultyStore<S> {
    /// The same, where a handler may wait for so long before tokio's clock goes on.
    pub(super) fn with_patience(self, patience: Option<Duration>) -> Self {
        Self { patience, ..self }
    }

    /// How long a handler's wait may be one for something of which tokio does not know.
    pub(super) fn patience(&self) -> Option<Duration> {
        self.patience
    }
}

impl<S> Clock<S> {
    /// Moves the store's clock to where tokio's is, which then stands still while the store works.
    fn catch_up(&self, store: &S) -> Option<StandingStill> {
        let Self::Own(own) = self else { return None };
        let elapsed = own.started.elapsed();
        let mut moved = own.moved.lock().unwrap_or_else(PoisonError::into_inner);
        (own.advance)(store, elapsed.saturating_sub(*moved));
        *moved = elapsed;
        Some(StandingStill::for_at_most(LONGEST_CALL))
    }
}

impl<S: Store> Store for FaultyStore<S> {
    async fn claim(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        probe::before_claim().await;
        let claim = self.call(Call::Claim, self.store.claim(request)).await?;
        probe::claimed(&claim).await;
        Ok(claim)
    }

    async fn extend(&self, lease: &Lease, by: Duration) -> Result<Write, StoreError> {
        self.call(Call::Extend, self.store.extend(lease, by)).await
    }

    async fn complete(
        &self,
        lease: &Lease,
        outcome: &Outcome,
        retention: Duration,
    ) -> Result<Write, StoreError> {
        probe::before_completion(outcome).await;
        let complete = self.store.complete(lease, outcome, retention);
        let write = self.call(Call::Complete, complete).await?;
        if write == Write::Applied {
            probe::completed().await;
        }
        Ok(write)
    }

    async fn release(&self, lease: &Lease, reason: &Release) -> Result<Write, StoreError> {
        probe::before_release().await;
        self.call(Call::Release, self.store.release(lease, reason))
            .await
    }

    fn keeps(&self, kind: PositionKind) -> bool {
        self.store.keeps(kind)
    }
}
