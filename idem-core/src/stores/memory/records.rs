//! The records of a memory store, and two orders in which to forget them.

use std::collections::{BTreeSet, HashMap};

use super::WhenFull;
use crate::{
    message::Key,
    store::{
        StoreError,
        rules::record::{Record, State},
    },
};

#[derive(Default)]
pub(super) struct Records {
    by_key: HashMap<Key, Record>,
    /// By the end of their retention, so that neither purge nor eviction looks at all records.
    completed: BTreeSet<(i64, Key)>,
    unfinished: BTreeSet<(i64, Key)>,
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
        let (forget_at, is_completed) = (record.forget_at, is_completed(&record));
        if let Some(old) = self.by_key.insert(key.clone(), record) {
            self.unindex(&key, &old);
        }
        self.index(is_completed).insert((forget_at, key));
    }

    /// Removes at most `batch` forgotten records and says how many.
    pub(super) fn purge(&mut self, batch: u32, now: i64) -> u32 {
        let forgotten: Vec<Key> = [&self.completed, &self.unfinished]
            .into_iter()
            .flat_map(|index| index.iter().take_while(|(forget_at, _)| *forget_at <= now))
            .map(|(_, key)| key)
            .take(batch as usize)
            .cloned()
            .collect();
        for key in &forgotten {
            self.remove(key);
        }
        u32::try_from(forgotten.len()).expect("at most `batch`, which is a u32")
    }

    /// Makes room for one more record.
    pub(super) fn make_room(
        &mut self,
        capacity: usize,
        when_full: WhenFull,
        now: i64,
    ) -> Result<(), StoreError> {
        if self.by_key.len() < capacity || self.purge(Self::ROOM, now) > 0 {
            return Ok(());
        }
        match (when_full, self.completed.first()) {
            (WhenFull::ForgetOldestCompleted, Some((_, key))) => {
                let key = key.clone();
                self.remove(&key);
                Ok(())
            }
            _ => Err(StoreError::Full(self.by_key.len())),
        }
    }

    pub(super) fn remove(&mut self, key: &Key) {
        if let Some(record) = self.by_key.remove(key) {
            self.unindex(key, &record);
            self.floor = self.floor.max(record.token);
        }
    }

    fn unindex(&mut self, key: &Key, old: &Record) {
        let entry = (old.forget_at, key.clone());
        self.index(is_completed(old)).remove(&entry);
    }

    fn index(&mut self, is_completed: bool) -> &mut BTreeSet<(i64, Key)> {
        if is_completed {
            &mut self.completed
        } else {
            &mut self.unfinished
        }
    }
}

fn is_completed(record: &Record) -> bool {
    matches!(record.state, State::Completed { .. })
}
