//! The contract of a store: what one must do that keeps the keys.
//!
//! You need it to write a store of your own, or to be generic over what stores can do: remember
//! sessions ([`SessionStore`]), open transactions ([`TransactionalStore`]), forget what is old
//! ([`Purge`]). The stores that are there are in [`stores`](crate::stores).
//!
//! ```
//! use idem_amqp::{Store, Worker, WorkerBuilder, store::Purge};
//! use std::time::Duration;
//!
//! /// A worker of this service, on whichever store it was given.
//! fn worker<S: Store + Purge + Clone>(store: S) -> WorkerBuilder<S> {
//!     Worker::builder(store).purge_every(Duration::from_hours(1))
//! }
//! # let _ = worker(idem_amqp::MemoryStore::new());
//! ```

#[doc(no_inline)]
pub use idem_core::store::Store;
#[doc(inline)]
pub use idem_core::store::{
    BatchStore, Begun, Claim, ClaimRequest, Completion, Condition, ConnectError, FailedReason,
    Finding, Finish, Finished, GroupStore, KeyRecord, KeyState, Lease, Look, Looked, Open,
    OpenSession, Opened, Opening, OutOfPlace, Owner, Purge, PurgeRun, PurgeRuns, PurgeTask,
    RecordedByError, RecordedByStore, Release, SequenceStore, SessionStore, Severity, StoreError,
    StreamClaim, StreamLease, StreamState, StreamStore, Touched, TransactionalStore, Write, outbox,
};
