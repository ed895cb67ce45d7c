//! What users write: operations and their modes, what a handler is given, how it fails, its policy.

pub(crate) mod backoff;
pub(crate) mod batch;
pub(crate) mod batched;
pub(crate) mod context;
mod error_text;
pub(crate) mod failure;
pub(crate) mod grouped;
pub(crate) mod operation;
mod outbox;
mod outcome;
pub(crate) mod owned;
pub(crate) mod policy;
mod refusal;
pub(crate) mod reply;

pub use backoff::Backoff;
pub use batch::{Batch, BatchOptions, BatchOutput, BatchResults, Failures, FromState, Member};
pub use batched::{AtomicBatch, LeasedBatch};
pub use context::{
    Attempt, Context, FencingToken, FromContext, FromRef, Headers, Rejection, State,
};
pub(crate) use error_text::{MAX_ERROR_LEN, cut_error};
pub use failure::{Failed, Failure, Verdict};
pub use grouped::Grouped;
pub use operation::ordered_by::OrderedBy;
pub use operation::recorded_by::{RecordedBy, RecordedRow, RecordingConstraint};
pub use operation::sequence::{SequenceNumber, SequenceOptions};
pub use operation::{Atomic, DecodeError, Handler, Invalid, Leased, Mode, Operation};
pub use outbox::{
    Due, FreeFrom, IntoOutgoing, InvalidOutgoingId, Outbox, OutboxError, Outboxes, Outgoing,
    OutgoingContent, OutgoingId,
};
pub use outcome::Outcome;
pub(crate) use owned::Lend;
pub use owned::{AtomicOwned, OwnedTransaction};
pub use policy::{
    Enforcement, GivenUp, InDoubt, Keyless, Late, OnConflict, OnDuplicate, Policy, PolicyBuilder,
    PolicyError, StoreOutage,
};
pub use refusal::Refusal;
pub use reply::{Answer, Refused, Request};
