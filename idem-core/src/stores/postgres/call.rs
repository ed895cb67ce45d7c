//! What is asked about one key, in a statement that asks about many.

use super::{link::Statement, row::BatchRow, sql::Sql};
use crate::{message::Key, store::StoreError, stores::batcher};

/// Whether calls are asked for the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ask {
    First,
    /// One of them got no answer from an earlier statement: that one was for new keys only, or another transaction was
    /// first.
    Again,
}

/// One caller's question about a key.
pub(super) trait KeyCall:
    batcher::Call<Answer = Result<Self::Reply, StoreError>> + Sync
{
    type Reply: Send;

    fn key(&self) -> &Key;

    /// What a batch of such calls is called in metrics.
    const METRIC: &str;

    /// The statement for a batch in which no key occurs twice.
    fn statement(batch: &[&Self], ask: Ask, sql: &Sql, skew: i64) -> Statement;

    /// The answer to a call that was part of the statement; `None` if it has to be asked again.
    fn read(&self, row: &BatchRow) -> Option<Self::Reply>;

    /// The answer to a call that wrote nothing: one for the same key that waited behind it, most of all.
    fn read_unwritten(&self, row: &BatchRow) -> Option<Self::Reply>;
}
