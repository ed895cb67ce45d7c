//! How a transaction ends.
//!
//! Stores that lend transactions answer with it, and the executor decides by it what became of an attempt. What must
//! stay true: that a store cannot tell is an error, never one of these.

use super::StoreError;

/// How a transaction ended.
///
/// | | alone | recorded by an entity | in a group |
/// |---|---|---|---|
/// | [`Committed`](Self::Committed) | yes | yes | yes |
/// | [`Fenced`](Self::Fenced) | yes | with a lease | |
/// | [`Violated`](Self::Violated) | | yes | |
/// | [`Refused`](Self::Refused) | yes | yes | |
/// | [`RolledBack`](Self::RolledBack) | | | yes |
/// | [`WithoutCompletion`](Self::WithoutCompletion) | | | yes |
///
/// The executor takes any other answer for one that tells nothing, and never for success. If a store cannot tell, it
/// answers `Err`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub enum Finished {
    /// The handler's writes are durable, and so is what had to be written with them: the completion, or the entity.
    Committed,
    /// The lease was no longer the current one; everything was rolled back.
    Fenced,
    /// The constraint, which is deferred, was violated, or the entity was there before and is not
    /// this transaction's; everything was rolled back.
    Violated {
        /// Why, in one line.
        error: String,
    },
    /// The database refused, or the handler had ended the transaction by itself, or left no entity;
    /// the attempt has failed.
    Refused {
        /// Why, in one line.
        error: String,
    },
    /// Everything was rolled back, perhaps for the sake of others.
    RolledBack,
    /// The handler of another message has committed the transaction by itself. The writes are
    /// durable, and the completion has to be written.
    WithoutCompletion,
}

impl Finished {
    /// What becomes of an answer that this way of finishing cannot give.
    pub(crate) fn is_no_answer(&self, finish: &str) -> StoreError {
        StoreError::Refused(format!("the store answered {self:?} to {finish}").into())
    }
}
