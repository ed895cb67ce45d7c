//! What became of the orders: a pure function of what was found in the end.

use std::collections::{BTreeMap, BTreeSet};

use crate::{ledger::Charge, manner::Manner};

use super::excuse::{Completion, Start, is_excused};

/// What was found in the end.
#[derive(Debug, Clone, Default)]
pub(super) struct Evidence {
    pub(super) charges: Vec<Charge>,
    /// What workers said that they had called their handlers with.
    pub(super) starts: Vec<Start>,
    /// What workers said that they had executed.
    pub(super) completions: Vec<Completion>,
    pub(super) dead: Vec<DeadOrder>,
    /// The orders that no broker has confirmed.
    pub(super) unpublished: BTreeSet<String>,
    /// The orders whose messages were on their way still.
    pub(super) on_the_way: BTreeSet<String>,
    /// Whether a charge may be made twice where a lease was lost.
    pub(super) leased: bool,
    /// What was made of the events of the charges, if they have any.
    pub(super) shipments: Option<Vec<Charge>>,
}

/// A dead letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DeadOrder {
    pub(super) id: String,
    pub(super) reason: String,
}

/// What became of the orders, by their ids.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) published: usize,
    /// Those that took effect, as they were meant to.
    pub(super) effects: usize,
    /// Those that were dead-lettered, as they were meant to be.
    pub(super) dead: usize,
    /// Those with neither effect nor dead letter, or with the wrong one of the two; those whose effect has no event.
    pub(super) lost: BTreeSet<String>,
    /// Those with an effect too many, or an event that took effect once too often.
    pub(super) doubled: BTreeSet<String>,
    /// Those with an effect too many that a lost lease accounts for.
    pub(super) excused: BTreeSet<String>,
    /// Those whose messages were on their way still.
    pub(super) stuck: BTreeSet<String>,
}

impl Tally {
    /// Whether nothing was lost, doubled or stuck.
    pub(super) fn is_clean(&self) -> bool {
        self.lost.is_empty() && self.doubled.is_empty() && self.stuck.is_empty()
    }

    pub(super) fn of(manners: &BTreeMap<String, Manner>, evidence: &Evidence) -> Self {
        let mut tally = Self {
            published: manners.len() - evidence.unpublished.len(),
            ..Self::default()
        };
        for (id, manner) in manners {
            tally.count(id, *manner, evidence);
        }
        tally
    }

    fn count(&mut self, id: &str, manner: Manner, evidence: &Evidence) {
        let is_this = |charge: &&Charge| charge.order_id == id;
        let charges: Vec<_> = evidence.charges.iter().filter(is_this).collect();
        let letters = evidence.dead.iter().filter(|letter| letter.id == id);
        let reasons: BTreeSet<_> = letters.map(|letter| letter.reason.as_str()).collect();
        let shipped = |of: &Vec<Charge>| of.iter().filter(is_this).count();
        let shipments = evidence.shipments.as_ref().map(shipped);
        let untold = shipments == Some(0) && !charges.is_empty();
        let done = match reason(manner) {
            None => !charges.is_empty() && reasons.is_empty(),
            Some(reason) => reasons == BTreeSet::from([reason]),
        };
        if evidence.unpublished.contains(id) && !untold {
            // Whatever became of it is right, but for an effect too many.
        } else if evidence.on_the_way.contains(id) {
            self.stuck.insert(id.into());
        } else if !done || untold {
            self.lost.insert(id.into());
        } else if manner.is_charged() {
            self.effects += 1;
        } else {
            self.dead += 1;
        }
        if charges.len() > usize::from(manner.is_charged()) {
            let excused = evidence.leased
                && manner.is_charged()
                && is_excused(&charges, id, &evidence.starts, &evidence.completions);
            let too_many = if excused {
                &mut self.excused
            } else {
                &mut self.doubled
            };
            too_many.insert(id.into());
        }
        // An event tells of one charge, and never of one that was not made.
        if shipments > Some(charges.len().min(1)) {
            self.doubled.insert(id.into());
        }
    }
}

/// Why an order of this manner is dead-lettered, if it is meant to be.
fn reason(manner: Manner) -> Option<&'static str> {
    match manner {
        Manner::Ordinary | Manner::Fails(_) | Manner::Kills => None,
        Manner::Rejected => Some("rejected"),
        Manner::Hopeless => Some("exhausted"),
        Manner::Garbled => Some("undecodable"),
        Manner::Unreadable => Some("unreadable"),
    }
}

#[cfg(test)]
mod tests;
