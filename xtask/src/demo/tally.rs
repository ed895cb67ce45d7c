//! What the workers said about the messages they settled.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

/// A line that a worker prints.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Line {
    Settled(Settled),
    Other(serde::de::IgnoredAny),
}

/// One delivery that came to an end.
#[derive(Debug, Deserialize)]
pub(crate) struct Settled {
    outcome: String,
    key: Option<String>,
    settlement: String,
    redelivered: bool,
}

impl Line {
    pub(crate) fn read(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or(Self::Other(serde::de::IgnoredAny))
    }
}

/// The balance of all workers.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    by_outcome: BTreeMap<String, u64>,
    acked: u64,
    dead: u64,
    dead_orders: BTreeSet<String>,
    redelivered: u64,
}

impl Tally {
    pub(crate) fn count(&mut self, line: &Line) {
        let Line::Settled(settled) = line else {
            return;
        };
        *self.by_outcome.entry(settled.outcome.clone()).or_default() += 1;
        self.redelivered += u64::from(settled.redelivered);
        if settled.settlement == "ack" {
            self.acked += 1;
        } else if settled.settlement.starts_with("dead-letter") {
            self.dead += 1;
            self.dead_orders.extend(settled.order().map(str::to_owned));
        }
    }

    /// Deliveries that the workers reported.
    pub(crate) fn reported(&self) -> u64 {
        self.by_outcome.values().sum()
    }

    /// Deliveries of `messages` that were all delivered, those included that a worker took to its
    /// grave: each of them came again, with the mark of a redelivery.
    pub(crate) fn deliveries(&self, messages: u64) -> u64 {
        self.reported().max(messages + self.redelivered)
    }

    /// Messages that are done with: acknowledged or dead-lettered.
    pub(crate) fn ended(&self) -> u64 {
        self.acked + self.dead
    }

    /// Messages that were dead-lettered.
    pub(crate) fn dead(&self) -> u64 {
        self.dead
    }

    pub(crate) fn is_dead(&self, order: &str) -> bool {
        self.dead_orders.contains(order)
    }

    pub(crate) fn outcome(&self, outcome: &str) -> u64 {
        self.by_outcome.get(outcome).copied().unwrap_or_default()
    }

    /// Every outcome that occurred, with its count.
    pub(crate) fn outcomes(&self) -> impl Iterator<Item = (&str, u64)> {
        self.by_outcome
            .iter()
            .map(|(outcome, count)| (outcome.as_str(), *count))
    }
}

impl Settled {
    /// The order's name: the last part of the key, behind the scope.
    fn order(&self) -> Option<&str> {
        self.key.as_deref()?.rsplit(':').next()
    }
}

#[cfg(test)]
pub(crate) fn tally(lines: &[&str]) -> Tally {
    let mut tally = Tally::default();
    for line in lines {
        tally.count(&Line::read(line));
    }
    tally
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXECUTED: &str = r#"{"outcome":"executed","key":"charge:o-1","attempt":1,"redelivered":false,"settlement":"ack"}"#;
    const AGAIN: &str = r#"{"outcome":"duplicate","key":"charge:o-1","attempt":null,"redelivered":true,"settlement":"ack"}"#;
    const FAILED: &str =
        r#"{"outcome":"failed","key":"charge:o-2","redelivered":false,"settlement":"requeue"}"#;
    const REJECTED: &str = r#"{"outcome":"rejected","key":"charge:o-2","redelivered":true,"settlement":"dead-letter (rejected)"}"#;

    #[test]
    fn only_settled_messages_count() {
        let tally = tally(&[
            r#"{"ready":true}"#,
            EXECUTED,
            "a line for people",
            r#"{"summary":{"deliveries":1}}"#,
        ]);
        assert_eq!(
            (tally.reported(), tally.ended(), tally.outcome("executed")),
            (1, 1, 1)
        );
    }

    #[test]
    fn a_message_has_ended_when_it_is_acked_or_dead_lettered() {
        let tally = tally(&[EXECUTED, AGAIN, FAILED, REJECTED]);
        assert_eq!((tally.ended(), tally.dead()), (3, 1));
        assert!(tally.is_dead("o-2") && !tally.is_dead("o-1"));
    }

    #[test]
    fn deliveries_that_died_unreported_are_known_by_their_redelivery() {
        // Two messages, one delivered again after a death without a word.
        assert_eq!(tally(&[EXECUTED, AGAIN]).deliveries(2), 3);
        // Nothing published more than once may make the count smaller than what was reported.
        assert_eq!(tally(&[EXECUTED, EXECUTED, EXECUTED]).deliveries(2), 3);
    }
}
