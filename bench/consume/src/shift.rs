//! How long a worker of ours works: until all messages of the queue are settled, or until it is told.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use idem_amqp::worker::Health;
use tokio::sync::Notify;

/// One worker's time; clones are the same one.
#[derive(Clone, Debug)]
pub(crate) struct Shift(Arc<State>);

#[derive(Debug)]
struct State {
    settled: AtomicUsize,
    /// After so many it is over.
    all: usize,
    over: Notify,
    /// For one that begins when it is told, too.
    told: Option<Told>,
}

#[derive(Debug, Default)]
struct Told {
    worker: OnceLock<Health>,
    ready: Notify,
    begin: Notify,
}

impl Shift {
    /// It is over when so many messages have been settled.
    pub(crate) fn of(messages: usize) -> Self {
        Self::new(messages, None)
    }

    /// It begins when somebody [begins](Self::begin) it, and goes on until somebody
    /// [ends](Self::end) it.
    pub(crate) fn as_told() -> Self {
        Self::new(usize::MAX, Some(Told::default()))
    }

    fn new(all: usize, told: Option<Told>) -> Self {
        Self(Arc::new(State {
            settled: AtomicUsize::new(0),
            all,
            over: Notify::new(),
            told,
        }))
    }

    /// The worker could begin. Waits until it may.
    pub(crate) async fn ready(&self, worker: Health) {
        if let Some(told) = &self.0.told {
            let _ = told.worker.set(worker);
            told.ready.notify_one();
            told.begin.notified().await;
        }
    }

    /// Waits until the worker could begin.
    pub(crate) async fn wait_for_worker(&self) {
        if let Some(told) = &self.0.told {
            told.ready.notified().await;
        }
    }

    pub(crate) fn begin(&self) {
        if let Some(told) = &self.0.told {
            told.begin.notify_one();
        }
    }

    /// Whether the worker consumes, as its health has it.
    pub(crate) fn is_consuming(&self) -> bool {
        let told = self.0.told.as_ref();
        let worker = told.and_then(|told| told.worker.get());
        worker.is_some_and(Health::is_ready)
    }

    /// A message is executed, or known as a copy.
    pub(crate) fn settled(&self) {
        if self.0.settled.fetch_add(1, Relaxed) + 1 == self.0.all {
            self.end();
        }
    }

    pub(crate) fn end(&self) {
        self.0.over.notify_one();
    }

    /// Waits for the end; one waits.
    pub(crate) async fn over(&self) {
        self.0.over.notified().await;
    }

    /// How many messages have been settled.
    pub(crate) fn count(&self) -> usize {
        self.0.settled.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_shift_is_over_when_all_is_settled() {
        let shift = Shift::of(2);
        shift.settled();
        let over = shift.over();
        tokio::pin!(over);
        let early = tokio::time::timeout(std::time::Duration::ZERO, &mut over).await;
        assert!(early.is_err());
        shift.settled();
        over.await;
        assert_eq!(shift.count(), 2);
    }

    #[tokio::test]
    async fn a_shift_can_be_ended_before_anybody_waits() {
        let shift = Shift::as_told();
        shift.end();
        shift.over().await;
    }
}
