//! Stores in whose transaction several handlers can write, one after the other.

use super::{Claim, ClaimRequest, StoreError, TransactionalStore};

/// A store that lends one transaction to several handlers in turn: the writes and completions of
/// those that succeeded commit together, and each of the others is rolled back by itself.
///
/// It opens [`Open::Group`](super::Open::Group), and ends such a slot by [`Finish::Complete`](super::Finish::Complete).
/// If it has an [outbox](TransactionalStore::outbox), it opens [`Open::Batch`](super::Open::Batch), too: what somebody
/// has published whose group was committed by another one's handler is written there.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot let several messages share a transaction, as `group` asks for",
    label = "this store has no groups",
    note = "`group` needs `PostgresStore`, with `&mut PgConnection` or `&mut PgTransaction<'_>`; SQLite has one writer, which commits alone",
    note = "without `group`, the handler runs on any store that can lend a `&mut {Tx}`"
)]
pub trait GroupStore<Tx>: TransactionalStore<Tx> {
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
}
