//! The store contract: who may work on a key, and what became of it.

use std::{fmt::Debug, time::Duration};

use crate::{handler::Outcome, message::PositionKind};

mod batch;
pub(crate) mod claim;
mod error;
pub(crate) mod finding;
mod group;
mod look;
pub mod operator;
pub mod outbox;
mod purge;
pub(crate) mod recorded_by;
mod request;
pub(crate) mod rules;
pub(crate) mod sequence;
mod session;
mod stream;
mod transaction;
pub(crate) mod transactional;

pub use batch::BatchStore;
pub use claim::{Claim, Lease, OutOfPlace, Release, Write};
pub use error::{ConnectError, StoreError};
pub use finding::{Finding, Severity};
pub use group::GroupStore;
pub use look::{Condition, FailedReason, KeyRecord, KeyState, Look, Looked};
pub use purge::{PurgeRun, PurgeRuns, PurgeTask};
pub use recorded_by::{RecordedByError, RecordedByStore};
pub use request::{ClaimRequest, Owner};
pub use sequence::SequenceStore;
pub use session::{OpenSession, Opened, SessionStore, Touched};
pub use stream::{StreamClaim, StreamLease, StreamState, StreamStore};
pub use transaction::{Completion, Finish, Finished, MarkMove, Open};
pub use transactional::{Begun, Opening, TransactionalStore};

/// Decides, once per key, who works, and remembers what came of it.
///
/// An implementation keeps these rules; the conformance suite (feature `conformance`) holds it
/// to them.
///
/// 1. [`claim`](Self::claim) is one atomic step in one round trip, and the only call that looks
///    at expiry.
/// 2. The fencing tokens of a key grow strictly: over release, takeover, completion, purge and
///    re-creation.
/// 3. A write takes effect if and only if the key is still claimed under that token. A lease that
///    ran out but that nobody took over may still complete or be extended; a released, completed,
///    taken-over or purged key is never revived. Repeating the very write that ended a lease,
///    with its token, answers [`Write::Applied`] again.
/// 4. [`Claim::Completed`] wins until its retention ends. Only an observed, committed completion
///    ever makes a duplicate.
/// 5. Attempts survive release and takeover; [`Lease::in_doubt`] says whether the previous
///    attempt ended without a word. A key that failed is [`Claim::Held`] until its `retry_after`
///    has passed: copies of the message neither run nor count as attempts before, only a replay
///    does.
/// 6. Time is the store's own clock, never a worker's.
/// 7. `Err` means *unknown*: the write may have happened. The same owner claiming again gets the
///    same token and attempt while it holds the key, and does not acquire again after its lease
///    was ended. A claim that [takes nothing over](ClaimRequest::takes_over) leaves a lease of another
///    owner alone, also one that has run out.
/// 8. Every state a record can be in has an exit: takeover, completion, release or purge.
///    An unfinished record lives as long as the retention after its lease has ended, or after
///    its next attempt is due.
/// 9. [`Claim::KeyReused`] is decided only against a completed key, or a failed one that was not
///    given up; other content while a worker holds the key is [`Claim::Held`].
/// 10. No answer is decided from another transaction that may still roll back.
///
/// ```
/// use std::time::Duration;
/// use idem_core::{
///     Outcome, Store, StoreError, store::{Claim, ClaimRequest, Lease, Release, Write},
/// };
///
/// /// Says what another store answers.
/// #[derive(Debug)]
/// struct Told<S>(S);
///
/// impl<S: Store> Store for Told<S> {
///     async fn claim(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
///         self.0.claim(request).await.inspect(|claim| println!("{}: {claim:?}", request.key))
///     }
///     async fn extend(&self, lease: &Lease, by: Duration) -> Result<Write, StoreError> {
///         self.0.extend(lease, by).await
///     }
///     async fn complete(&self, lease: &Lease, outcome: &Outcome, retention: Duration) -> Result<Write, StoreError> {
///         self.0.complete(lease, outcome, retention).await
///     }
///     async fn release(&self, lease: &Lease, reason: &Release) -> Result<Write, StoreError> {
///         self.0.release(lease, reason).await
///     }
/// }
/// ```
///
/// # Cancel safety
/// A dropped future leaves the write unknown, as an `Err` does.
pub trait Store: Debug + Send + Sync + 'static {
    /// Tries to become the one who works on a key.
    ///
    /// # Errors
    /// If the store cannot tell; the claim may have been recorded.
    fn claim(
        &self,
        request: &ClaimRequest,
    ) -> impl Future<Output = Result<Claim, StoreError>> + Send;

    /// Makes the lease end `by` from now.
    ///
    /// # Errors
    /// If the store cannot tell; the lease may have been extended.
    fn extend(
        &self,
        lease: &Lease,
        by: Duration,
    ) -> impl Future<Output = Result<Write, StoreError>> + Send;

    /// Records the final outcome and remembers it for the retention from now.
    ///
    /// # Errors
    /// If the store cannot tell; the outcome may have been recorded.
    fn complete(
        &self,
        lease: &Lease,
        outcome: &Outcome,
        retention: Duration,
    ) -> impl Future<Output = Result<Write, StoreError>> + Send;

    /// Gives the key back.
    ///
    /// # Errors
    /// If the store cannot tell; the key may have been given back.
    fn release(
        &self,
        lease: &Lease,
        reason: &Release,
    ) -> impl Future<Output = Result<Write, StoreError>> + Send;

    /// Whether it keeps sessions, or sequences: `false`, unless it is a [`SessionStore`] or a
    /// [`SequenceStore`]. The executor refuses a request whose [position](ClaimRequest::position) is in
    /// what the store does not keep, and never asks the store about it. A store that wraps another one
    /// forwards this.
    fn keeps(&self, kind: PositionKind) -> bool {
        let _ = kind;
        false
    }
}

/// A store that can be told to drop what its retention has ended for. One that drops it by itself answers that there
/// was nothing.
///
/// Any number of processes may purge a store at once, while others work with it: what one of them removes, the others
/// leave alone.
///
/// ```
/// use idem_core::{StoreError, store::Purge};
///
/// /// What `PurgeTask` does each time.
/// async fn purge_all(store: &impl Purge) -> Result<u32, StoreError> {
///     let mut removed = 0;
///     loop {
///         let batch = store.purge(1_000).await?;
///         removed += batch;
///         if batch < 1_000 {
///             return Ok(removed);
///         }
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "nothing says how `{Self}` is purged of what its retention has ended for",
    label = "not `Purge`",
    note = "implement `Purge` for it, or its records are kept for ever; if they go by themselves, answer `Ok(0)`"
)]
pub trait Purge: Store {
    /// Removes at most `batch` records, completed or not, whose retention has ended, and says how
    /// many. Fewer than `batch` means that none are left for now but those that somebody else is removing.
    ///
    /// # Errors
    /// If the store cannot tell; records may have been removed.
    fn purge(&self, batch: u32) -> impl Future<Output = Result<u32, StoreError>> + Send;
}
