//! What goes wrong when, drawn from a seed.
// docs/decisions/0011

use std::{collections::BTreeMap, fmt};

use fastrand::Rng;

use super::{Fault, Plan, fault::Victim};

/// What goes wrong, in the order of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule(Vec<Injection>);

/// One fault, at one time, in one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Injection {
    /// When, in milliseconds after the first order is published.
    pub at: u64,
    /// What.
    pub fault: Fault,
    /// Where.
    pub place: Place,
    /// How long it lasts, in milliseconds; 0 if that is not ours to say.
    pub lasting: u64,
}

/// Where a fault happens. Faults of one place never overlap, those of different ones may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A worker, counted from 1.
    Worker(usize),
    /// A worker's link to the broker, counted like the worker; 0 is the publisher's.
    Link(usize),
    /// A worker's link to the store, counted like the worker.
    StoreLink(usize),
    /// The broker.
    Broker,
    /// The store.
    Store,
}

/// Let the workers get to work first.
const FIRST_MS: u64 = 1_500;
const GAP_MS: std::ops::RangeInclusive<u64> = 400..=2_000;

impl Schedule {
    pub(super) fn of(plan: &Plan) -> Self {
        let mut draw = Draw::new(plan);
        let mut injections = Vec::new();
        let mut at = FIRST_MS;
        while at < plan.seconds * 1000 {
            injections.extend(draw.next(at));
            at += draw.random.u64(GAP_MS);
        }
        Self(injections)
    }

    /// All of it, in the order of time.
    pub fn injections(&self) -> &[Injection] {
        &self.0
    }

    /// Whether this goes wrong at some time.
    pub fn includes(&self, fault: Fault) -> bool {
        self.0.iter().any(|injection| injection.fault == fault)
    }

    /// What goes wrong in one place, in the order of time.
    pub fn at(&self, place: Place) -> Vec<Injection> {
        let here = self.0.iter().filter(|injection| injection.place == place);
        here.copied().collect()
    }
}

impl Injection {
    /// What is done, without the time: `worker 2: pause for 3.100 s`.
    pub fn deed(&self) -> String {
        let deed = format!("{}: {}", self.place, self.fault.name());
        match self.lasting {
            0 => deed,
            lasting => format!("{deed} for {} s", seconds(lasting)),
        }
    }
}

struct Draw<'a> {
    random: Rng,
    plan: &'a Plan,
    /// What of the rounds so far has not occurred yet, the next one last.
    left: Vec<Fault>,
    /// When each place that something happened to may be hit again.
    free_at: BTreeMap<Place, u64>,
}

impl<'a> Draw<'a> {
    fn new(plan: &'a Plan) -> Self {
        Self {
            random: Rng::with_seed(plan.seed),
            plan,
            left: Vec::new(),
            free_at: BTreeMap::new(),
        }
    }

    /// The first fault of the round whose victim has recovered from the one before. What has to
    /// wait for its victim comes before all of the next round.
    fn next(&mut self, at: u64) -> Option<Injection> {
        if let Some(injection) = self.next_left(at) {
            return Some(injection);
        }
        let round = self.round();
        self.left.splice(..0, round);
        self.next_left(at)
    }

    fn next_left(&mut self, at: u64) -> Option<Injection> {
        for position in (0..self.left.len()).rev() {
            let fault = self.left[position];
            let free: Vec<_> = self.places(fault.victim(), at).collect();
            if let Some(place) = self.random.choice(free) {
                self.left.remove(position);
                let lasting = self.random.u64(fault.lasts());
                self.free_at.insert(place, at + lasting + fault.rest());
                return Some(Injection {
                    at,
                    fault,
                    place,
                    lasting,
                });
            }
        }
        None
    }

    fn round(&mut self) -> Vec<Fault> {
        let Plan { store, only, .. } = self.plan;
        let chosen = |fault: &Fault| only.is_empty() || only.contains(fault);
        let possible = Fault::ROUND
            .into_iter()
            .filter(|fault| fault.befalls(*store));
        let mut round: Vec<_> = possible.filter(chosen).collect();
        self.random.shuffle(&mut round);
        round
    }

    fn places(&self, victim: Victim, at: u64) -> impl Iterator<Item = Place> {
        let all: Vec<_> = match victim {
            Victim::Worker => (1..=self.plan.workers).map(Place::Worker).collect(),
            Victim::Link => (0..=self.plan.workers).map(Place::Link).collect(),
            Victim::StoreLink => (1..=self.plan.workers).map(Place::StoreLink).collect(),
            Victim::Broker => vec![Place::Broker],
            Victim::Store => vec![Place::Store],
        };
        let free = move |place: &Place| self.free_at.get(place).is_none_or(|free| *free <= at);
        all.into_iter().filter(free)
    }
}

/// One line per fault.
impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut injections = self.0.iter();
        injections.try_for_each(|injection| writeln!(f, "{injection}"))
    }
}

/// `  12.345 s  worker 2: pause for 3.100 s`
impl fmt::Display for Injection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>8} s  {}", seconds(self.at), self.deed())
    }
}

fn seconds(milliseconds: u64) -> String {
    format!("{}.{:03}", milliseconds / 1000, milliseconds % 1000)
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Worker(number) => write!(f, "worker {number}"),
            Self::Link(0) => write!(f, "link of the publisher"),
            Self::Link(number) => write!(f, "link of worker {number}"),
            Self::StoreLink(number) => write!(f, "store link of worker {number}"),
            Self::Broker => write!(f, "broker"),
            Self::Store => write!(f, "store"),
        }
    }
}

#[cfg(test)]
mod tests;
