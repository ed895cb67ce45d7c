//! The records of a memory store, and the order in which to forget them.

use std::collections::{BTreeSet, HashMap};

use crate::{
    message::Key,
    store::{StoreError, rules::record::Record},
};

#[derive(Default)]
pub(super) struct Records {
    by_key: HashMap<Key, Listed>,
    /// The keys by a time that is no later than the end of their records' retention, so that a purge does not look at
    /// all records.
    by_end: BTreeSet<(i64, Key)>,
    /// The highest token of a record that is gone.
    floor: i64,
}

struct Listed {
    record: Record,
    /// Its time in `by_end`. Most writes leave it: they only make the record's end later.
    listed: i64,
}

impl Listed {
    fn of(record: Record) -> Self {
        // What is in progress ends a lease later than what is completed at once, and most records are: so none has to
        // be listed a second time.
        let completed_now = record.written_at.saturating_add(record.retention);
        Self {
            listed: completed_now.min(record.forget_at),
            record,
        }
    }
}

impl Records {
    /// How many records a claim that finds the store full drops at most: enough to pay off, and
    /// a short time to hold the lock.
    const ROOM: u32 = 64;

    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    pub(super) fn get(&self, key: &Key) -> Option<&Record> {
        self.by_key.get(key).map(|known| &known.record)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Key, &Record)> {
        self.by_key.iter().map(|(key, known)| (key, &known.record))
    }

    pub(super) fn floor(&self) -> i64 {
        self.floor
    }

    pub(super) fn put(&mut self, key: Key, record: Record) {
        let Some(known) = self.by_key.get_mut(&key) else {
            let listed = Listed::of(record);
            self.by_end.insert((listed.listed, key.clone()));
            self.by_key.insert(key, listed);
            return;
        };
        if known.listed <= record.forget_at {
            known.record = record;
            return;
        }
        let old = (known.listed, key);
        self.by_end.remove(&old);
        *known = Listed::of(record);
        self.by_end.insert((known.listed, old.1));
    }

    /// Removes at most `batch` forgotten records and says how many.
    pub(super) fn purge(&mut self, batch: u32, now: i64) -> u32 {
        let mut removed = 0;
        while removed < batch
            && let Some(entry) = self.by_end.first()
            && entry.0 <= now
        {
            let (listed, key) = entry.clone();
            let known = self.by_key.get_mut(&key).expect("what is listed is there");
            let forget_at = known.record.forget_at;
            if forget_at <= now {
                self.remove(&key);
                removed += 1;
            } else {
                known.listed = forget_at;
                self.by_end.remove(&(listed, key.clone()));
                self.by_end.insert((forget_at, key));
            }
        }
        removed
    }

    /// Makes room for one more record.
    pub(super) fn make_room(&mut self, capacity: usize, now: i64) -> Result<(), StoreError> {
        if self.by_key.len() < capacity || self.purge(Self::ROOM, now) > 0 {
            return Ok(());
        }
        Err(StoreError::Full(self.by_key.len()))
    }

    pub(super) fn remove(&mut self, key: &Key) {
        if let Some(known) = self.by_key.remove(key) {
            self.by_end.remove(&(known.listed, key.clone()));
            self.floor = self.floor.max(known.record.token);
        }
    }
}
