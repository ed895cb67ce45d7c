//! The task that tells the store, once it is back, what was done without it and what still runs.
//!
//! [`LocalMemory::tell`] starts it; it ends when nothing is left to tell. What must stay true:
//!
//! - One task reports at a time.
//! - A store that is away is asked by one report at a time, with a pause that grows.
//! - A report that cannot be told yet is not in the way of others.

use std::{mem, sync::Arc};

use tokio::time::sleep;

use super::{
    LocalMemory,
    report::{Report, Sent},
    reporter_guard::ReporterGuard,
};
use crate::{executor::until_known::PATIENCE, futures::join_all, store::Store};

/// How many reports are sent at once to a store that answers.
const WIDTH: usize = 64;

impl LocalMemory {
    /// Starts the task that reports, unless it runs or has nothing to do. One that runs is woken.
    pub(in crate::executor) fn tell<S: Store>(self: &Arc<Self>, store: &Arc<S>) {
        let mut entries = self.entries();
        if entries.is_empty() || mem::replace(&mut entries.is_reported, true) {
            return self.ended.notify_one();
        }
        // Without the lock: a runtime that shuts down drops the task at once, and the guard's drop takes the lock.
        drop(entries);
        let guard = ReporterGuard::new(Arc::clone(self));
        tokio::spawn(run(Arc::clone(store), guard));
    }
}

/// Reports until nothing is left to report. Dropped half way (its runtime shuts down), it gives back what it
/// had in hand.
async fn run<S: Store>(store: Arc<S>, mut guard: ReporterGuard) {
    // One at first: nobody knows yet whether the store is back.
    let (mut tries, mut width) = (0, 1);
    while let Some(reports) = guard.next(width).await {
        let sent = join_all(reports.into_iter().map(|report| send(&*store, report))).await;
        let away = sent.iter().any(|(_, sent)| *sent == Sent::Away);
        guard.note(sent);
        if away {
            // From now on one at a time: many calls to a store that is away, or is just coming back, help nobody.
            (tries, width) = (tries + 1, 1);
            sleep(PATIENCE.wait(tries)).await;
        } else {
            (tries, width) = (0, WIDTH);
        }
    }
}

/// Sends a report once, and gives it back with what became of it.
async fn send<S: Store>(store: &S, mut report: Report) -> (Report, Sent) {
    let sent = report.send(store).await;
    (report, sent)
}
