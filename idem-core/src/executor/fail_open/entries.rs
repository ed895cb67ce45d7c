//! The keys of the local memory, each with what the store is to be told of it.

use std::collections::{HashMap, VecDeque};

use tokio::time::Instant;

use super::{
    Reports,
    agenda::Agenda,
    report::{End, Report, Sent},
};
use crate::{
    message::Key,
    store::{Lease, StoreError, rules::record::Record},
};

#[derive(Default)]
pub(super) struct Entries {
    by_key: HashMap<Key, Entry>,
    agenda: Agenda,
    weight: usize,
    pending: u64,
    told: u64,
    overtaken: u64,
    /// Whether the store was away when it was asked last.
    pub(super) is_away: bool,
    /// Whether somebody reports.
    pub(super) is_reported: bool,
}

struct Entry {
    record: Record,
    /// One for each attempt, in their order; the last may still run. The store is told of one
    /// after the other.
    reports: VecDeque<Report>,
    /// Whether the first of them is on its way.
    is_on_its_way: bool,
}

/// Of a key, beside its text, and of each attempt, beside its outcome or error. Tables that grow
/// take more than what is in them.
const OF_A_KEY: usize = 384;
const OF_AN_ATTEMPT: usize = 512;

impl Entries {
    pub(super) fn record(&self, key: &Key) -> Option<&Record> {
        self.by_key.get(key).map(|entry| &entry.record)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// An attempt begins. It is not reported before it has [started](Self::start).
    pub(super) fn open(
        &mut self,
        report: Report,
        record: Record,
        capacity: usize,
    ) -> Result<(), StoreError> {
        let key = report.request.key.clone();
        let mut weight = OF_AN_ATTEMPT;
        if !self.by_key.contains_key(&key) {
            weight += of_a_key(&key);
        }
        if self.weight + weight > capacity {
            return Err(StoreError::Full(self.by_key.len()));
        }
        self.weight += weight;
        let entry = self.by_key.entry(key).or_insert_with(|| Entry {
            record: record.clone(),
            reports: VecDeque::with_capacity(1),
            is_on_its_way: false,
        });
        entry.record = record;
        let ended = entry.ended();
        if entry.make_way() {
            self.weight -= OF_AN_ATTEMPT;
        }
        self.pending = self.pending + entry.ended() - ended;
        entry.reports.push_back(report);
        Ok(())
    }

    /// The attempt under this lease runs, and is reported from now on. It does not if another has
    /// taken its place.
    pub(super) fn start(&mut self, lease: &Lease) -> bool {
        let Some(report) = self.open_report(lease) else {
            return false;
        };
        report.start();
        self.is_due(&lease.key);
        true
    }

    /// A lease is extended.
    pub(super) fn keep(&mut self, key: &Key, record: Record) {
        if let Some(entry) = self.by_key.get_mut(key) {
            entry.record = record;
        }
    }

    /// An attempt has ended; without an end it has not even begun.
    pub(super) fn close(&mut self, lease: &Lease, record: Record, end: Option<End>) {
        let Some(report) = self.open_report(lease) else {
            return;
        };
        if let Some(end) = end {
            let weight = end.weight();
            report.end_with(end);
            self.weight += weight;
            self.pending += 1;
            self.is_due(&lease.key);
        } else if let Some(entry) = self.by_key.get_mut(&lease.key) {
            entry.reports.pop_back();
            self.weight -= OF_AN_ATTEMPT;
        }
        self.keep(&lease.key, record);
        self.forget_if_told(&lease.key);
    }

    /// Whether the attempt under this lease was still open.
    pub(super) fn vanish(&mut self, lease: &Lease) -> bool {
        let Some(report) = self.open_report(lease) else {
            return false;
        };
        report.end_with(End::Vanished);
        self.pending += 1;
        self.is_due(&lease.key);
        true
    }

    /// Takes the first reports of at most so many keys that are due.
    pub(super) fn next(&mut self, width: usize) -> Vec<Report> {
        let now = Instant::now();
        let mut next = Vec::new();
        while next.len() < width
            && let Some(key) = self.agenda.take_due(now)
        {
            if let Some(entry) = self.by_key.get_mut(&key)
                && let Some(report) = entry.next().cloned()
            {
                entry.is_on_its_way = true;
                next.push(report);
            }
        }
        next
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.agenda.next_due()
    }

    /// What became of a report that was taken.
    pub(super) fn note(&mut self, report: Report, sent: Sent) {
        let key = report.request.key.clone();
        let Some(entry) = self.by_key.get_mut(&key) else {
            return;
        };
        entry.is_on_its_way = false;
        let Some(first) = entry.reports.front_mut() else {
            return;
        };
        self.overtaken += u64::from(report.is_overtaken && !first.is_overtaken);
        let mut due = Instant::now();
        if sent == Sent::Told {
            self.told += 1;
            self.pending -= 1;
            self.weight -= OF_AN_ATTEMPT + first.end_weight();
            entry.reports.pop_front();
        } else {
            due += first.learn(report, sent);
        }
        if entry.next().is_some() {
            self.agenda.put(&key, due);
        }
        self.forget_if_told(&key);
    }

    /// Queues again what was on its way.
    pub(super) fn take_back(&mut self) {
        for (key, entry) in &mut self.by_key {
            if std::mem::take(&mut entry.is_on_its_way) {
                self.agenda.put(key, Instant::now());
            }
        }
    }

    pub(super) fn reports(&self) -> Reports {
        Reports {
            told: self.told,
            overtaken: self.overtaken,
            pending: self.pending,
        }
    }

    /// Whether the store can be told of something without a person's help.
    pub(super) fn will_tell(&self) -> bool {
        let mut entries = self.by_key.values();
        self.pending > 0
            && entries.any(|entry| {
                let first = entry.reports.front();
                first.is_some_and(|first| first.has_ended() && !first.is_unreadable())
            })
    }

    /// The keys that the store is to be told an end of.
    pub(super) fn unreported(&self) -> Vec<Key> {
        let has_ended = |entry: &Entry| entry.reports.front().is_some_and(Report::has_ended);
        let unreported = self.by_key.iter().filter(|(_, entry)| has_ended(entry));
        unreported.map(|(key, _)| key.clone()).collect()
    }

    fn open_report(&mut self, lease: &Lease) -> Option<&mut Report> {
        let entry = self.by_key.get_mut(&lease.key)?;
        let report = entry.reports.back_mut()?;
        let is_current = entry.record.token == lease.token.get();
        (is_current && !report.has_ended()).then_some(report)
    }

    fn is_due(&mut self, key: &Key) {
        if self.by_key.get(key).is_some_and(|it| !it.is_on_its_way) {
            self.agenda.put(key, Instant::now());
        }
    }

    fn forget_if_told(&mut self, key: &Key) {
        if self.by_key.get(key).is_some_and(|it| it.reports.is_empty()) {
            self.by_key.remove(key);
            self.agenda.remove(key);
            self.weight -= of_a_key(key);
        }
    }
}

impl Entry {
    /// Makes way for an attempt: what has not ended by now has vanished. Whether that need not be
    /// reported, because what follows it says more.
    fn make_way(&mut self) -> bool {
        let is_free = !self.is_on_its_way || self.reports.len() > 1;
        let Some(last) = self.reports.back_mut() else {
            return false;
        };
        if !last.has_ended() {
            last.end_with(End::Vanished);
        }
        let is_superfluous = is_free && last.has_vanished();
        if is_superfluous {
            self.reports.pop_back();
        }
        is_superfluous
    }

    fn ended(&self) -> u64 {
        let ended = self.reports.iter().filter(|report| report.has_ended());
        ended.count() as u64
    }

    /// What the store is to be told next.
    fn next(&self) -> Option<&Report> {
        self.reports.front().filter(|first| first.is_due())
    }
}

fn of_a_key(key: &Key) -> usize {
    OF_A_KEY + key.as_str().len()
}
