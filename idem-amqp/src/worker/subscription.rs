//! A queue with its handler, and which ones a worker can have.

use std::{collections::HashSet, sync::Arc};

use idem_core::Policy;

use super::attend::Attend;
use crate::{Queue, doctor::Case, error::WorkerError};

/// A queue and what handles its messages.
pub(crate) struct Subscription {
    pub(crate) queue: Queue,
    /// By which its messages are handled: the queue's own, or else its handler's.
    pub(crate) policy: Policy,
    /// How many of its handlers the store lets run at once.
    pub(crate) limit: Option<usize>,
    pub(super) attendant: Arc<dyn Attend>,
    /// Whether its handler is to fail open, and cannot.
    pub(super) fails_open_in_vain: bool,
}

impl Subscription {
    /// What the doctor is to know of it.
    pub(super) fn case(&self) -> Case {
        Case {
            queue: self.queue.clone(),
            policy: self.policy,
            at_once: self.limit,
        }
    }
}

/// Whether one worker can have these.
pub(super) fn check(subscriptions: &[Subscription]) -> Result<(), WorkerError> {
    if subscriptions.is_empty() {
        return Err(WorkerError::NothingToConsume);
    }
    let mut names = HashSet::new();
    for Subscription {
        queue,
        fails_open_in_vain,
        ..
    } in subscriptions
    {
        let name = queue.name();
        if name.is_empty() || name.len() > 250 || queue.dead_letter_queue().len() > 255 {
            return Err(WorkerError::QueueName { queue: name.into() });
        }
        if queue.dead_letter_queue() == name {
            return Err(WorkerError::DeadLettersToItself { queue: name.into() });
        }
        if !names.insert(name) {
            return Err(WorkerError::QueueTwice { queue: name.into() });
        }
        if let Some(reason) = queue.impossible_retries() {
            return Err(WorkerError::NativeRetries {
                queue: name.into(),
                reason: reason.into(),
            });
        }
        if *fails_open_in_vain {
            return Err(WorkerError::AtomicFailsOpen { queue: name.into() });
        }
    }
    Ok(())
}
