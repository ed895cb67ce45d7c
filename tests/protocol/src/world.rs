//! A state of the model: the broker, the store and the workers at one moment.

use std::collections::BTreeSet;

use idem_core::{FencingToken, model::Kept};

use crate::{Call, Delivery};

/// All there is. Two worlds that differ only in names (of owners and tokens) are the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    /// Each with a key of its own.
    pub messages: Vec<Message>,
    /// What each is occupied with. A worker is a task that sees one delivery through; so one
    /// process that has lost a channel is several, while it still works on what came by it.
    pub workers: Vec<Option<Delivery>>,
    /// Calls whose callers were told an error: each may still arrive, at any time, or never.
    pub under_way: Vec<Call>,
    /// How many things may still go wrong.
    pub faults_left: u8,
    /// What was done that must never be done.
    pub breaches: BTreeSet<Breach>,
}

/// One message, which may be there more than once, and what is kept of its key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Message {
    /// How many copies of it wait in the queue.
    pub ready: u8,
    /// How many of these were never delivered; counted only where copies are dropped.
    pub fresh: u8,
    /// Whether a dead letter of it is confirmed.
    pub dead_lettered: bool,
    /// Whether it was given up, and dropped on purpose: counted, and kept nowhere.
    pub dropped: bool,
    /// What the store has.
    pub kept: Kept,
    /// How often the handler's effect has happened; 2 is also more than twice.
    pub effects: u8,
    /// Whether the effect happened under a lease that was current, and no later attempt was told
    /// yet that it may have.
    pub untold: bool,
    /// Under which token a worker was told that it had completed the key.
    pub completed_by: Option<FencingToken>,
}

/// What only a step shows, and not the world after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Breach {
    /// A key was acquired whose lease, or whose delay after a failure, had not ended.
    AcquiredTooEarly,
    /// A claim or a completion that had taken effect was repeated, and refused.
    Denied,
    /// A write under another than the current lease changed something.
    StaleWrite,
    /// Two workers were told that they had completed the same key.
    CompletedTwice,
    /// A message was acknowledged that was neither completed nor dead-lettered nor sent again, nor given up to be
    /// dropped.
    AckedTooEarly,
    /// An effect was repeated by an attempt that was not in doubt.
    RepeatedUntold,
    /// An owner whose lease had been ended got another one.
    AcquiredAgain,
}

impl World {
    /// The deliveries of a message that are not over.
    pub fn deliveries(&self, message: usize) -> impl Iterator<Item = &Delivery> {
        let all = self.workers.iter().flatten();
        all.filter(move |delivery| delivery.message == message)
    }

    /// Whether nothing is left to be done, and each message has its end.
    pub fn is_settled(&self) -> bool {
        self.workers.iter().all(Option::is_none)
            && self
                .messages
                .iter()
                .all(|message| message.ready == 0 && message.has_an_end())
    }
}

impl Message {
    /// Whether it is known to be done, or waits for a person, or was dropped on purpose.
    pub fn has_an_end(&self) -> bool {
        self.kept.is_completed() || self.dead_lettered || self.dropped
    }
}
