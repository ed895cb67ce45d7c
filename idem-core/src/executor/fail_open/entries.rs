//! The keys of the local memory, each with what the store is to be told of it.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use super::{
    Reports,
    report::{Report, Sent},
};
use crate::{ClaimRequest, Key, Lease, Outcome, Release, StoreError, store::record::Record};

/// How an attempt ended.
#[derive(Debug, Clone)]
pub(super) enum End {
    Completed {
        outcome: Outcome,
        retention: Duration,
    },
    Released(Release),
    /// Without a word: the store is told that it was claimed, so that the next one is in doubt.
    Vanished,
}

#[derive(Default)]
pub(super) struct Entries {
    by_key: HashMap<Key, Entry>,
    /// Keys that have something to report, in the order of their ends. A key may be here in vain.
    queue: VecDeque<Key>,
    weight: usize,
    pending: u64,
    told: u64,
    overtaken: u64,
    /// Whether the store was away when it was asked last.
    pub(super) is_away: bool,
    /// Whether somebody has the turn to report.
    pub(super) is_reported: bool,
}

struct Entry {
    record: Record,
    /// The claim under which an attempt runs.
    open: Option<ClaimRequest>,
    /// In the order in which they ended. The store is told one after the other.
    reports: VecDeque<Report>,
    /// Whether the first of them is on its way.
    is_on_its_way: bool,
}

/// Beside key and outcome. Some 300 bytes were measured, and a table that grows takes more.
const OVERHEAD: usize = 512;

impl Entries {
    pub(super) fn record(&self, key: &Key) -> Option<&Record> {
        self.by_key.get(key).map(|entry| &entry.record)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// An attempt begins.
    pub(super) fn open(
        &mut self,
        request: &ClaimRequest,
        record: Record,
        capacity: usize,
    ) -> Result<(), StoreError> {
        let key = &request.key;
        if let Some(entry) = self.by_key.get_mut(key) {
            entry.record = record;
            entry.open = Some(request.clone());
            if entry.forget_vanished() {
                self.pending -= 1;
            }
            return Ok(());
        }
        let weight = weight(key);
        if self.weight + weight > capacity {
            return Err(StoreError::Full(self.by_key.len()));
        }
        self.weight += weight;
        let entry = Entry {
            record,
            open: Some(request.clone()),
            reports: VecDeque::new(),
            is_on_its_way: false,
        };
        self.by_key.insert(key.clone(), entry);
        Ok(())
    }

    /// A lease is extended.
    pub(super) fn keep(&mut self, key: &Key, record: Record) {
        if let Some(entry) = self.by_key.get_mut(key) {
            entry.record = record;
        }
    }

    /// An attempt has ended; without an end it has not even begun.
    pub(super) fn close(&mut self, key: &Key, record: Record, end: Option<End>) {
        let Some(entry) = self.by_key.get_mut(key) else {
            return;
        };
        entry.record = record;
        let open = entry.open.take();
        if let (Some(request), Some(end)) = (open, end) {
            self.weight += end.weight();
            self.pending += 1;
            entry.reports.push_back(Report::new(request, end));
            self.queue.push_back(key.clone());
        }
        self.forget_if_told(key);
    }

    /// Whether the attempt under this lease was still open.
    pub(super) fn vanish(&mut self, lease: &Lease) -> bool {
        let Some(entry) = self.by_key.get_mut(&lease.key) else {
            return false;
        };
        if entry.record.token != lease.token.get() {
            return false;
        }
        let Some(request) = entry.open.take() else {
            return false;
        };
        self.pending += 1;
        entry.reports.push_back(Report::new(request, End::Vanished));
        self.queue.push_back(lease.key.clone());
        true
    }

    /// Takes the first reports of at most so many keys.
    pub(super) fn next(&mut self, width: usize) -> Vec<Report> {
        let mut next = Vec::new();
        while next.len() < width
            && let Some(key) = self.queue.pop_front()
        {
            if let Some(entry) = self.by_key.get_mut(&key)
                && !entry.is_on_its_way
                && let Some(report) = entry.reports.front()
            {
                entry.is_on_its_way = true;
                next.push(report.clone());
            }
        }
        next
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
        if report.is_overtaken && !first.is_overtaken {
            self.overtaken += 1;
        }
        if sent == Sent::Told {
            self.told += 1;
            self.pending -= 1;
            self.weight -= report.end.weight();
            entry.reports.pop_front();
        } else {
            *first = report;
        }
        if !entry.reports.is_empty() {
            self.queue.push_back(key.clone());
        }
        self.forget_if_told(&key);
    }

    /// Queues again what was on its way.
    pub(super) fn take_back(&mut self) {
        for (key, entry) in &mut self.by_key {
            if std::mem::take(&mut entry.is_on_its_way) {
                self.queue.push_back(key.clone());
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

    /// The keys that the store is to be told something of.
    pub(super) fn untold(&self) -> Vec<Key> {
        let untold = self.by_key.iter().filter(|(_, it)| !it.reports.is_empty());
        untold.map(|(key, _)| key.clone()).collect()
    }

    fn forget_if_told(&mut self, key: &Key) {
        let told = |entry: &Entry| entry.open.is_none() && entry.reports.is_empty();
        if self.by_key.get(key).is_some_and(told) {
            self.by_key.remove(key);
            self.weight -= weight(key);
        }
    }
}

impl Entry {
    /// What follows a vanished attempt says more than that it vanished.
    fn forget_vanished(&mut self) -> bool {
        let is_free = !self.is_on_its_way || self.reports.len() > 1;
        let vanished = |report: &Report| matches!(report.end, End::Vanished);
        let forgotten = is_free && self.reports.back().is_some_and(vanished);
        if forgotten {
            self.reports.pop_back();
        }
        forgotten
    }
}

impl End {
    fn weight(&self) -> usize {
        match self {
            Self::Completed { outcome, .. } => outcome.as_bytes().len(),
            Self::Released(_) | Self::Vanished => 0,
        }
    }
}

fn weight(key: &Key) -> usize {
    OVERHEAD + key.as_str().len()
}
