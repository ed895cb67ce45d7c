//! Modes of handlers that are called with several messages.

use std::marker::PhantomData;

use crate::handler::{Mode, operation::sealed};

/// As [`Leased`](crate::handler::Leased), with several messages in one call of the handler when many come at once: for
/// calls to services that take many at a time. Each key is claimed and completed on its own.
///
/// If the call fails, the handler is called again with each half of its messages. This goes on until at most two are
/// left, or both halves fail. What is left runs by itself, and only that run counts as an attempt. So the handler may
/// be called again with what it has done already: the [attempt](crate::Attempt::is_in_doubt) says so. A call that took
/// too long is not repeated in halves: each of its messages runs by itself.
///
/// A message runs by itself at once if it was attempted before. So does one whose policy lets it run without the store,
/// or does not let it run again when it is in doubt.
///
/// `#[idempotent(batch = 256)]` chooses it, for a function without a connection.
#[derive(Debug, Clone, Copy)]
pub struct LeasedBatch;

impl sealed::Mode for LeasedBatch {}

impl Mode for LeasedBatch {
    type Lent<'a> = ();
    const RUNS_UNCLAIMED: bool = true;
}

/// As [`Atomic`](crate::handler::Atomic), with several messages in one call of the handler and one transaction when
/// many come at once: one commit covers what the handler has written and the record of each message.
///
/// If the call or the commit fails, all is rolled back. Then the handler is called again with each half of the
/// messages. This goes on until at most two are left, or both halves fail. What is left runs by itself, as
/// [`Atomic`](crate::handler::Atomic) runs it, and only that run counts as an attempt. A message that was attempted
/// before runs by itself at once.
///
/// `#[idempotent(batch = 256)]` chooses it, for a function that takes a connection. It needs a
/// [`BatchStore`](crate::store::BatchStore).
#[derive(Debug)]
pub struct AtomicBatch<Tx>(PhantomData<fn() -> Tx>);

impl<Tx> sealed::Mode for AtomicBatch<Tx> {}

impl<Tx: Send + 'static> Mode for AtomicBatch<Tx> {
    type Lent<'a> = &'a mut Tx;
    const RUNS_UNCLAIMED: bool = false;
}
