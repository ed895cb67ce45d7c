//! The leave to report, which one task has at a time.

use std::sync::Arc;

use tokio::time::timeout_at;

use super::{
    LocalMemory,
    report::{Report, Sent},
};

/// The reporter's leave to report, as the only one.
pub(super) struct ReporterGuard {
    local: Arc<LocalMemory>,
    is_over: bool,
}

impl ReporterGuard {
    pub(super) fn new(local: Arc<LocalMemory>) -> Self {
        Self {
            local,
            is_over: false,
        }
    }

    /// At most so many reports that are due, of different keys; waits for the first. `None` when
    /// nothing is left that could be reported later, and the guard is spent.
    pub(super) async fn next(&mut self, width: usize) -> Option<Vec<Report>> {
        loop {
            let ended = self.local.ended.notified();
            let due = {
                let mut entries = self.local.entries();
                let reports = entries.next(width);
                if !reports.is_empty() {
                    return Some(reports);
                }
                if entries.is_empty() {
                    self.local.rest(&mut entries);
                    self.is_over = true;
                    return None;
                }
                entries.next_due()
            };
            match due {
                Some(due) => drop(timeout_at(due, ended).await),
                None => ended.await,
            }
        }
    }

    /// Notes what became of reports.
    pub(super) fn note(&self, sent: Vec<(Report, Sent)>) {
        let mut entries = self.local.entries();
        entries.is_away = sent.iter().any(|(_, sent)| *sent == Sent::Away);
        for (report, sent) in sent {
            entries.note(report, sent);
        }
        drop(entries);
        self.local.told.notify_waiters();
    }
}

impl Drop for ReporterGuard {
    /// The reporter has panicked: the next one sends again what it had in hand.
    fn drop(&mut self) {
        if !self.is_over {
            let mut entries = self.local.entries();
            entries.is_reported = false;
            entries.take_back();
        }
    }
}
