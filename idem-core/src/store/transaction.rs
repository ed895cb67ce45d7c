//! How a transaction is opened, and how it ends.
//!
//! The executor says by [`Open`] and [`Finish`] what it wants; a store that lends transactions answers with
//! [`Finished`]. What must stay true: nothing is committed but by a finish that the store can serve, and that a store
//! cannot tell is an error, never one of the answers.
// docs/decisions/0035

use std::time::Duration;

use super::{Lease, StoreError, StreamLease};
use crate::handler::{Outcome, Outgoing, RecordedRow};

/// What a transaction is opened for that is not opened together with its claim.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Open<'a> {
    /// The transaction is shared: this opens a slot in a group of the handler of this name. It is given when its turn
    /// comes. Asked of a [`GroupStore`](super::GroupStore).
    Group {
        /// The handler's name.
        handler: &'static str,
        /// How many slots the group has at most.
        size: usize,
    },
    /// The transaction is for several messages, which are claimed already. Asked of a
    /// [`BatchStore`](super::BatchStore).
    Batch,
    /// The transaction is for one message, which a row of the handler's own table is to record. It has no claim. Asked
    /// of a [`RecordedByStore`](super::RecordedByStore).
    Recorded {
        /// What the handler is to leave in its table.
        entity: &'a RecordedRow,
        /// How long a statement waits for a lock at most, and so for a transaction that has written the same key.
        wait: Duration,
    },
}

/// How a transaction is to end.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Finish<'a> {
    /// Writes the completion, fenced, as the last statement of the transaction, and commits. In a group, the slot
    /// is left to the next one, and all that succeeded commit together.
    Complete(Completion<'a>),
    /// Writes the completions, each fenced, as the last statement of the transaction, and commits; all or none. Asked
    /// of a [`BatchStore`](super::BatchStore).
    CompleteAll(&'a [Completion<'a>]),
    /// Moves the mark of a stream, fenced, as the last statement of the transaction, and commits. What was handled
    /// leaves no record: the mark says that it is done. Asked of a [`BatchStore`](super::BatchStore) that is a
    /// [`StreamStore`](super::StreamStore), too.
    MoveMark {
        /// Which mark moves, and how far.
        mark: MarkMove<'a>,
        /// What the handler has published, as in [`Completion::outgoing`].
        outgoing: &'a [Outgoing],
    },
    /// Commits, if the transaction is the one that was opened, nothing in it has failed, and it has written the
    /// entity itself. Asked of a [`RecordedByStore`](super::RecordedByStore).
    Record {
        /// What the handler has left in its table.
        entity: &'a RecordedRow,
        /// If there is one, its record is removed with the same commit, fenced.
        lease: Option<&'a Lease>,
    },
    /// Rolls the handler's writes back, and returns when they are in nobody's way any more: what becomes of the key
    /// is written after that, by [`Store::release`](super::Store::release) or
    /// [`Store::complete`](super::Store::complete). The claim stays. A transaction that cannot be reached is gone
    /// with its connection. A slot is given back at once, and its group undoes what was written since it was taken.
    RollBack,
}

/// What is written, fenced, in the transaction that a handler has written in: see [`Finish::Complete`] and
/// [`Finish::CompleteAll`].
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Completion<'a> {
    /// The claim.
    pub lease: &'a Lease,
    /// What is remembered.
    pub outcome: &'a Outcome,
    /// How long the outcome is remembered.
    pub retention: Duration,
    /// What the handler has published. It is written into the store's [outbox](super::TransactionalStore::outbox), and
    /// nothing is committed without it.
    pub outgoing: &'a [Outgoing],
    /// The mark that is moved with the same commit, if any: nothing is committed without that. Asked of a
    /// [`Finish::Complete`] outside of groups, by whom [`Finish::MoveMark`] is asked.
    pub mark: Option<MarkMove<'a>>,
}

/// Moves the mark of a stream over what a handler has done of it, in the handler's own transaction.
///
/// It takes effect if and only if the lease is the current one and the mark is not above [`from`](Self::from):
/// otherwise the finish is [`Finished::Fenced`]. So an effect is committed once, by whoever reads the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct MarkMove<'a> {
    /// Who reads the stream.
    pub lease: &'a StreamLease,
    /// Where the mark is, or was when what is committed began: all below this is done.
    pub from: u64,
    /// Where it is then: all below this is done, too.
    pub to: u64,
}

impl<'a> MarkMove<'a> {
    /// A move over what lies between these two.
    pub fn new(lease: &'a StreamLease, from: u64, to: u64) -> Self {
        Self { lease, from, to }
    }
}

impl<'a> Completion<'a> {
    /// A completion of a handler that has published nothing.
    pub fn new(lease: &'a Lease, outcome: &'a Outcome, retention: Duration) -> Self {
        Self {
            lease,
            outcome,
            retention,
            outgoing: &[],
            mark: None,
        }
    }

    /// The same completion, with what the handler has published.
    pub fn publishing(self, outgoing: &'a [Outgoing]) -> Self {
        Self { outgoing, ..self }
    }

    /// The same completion, with the mark that is moved, if any.
    pub fn moving(self, mark: Option<MarkMove<'a>>) -> Self {
        Self { mark, ..self }
    }
}

/// How a transaction ended.
///
/// | | [`Complete`](Finish::Complete) alone, [`CompleteAll`](Finish::CompleteAll), [`MoveMark`](Finish::MoveMark) | [`Complete`](Finish::Complete) in a group | [`Record`](Finish::Record) | [`RollBack`](Finish::RollBack) |
/// |---|---|---|---|---|
/// | [`Committed`](Self::Committed) | yes | yes | yes | |
/// | [`Fenced`](Self::Fenced) | yes | | with a lease | |
/// | [`Violated`](Self::Violated) | | | yes | |
/// | [`Refused`](Self::Refused) | yes | | yes | |
/// | [`RolledBack`](Self::RolledBack) | | yes | | yes |
/// | [`WithoutCompletion`](Self::WithoutCompletion) | | yes | | |
///
/// The executor takes any other answer for one that tells nothing, and never for success. If a store cannot tell, it
/// answers `Err`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub enum Finished {
    /// The handler's writes are durable, and so is what had to be written with them: the completion, or the entity.
    Committed,
    /// The lease, or one of several, was no longer the current one, or the mark was moved before; everything was rolled
    /// back.
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

impl Open<'_> {
    /// What a store answers that cannot open a transaction for this.
    pub fn refused(self) -> StoreError {
        let asked = match self {
            Self::Group { .. } => "lets no messages share a transaction",
            Self::Batch => "opens no transaction for several messages",
            Self::Recorded { .. } => "opens no transaction that an entity records",
        };
        StoreError::Refused(format!("this store {asked}").into())
    }
}

impl Finish<'_> {
    /// What a store answers that cannot end a transaction so. It has rolled it back.
    pub fn refused(self) -> StoreError {
        let asked = match self {
            Self::Complete(it) if it.mark.is_some() => "with a completion and a mark",
            Self::Complete(_) => "with a completion",
            Self::CompleteAll(all) if all.iter().any(|it| it.mark.is_some()) => {
                "with several completions and a mark"
            }
            Self::CompleteAll(_) => "with several completions",
            Self::MoveMark { .. } => "with a mark",
            Self::Record { .. } => "with an entity",
            Self::RollBack => "with a rollback",
        };
        StoreError::Refused(format!("this store ends no such transaction {asked}").into())
    }
}

impl Finished {
    /// What becomes of an answer that this way of finishing cannot give.
    pub(crate) fn is_no_answer(&self, finish: &str) -> StoreError {
        StoreError::Refused(format!("the store answered {self:?} to {finish}").into())
    }
}
