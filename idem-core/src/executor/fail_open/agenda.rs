//! Which key is to be reported when.

use std::collections::{BTreeMap, HashMap};

use tokio::time::Instant;

use crate::message::Key;

/// Keys in the order in which they are due, each at most once.
#[derive(Default)]
pub(super) struct Agenda {
    keys: BTreeMap<Place, Key>,
    places: HashMap<Key, Place>,
    /// Keeps the order of those that are due at the same time.
    last: u64,
}

type Place = (Instant, u64);

impl Agenda {
    /// Puts the key in, or moves it.
    pub(super) fn put(&mut self, key: &Key, due: Instant) {
        self.last += 1;
        let place = (due, self.last);
        if let Some(earlier) = self.places.insert(key.clone(), place) {
            self.keys.remove(&earlier);
        }
        self.keys.insert(place, key.clone());
    }

    /// Takes the first key out, if it is due.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<Key> {
        let first = self.keys.first_entry()?;
        if first.key().0 > now {
            return None;
        }
        let key = first.remove();
        self.places.remove(&key);
        Some(key)
    }

    pub(super) fn remove(&mut self, key: &Key) {
        if let Some(place) = self.places.remove(key) {
            self.keys.remove(&place);
        }
    }

    /// When the first key is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.keys.keys().next().map(|place| place.0)
    }
}
