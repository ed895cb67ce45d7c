//! What an observer is told about a message that ended.

use std::time::Duration;

use idem_core::{Key, executor::ExecutionKind, settlement::Settlement};

use crate::wire::reply::ReplyOutcome;

/// A message that ended, as told to [`WorkerBuilder::on_settled`](crate::WorkerBuilder::on_settled).
///
/// ```
/// use idem_amqp::{MemoryStore, executor::ExecutionKind, prelude::*};
///
/// let worker = Worker::builder(MemoryStore::new()).on_settled(|settled| {
///     if settled.kind == ExecutionKind::Duplicate {
///         println!("a copy of {:?} in {}", settled.key, settled.queue);
///     }
/// });
/// # drop(worker);
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Settled<'a> {
    /// The queue it came from.
    pub queue: &'a str,
    /// Its key, if it has one.
    pub key: Option<&'a Key>,
    /// How it ended in the engine. `Duplicate` was done before, `Executed` was done now.
    pub kind: ExecutionKind,
    /// How it would have ended if its policy, which is to [observe](idem_core::handler::Enforcement::Observe),
    /// were enforced; `None` if it would have run all the same.
    pub would_have_been: Option<ExecutionKind>,
    /// Which attempt ran, if one did.
    pub attempt: Option<u32>,
    /// What went wrong, in one line.
    pub error: Option<&'a str>,
    /// What the broker was told.
    pub settlement: Settlement,
    /// Whether the broker had delivered it before.
    pub redelivered: bool,
    /// Whether it is a dead letter that was sent again. If its work was done already, by another
    /// copy of the message, it is a `Duplicate`, and the log says so.
    pub replay: bool,
    /// What became of the reply, if one was asked for and there was one to send. It was repeated from
    /// memory if this is a `Duplicate`.
    pub reply: Option<ReplyOutcome>,
    /// The time from the delivery to the settlement.
    pub elapsed: Duration,
}
