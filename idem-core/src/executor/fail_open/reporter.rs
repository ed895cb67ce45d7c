//! The task that tells the store, once it is back, what is done without it.

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
    /// Starts the task that reports, unless it runs or has nothing to do.
    pub(in crate::executor) fn tell<S: Store>(self: &Arc<Self>, store: &Arc<S>) {
        let mut entries = self.entries();
        if entries.is_empty() || mem::replace(&mut entries.is_reported, true) {
            return self.ended.notify_one();
        }
        drop(entries);
        let guard = ReporterGuard::new(Arc::clone(self));
        tokio::spawn(run(Arc::clone(store), guard));
    }
}

/// Reports until nothing is left to report.
async fn run<S: Store>(store: Arc<S>, mut guard: ReporterGuard) {
    let (mut tries, mut width) = (0, 1);
    while let Some(reports) = guard.next(width).await {
        let sent = join_all(reports.into_iter().map(|report| send(&*store, report))).await;
        let away = sent.iter().any(|(_, sent)| *sent == Sent::Away);
        guard.note(sent);
        if away {
            // One at a time knocks at a store that is away.
            (tries, width) = (tries + 1, 1);
            sleep(PATIENCE.wait(tries)).await;
        } else {
            (tries, width) = (0, WIDTH);
        }
    }
}

async fn send<S: Store>(store: &S, mut report: Report) -> (Report, Sent) {
    let sent = report.send(store).await;
    (report, sent)
}
