//! What the settlement of a message depends on, beside how it ended.

use std::time::Duration;

use super::{OnFailure, ladder::Ladder};
use crate::handler::Policy;

/// How a message that failed, or whose key is held for long, comes back to where it came from.
#[derive(Debug, Clone, Copy)]
pub enum Retries<'a> {
    /// It is published to a rung of the ladder, which returns it.
    Ladder(&'a Ladder),
    /// It waits in the worker, and is then returned.
    Local,
    /// It waits in the worker, and is tried again there: others wait for it.
    Here,
    /// It is returned at once, and the queue itself delays it.
    Native,
}

/// Who wants to know what becomes of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asker {
    /// Nobody waits for an answer.
    Nobody,
    /// Whoever waits for a reply.
    Requester,
    /// Whoever waited for a reply, but a refusal that somebody has to hear of did not get there.
    NotTold,
    /// The person who has sent a dead letter again: it must not vanish unrun.
    Operator,
}

/// Whether there is something to keep of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// All that its publisher has sent.
    Published,
    /// The transport's client cannot read all of its properties.
    Unreadable,
    /// It can be read, and no route of its queue takes it.
    NoRoute,
    /// Its publisher has withdrawn it, and published its number alone.
    Withdrawn,
}

/// Whether the code round the handler still runs, and can claim a message once more that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runner {
    /// It still runs.
    Runs,
    /// It has panicked.
    Panicked,
}

/// Whether a message may have been attempted before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivered {
    /// It was not attempted: it has come for the first time.
    First,
    /// It may have been attempted.
    Again,
}

/// Who counts the attempts that a message has had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// Its key's record counts, or the broker does.
    Anyway,
    /// Only the message itself counts, by what it carries when it comes back from the ladder.
    OnTheLadder,
}

/// Whether what is not done can go back to where it came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// It takes messages back.
    Queue,
    /// It takes nothing back.
    Stream,
}

/// What waits until a message is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behind {
    /// Nothing waits for it.
    Nothing,
    /// Others of its lane wait: it waits here, however long somebody else has its key.
    Lane,
    /// All that comes after it waits, for a mark alone says that it is done. Who has lost the lease of that mark has
    /// to read it anew.
    Mark,
}

/// What the settlement depends on beside the kind of the execution.
#[derive(Debug, Clone, Copy)]
pub struct Circumstances<'a> {
    /// What the handler, or its queue, wants to become of its messages.
    pub policy: &'a Policy,
    /// How messages of this queue come back.
    pub retries: Retries<'a>,
    /// Where it came from.
    pub source: Source,
    /// What waits until it is done.
    pub behind: Behind,
    /// What becomes of it if it cannot be handled, unless its policy drops it.
    pub on_failure: OnFailure,
    /// How often this delivery was tried.
    pub tries: u32,
    /// How long this delivery has been held because of conflicts.
    pub held: Duration,
    /// How often the message has been to the ladder because of conflicts.
    pub conflicts: u32,
    /// How often it has been returned to its queue.
    pub returns: u32,
    /// Whether the message may be returned only a few times more before the broker drops it.
    pub last_returns: bool,
    /// Whether as many deliveries are held as may be.
    pub full: bool,
    /// If it is ahead in its sequence: whether its turn may come soon.
    pub near: bool,
    /// Who counts its attempts.
    pub counted: Counted,
    /// Whether there is something to keep.
    pub content: Content,
    /// Whether it can be held.
    pub runner: Runner,
    /// If its key is held elsewhere: how long the holder's lease still lasts.
    pub remaining: Duration,
    /// If it has failed: how long to wait before the next attempt.
    pub retry_after: Duration,
    /// Who wants to know what becomes of it.
    pub asker: Asker,
    /// Whether it may be the one that its key is held for, or was completed by.
    pub delivered: Delivered,
    /// A random number from 0 to 1, by which delays are spread.
    pub random: f64,
}

impl<'a> Circumstances<'a> {
    /// Those of a delivery that has just come.
    pub fn new(retries: Retries<'a>) -> Self {
        Self {
            policy: &Policy::DEFAULT,
            retries,
            source: Source::Queue,
            behind: Behind::Nothing,
            on_failure: OnFailure::Park,
            tries: 0,
            held: Duration::ZERO,
            conflicts: 0,
            returns: 0,
            last_returns: false,
            full: false,
            near: false,
            counted: Counted::Anyway,
            content: Content::Published,
            runner: Runner::Runs,
            remaining: Duration::ZERO,
            retry_after: Duration::ZERO,
            asker: Asker::Nobody,
            delivered: Delivered::First,
            random: 0.0,
        }
    }
}

impl Circumstances<'_> {
    /// Whether nothing is lost with this message but its own content: another one has the key, and is done or attempted
    /// again, and nobody waits for an answer to this one. What a stream delivers may be the message itself, read again:
    /// somebody has set the mark back.
    pub(super) fn is_only_a_copy(&self) -> bool {
        self.asker == Asker::Nobody
            && self.delivered == Delivered::First
            && self.source == Source::Queue
    }
}
