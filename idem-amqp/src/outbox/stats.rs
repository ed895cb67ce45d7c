//! What became of what was published by an outbox.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use idem_core::__telemetry::Counter;

use crate::telemetry::OutboxMeters;

/// What one worker, or one relay, has done with the outbox of its store.
///
/// Over all workers and relays of a store, what was committed is confirmed, or is waiting or dead in the
/// [outbox](super::OutboxCounts), unless somebody has cancelled or discarded it. It may have been confirmed more than
/// once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutboxStats {
    /// Messages that handlers of this worker have committed.
    pub committed: u64,
    /// Messages that a queue has, by the broker's word.
    pub confirmed: u64,
    /// Messages that were taken from the outbox: those that are to leave later or in order, and those that another
    /// worker has left.
    pub taken: u64,
    /// Messages that were put back, to be tried again.
    pub put_back: u64,
    /// Messages that were given up: no queue takes them, say.
    pub given_up: u64,
}

/// The same while it is counted, and its metrics.
#[derive(Debug, Default)]
pub(crate) struct OutboxCounters {
    committed: AtomicU64,
    confirmed: AtomicU64,
    taken: AtomicU64,
    put_back: AtomicU64,
    given_up: AtomicU64,
    pub(super) meters: OutboxMeters,
}

impl OutboxCounters {
    pub(crate) fn stats(&self) -> OutboxStats {
        OutboxStats {
            committed: self.committed.load(Relaxed),
            confirmed: self.confirmed.load(Relaxed),
            taken: self.taken.load(Relaxed),
            put_back: self.put_back.load(Relaxed),
            given_up: self.given_up.load(Relaxed),
        }
    }

    pub(super) fn committed(&self, messages: usize) {
        count(&self.committed, &self.meters.committed, messages);
    }

    /// A queue has one, so long after its commit, if it was published from memory.
    pub(super) fn confirmed(&self, after: Option<Duration>) {
        count(&self.confirmed, &self.meters.confirmed, 1);
        if let Some(after) = after {
            self.meters.seconds.took(after);
        }
    }

    pub(super) fn taken(&self, messages: usize) {
        count(&self.taken, &self.meters.taken, messages);
    }

    pub(super) fn put_back(&self) {
        count(&self.put_back, &self.meters.put_back, 1);
    }

    pub(super) fn given_up(&self) {
        count(&self.given_up, &self.meters.given_up, 1);
    }
}

fn count(total: &AtomicU64, metric: &Counter, messages: usize) {
    total.fetch_add(messages as u64, Relaxed);
    metric.count(messages as u64);
}

/// `outbox: committed=1000 confirmed=998 taken=2`; what did not occur is left out.
impl fmt::Display for OutboxStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "outbox: committed={} confirmed={}",
            self.committed, self.confirmed
        )?;
        let rest = [
            ("taken", self.taken),
            ("put_back", self.put_back),
            ("given_up", self.given_up),
        ];
        let mut occurred = rest.iter().filter(|(_, count)| *count > 0);
        occurred.try_for_each(|(name, count)| write!(f, " {name}={count}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_did_not_occur_is_left_out() {
        let mut stats = OutboxStats {
            committed: 3,
            confirmed: 2,
            ..OutboxStats::default()
        };
        assert_eq!(stats.to_string(), "outbox: committed=3 confirmed=2");
        stats.given_up = 1;
        assert_eq!(
            stats.to_string(),
            "outbox: committed=3 confirmed=2 given_up=1"
        );
    }
}
