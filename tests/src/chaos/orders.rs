//! The orders of a run: how each behaves, and how often it is published.

use std::collections::BTreeMap;

use fastrand::Rng;

use super::Plan;
use crate::manner::Manner;

/// The orders of a run, drawn from its seed.
#[derive(Debug, Clone)]
pub(super) struct Orders {
    manners: BTreeMap<String, Manner>,
    sequence: Vec<String>,
}

/// Few enough for a busy machine, many enough for a fault to meet some at every step.
const PER_SECOND: u64 = 40;

/// How far behind the first a copy comes at most.
const FARTHEST_COPY: usize = 200;

impl Orders {
    /// The orders of this run.
    pub(super) fn of(plan: &Plan) -> Self {
        Self::draw(plan.seed, plan.seconds * PER_SECOND)
    }

    fn draw(seed: u64, count: u64) -> Self {
        // Not the numbers that the faults are drawn from.
        let mut random = Rng::with_seed(seed.wrapping_add(1 << 32));
        let mut manners = BTreeMap::new();
        let mut places = Vec::new();
        for number in 0..count {
            let id = format!("o-{number:05}");
            let place = usize::try_from(number).expect("some thousand orders");
            for _ in 0..copies(&mut random) {
                places.push((place + random.usize(..FARTHEST_COPY), id.clone()));
            }
            places.push((place, id.clone()));
            manners.insert(id, manner(&mut random));
        }
        places.sort();
        Self {
            manners,
            sequence: places.into_iter().map(|(_, id)| id).collect(),
        }
    }

    /// How each order behaves.
    pub(super) fn manners(&self) -> &BTreeMap<String, Manner> {
        &self.manners
    }

    /// The orders to be published, copies included, one after the other.
    pub(super) fn sequence(&self) -> &[String] {
        &self.sequence
    }

    /// How many there are of which this is true.
    pub(super) fn count(&self, so: impl Fn(Manner) -> bool) -> usize {
        self.manners.values().filter(|manner| so(**manner)).count()
    }
}

/// How often it is published beside the first time. Most orders have no copy that would make up
/// for their loss.
fn copies(random: &mut Rng) -> u32 {
    match random.u32(..100) {
        0..5 => 2,
        5..30 => 1,
        _ => 0,
    }
}

fn manner(random: &mut Rng) -> Manner {
    match random.u32(..1000) {
        0..50 => Manner::Fails(1),
        50..80 => Manner::Fails(2),
        80..110 => Manner::Rejected,
        110..120 => Manner::Hopeless,
        120..130 => Manner::Garbled,
        130..134 => Manner::Kills,
        134..144 => Manner::Unreadable,
        _ => Manner::Ordinary,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_has_the_same_orders() {
        let [one, same, other] = [1, 1, 2].map(|seed| Orders::draw(seed, 1000));
        assert_eq!(one.sequence, same.sequence);
        assert_eq!(one.manners, same.manners);
        assert_ne!(one.sequence, other.sequence);
    }

    #[test]
    fn every_order_is_published_and_some_are_published_again() {
        let orders = Orders::draw(7, 1000);
        let mut times = BTreeMap::<_, usize>::new();
        for id in orders.sequence() {
            *times.entry(id.clone()).or_default() += 1;
        }
        assert!(times.keys().eq(orders.manners().keys()));
        let of = |wanted: usize| times.values().filter(|times| **times == wanted).count();
        assert!(of(1) > 600 && of(2) > 150 && of(3) > 20, "{times:?}");
    }

    #[test]
    fn there_are_orders_of_every_manner() {
        let orders = Orders::draw(7, 2000);
        for manner in [
            Manner::Ordinary,
            Manner::Fails(1),
            Manner::Fails(2),
            Manner::Rejected,
            Manner::Hopeless,
            Manner::Kills,
            Manner::Garbled,
            Manner::Unreadable,
        ] {
            assert!(orders.count(|other| other == manner) > 0, "{manner:?}");
        }
    }
}
