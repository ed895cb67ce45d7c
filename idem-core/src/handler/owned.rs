//! Handlers that own their transaction for as long as they run.

use std::{fmt, marker::PhantomData};

use crate::handler::{Mode, operation::sealed};

/// As [`Atomic`](crate::handler::Atomic), for a handler that cannot borrow: it is given the transaction as a value, and
/// gives it back by dropping it.
///
/// So it can be passed through code that takes no borrowed values, like the service behind an HTTP layer. The attempt
/// ends when the handler has returned **and** the transaction is back. If it is kept for a lease longer, by a task that
/// the handler has started, say, nothing is committed, and the message runs again when its lease has run out.
#[derive(Debug)]
pub struct AtomicOwned<Tx>(PhantomData<fn() -> Tx>);

impl<Tx> sealed::Mode for AtomicOwned<Tx> {}

impl<Tx: Send + 'static> Mode for AtomicOwned<Tx> {
    type Lent<'a> = OwnedTransaction<Tx>;
    const RUNS_UNCLAIMED: bool = false;
}

/// The transaction in which the completion will be written. Dropped, it goes back to where it came from, with all that
/// was written.
pub struct OwnedTransaction<Tx>(Box<dyn Lend<Tx>>);

/// What the transaction is, whatever the store's own form of it.
pub(crate) trait Lend<Tx>: Send {
    fn lend(&mut self) -> &mut Tx;
}

impl<Tx> OwnedTransaction<Tx> {
    pub(crate) fn new(transaction: impl Lend<Tx> + 'static) -> Self {
        Self(Box::new(transaction))
    }

    /// What the handler writes through.
    #[expect(
        clippy::should_implement_trait,
        reason = "a method of the type's own needs no annotation of the type that is wanted"
    )]
    pub fn as_mut(&mut self) -> &mut Tx {
        self.0.lend()
    }
}

impl<Tx> fmt::Debug for OwnedTransaction<Tx> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedTransaction").finish_non_exhaustive()
    }
}
