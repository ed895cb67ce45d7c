//! What the workers said about the messages they settled.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

/// One delivery that came to an end, as a worker prints it.
#[derive(Debug, Deserialize)]
pub(super) struct Settled {
    outcome: String,
    key: Option<String>,
    settlement: String,
    redelivered: bool,
}

/// The balance of all workers.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) by_outcome: BTreeMap<String, u64>,
    acked: u64,
    pub(super) dead: u64,
    pub(super) dead_orders: BTreeSet<String>,
    redelivered: u64,
}

impl Tally {
    pub(super) fn count(&mut self, settled: &Settled) {
        *self.by_outcome.entry(settled.outcome.clone()).or_default() += 1;
        self.redelivered += u64::from(settled.redelivered);
        if settled.settlement == "ack" {
            self.acked += 1;
        } else if settled.settlement.starts_with("dead-letter") {
            self.dead += 1;
            // The last part of the key, behind the scope.
            let order = settled.key.iter().filter_map(|key| key.rsplit(':').next());
            self.dead_orders.extend(order.map(str::to_owned));
        }
    }

    /// Deliveries that the workers reported.
    pub(super) fn reported(&self) -> u64 {
        self.by_outcome.values().sum()
    }

    /// Deliveries of `messages` that were all delivered, those included that a worker took to its
    /// grave: each of them came again, with the mark of a redelivery.
    pub(super) fn deliveries(&self, messages: u64) -> u64 {
        self.reported().max(messages + self.redelivered)
    }

    /// Messages that are done with: acknowledged or dead-lettered.
    pub(super) fn ended(&self) -> u64 {
        self.acked + self.dead
    }

    pub(super) fn outcome(&self, outcome: &str) -> u64 {
        self.by_outcome.get(outcome).copied().unwrap_or_default()
    }
}

#[cfg(test)]
pub(super) fn tally(lines: &[&str]) -> Tally {
    let mut tally = Tally::default();
    for line in lines {
        tally.count(&serde_json::from_str(line).expect("it is settled"));
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
    fn a_message_has_ended_when_it_is_acked_or_dead_lettered() {
        let tally = tally(&[EXECUTED, AGAIN, FAILED, REJECTED]);
        assert_eq!((tally.reported(), tally.ended(), tally.dead), (4, 3, 1));
        assert_eq!(tally.outcome("executed"), 1);
        assert!(tally.dead_orders.iter().eq(["o-2"]));
    }

    #[test]
    fn deliveries_that_died_unreported_are_known_by_their_redelivery() {
        // Two messages, one delivered again after a death without a word.
        assert_eq!(tally(&[EXECUTED, AGAIN]).deliveries(2), 3);
        // Nothing published more than once may make the count smaller than what was reported.
        assert_eq!(tally(&[EXECUTED, EXECUTED, EXECUTED]).deliveries(2), 3);
    }
}
