//! A message as it is published to a rung of the retry ladder.

use std::time::{Duration, SystemTime};

use idem_core::{Key, message::HeaderSource as _};

use crate::wire::{
    Publication,
    delivery::Delivery,
    headers::{ATTEMPT, CONFLICTS, ERROR, FIRST_FAILURE, KEY, LAST_FAILURE, REASON},
    ladder::rung_name,
    republish::Republished,
};

/// Why a message has to come back.
#[derive(Debug)]
pub(crate) struct FailureInfo<'a> {
    /// Which attempt ran, if one did.
    pub(crate) attempt: Option<u32>,
    /// What went wrong with it; nothing did where the key was held.
    pub(crate) error: Option<&'a str>,
    pub(crate) key: Option<&'a Key>,
}

/// The message as it is put on a rung. Its routing key is the name of the queue that it comes back
/// to, by which `idem.return` finds the way.
///
/// An attempt that ran was an ordinary one from then on: the mark of a replay is taken off. Where
/// none ran, what was said about earlier ones is kept, and so is that mark, unless the replay had
/// been delivered before: it may have run then.
pub(crate) fn retry(
    delivery: &Delivery,
    body: &[u8],
    failure: &FailureInfo<'_>,
    rung: Duration,
    now: SystemTime,
) -> Publication {
    let mut message = Republished::of(delivery);
    if let Some(attempt) = failure.attempt {
        // One before it that waited here and not on the ladder cannot have been much earlier.
        message.failed(delivery, now);
        message.number(ATTEMPT, attempt);
    } else {
        message.carry_over(delivery, &[ERROR, ATTEMPT, FIRST_FAILURE, LAST_FAILURE]);
        if delivery.starts_over() {
            message.carry_over(delivery, &[REASON]);
        }
        message.number(CONFLICTS, conflicts(delivery).saturating_add(1));
    }
    if let Some(error) = failure.error {
        message.text(ERROR, error);
    }
    if let Some(key) = failure.key {
        message.text(KEY, key.as_str());
    }
    message.publication(&rung_name(rung), delivery.home(), body)
}

/// How often the message has been to the ladder, since its last attempt, because its key was held.
pub(crate) fn conflicts(delivery: &Delivery) -> u32 {
    let said = delivery.get(CONFLICTS).filter(|_| delivery.comes_back());
    said.and_then(|count| count.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests;
