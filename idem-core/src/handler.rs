//! What users write: operations and their modes, what a handler is given, how it fails, its policy.

pub(crate) mod backoff;
pub(crate) mod context;
pub(crate) mod entity;
pub(crate) mod failure;
pub(crate) mod grouped;
pub(crate) mod numbered;
pub(crate) mod operation;
mod outcome;
pub(crate) mod policy;
pub(crate) mod reply;

pub use backoff::Backoff;
pub use context::{
    Attempt, Context, FencingToken, FromContext, FromRef, Headers, Rejection, State,
};
pub use entity::{Entity, InEntity, RecordedBy};
pub use failure::{Failed, Failure, Verdict};
pub use grouped::Grouped;
pub use numbered::{MessageNumber, Numbered};
pub use operation::{Atomic, DecodeError, Handler, Leased, Mode, Operation};
pub use outcome::Outcome;
pub use policy::{Enforcement, InDoubt, Policy, PolicyBuilder, PolicyError, StoreOutage};
pub use reply::{Answer, Refusal, Refused, Request};
