//! Handlers of which several messages share a transaction.

use std::marker::PhantomData;

use crate::handler::{Mode, operation::sealed};

/// As [`Atomic`](crate::handler::Atomic), with up to `SIZE` messages in one transaction when many come at once:
/// a savepoint each, and one commit for all that succeeded.
///
/// What does not succeed in a group is rolled back and run again by itself, as
/// [`Atomic`](crate::handler::Atomic) runs it, and only that run counts as an attempt. So it is with all of a
/// group whose transaction fails. A message that is almost alone, or has been attempted before, is run
/// by itself at once.
///
/// `#[idempotent(group = 32)]` chooses it. It needs a [`GroupStore`](crate::store::GroupStore).
#[derive(Debug)]
pub struct Grouped<Tx, const SIZE: usize>(PhantomData<fn() -> Tx>);

impl<Tx, const SIZE: usize> sealed::Mode for Grouped<Tx, SIZE> {}

impl<Tx: Send + 'static, const SIZE: usize> Mode for Grouped<Tx, SIZE> {
    type Lent<'a> = &'a mut Tx;
    const RUNS_UNCLAIMED: bool = false;
}
