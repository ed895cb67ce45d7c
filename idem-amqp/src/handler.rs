//! What handlers are made of, beyond what every program names.
//!
//! You need it to write an extractor of your own ([`Context`], [`Rejection`]), to write a handler's
//! traits by hand instead of with `#[idempotent]` ([`Operation`], [`Handler`]), to be generic over
//! handlers, or to choose parts of a [`Policy`] in code ([`Backoff`], [`InDoubt`],
//! [`StoreOutage`], [`Enforcement`]).
//!
//! ```
//! use idem_amqp::{
//!     FromContext, Policy,
//!     handler::{Backoff, Context, Rejection},
//! };
//! use std::time::Duration;
//!
//! /// The tenant, out of a header.
//! struct Tenant(String);
//!
//! impl<S: Sync> FromContext<S> for Tenant {
//!     fn from_context(context: &Context<'_, S>) -> Result<Self, Rejection> {
//!         let tenant = context.envelope.header("x-tenant");
//!         let tenant = tenant.ok_or_else(|| Rejection::new("the header x-tenant is missing"))?;
//!         Ok(Self(tenant.into_owned()))
//!     }
//! }
//!
//! const PATIENT: Policy = Policy::builder()
//!     .max_attempts(20)
//!     .backoff(Backoff::new(Duration::from_secs(1), Duration::from_mins(10)))
//!     .build_const();
//! # assert_eq!(PATIENT.max_attempts(), 20);
//! ```

#[doc(inline)]
pub use idem_core::handler::{
    Answer, Atomic, AtomicBatch, AtomicOwned, Backoff, BatchOptions, BatchOutput, BatchResults,
    Context, DecodeError, Enforcement, Failures, FromState, GivenUp, Grouped, Handler, InDoubt,
    Invalid, Keyless, Late, Leased, LeasedBatch, Member, Mode, OnConflict, OnDuplicate, Operation,
    OrderedBy, Outcome, OwnedTransaction, PolicyBuilder, PolicyError, RecordedBy, RecordedRow,
    RecordingConstraint, Refusal, Rejection, SequenceNumber, SequenceOptions, StoreOutage,
};
#[doc(no_inline)]
pub use idem_core::handler::{
    Attempt, Batch, Failed, Failure, FencingToken, FromContext, FromRef, Headers, Policy, Refused,
    Request, State, Verdict,
};
