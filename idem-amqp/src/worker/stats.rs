//! The conservation law: every delivery ends in exactly one kind of execution.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use idem_core::executor::{ExecutionKind, UnprotectedStats};

use crate::{
    outbox::{OutboxCounters, OutboxStats},
    telemetry::Meters,
    wire::{
        incident::Incidents,
        reply::{ReplyCounters, ReplyStats},
        sessions::{SessionCounters, SessionStats},
    },
};

type Kinds<T> = [T; ExecutionKind::ALL.len()];

/// How the deliveries of a worker ended.
///
/// ```
/// use idem_amqp::{executor::ExecutionKind, worker::WorkerStats};
///
/// fn tell(balance: &WorkerStats) {
///     let copies = balance.of(ExecutionKind::Duplicate);
///     println!("{copies} of {} deliveries were copies", balance.deliveries());
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WorkerStats {
    deliveries: u64,
    ended: Kinds<u64>,
    would_have_been: Kinds<u64>,
    reports: UnprotectedStats,
    incidents: Incidents,
    replies: ReplyStats,
    sessions: SessionStats,
    stale_numbers: u64,
    dropped: u64,
    outbox: OutboxStats,
}

impl WorkerStats {
    /// How many messages the broker delivered.
    pub fn deliveries(&self) -> u64 {
        self.deliveries
    }

    /// How many of them ended like this.
    pub fn of(&self, kind: ExecutionKind) -> u64 {
        self.ended[index(kind)]
    }

    /// Kinds and their counts, in the order of [`ExecutionKind::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (ExecutionKind, u64)> + '_ {
        ExecutionKind::ALL.iter().copied().zip(self.ended)
    }

    /// How many of them ran because their policy is to [observe](idem_core::handler::Enforcement::Observe), and
    /// would have ended like this if it were enforced. They are counted [beside](Self::of) how they
    /// ended.
    pub fn would_have_been(&self, kind: ExecutionKind) -> u64 {
        self.would_have_been[index(kind)]
    }

    /// What the store was told of work that was done while it was away. What is still pending when
    /// the worker has stopped is lost: copies of these messages may run again.
    pub fn unprotected(&self) -> UnprotectedStats {
        self.reports
    }

    /// What happened to the worker's connections while it ran.
    pub fn incidents(&self) -> Incidents {
        self.incidents
    }

    /// What became of the replies to messages that asked for one.
    pub fn replies(&self) -> ReplyStats {
        self.replies
    }

    /// What was done for sessions, beside their requests, which are deliveries like any other.
    pub fn sessions(&self) -> SessionStats {
        self.sessions
    }

    /// How many of the [duplicates](ExecutionKind::Duplicate) came for the first time under a number that
    /// was done so long ago that nothing but its sequence's mark is kept of it. A late copy is such a
    /// duplicate; so is every message of a producer that began its numbers anew in the same epoch, and
    /// that message is **lost**. The log names the sequences.
    pub fn stale_numbers(&self) -> u64 {
        self.stale_numbers
    }

    /// How many of the deliveries were [dropped](crate::worker::Settlement::Drop): acknowledged, though nothing was
    /// done, and kept nowhere. They are counted [beside](Self::of) how they ended.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// What became of what its handlers have published.
    pub fn outbox(&self) -> OutboxStats {
        self.outbox
    }

    /// Whether every delivery has ended in exactly one kind: so it is when a worker has stopped.
    pub fn is_balanced(&self) -> bool {
        self.deliveries == self.ended.iter().sum::<u64>()
    }
}

/// `deliveries=12 executed=10 duplicate=2`: kinds that did not occur are left out. If there were replies, they follow:
/// `replies=3 replayed=1`; so do sessions: `sessions: opened=1`, `stale_numbers=2`, `dropped=1`, and `outbox:
/// committed=10 confirmed=10`. What would have been suppressed is last: `would_have_been: duplicate=2`.
impl fmt::Display for WorkerStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "deliveries={}", self.deliveries)?;
        let mut occurred = self.iter().filter(|(_, count)| *count > 0);
        occurred.try_for_each(|(kind, count)| write!(f, " {kind}={count}"))?;
        if self.replies != ReplyStats::default() {
            write!(f, " {}", self.replies)?;
        }
        if self.sessions != SessionStats::default() {
            write!(f, " {}", self.sessions)?;
        }
        if self.stale_numbers > 0 {
            write!(f, " stale_numbers={}", self.stale_numbers)?;
        }
        if self.dropped > 0 {
            write!(f, " dropped={}", self.dropped)?;
        }
        if self.outbox != OutboxStats::default() {
            write!(f, " {}", self.outbox)?;
        }
        if self.would_have_been.iter().any(|count| *count > 0) {
            f.write_str(" would_have_been:")?;
        }
        let suppressed = ExecutionKind::ALL.iter().zip(self.would_have_been);
        let mut suppressed = suppressed.filter(|(_, count)| *count > 0);
        suppressed.try_for_each(|(kind, count)| write!(f, " {kind}={count}"))
    }
}

/// Counts while the worker runs.
#[derive(Debug, Default)]
pub(super) struct Counters {
    deliveries: AtomicU64,
    ended: Kinds<AtomicU64>,
    would_have_been: Kinds<AtomicU64>,
    pub(super) replies: ReplyCounters,
    pub(super) sessions: SessionCounters,
    stale_numbers: AtomicU64,
    dropped: AtomicU64,
    outbox: Option<Arc<OutboxCounters>>,
}

impl Counters {
    /// Counters that also show what the handlers publish, if there is an outbox.
    pub(super) fn beside(outbox: Option<Arc<OutboxCounters>>) -> Self {
        Self {
            outbox,
            ..Self::default()
        }
    }

    pub(super) fn delivered(&self, queue: &Meters) {
        self.deliveries.fetch_add(1, Relaxed);
        queue.delivered();
    }

    pub(super) fn ended(&self, kind: ExecutionKind, queue: &Meters) {
        self.ended[index(kind)].fetch_add(1, Relaxed);
        queue.ended(index(kind));
    }

    pub(super) fn would_have_been(&self, kind: ExecutionKind, queue: &Meters) {
        self.would_have_been[index(kind)].fetch_add(1, Relaxed);
        queue.would_have_been(index(kind));
    }

    pub(super) fn stale_number(&self, queue: &Meters) {
        self.stale_numbers.fetch_add(1, Relaxed);
        queue.stale_number();
    }

    pub(super) fn dropped(&self) {
        self.dropped.fetch_add(1, Relaxed);
    }

    /// Counts deliveries whose handlers block their threads, and so cannot be dropped: of those that
    /// have not ended, no more than this many. Says how many there are.
    pub(super) fn interrupted(&self, running: usize, queue: &Meters) -> usize {
        let open = queue.open().min(running);
        for _ in 0..open {
            self.ended(ExecutionKind::Interrupted, queue);
        }
        open
    }

    pub(super) fn balance(&self, reports: UnprotectedStats, incidents: Incidents) -> WorkerStats {
        WorkerStats {
            deliveries: self.deliveries.load(Relaxed),
            ended: loaded(&self.ended),
            would_have_been: loaded(&self.would_have_been),
            reports,
            incidents,
            replies: self.replies.replies(),
            sessions: self.sessions.counts(),
            stale_numbers: self.stale_numbers.load(Relaxed),
            dropped: self.dropped.load(Relaxed),
            outbox: self
                .outbox
                .as_ref()
                .map_or_else(OutboxStats::default, |outbox| outbox.stats()),
        }
    }
}

fn loaded(counts: &Kinds<AtomicU64>) -> Kinds<u64> {
    std::array::from_fn(|kind| counts[kind].load(Relaxed))
}

fn index(kind: ExecutionKind) -> usize {
    let at = ExecutionKind::ALL.iter().position(|other| *other == kind);
    at.expect("ALL has every kind")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_balance_is_even_when_every_delivery_has_ended() {
        let (counters, queue) = (Counters::default(), Meters::of("orders", "charge"));
        counters.delivered(&queue);
        let balance = || counters.balance(UnprotectedStats::default(), Incidents::default());
        assert!(!balance().is_balanced());
        counters.ended(ExecutionKind::Duplicate, &queue);
        assert!(balance().is_balanced());
        assert_eq!(balance().to_string(), "deliveries=1 duplicate=1");
    }

    #[test]
    fn what_was_dropped_is_counted_beside_how_it_ended() {
        let (counters, queue) = (Counters::default(), Meters::of("orders", "charge"));
        counters.delivered(&queue);
        counters.ended(ExecutionKind::Rejected, &queue);
        counters.dropped();
        let balance = counters.balance(UnprotectedStats::default(), Incidents::default());
        assert!(balance.is_balanced());
        assert_eq!(balance.to_string(), "deliveries=1 rejected=1 dropped=1");
    }

    #[test]
    fn what_would_have_been_suppressed_is_counted_beside_how_it_ended() {
        let (counters, queue) = (Counters::default(), Meters::of("orders", "charge"));
        counters.delivered(&queue);
        counters.ended(ExecutionKind::Observed, &queue);
        counters.would_have_been(ExecutionKind::Duplicate, &queue);
        let balance = counters.balance(UnprotectedStats::default(), Incidents::default());
        assert!(balance.is_balanced());
        assert_eq!(balance.would_have_been(ExecutionKind::Duplicate), 1);
        let text = "deliveries=1 observed=1 would_have_been: duplicate=1";
        assert_eq!(balance.to_string(), text);
    }

    #[test]
    fn what_still_runs_is_interrupted_and_nothing_that_ended_or_was_lost_is() {
        let (counters, queue) = (Counters::default(), Meters::of("orders", "charge"));
        (0..3).for_each(|_| counters.delivered(&queue));
        counters.ended(ExecutionKind::Executed, &queue);
        counters.interrupted(1, &queue);
        let balance = || counters.balance(UnprotectedStats::default(), Incidents::default());
        let text = "deliveries=3 executed=1 interrupted=1";
        assert_eq!(balance().to_string(), text);
        counters.interrupted(2, &queue);
        assert!(balance().is_balanced());
    }
}
