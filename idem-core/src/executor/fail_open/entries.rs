//! The keys of the local memory, each with what the store is to be told of it.
//!
//! [`LocalMemory`](super::LocalMemory) holds this under its lock; claims and ends write to it, and the reporter takes
//! reports out and notes what became of them. What must stay true:
//!
//! - The reports of a key are sent in their order, one at a time.
//! - A key is kept until the store has been told of its last end.
//! - The weight is that of all keys and reports in here.
//! - `pending` counts the ended attempts that the store has not been told of.

use std::collections::{HashMap, VecDeque};

use tokio::time::Instant;

use super::{
    UnprotectedStats,
    agenda::Agenda,
    report::{End, Report, Sent},
};
use crate::{
    message::Key,
    store::{Lease, StoreError, rules::record::Record},
};

/// What this process did without the store, and has yet to tell it.
#[derive(Default)]
pub(super) struct Entries {
    by_key: HashMap<Key, Entry>,
    /// The keys whose first report may be sent, and is not on its way.
    agenda: Agenda,
    /// About how many bytes all this takes.
    weight: usize,
    /// How many attempts have ended of which the store has yet to be told.
    pending: u64,
    /// How many attempts the store has been told of.
    told: u64,
    /// How many attempts found another worker's end.
    overtaken: u64,
    /// Whether the store was away when it was asked last.
    pub(super) is_away: bool,
    /// Whether a task reports. There is one at most: two would send the reports of a key at the same time.
    pub(super) is_reported: bool,
}

/// One key, from its first attempt here until the store has been told of the last one.
struct Entry {
    /// The key's record, by the same rules as in a store: claims in this process are decided by it.
    record: Record,
    /// One report for each attempt, in their order; the last attempt may still run. The store is told of one
    /// after the other, so that it counts them in the order in which they were made.
    reports: VecDeque<Report>,
    /// Whether a copy of the first report is with the reporter. Until it is noted, the first report must not be
    /// removed: what comes back would be taken for news of the next one.
    is_on_its_way: bool,
}

/// The bytes of a key, beside its text, and of each attempt, beside its outcome or error. Both are generous, because
/// tables that grow take more than what is in them.
const OF_A_KEY: usize = 384;
const OF_AN_ATTEMPT: usize = 512;

impl Entries {
    /// What is known here of the key, if the store has yet to be told something of it.
    pub(super) fn record(&self, key: &Key) -> Option<&Record> {
        self.by_key.get(key).map(|entry| &entry.record)
    }

    /// Whether the store has been told of everything.
    pub(super) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// An attempt begins, and this is the key's record with it. It is not reported before it has
    /// [started](Self::start).
    ///
    /// # Errors
    /// [`StoreError::Full`] if it would be heavier than `capacity` with this attempt; then nothing is changed.
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
        // The new attempt is refused; nothing older is forgotten for it, because that might be done twice then. The
        // outcome is not weighed yet. It is taken when it comes, whatever its size: its work is done then.
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
        // An attempt that has not ended when the next one begins has vanished, which is an end, too. It may be
        // counted from now on, or, if it need not be reported, no longer.
        let ended = entry.ended();
        if entry.make_way() {
            self.weight -= OF_AN_ATTEMPT;
        }
        self.pending = self.pending + entry.ended() - ended;
        entry.reports.push_back(report);
        Ok(())
    }

    /// Lets the attempt under this lease run, and be reported from now on. `false` if another attempt has taken its
    /// place: then it must not run.
    pub(super) fn start(&mut self, lease: &Lease) -> bool {
        let Some(report) = self.open_report(lease) else {
            return false;
        };
        report.start();
        self.make_due(&lease.key);
        true
    }

    /// Takes the key's record as it is now: its lease was extended, or its attempt has ended.
    pub(super) fn keep(&mut self, key: &Key, record: Record) {
        if let Some(entry) = self.by_key.get_mut(key) {
            entry.record = record;
        }
    }

    /// The attempt under this lease has ended, and this is the key's record after it. Without an end it never
    /// ran: there is nothing to report then.
    ///
    /// A lease that is not the current one, or whose attempt has ended before, changes nothing.
    pub(super) fn close(&mut self, lease: &Lease, record: Record, end: Option<End>) {
        let Some(report) = self.open_report(lease) else {
            return;
        };
        if let Some(end) = end {
            let weight = end.weight();
            report.end_with(end);
            self.weight += weight;
            self.pending += 1;
            self.make_due(&lease.key);
        } else if let Some(entry) = self.by_key.get_mut(&lease.key) {
            entry.reports.pop_back();
            self.weight -= OF_AN_ATTEMPT;
        }
        self.keep(&lease.key, record);
        self.forget_if_told(&lease.key);
    }

    /// The attempt under this lease was dropped. If it had not ended, it has vanished, and that is reported.
    /// Says whether that is so.
    pub(super) fn vanish(&mut self, lease: &Lease) -> bool {
        let Some(report) = self.open_report(lease) else {
            return false;
        };
        // The record stays in progress, as a store's would: its lease runs out, and the next attempt is in doubt.
        report.end_with(End::Vanished);
        self.pending += 1;
        self.make_due(&lease.key);
        true
    }

    /// Copies of the first reports of at most so many keys that are due. Each has to come back by
    /// [`note`](Self::note), or by [`take_back`](Self::take_back) if the reporter has ended.
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

    /// When the next report may be sent; `None` if none waits.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.agenda.next_due()
    }

    /// Notes what became of a report that was sent: it is done with, or is sent again later.
    pub(super) fn note(&mut self, report: Report, sent: Sent) {
        let key = report.request.key.clone();
        let Some(entry) = self.by_key.get_mut(&key) else {
            // The attempt was given back before it ran, and nothing else was known of the key.
            return;
        };
        entry.is_on_its_way = false;
        let Some(first) = entry.reports.front_mut() else {
            return;
        };
        // Counted once for each attempt, though it may be sent several times.
        self.overtaken += u64::from(report.is_overtaken && !first.is_overtaken);
        let mut due = Instant::now();
        if sent == Sent::Told {
            // Only an attempt that has ended is told for good, so it is among the pending ones.
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

    /// Puts on the agenda again what was on its way: the reporter has ended without a note of it. The store may
    /// have heard the call that was lost with it. It is repeated by the same owner or under the same lease, so the
    /// store knows it again. An end is told only under a lease that is noted here: so no attempt takes its own
    /// completion for another worker's.
    pub(super) fn take_back(&mut self) {
        for (key, entry) in &mut self.by_key {
            if std::mem::take(&mut entry.is_on_its_way) {
                self.agenda.put(key, Instant::now());
            }
        }
    }

    /// The figures, as they are reported.
    pub(super) fn unprotected(&self) -> UnprotectedStats {
        UnprotectedStats {
            told: self.told,
            overtaken: self.overtaken,
            pending: self.pending,
        }
    }

    /// Whether there is an end that the store can be told without a person's help. What still runs does not
    /// count, and nor does a key whose record in the store cannot be read: a process that stops would wait for these
    /// until its time is over.
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

    /// The report of the attempt under this lease, if that is the key's current one and has not ended. The
    /// token decides: an earlier attempt of this process may still run, and must not end a later one.
    fn open_report(&mut self, lease: &Lease) -> Option<&mut Report> {
        let entry = self.by_key.get_mut(&lease.key)?;
        let report = entry.reports.back_mut()?;
        let is_current = entry.record.token == lease.token.get();
        (is_current && !report.has_ended()).then_some(report)
    }

    /// Lets the key's first report be sent now. One that is on its way is not sent a second time: it is looked
    /// at again when it comes back.
    fn make_due(&mut self, key: &Key) {
        if self.by_key.get(key).is_some_and(|it| !it.is_on_its_way) {
            self.agenda.put(key, Instant::now());
        }
    }

    /// Forgets the key if there is nothing left to tell of it: from now on the store decides about it.
    fn forget_if_told(&mut self, key: &Key) {
        if self.by_key.get(key).is_some_and(|it| it.reports.is_empty()) {
            self.by_key.remove(key);
            self.agenda.remove(key);
            self.weight -= of_a_key(key);
        }
    }
}

impl Entry {
    /// Makes way for another attempt: if the last one has not ended, it has vanished. Says whether its report was
    /// removed: the next attempt tells the store more of the key than a claim that came to nothing.
    fn make_way(&mut self) -> bool {
        // The last report is the first one, too, if it is the only one; then it must stay while it is on its way.
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

    /// How many of its attempts have ended.
    fn ended(&self) -> u64 {
        let ended = self.reports.iter().filter(|report| report.has_ended());
        ended.count() as u64
    }

    /// What the store is to be told next; `None` if the attempt that is first has yet to start.
    fn next(&self) -> Option<&Report> {
        self.reports.front().filter(|first| first.is_due())
    }
}

/// The weight of a key without its attempts, in bytes.
fn of_a_key(key: &Key) -> usize {
    OF_A_KEY + key.as_str().len()
}
