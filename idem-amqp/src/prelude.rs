//! What a service that consumes with idempotent handlers usually needs.
//!
//! Only what nearly every handler names: `State` and `Attempt` are in it, `Queue` and `Worker`
//! too; stores are not, for each service has its own.

pub use crate::{
    Attempt, Delivery, Failed, Failure, FencingToken, FromContext, Headers, Key, Policy, Publisher,
    Queue, Refused, Request, State, Verdict, Worker, shutdown_signal,
};

#[cfg(feature = "macros")]
pub use crate::{IdempotencyKey, idempotent};
