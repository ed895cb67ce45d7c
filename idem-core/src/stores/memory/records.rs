//! The records of a memory store, and the order in which to forget them.

use std::collections::{BTreeSet, HashMap};

use crate::{
    message::Key,
    store::{StoreError, rules::record::Record},
};

#[derive(Default)]
pub(super) struct Records {
    by_key: HashMap<Key, Record>,
    /// By the end of their retention, so that a purge does not look at all records.
    by_end: BTreeSet<(i64, Key)>,
    /// The highest token of a record that is gone.
    floor: i64,
}

impl Records {
    /// How many records a claim that finds the store full drops at most: enough to pay off, and
    /// a short time to hold the lock.
    const ROOM: u32 = 64;

    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    pub(super) fn get(&self, key: &Key) -> Option<&Record> {
        self.by_key.get(key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Key, &Record)> {
        self.by_key.iter()
    }

    pub(super) fn floor(&self) -> i64 {
        self.floor
    }

    pub(super) fn put(&mut self, key: Key, record: Record) {
        let forget_at = record.forget_at;
        if let Some(old) = self.by_key.insert(key.clone(), record) {
            self.by_end.remove(&(old.forget_at, key.clone()));
        }
        self.by_end.insert((forget_at, key));
    }

    /// Removes at most `batch` forgotten records and says how many.
    pub(super) fn purge(&mut self, batch: u32, now: i64) -> u32 {
        let ended = self.by_end.iter();
        let ended = ended.take_while(|(forget_at, _)| *forget_at <= now);
        let forgotten = ended.map(|(_, key)| key.clone()).take(batch as usize);
        let forgotten: Vec<_> = forgotten.collect();
        for key in &forgotten {
            self.remove(key);
        }
        u32::try_from(forgotten.len()).expect("at most `batch`, which is a u32")
    }

    /// Makes room for one more record.
    pub(super) fn make_room(&mut self, capacity: usize, now: i64) -> Result<(), StoreError> {
        if self.by_key.len() < capacity || self.purge(Self::ROOM, now) > 0 {
            return Ok(());
        }
        Err(StoreError::Full(self.by_key.len()))
    }

    pub(super) fn remove(&mut self, key: &Key) {
        if let Some(record) = self.by_key.remove(key) {
            self.by_end.remove(&(record.forget_at, key.clone()));
            self.floor = self.floor.max(record.token);
        }
    }
}
