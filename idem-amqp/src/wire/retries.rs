//! How a message that is not done with comes back.

use std::time::Duration;

use idem_core::settlement::{self, Ladder};

/// The type of a declared queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueueType {
    /// Replicated over the nodes of a cluster; keeps settlements over a broker's crash.
    Quorum,
    /// A queue on one node. It may deliver settled messages again after a broker's crash.
    Classic,
}

/// How a message that failed, or whose key is held for long, comes back to its queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Retries {
    /// It is published to a rung of the ladder, which returns it.
    Ladder(Ladder),
    /// It waits in the worker, and is then returned with `nack(requeue)`.
    Local,
    /// It is returned at once with `nack(requeue)`, and the queue itself delays it.
    Native(NativeDelay),
}

/// The part that a settlement depends on.
impl<'a> From<&'a Retries> for settlement::Retries<'a> {
    fn from(retries: &'a Retries) -> Self {
        match retries {
            Retries::Ladder(ladder) => Self::Ladder(ladder),
            Retries::Local => Self::Local,
            Retries::Native(_) => Self::Native,
        }
    }
}

/// What the queue is told about its own delays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NativeDelay {
    pub(crate) min: Duration,
    pub(crate) max: Duration,
}

impl NativeDelay {
    /// What makes it impossible, if anything does.
    pub(crate) fn objection(&self, kind: Option<QueueType>) -> Option<&'static str> {
        let whole = |delay: Duration| delay.subsec_nanos().is_multiple_of(1_000_000);
        if kind == Some(QueueType::Classic) {
            Some("only quorum queues have them: leave `classic` or `native_retries` out")
        } else if self.min.is_zero() || self.min > self.max {
            Some("the shortest delay must be above zero, and not above the longest")
        } else if !whole(self.min) || !whole(self.max) {
            Some("delays must be whole milliseconds")
        } else if self.max > Ladder::LONGEST_RUNG {
            Some("the longest delay must be 24 hours at most")
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn impossible_native_delays_are_objected_to() {
        let micro = Duration::from_micros(1);
        let quorum = Some(QueueType::Quorum);
        let table = [
            (SECOND, SECOND, quorum, true),
            (SECOND, SECOND, None, true),
            (SECOND, SECOND, Some(QueueType::Classic), false),
            (Duration::ZERO, SECOND, quorum, false),
            (2 * SECOND, SECOND, quorum, false),
            (SECOND + micro, 2 * SECOND, quorum, false),
            (SECOND, 2 * SECOND + micro, quorum, false),
            (SECOND, 90_000 * SECOND, quorum, false),
        ];
        for (min, max, kind, possible) in table {
            let objection = NativeDelay { min, max }.objection(kind);
            assert_eq!(objection.is_none(), possible, "{min:?} {max:?} {kind:?}");
        }
    }
}
