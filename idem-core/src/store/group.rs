//! Stores in whose transaction several handlers can write, one after the other.

use std::time::Duration;

use super::{Claim, ClaimRequest, Finished, Lease, StoreError, TransactionalStore};
use crate::{futures::BoxFuture, handler::Outcome};

/// A store that lends one transaction to several handlers in turn: the writes and completions of
/// those that succeeded commit together, and each of the others is rolled back by itself.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot let several messages share a transaction, as `group` asks for",
    label = "this store has no groups",
    note = "`group` needs `PostgresStore`, with `&mut PgConnection` or `&mut PgTransaction<'_>`; SQLite has one writer, which commits alone",
    note = "without `group`, the handler runs on any store that can lend a `&mut {Tx}`"
)]
pub trait GroupStore<Tx>: TransactionalStore<Tx> {
    /// A place in a group, and with it the transaction. Dropped, what was written since it was taken
    /// is rolled back, and the others of the group stay.
    type Slot: Send;

    /// How many groups of one handler are open at once. None if messages cannot share a transaction
    /// with this store's settings: then each has its own.
    fn groups(&self) -> usize;

    /// Claims a key whose completion commits with a group. Like that of
    /// [`begin`](TransactionalStore::begin), the claim need not be durable before the completion is.
    ///
    /// # Errors
    /// If the store cannot tell; the claim may have been recorded.
    fn claim_for_group(
        &self,
        request: &ClaimRequest,
    ) -> impl Future<Output = Result<Claim, StoreError>> + Send;

    /// Waits for a slot in a group of the handler of this name, of at most `size` slots.
    ///
    /// # Cancel safety
    /// Whoever is dropped has left the queue.
    ///
    /// # Errors
    /// If no transaction can be begun.
    fn slot(
        &self,
        handler: &'static str,
        size: usize,
    ) -> impl Future<Output = Result<Self::Slot, StoreError>> + Send;

    /// What the handler writes through.
    fn lend_slot(slot: &mut Self::Slot) -> &mut Tx;

    /// Leaves the slot to the next one, when the handler has succeeded. What is returned tells how
    /// the group ended; it need not be waited for.
    fn leave(
        &self,
        slot: Self::Slot,
        lease: &Lease,
        outcome: &Outcome,
        retention: Duration,
    ) -> BoxFuture<'static, Result<Finished, StoreError>>;
}
