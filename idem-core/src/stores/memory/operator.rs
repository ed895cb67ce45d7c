//! What an operator sees of a memory store, and changes in it.

use super::{MemoryStore, kept::Kept};
use crate::{
    message::Key,
    store::{
        Look, Looked, StoreError,
        operator::{
            AUDIT_LASTS, AuditEntry, Cursor, Intervened, Intervention, KeyRecord, Listing,
            OperatorStore, Page, ScopeCounts,
        },
        rules::record::{self, Record, Ruling, State},
    },
};

impl Look for MemoryStore {
    async fn look(&self, key: &Key) -> Result<Option<Looked>, StoreError> {
        let kept = self.kept();
        let now = self.0.clock.now();
        Ok(kept.records.get(key).map(|record| {
            let outcome = match &record.state {
                State::Completed { outcome } => Some(outcome.clone()),
                _ => None,
            };
            Looked::new(key_record(key, record, now), outcome)
        }))
    }
}

impl OperatorStore for MemoryStore {
    /// Lists in the order of the keys.
    async fn list(&self, listing: &Listing) -> Result<Page, StoreError> {
        let after = listing.after.as_ref().map_or("", Cursor::as_str);
        let mut chosen: Vec<_> = self.key_records();
        chosen.retain(|record| record.key.as_str() > after && listing.picks(record));
        chosen.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        let limit = listing.limit.max(1) as usize;
        let is_last = chosen.len() <= limit;
        chosen.truncate(limit);
        let last = chosen.last().filter(|_| !is_last);
        let next = last.map(|record| Cursor::new(record.key.as_str()));
        Ok(Page::new(chosen, Vec::new(), next))
    }

    async fn audit(&self, key: &Key) -> Result<Vec<AuditEntry>, StoreError> {
        let kept = self.kept();
        let audit = kept.audit.get(key).into_iter().flatten();
        Ok(audit.map(|(_, entry)| entry.clone()).collect())
    }

    async fn counts(&self) -> Result<Vec<ScopeCounts>, StoreError> {
        Ok(ScopeCounts::of(&self.key_records()))
    }

    async fn intervene(&self, intervention: &Intervention) -> Result<Intervened, StoreError> {
        let mut kept = self.kept();
        let now = self.0.clock.now();
        Ok(kept.intervene(intervention, now))
    }

    async fn prepare(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

impl MemoryStore {
    fn key_records(&self) -> Vec<KeyRecord> {
        let kept = self.kept();
        let now = self.0.clock.now();
        let records = kept.records.iter();
        records
            .map(|(key, record)| key_record(key, record, now))
            .collect()
    }
}

impl Kept {
    pub(super) fn purge_audit(&mut self, now: i64) {
        let oldest = record::moment(now) - AUDIT_LASTS;
        self.audit.retain(|_, entries| {
            entries.retain(|(_, entry)| entry.at > oldest);
            !entries.is_empty()
        });
    }

    fn intervene(&mut self, intervention: &Intervention, now: i64) -> Intervened {
        let key = &intervention.key;
        let mut audit = self.audit.get(key).into_iter().flatten();
        if audit.any(|(owner, _)| *owner == intervention.owner) {
            return Intervened::Applied;
        }
        let record = self.records.get(key);
        match record::intervene(record, intervention, now, self.records.floor()) {
            Ruling::Refused(answer) => return answer,
            Ruling::Removed => self.records.remove(key),
            Ruling::Written(record) => self.records.put(key.clone(), record),
        }
        let Intervention {
            action, by, seen, ..
        } = intervention;
        let entry = AuditEntry::new(now.unsigned_abs(), *action, by.clone(), *seen);
        let audit = self.audit.entry(key.clone()).or_default();
        audit.push((intervention.owner, entry));
        Intervened::Applied
    }
}

fn key_record(key: &Key, record: &Record, now: i64) -> KeyRecord {
    KeyRecord::of(key.clone(), record, now, 0)
}
