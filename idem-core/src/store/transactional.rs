//! Stores that lend their transaction to the handler.
//!
//! The executor's atomic modes call it; `PostgresStore` and `SqliteStore` implement it. What must stay true:
//!
//! - The handler's writes and the completion commit together, fenced by the lease, or not at all.
//! - Whatever else becomes of a key is written outside of the transaction, after its rollback.

use std::{future::ready, time::Duration};

use super::{
    Claim, ClaimRequest, Finish, Finished, Lease, Open, Store, StoreError, Write,
    outbox::SharedOutbox,
};
use crate::futures::{BoxFuture, FutureExt as _};

/// A store in whose transaction a handler can write, through a `&mut Tx`: the handler's writes
/// and the completion commit together or not at all.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot lend a `&mut {Tx}` to a handler",
    label = "this store has no such transactions",
    note = "an atomic handler (one with a `&mut` connection or transaction) needs the store of that database: `PostgresStore` lends `PgConnection` and `PgTransaction<'_>`, `SqliteStore` lends `SqliteConnection` and `SqliteTransaction<'_>`",
    note = "if it is one of these by its name, it is of another version of `sqlx` than the store's: write `use idem_amqp::sqlx`, and `idem_amqp::sqlx::PgConnection`",
    note = "to run the handler on any store, take the connection from `State<…>` instead: it is then leased, not atomic"
)]
pub trait TransactionalStore<Tx>: Store {
    /// An open transaction, or a slot in one that is shared.
    type Transaction: Send + 'static;

    /// How many can be open at once; whoever begins a further one waits, before it claims.
    fn transactions(&self) -> usize;

    /// How long a handler may keep its transaction open before it is dropped and its attempt has
    /// failed; `None` is for ever. A store that is reached by a network sets a limit: a link that
    /// falls silent leaves a statement waiting for an answer that never comes, while heartbeats on
    /// other links keep the key.
    fn time_limit(&self) -> Option<Duration>;

    /// Claims the key and, if it was acquired, opens the transaction.
    ///
    /// # Errors
    /// If the store cannot tell; the claim may have been recorded.
    fn begin(
        &self,
        request: &ClaimRequest,
    ) -> impl Future<Output = Result<Begun<Self::Transaction>, StoreError>> + Send;

    /// Whether as many transactions are open as can be, and a key is better claimed
    /// [ahead](Self::claim_ahead); never in stores that gain nothing by it.
    fn is_busy(&self) -> bool {
        false
    }

    /// Claims the key before its transaction can be opened, so that many claims share a statement, and
    /// no connection waits for one. Waits while too many have claimed ahead already.
    ///
    /// # Errors
    /// If the store cannot tell; the claim may have been recorded.
    fn claim_ahead(
        &self,
        request: &ClaimRequest,
    ) -> impl Future<Output = Result<Begun<Opening<'_, Self::Transaction>>, StoreError>> + Send
    {
        // For stores that gain nothing by it: claim and transaction come together, and nothing is left to wait for.
        let begun = self.begin(request);
        async {
            Ok(match begun.await? {
                Begun::Acquired(lease, transaction) => {
                    Begun::Acquired(lease, ready(Ok(transaction)).boxed())
                }
                Begun::Not(answer) => Begun::Not(answer),
            })
        }
    }

    /// Where handlers' messages wait until they are published; `None` in a store that has no such table. Then no
    /// [completion](super::Completion::outgoing) has any.
    fn outbox(&self) -> Option<SharedOutbox> {
        None
    }

    /// What the handler writes through.
    fn lend(transaction: &mut Self::Transaction) -> &mut Tx;

    /// Whether the database still answers through the transaction, and can be written to. If not, the
    /// handler did not fail by itself, and that was no attempt. Asked when a handler has failed: what it has
    /// written may be rolled back by this.
    fn is_alive(&self, transaction: &mut Self::Transaction) -> impl Future<Output = bool> + Send;

    /// Keeps the claim while the handler runs, as [`Store::extend`] does for a lease.
    ///
    /// # Errors
    /// If the store cannot tell.
    fn extend_open(
        &self,
        lease: &Lease,
        by: Duration,
    ) -> impl Future<Output = Result<Write, StoreError>> + Send;

    /// Opens a transaction that is not opened together with its claim: for a group, or to be recorded by an entity.
    /// Dropped, it is rolled back; of a group, what was written since the slot was taken.
    ///
    /// # Cancel safety
    /// Whoever is dropped no longer waits for it.
    ///
    /// # Errors
    /// If no transaction can be begun, or the constraint cannot record what was handled. A store that opens none for
    /// this answers [`Open::refused`].
    fn open(
        &self,
        opening: Open<'_>,
    ) -> impl Future<Output = Result<Self::Transaction, StoreError>> + Send;

    /// Ends a transaction, and says how it ended.
    ///
    /// # Cancel safety
    /// A dropped future leaves unknown what was to be committed. A slot in a group is left when the future is first
    /// polled: it then need not be waited for.
    ///
    /// # Errors
    /// If the store cannot tell whether the transaction was committed. One that cannot end it so rolls it back, and
    /// answers [`Finish::refused`].
    fn finish(
        &self,
        transaction: Self::Transaction,
        finish: Finish<'_>,
    ) -> impl Future<Output = Result<Finished, StoreError>> + Send;
}

/// Opens the transaction of a claim that was made [ahead](TransactionalStore::claim_ahead), when it
/// is its turn. Until then the lease is kept by [`extend_open`](TransactionalStore::extend_open).
pub type Opening<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// The answer to [`TransactionalStore::begin`].
#[derive(Debug)]
pub enum Begun<T> {
    /// The claimant works, inside this transaction.
    Acquired(Lease, T),
    /// Any other answer than [`Claim::Acquired`].
    Not(Claim),
}
