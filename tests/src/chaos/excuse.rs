//! Where the guarantees let a leased order be charged more than once (pure).

use std::time::SystemTime;

use crate::ledger::Charge;

/// What a worker said: that its handler was called for an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Start {
    pub(super) order_id: String,
    pub(super) attempt: u32,
    pub(super) in_doubt: bool,
    pub(super) at: SystemTime,
}

/// What a worker said: that an attempt of an order was executed, its completion recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Completion {
    pub(super) order_id: String,
    pub(super) attempt: u32,
}

impl Completion {
    pub(super) fn new(order_id: &str, attempt: u32) -> Self {
        Self {
            order_id: order_id.into(),
            attempt,
        }
    }
}

/// Whether all charges of an order but the last attempt's ended without a completion: their workers
/// died, or lost their leases, after the charge. Then nobody could know of it. A completion ends
/// it: no attempt comes after one that was recorded. None is made twice, unless the order was in a batch that was
/// dropped in the middle: then the handler is called again, and told that it is in doubt.
pub(super) fn is_excused(
    charges: &[&Charge],
    id: &str,
    starts: &[Start],
    completions: &[Completion],
) -> bool {
    let mut attempts: Vec<_> = charges.iter().map(|charge| charge.attempt).collect();
    attempts.sort_unstable();
    let each_once = attempts
        .chunk_by(|one, other| one == other)
        .all(|same| same.len() <= 1 + called_again(starts, id, same[0]));
    let last = attempts.last().copied();
    let of_this = completions.iter().filter(|done| done.order_id == id);
    let completed: Vec<_> = of_this.map(|done| done.attempt).collect();
    each_once && completed.len() <= 1 && completed.iter().all(|attempt| Some(*attempt) == last)
}

/// How often the handler was called again for this attempt, and told that it is in doubt.
fn called_again(starts: &[Start], id: &str, attempt: u32) -> usize {
    let mut calls: Vec<_> = starts
        .iter()
        .filter(|start| start.order_id == id && start.attempt == attempt)
        .collect();
    calls.sort_by_key(|start| start.at);
    calls.iter().skip(1).filter(|start| start.in_doubt).count()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn excused(attempts: &[u32], completed: &[u32]) -> bool {
        excused_if(attempts, &[], completed)
    }

    /// Calls of the first attempt: whether each was told that it is in doubt.
    fn excused_if(attempts: &[u32], calls: &[bool], completed: &[u32]) -> bool {
        let call = |(second, in_doubt): (u64, &bool)| Start {
            order_id: "a".into(),
            attempt: 1,
            in_doubt: *in_doubt,
            at: SystemTime::UNIX_EPOCH + Duration::from_secs(second),
        };
        let starts: Vec<_> = (0..).zip(calls).map(call).collect();
        let charges: Vec<_> = attempts.iter().map(|n| Charge::new("a", *n, "w")).collect();
        let charges: Vec<_> = charges.iter().collect();
        let mut completions: Vec<_> = completed.iter().map(|n| Completion::new("a", *n)).collect();
        completions.push(Completion::new("another", 1));
        is_excused(&charges, "a", &starts, &completions)
    }

    #[test]
    fn an_attempt_that_never_completed_may_be_followed_by_another() {
        assert!(excused(&[1, 2], &[2]));
        assert!(excused(&[1, 3, 4], &[4]));
        // The last worker died after its completion, and before it could say so.
        assert!(excused(&[1, 2], &[]));
        // The zombie's charge comes late.
        assert!(excused(&[2, 1], &[2]));
    }

    #[test]
    fn a_completed_attempt_is_the_last_one() {
        assert!(!excused(&[1, 2], &[1]));
        assert!(!excused(&[1, 2], &[1, 2]));
        assert!(!excused(&[1, 2, 3], &[2]));
    }

    #[test]
    fn no_attempt_is_made_twice() {
        assert!(!excused(&[1, 1], &[1]));
        assert!(!excused(&[1, 1], &[]));
    }

    #[test]
    fn an_attempt_that_was_dropped_with_its_batch_is_made_again_if_it_is_told() {
        assert!(excused_if(&[1, 1], &[false, true], &[1]));
        assert!(!excused_if(&[1, 1], &[false, false], &[1]));
        // In doubt because of the attempt before: no reason for a second charge.
        assert!(!excused_if(&[1, 1], &[true], &[1]));
        assert!(!excused_if(&[1, 1, 1], &[false, true], &[1]));
    }
}
