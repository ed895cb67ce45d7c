//! The contract of an outbox: what was committed and is not yet published.
//!
//! A transaction writes into it with its [completion](super::Completion::outgoing). Whoever publishes takes messages
//! from it under a lease, and says what became of them. What must stay true:
//!
//! - A message leaves the table only by a word that it was published, or that nobody wants it.
//! - Whoever took it and has gone holds nobody up for longer than the lease.
//! - Time is the store's own clock.
// docs/decisions/0042

use std::{
    fmt::Debug,
    sync::Arc,
    time::{Duration, SystemTime},
};

use crate::{
    futures::BoxFuture,
    handler::{OutgoingContent, OutgoingId},
    store::StoreError,
};

/// The outbox of a store, without the store's type.
pub type SharedOutbox = Arc<dyn OutboxTable>;

/// How many bytes of messages are taken at once, but always one.
pub const TAKEN_BYTES: usize = 16 << 20;

/// How far each kind of message is counted at a [glance](OutboxTable::glance).
pub const GLANCED: u64 = 10_000;

/// What was committed and is not yet published.
///
/// The conformance suite holds an implementation to these rules:
///
/// 1. [`take`](Self::take) tells of each message that is due to one caller at a time: until the lease has run out, or
///    it was [put back](Unpublished::again), nobody else is told of it. Only who was told of it last can put it back or
///    give it up.
/// 2. Every message that is due, and that no one has, is told of in the end, however long the transaction took that has
///    written it.
/// 3. Of one [lane](crate::handler::Outgoing::lane), only the first message is told of; the next one when that is gone.
///    They are in the order in which their transactions were committed.
/// 4. What is [removed](Self::remove) is never told of again. To remove it twice is harmless.
/// 5. What is [given up](Unpublished::give_up) is not told of until somebody [tries it again](OutboxChange::Retry).
///
/// # Cancel safety
/// A dropped future leaves unknown what was done, as an `Err` does.
pub trait OutboxTable: Debug + Send + Sync + 'static {
    /// Takes at most so many messages that are due, for so long; those that are due for longest, and not more than
    /// about [`TAKEN_BYTES`] of them.
    fn take(&self, most: usize, lease: Duration) -> BoxFuture<'_, Result<Vec<Taken>, StoreError>>;

    /// Removes what was published.
    fn remove<'a>(&'a self, published: &'a [OutgoingId]) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Notes down what could not be published, and when it is to be tried again; nothing of a message that somebody
    /// else was told of since.
    fn note<'a>(&'a self, unpublished: &'a [Unpublished]) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Whether all of this can be done here, and what a handler publishes can be written: does it, and undoes it.
    ///
    /// # Errors
    /// [`StoreError::Refused`] if a table, or a right of the store's user, is missing: it says which.
    fn check(&self) -> BoxFuture<'_, Result<(), StoreError>>;

    /// How many there are.
    fn counts(&self) -> BoxFuture<'_, Result<OutboxCounts, StoreError>>;

    /// The same, each kind counted up to [`GLANCED`], and what shows whether anybody publishes. Each worker asks twice
    /// a minute, so it has to cost about the same however many there are.
    fn glance(&self) -> BoxFuture<'_, Result<OutboxGlance, StoreError>>;

    /// Messages that may need somebody: those that were given up for longest, the first of each lane that was tried in
    /// vain, and those that are due first. At most so many of each kind, in the order of their ids.
    fn troubled(&self, most: u32) -> BoxFuture<'_, Result<Vec<OutboxEntry>, StoreError>>;

    /// One page of messages, in the order of their ids.
    fn list<'a>(
        &'a self,
        listing: &'a OutboxListing,
    ) -> BoxFuture<'a, Result<Vec<OutboxEntry>, StoreError>>;

    /// One message, with its content; `None` if it is not there, or no longer.
    fn show(
        &self,
        id: OutgoingId,
    ) -> BoxFuture<'_, Result<Option<(OutboxEntry, OutgoingContent)>, StoreError>>;

    /// Changes messages by hand, and says how many were there to change.
    fn change<'a>(&'a self, change: &'a OutboxChange) -> BoxFuture<'a, Result<u64, StoreError>>;
}

/// A message that is to be published now.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Taken {
    /// Names its row.
    pub id: OutgoingId,
    /// How often it was taken, this time included.
    pub attempts: u32,
    /// Whether others of its lane wait until it is gone.
    pub in_lane: bool,
    /// What is to be published.
    pub content: OutgoingContent,
}

impl Taken {
    /// For implementations of [`OutboxTable::take`].
    pub fn new(id: OutgoingId, attempts: u32, in_lane: bool, content: OutgoingContent) -> Self {
        Self {
            id,
            attempts,
            in_lane,
            content,
        }
    }
}

/// A message that could not be published.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unpublished {
    /// Names its row.
    pub id: OutgoingId,
    /// How often it had been [taken](Taken::attempts) by then: 0 by who has committed it. If it has been taken more
    /// often since, somebody else has it, and nothing is noted down.
    pub attempts: u32,
    /// Why, in one line.
    pub error: String,
    /// When it is due again; `None` if it never can be published, as far as one can tell.
    pub next: Option<Duration>,
    /// Whether it was tried, and not only waited for a broker that was away.
    pub was_tried: bool,
}

impl Unpublished {
    /// It was tried, and is tried again after this time.
    pub fn again(id: OutgoingId, attempts: u32, error: impl Into<String>, after: Duration) -> Self {
        Self {
            id,
            attempts,
            error: error.into(),
            next: Some(after),
            was_tried: true,
        }
    }

    /// It was not sent: no broker was there. It is tried again after this time, and this was no attempt. Never noted
    /// down twice: whoever takes it next may have the same number of attempts.
    pub fn untried(
        id: OutgoingId,
        attempts: u32,
        error: impl Into<String>,
        after: Duration,
    ) -> Self {
        Self {
            was_tried: false,
            ..Self::again(id, attempts, error, after)
        }
    }

    /// It is not tried again unless somebody says so.
    pub fn give_up(id: OutgoingId, attempts: u32, error: impl Into<String>) -> Self {
        Self {
            next: None,
            ..Self::again(id, attempts, error, Duration::ZERO)
        }
    }

    /// How often the message counts as tried from now on.
    pub fn attempts_from_now_on(&self) -> u32 {
        if self.was_tried {
            self.attempts.max(1)
        } else {
            self.attempts.saturating_sub(1)
        }
    }
}

/// How many messages an outbox holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutboxCounts {
    /// Messages that are due, or that a worker has.
    pub waiting: u64,
    /// Messages that are to leave later.
    pub later: u64,
    /// Messages that were given up.
    pub dead: u64,
    /// How long the oldest of those that wait has waited: since it was written, or was to leave.
    pub oldest: Duration,
}

/// What a look at an outbox shows that costs little.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutboxGlance {
    /// How many there are, up to [`GLANCED`] of each kind.
    pub counts: OutboxCounts,
    /// How long a message has been free to be taken without being taken. If it is more than a few seconds, nobody
    /// publishes.
    pub untaken: Duration,
}

impl OutboxGlance {
    /// For implementations of [`OutboxTable::glance`].
    pub fn new(counts: OutboxCounts, untaken: Duration) -> Self {
        Self { counts, untaken }
    }
}

impl OutboxCounts {
    /// For implementations of [`OutboxTable::counts`].
    pub fn new(waiting: u64, later: u64, dead: u64, oldest: Duration) -> Self {
        Self {
            waiting,
            later,
            dead,
            oldest,
        }
    }
}

/// The state of a message of the outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutboxState {
    /// It is due, or a worker has it.
    Waiting,
    /// It is to leave later.
    Later,
    /// It was given up.
    Dead,
}

impl OutboxState {
    /// The state's name, as people write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Later => "later",
            Self::Dead => "dead",
        }
    }
}

/// Which messages are to be listed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutboxListing {
    /// Only those in this state.
    pub state: Option<OutboxState>,
    /// Only those whose message id begins with this: a key's, say.
    pub prefix: String,
    /// Only those behind this one: the last of the page before.
    pub after: Option<OutgoingId>,
    /// How many messages at most.
    pub limit: u32,
}

/// A message of the outbox, without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutboxEntry {
    /// Names its row.
    pub id: OutgoingId,
    /// By which its consumers know it.
    pub message_id: String,
    /// Where it goes.
    pub target: String,
    /// Its lane, if it has one.
    pub lane: Option<String>,
    /// The state that it is in.
    pub state: OutboxState,
    /// When it is due, or is due again.
    pub due: SystemTime,
    /// How often it was taken to be published by others than who committed it.
    pub attempts: u32,
    /// Why it was not published the last time.
    pub error: Option<String>,
    /// When it was written.
    pub created: SystemTime,
    /// How long its content is.
    pub bytes: u64,
}

/// What a row of the outbox holds beside its content: for implementations of [`OutboxTable::list`].
#[derive(Debug)]
#[allow(missing_docs, reason = "as those of `OutboxEntry`")]
pub struct OutboxRow {
    pub id: OutgoingId,
    pub message_id: String,
    pub target: String,
    pub lane: Option<String>,
    pub state: OutboxState,
    pub due_micros: i64,
    pub attempts: u32,
    pub error: Option<String>,
    pub created_micros: i64,
    pub bytes: u64,
}

impl From<OutboxRow> for OutboxEntry {
    fn from(row: OutboxRow) -> Self {
        let time = |micros: i64| {
            SystemTime::UNIX_EPOCH + Duration::from_micros(micros.try_into().unwrap_or(0))
        };
        Self {
            id: row.id,
            message_id: row.message_id,
            target: row.target,
            lane: row.lane,
            state: row.state,
            due: time(row.due_micros),
            attempts: row.attempts,
            error: row.error,
            created: time(row.created_micros),
            bytes: row.bytes,
        }
    }
}

/// What somebody does by hand to messages of the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutboxChange {
    /// A message that was given up is due again; all of them, without an id.
    Retry(Option<OutgoingId>),
    /// A message is removed, whatever its state: nobody will publish it.
    Discard(OutgoingId),
    /// A message is to go elsewhere, and is due again.
    Redirect {
        /// Names its row.
        id: OutgoingId,
        /// Where it goes now, for people.
        target: String,
        /// What the door needs to publish it there.
        head: Vec<u8>,
    },
    /// Messages that are to leave later, and have not yet, are removed: that with this message id, or all of this
    /// key's.
    Cancel(String),
}
