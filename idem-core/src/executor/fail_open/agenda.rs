//! Which key is to be reported when.
//!
//! [`Entries`](super::entries::Entries) puts a key in when its first report may be sent, and takes it out to send it.
//! What must stay true: a key stands in here once at most, and the two maps hold the same keys.

use std::collections::{BTreeMap, HashMap};

use tokio::time::Instant;

use crate::message::Key;

/// Keys in the order in which they are due, each at most once.
#[derive(Default)]
pub(super) struct Agenda {
    /// The keys, the next one first.
    keys: BTreeMap<Due, Key>,
    /// Where each key stands in `keys`, to move it or take it out.
    due_times: HashMap<Key, Due>,
    /// The number that was given last: it keeps the order of keys that are due at the same time.
    last: u64,
}

/// When a key is due, and a number of its own.
type Due = (Instant, u64);

impl Agenda {
    /// Puts the key in, or moves it.
    pub(super) fn put(&mut self, key: &Key, due: Instant) {
        self.last += 1;
        let entry = (due, self.last);
        if let Some(earlier) = self.due_times.insert(key.clone(), entry) {
            self.keys.remove(&earlier);
        }
        self.keys.insert(entry, key.clone());
    }

    /// Takes the first key out, if it is due by now.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<Key> {
        let first = self.keys.first_entry()?;
        if first.key().0 > now {
            return None;
        }
        let key = first.remove();
        self.due_times.remove(&key);
        Some(key)
    }

    /// Takes a key out before it is due, if it is in.
    pub(super) fn remove(&mut self, key: &Key) {
        if let Some(entry) = self.due_times.remove(key) {
            self.keys.remove(&entry);
        }
    }

    /// When the first key is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.keys.keys().next().map(|entry| entry.0)
    }
}
