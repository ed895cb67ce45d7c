//! Stores in whose transaction several messages can be handled by one call.

use super::{Claim, ClaimRequest, StoreError, TransactionalStore};

/// A store that completes several keys with one commit: what a handler has written for all their messages, and the
/// completions, commit together or not at all.
///
/// It opens [`Open::Batch`](super::Open::Batch), and ends such a transaction by
/// [`Finish::CompleteAll`](super::Finish::CompleteAll). If it is a [`StreamStore`](super::StreamStore), too, it also
/// ends it by [`Finish::MoveMark`](super::Finish::MoveMark), and moves the mark of a [`Completion`](super::Completion)
/// that has one: the conformance suite (list `TransactionalStreams`) holds it to that.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot handle several messages in one `&mut {Tx}`, as `batch` asks for",
    label = "this store has no such batches",
    note = "`batch` with a connection needs `PostgresStore`, with `&mut PgConnection` or `&mut PgTransaction<'_>`, or `SqliteStore`, with `&mut SqliteConnection` or `&mut SqliteTransaction<'_>`",
    note = "without a connection, a handler of batches runs on any store: it is then leased, not atomic"
)]
pub trait BatchStore<Tx>: TransactionalStore<Tx> {
    /// Whether it is a [`StreamStore`](super::StreamStore), too, and moves the mark of a stream with such a commit:
    /// [`Finish::MoveMark`](super::Finish::MoveMark) and [`Completion::mark`](super::Completion::mark).
    const MOVES_MARKS: bool = false;

    /// Claims a key whose completion commits with those of others. Like that of
    /// [`begin`](TransactionalStore::begin), the claim need not be durable before the completion is.
    ///
    /// # Errors
    /// If the store cannot tell; the claim may have been recorded.
    fn claim_for_batch(
        &self,
        request: &ClaimRequest,
    ) -> impl Future<Output = Result<Claim, StoreError>> + Send;
}
