//! The right to report, which one task has at a time.
//!
//! [`reporter`](super::reporter) makes one for its task. What must stay true:
//!
//! - Whatever the task has taken is noted or taken back, also when the task panics or is dropped.
//! - The right ends under the lock under which nothing was found to be left, so that no attempt stays unreported.

use std::sync::Arc;

use tokio::time::timeout_at;

use super::{
    LocalMemory,
    report::{Report, Sent},
};

/// The right to report, as the only one. Dropped early, it lets another reporter start.
pub(super) struct ReporterGuard {
    /// What is to be reported, and the flag that says that somebody does.
    local: Arc<LocalMemory>,
    /// Whether it has ended in order, because nothing was left.
    is_over: bool,
}

impl ReporterGuard {
    /// The guard of a caller that has just set `is_reported`.
    pub(super) fn new(local: Arc<LocalMemory>) -> Self {
        Self {
            local,
            is_over: false,
        }
    }

    /// Returns at most so many reports that are due, of different keys; waits until there is one. `None` when nothing
    /// is left to report, now or later; then the guard is spent. A dropped call takes nothing.
    pub(super) async fn next(&mut self, width: usize) -> Option<Vec<Report>> {
        loop {
            // Made before the look; a wake-up that came earlier is kept for it. So no end is missed.
            let ended = self.local.ended.notified();
            let due = {
                let mut entries = self.local.entries();
                // What is taken here is on its way until it is noted, or taken back by the drop.
                let reports = entries.next(width);
                if !reports.is_empty() {
                    return Some(reports);
                }
                if entries.is_empty() {
                    // Under the same lock as the look: what is remembered after this finds that nobody reports.
                    self.local.rest(&mut entries);
                    self.is_over = true;
                    return None;
                }
                entries.next_due()
            };
            match due {
                // Until a report is due again, or something else ends.
                Some(due) => drop(timeout_at(due, ended).await),
                None => ended.await,
            }
        }
    }

    /// Notes what became of reports, and wakes those who wait until all is told.
    pub(super) fn note(&self, sent: Vec<(Report, Sent)>) {
        let mut entries = self.local.entries();
        // One that found the store away is enough: the others may have been answered before it went.
        entries.is_away = sent.iter().any(|(_, sent)| *sent == Sent::Away);
        for (report, sent) in sent {
            entries.note(report, sent);
        }
        // Without the lock, which the woken take for their look.
        drop(entries);
        self.local.told.notify_waiters();
    }
}

impl Drop for ReporterGuard {
    /// If the reporter has panicked or was dropped with its runtime, the next one sends again what it had in hand.
    fn drop(&mut self) {
        if !self.is_over {
            let mut entries = self.local.entries();
            entries.is_reported = false;
            entries.take_back();
        }
    }
}
