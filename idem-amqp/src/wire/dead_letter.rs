//! A message that ended for good: as it is put into the dead-letter queue, and as it is found there.

use std::time::SystemTime;

use idem_core::{Key, settlement::Reason};

use crate::wire::{
    Publication,
    delivery::Delivery,
    headers::{ATTEMPT, ERROR, KEY, REASON},
    republish::Republished,
};

mod death;
mod letter;

pub use letter::DeadLetter;

/// What a dead letter says about its end.
#[derive(Debug)]
pub(crate) struct DeathInfo<'a> {
    pub(crate) reason: Reason,
    pub(crate) error: &'a str,
    pub(crate) attempt: u32,
    pub(crate) key: Option<&'a Key>,
    /// When the message was given up, by the worker's clock.
    pub(crate) at: SystemTime,
}

impl DeathInfo<'_> {
    /// Attempts before this one may have failed in other deliveries, or in processes that are gone.
    fn may_have_failed_before(&self) -> bool {
        self.attempt > 1 || self.reason == Reason::InDoubt
    }
}

/// The message as it is put into the dead-letter queue, or sent to an exchange by this routing key.
pub(crate) fn dead_letter(
    delivery: &Delivery,
    body: &[u8],
    death: &DeathInfo<'_>,
    address: (&str, &str),
) -> Publication {
    let mut letter = Republished::of(delivery);
    letter.text(REASON, death.reason.as_str());
    letter.text(ERROR, death.error);
    letter.number(ATTEMPT, death.attempt);
    if let Some(key) = death.key {
        letter.text(KEY, key.as_str());
    }
    if death.may_have_failed_before() {
        letter.failed_again(delivery, death.at);
    } else {
        letter.failed(delivery, death.at);
    }
    let (exchange, routing_key) = address;
    letter.publication(exchange, routing_key, body)
}

#[cfg(test)]
mod tests;
