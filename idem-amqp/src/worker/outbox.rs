//! The outbox of a worker whose handlers publish: its task, from the start of the worker to its end.

use std::{sync::Arc, time::Duration};

use tokio::{sync::mpsc, task::JoinHandle, time::timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    connection::{Brokers, health::HealthState},
    outbox::{
        OutboxCounters, SharedOutbox,
        committed::{CommittedMessages, CommittedQueue},
        publishing::Publishing,
        watch::watch,
    },
    publisher::Publisher,
};

/// How long a worker that stops publishes what was committed last, even if handlers have taken the whole grace
/// period.
const LAST_MESSAGES: Duration = Duration::from_secs(1);

/// The store's outbox, and what the handlers of one worker commit into it.
pub(super) struct WorkersOutbox {
    outbox: SharedOutbox,
    queue: CommittedQueue,
    committed: mpsc::Receiver<CommittedMessages>,
    counters: Arc<OutboxCounters>,
}

/// The task that publishes. Dropped, it stops, and others publish what is left.
pub(super) struct Started {
    publishing: JoinHandle<()>,
    stopping: CancellationToken,
    _aborted: DropGuard,
}

impl WorkersOutbox {
    /// And the queue through which what was committed comes to it.
    pub(super) fn new(outbox: SharedOutbox) -> (Self, CommittedQueue) {
        let counters = Arc::new(OutboxCounters::default());
        let (queue, committed) = CommittedQueue::new(Arc::clone(&counters));
        let ours = Self {
            outbox,
            queue: queue.clone(),
            committed,
            counters,
        };
        (ours, queue)
    }

    pub(super) fn table(&self) -> SharedOutbox {
        Arc::clone(&self.outbox)
    }

    pub(super) fn counters(&self) -> Arc<OutboxCounters> {
        Arc::clone(&self.counters)
    }

    pub(super) fn start(self, brokers: &Brokers, health: &Arc<HealthState>) -> Started {
        let publisher = Publisher::lazy(brokers.clone());
        let (outbox, counters, health) =
            (Arc::clone(&self.outbox), self.counters, Arc::clone(health));
        let watching =
            async move { watch(outbox, &counters, |glance| health.outbox(glance)).await };
        let publishing = Publishing::new(self.outbox, publisher, self.queue, self.committed);
        let (stopping, aborted) = (CancellationToken::new(), CancellationToken::new());
        let (stops, aborts) = (stopping.clone(), aborted.clone());
        let publishing = tokio::spawn(async move {
            let run = async {
                tokio::select! {
                    () = publishing.run(stops) => {}
                    never = watching => match never {},
                }
            };
            let _ = aborts.run_until_cancelled(run).await;
        });
        Started {
            publishing,
            stopping,
            _aborted: aborted.drop_guard(),
        }
    }
}

impl Started {
    /// Publishes what was committed, for at most so long: the rest others publish.
    pub(super) async fn finish(self, patience: Duration) {
        self.stopping.cancel();
        let _ = timeout(patience.max(LAST_MESSAGES), self.publishing).await;
    }
}
