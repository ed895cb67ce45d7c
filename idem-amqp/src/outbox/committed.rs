//! What was committed here, on its way to the task that publishes it.
//!
//! The executor calls [`CommittedQueue::push`] after each commit that publishes something. What must stay true: a
//! commit never waits for it. What finds no room is left to its lease, and whoever looks into the outbox then takes it.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use idem_core::handler::Outgoing;
use tokio::{sync::mpsc, time::Instant};

use super::OutboxCounters;

/// At most so many commits wait for a place in the window. Further ones are left to their leases.
const QUEUED: usize = 1024;

/// About so many bytes are published before the first of their messages is confirmed, and as many wait for that. One
/// commit, or what is taken at once, may exceed a limit.
pub(super) const BYTES: usize = 64 << 20;

/// What one commit has published.
pub(crate) struct CommittedMessages {
    pub(super) messages: Vec<Outgoing>,
    pub(super) at: Instant,
}

/// The way to the task that publishes. Clones lead to the same task.
#[derive(Clone)]
pub(crate) struct CommittedQueue {
    to: mpsc::Sender<CommittedMessages>,
    /// How much waits.
    bytes: Arc<AtomicUsize>,
    pub(super) counters: Arc<OutboxCounters>,
}

impl CommittedQueue {
    /// What is put into it comes out of this receiver.
    pub(crate) fn new(counters: Arc<OutboxCounters>) -> (Self, mpsc::Receiver<CommittedMessages>) {
        let (to, committed) = mpsc::channel(QUEUED);
        let bytes = Arc::default();
        let queue = Self {
            to,
            bytes,
            counters,
        };
        (queue, committed)
    }

    /// Puts into it what one commit has published, if there is room.
    pub(crate) fn push(&self, messages: Vec<Outgoing>) {
        self.counters.committed(messages.len());
        let (at, bytes) = (Instant::now(), bytes(&messages));
        // Full: the broker is slower than the handlers, or away. The lease runs out, and then it is taken.
        if self.bytes.load(Relaxed) >= BYTES {
            return;
        }
        self.bytes.fetch_add(bytes, Relaxed);
        if self
            .to
            .try_send(CommittedMessages { messages, at })
            .is_err()
        {
            self.bytes.fetch_sub(bytes, Relaxed);
        }
    }

    /// These have come out of it.
    pub(super) fn frees(&self, messages: &[Outgoing]) {
        self.bytes.fetch_sub(bytes(messages), Relaxed);
    }
}

fn bytes(messages: &[Outgoing]) -> usize {
    messages
        .iter()
        .map(|it| it.head.len() + it.body.len())
        .sum()
}
