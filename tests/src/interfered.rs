//! A store whose calls fail, or end the process, on cue.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use idem_amqp::{
    Store, StoreError,
    handler::Outcome,
    message::PositionKind,
    store::{
        Begun, Claim, ClaimRequest, Finish, Finished, Lease, Open, Purge, Release,
        TransactionalStore, Write, outbox::SharedOutbox,
    },
};
use nix::sys::signal::{Signal, raise};
use tokio::time::sleep;

mod batch;
mod entity;
mod group;
mod sessions;
mod streams;

/// A call of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Also the beginning of a transaction.
    Claim,
    /// The heartbeat.
    Extend,
    /// Also the commit of a transaction.
    Complete,
    /// Also the rollback of a transaction.
    Release,
    /// A session is opened, touched or closed.
    Session,
    /// Sessions that have ended are removed.
    Expire,
    /// A stream is claimed, extended, given back, looked at or set.
    Stream,
}

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is answered.
    Pass,
    /// It does not reach the store, and fails.
    Refuse,
    /// The store does it, but the answer is lost.
    LoseAnswer,
    /// The store does it, and the answer comes so much later.
    AnswerAfter(Duration),
    /// The process is killed before the store does it.
    DieBefore,
    /// The process is killed after the store did it.
    DieAfter,
}

/// A store between whose calls the test comes. Clones share the counts.
#[derive(Clone)]
pub struct Interfered<S> {
    store: S,
    plan: Arc<Plan>,
    counts: Arc<[AtomicU64; 7]>,
}

type Plan = dyn Fn(Call, u64) -> Fate + Send + Sync;

impl<S> Interfered<S> {
    /// Asks the plan about each call and its number among the calls of its kind, from 1.
    pub fn new(store: S, plan: impl Fn(Call, u64) -> Fate + Send + Sync + 'static) -> Self {
        Self {
            store,
            plan: Arc::new(plan),
            counts: Arc::default(),
        }
    }

    /// A store that is away while the switch is on.
    pub fn switched(store: S) -> (Self, Arc<AtomicBool>) {
        let away = Arc::new(AtomicBool::new(false));
        let switch = Arc::clone(&away);
        let store = Self::new(store, move |_, _| {
            if switch.load(SeqCst) {
                Fate::Refuse
            } else {
                Fate::Pass
            }
        });
        (store, away)
    }

    /// How often this was called.
    pub fn count(&self, call: Call) -> u64 {
        self.counts[call as usize].load(SeqCst)
    }

    async fn interfere<T>(
        &self,
        call: Call,
        done: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let number = self.counts[call as usize].fetch_add(1, SeqCst) + 1;
        match (self.plan)(call, number) {
            Fate::Pass => done.await,
            Fate::Refuse => Err(StoreError::unavailable("refused by the test")),
            Fate::LoseAnswer => {
                done.await?;
                Err(StoreError::unavailable("the answer was lost by the test"))
            }
            Fate::AnswerAfter(late) => {
                let answer = done.await;
                sleep(late).await;
                answer
            }
            Fate::DieBefore => die(),
            Fate::DieAfter => {
                done.await?;
                die()
            }
        }
    }
}

/// Ends this process as `kill -9` does.
pub fn die() -> ! {
    raise(Signal::SIGKILL).expect("a process may kill itself");
    unreachable!("killed")
}

impl<S> fmt::Debug for Interfered<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interfered")
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}

impl<S: Store> Store for Interfered<S> {
    async fn claim(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        self.interfere(Call::Claim, self.store.claim(request)).await
    }

    async fn extend(&self, lease: &Lease, by: Duration) -> Result<Write, StoreError> {
        let done = self.store.extend(lease, by);
        self.interfere(Call::Extend, done).await
    }

    async fn complete(
        &self,
        lease: &Lease,
        outcome: &Outcome,
        retention: Duration,
    ) -> Result<Write, StoreError> {
        let done = self.store.complete(lease, outcome, retention);
        self.interfere(Call::Complete, done).await
    }

    async fn release(&self, lease: &Lease, reason: &Release) -> Result<Write, StoreError> {
        let done = self.store.release(lease, reason);
        self.interfere(Call::Release, done).await
    }

    fn keeps(&self, kind: PositionKind) -> bool {
        self.store.keeps(kind)
    }
}

impl<S: Purge> Purge for Interfered<S> {
    async fn purge(&self, batch: u32) -> Result<u32, StoreError> {
        self.store.purge(batch).await
    }
}

impl<Tx, S: TransactionalStore<Tx>> TransactionalStore<Tx> for Interfered<S> {
    type Transaction = S::Transaction;

    fn transactions(&self) -> usize {
        self.store.transactions()
    }

    fn time_limit(&self) -> Option<Duration> {
        self.store.time_limit()
    }

    fn outbox(&self) -> Option<SharedOutbox> {
        self.store.outbox()
    }

    async fn begin(&self, request: &ClaimRequest) -> Result<Begun<Self::Transaction>, StoreError> {
        self.interfere(Call::Claim, self.store.begin(request)).await
    }

    fn lend(transaction: &mut Self::Transaction) -> &mut Tx {
        S::lend(transaction)
    }

    async fn is_alive(&self, transaction: &mut Self::Transaction) -> bool {
        self.store.is_alive(transaction).await
    }

    async fn extend_open(&self, lease: &Lease, by: Duration) -> Result<Write, StoreError> {
        let done = self.store.extend_open(lease, by);
        self.interfere(Call::Extend, done).await
    }

    async fn open(&self, opening: Open<'_>) -> Result<Self::Transaction, StoreError> {
        self.store.open(opening).await
    }

    async fn finish(
        &self,
        transaction: Self::Transaction,
        finish: Finish<'_>,
    ) -> Result<Finished, StoreError> {
        let done = self.store.finish(transaction, finish);
        match finish {
            Finish::RollBack => done.await,
            _ => self.interfere(Call::Complete, done).await,
        }
    }
}
