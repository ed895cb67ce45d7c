//! One process of a worker, from its beginning to its end.

use std::{os::unix::process::ExitStatusExt as _, process::ExitStatus};

use crate::{
    journal::Journal,
    process::{Event, Process},
};

const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;

/// What is left of a process.
#[derive(Debug)]
pub(super) struct Life {
    /// The number of its post.
    pub(super) post: usize,
    /// Its name in the ledger.
    pub(super) name: String,
    pub(super) events: Journal<Event>,
    pub(super) log: Journal<String>,
    pub(super) end: End,
}

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// By SIGKILL: by a fault, or by an order that does so.
    Killed,
    /// It drained when it was told to stop, with this balance.
    Drained {
        even: bool,
        balance: Vec<(String, u64)>,
    },
    /// It was told to stop while it still waited for its store.
    Unborn,
    /// In another way, which no process of a worker should.
    Failed(String),
}

impl Life {
    pub(super) fn of(post: usize, name: String, process: &Process, end: End) -> Self {
        Self {
            post,
            name,
            events: process.events.clone(),
            log: process.log.clone(),
            end,
        }
    }
}

impl End {
    /// Of a process that nobody had told to stop.
    pub(super) fn unasked(status: ExitStatus) -> Self {
        match status.signal() {
            Some(SIGKILL) => Self::Killed,
            _ => Self::Failed(format!("it ended by itself: {status}")),
        }
    }

    /// Of a process that was told to stop, and what it had said.
    pub(super) fn asked(status: ExitStatus, events: &[Event]) -> Self {
        match (status.signal(), events.last()) {
            (None, Some(Event::WorkerStats { even, ended })) if status.success() => Self::Drained {
                even: *even,
                balance: ended.clone(),
            },
            (Some(SIGTERM), None) => Self::Unborn,
            (Some(SIGKILL), _) => Self::Killed,
            _ => Self::Failed(format!("it was told to stop: {status}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn balance(even: bool) -> Event {
        Event::WorkerStats {
            even,
            ended: vec![("executed".into(), 2)],
        }
    }

    #[test]
    fn a_process_that_prints_its_balance_and_succeeds_has_drained() {
        let success = ExitStatus::from_raw(0);
        let drained = End::Drained {
            even: true,
            balance: vec![("executed".into(), 2)],
        };
        assert_eq!(End::asked(success, &[balance(true)]), drained);
        assert!(matches!(End::asked(success, &[]), End::Failed(_)));
        let failure = ExitStatus::from_raw(1 << 8);
        assert!(matches!(
            End::asked(failure, &[balance(true)]),
            End::Failed(_)
        ));
        assert!(matches!(End::unasked(success), End::Failed(_)));
        assert!(matches!(End::unasked(failure), End::Failed(_)));
    }

    #[test]
    fn an_order_may_kill_a_process_at_any_time() {
        let killed = ExitStatus::from_raw(SIGKILL);
        assert_eq!(End::unasked(killed), End::Killed);
        assert_eq!(End::asked(killed, &[]), End::Killed);
    }

    #[test]
    fn only_a_process_that_had_not_begun_may_leave_without_draining() {
        let terminated = ExitStatus::from_raw(SIGTERM);
        assert_eq!(End::asked(terminated, &[]), End::Unborn);
        assert!(matches!(
            End::asked(terminated, &[balance(true)]),
            End::Failed(_)
        ));
        assert!(matches!(End::unasked(terminated), End::Failed(_)));
    }
}
