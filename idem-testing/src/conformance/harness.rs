//! What the suite has to be told about a store.

use std::{error::Error, pin::Pin, time::Duration};

use idem_core::store::{
    BatchStore, GroupStore, Look, Purge, RecordedByStore, SequenceStore, SessionStore, Store,
    StreamStore, TransactionalStore, operator::OperatorStore,
};
use tokio::runtime::Builder;

/// Opens a store for a case, and moves its clock.
///
/// Every case uses keys of its own, so a server may be shared by all of them; the cases of
/// [`purge`](super::purge) count records and want data that no other case touches.
pub trait Harness: Send + Sync + Sized + 'static {
    /// The store under test.
    type Store: Store;

    /// Which of tokio's clocks the cases run on.
    const CLOCK: Clock = Clock::Running;

    /// Makes ready what a case needs: an empty database, a key prefix, a schema. Called once per
    /// case, inside tokio.
    fn start() -> impl Future<Output = Self> + Send;

    /// A handle on this case's data. Where several can be opened independently (connections,
    /// pools), give different ones, so that the cases see what two processes would.
    fn store(&self) -> Self::Store;

    /// Moves the clock of all handles forward, without sleeping.
    fn advance(&self, by: Duration) -> impl Future<Output = ()> + Send;

    /// Runs a case to its end, on [`CLOCK`](Self::CLOCK): in a runtime of its own, unless a harness has one that
    /// outlives the case, with what was opened in it.
    fn block_on(case: Pin<Box<dyn Future<Output = ()> + '_>>) {
        Builder::new_current_thread()
            .enable_all()
            .start_paused(Self::CLOCK == Clock::Paused)
            .build()
            .expect("a runtime can be built")
            .block_on(case);
    }
}

/// A store that is told when to forget. Every [`Harness`] of such a store is one.
pub trait PurgeHarness: Harness<Store: Purge> {}

impl<H: Harness<Store: Purge>> PurgeHarness for H {}

/// A store that keeps sessions. Every [`Harness`] of such a store is one.
pub trait SessionHarness: Harness<Store: SessionStore> {}

impl<H: Harness<Store: SessionStore>> SessionHarness for H {}

/// A store that keeps sequences. Every [`Harness`] of such a store is one.
pub trait SequenceHarness: Harness<Store: SequenceStore> {}

impl<H: Harness<Store: SequenceStore>> SequenceHarness for H {}

/// A store that keeps marks of streams. Every [`Harness`] of such a store is one.
pub trait StreamHarness: Harness<Store: StreamStore> {}

impl<H: Harness<Store: StreamStore>> StreamHarness for H {}

/// A store that shows a key. Every [`Harness`] of such a store is one.
pub trait LookHarness: Harness<Store: Look> {}

impl<H: Harness<Store: Look>> LookHarness for H {}

/// A store that shows its keys to operators. Every [`Harness`] of such a store is one.
pub trait OperatorHarness: Harness<Store: OperatorStore> {}

impl<H: Harness<Store: OperatorStore>> OperatorHarness for H {}

/// Restarts the store, for the cases of stores that outlive their process.
pub trait DurableHarness: Harness {
    /// Closes what is open and opens the same data anew, as a new process would. The clock goes
    /// on from where [`advance`](Harness::advance) has moved it to.
    fn reopen(&self) -> impl Future<Output = ()> + Send;
}

/// Writes and reads an effect, for the cases of stores that lend their transaction.
pub trait TransactionalHarness:
    Harness<Store: TransactionalStore<<Self as TransactionalHarness>::Tx>>
{
    /// What the store lends.
    type Tx: Send + 'static;

    /// Does what a handler would: inserts a row with this name through the transaction.
    fn write_effect(tx: &mut Self::Tx, name: &str) -> impl Future<Output = ()> + Send;

    /// Ends the transaction behind the store's back, as a handler that sends `ROLLBACK` does.
    fn roll_back_early(tx: &mut Self::Tx) -> impl Future<Output = ()> + Send;

    /// Commits behind the store's back, as a handler that sends `COMMIT` does.
    fn commit_early(tx: &mut Self::Tx) -> impl Future<Output = ()> + Send;

    /// Sends a statement that the database refuses, and keeps quiet about it.
    fn swallow_an_error(tx: &mut Self::Tx) -> impl Future<Output = ()> + Send;

    /// How many committed rows have this name, seen from outside of all transactions.
    fn effects(&self, name: &str) -> impl Future<Output = u64> + Send;
}

/// A store whose messages may share a transaction; it opens one group at a time, so that two
/// messages are in the same. Every [`TransactionalHarness`] of such a store is one.
pub trait GroupHarness:
    TransactionalHarness<Store: GroupStore<<Self as TransactionalHarness>::Tx>>
{
}

impl<H> GroupHarness for H where
    H: TransactionalHarness<Store: GroupStore<<H as TransactionalHarness>::Tx>>
{
}

/// A store that completes several keys with one commit. Every [`TransactionalHarness`] of such a store is one.
pub trait BatchHarness:
    TransactionalHarness<Store: BatchStore<<Self as TransactionalHarness>::Tx>>
{
}

impl<H> BatchHarness for H where
    H: TransactionalHarness<Store: BatchStore<<H as TransactionalHarness>::Tx>>
{
}

/// Writes an entity, for the cases of stores that can tell by a constraint what was handled.
pub trait EntityHarness:
    TransactionalHarness<Store: RecordedByStore<<Self as TransactionalHarness>::Tx>>
{
    /// A unique constraint of one column of text.
    const CONSTRAINT: &'static str;

    /// Inserts a row with this name in the constraint's column.
    fn insert_entity(
        tx: &mut Self::Tx,
        name: &str,
    ) -> impl Future<Output = Result<(), Box<dyn Error + Send + Sync>>> + Send;
}

/// Moves what a worker takes for the time, for the cases of stores that several machines share: their
/// time is a server's.
pub trait WorkerClockHarness: Harness {
    /// Moves the clock of this process's workers forward, and not the store's. Unless it says
    /// otherwise, that is tokio's clock; nothing in a process can move the system's.
    fn leap(&self, by: Duration) -> impl Future<Output = ()> + Send {
        Clock::leap(by)
    }
}

/// Which of tokio's clocks the cases run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// The ordinary one: the store has a clock of its own. Times are compared with some slack.
    Running,
    /// Paused: the store takes its time from tokio. Times are compared exactly.
    Paused,
}

impl Clock {
    /// Moves tokio's paused clock: all that [`Harness::advance`] has to do for a store that runs
    /// on it.
    pub async fn advance_paused(by: Duration) {
        tokio::time::advance(by).await;
    }

    /// Moves tokio's running clock, as if the process had been suspended.
    pub async fn leap(by: Duration) {
        tokio::time::pause();
        tokio::time::advance(by).await;
        tokio::time::resume();
    }

    /// How far two readings of one time may be apart: what a slow machine may take for a case.
    pub(super) const fn slack(self) -> Duration {
        match self {
            Self::Running => Duration::from_secs(20),
            Self::Paused => Duration::from_millis(1),
        }
    }
}
