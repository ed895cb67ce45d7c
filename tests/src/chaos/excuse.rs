//! Where the guarantees let a leased order be charged more than once (pure).

use crate::ledger::Charge;

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
/// it: no attempt comes after one that was recorded, and none is made twice.
pub(super) fn is_excused(charges: &[&Charge], id: &str, completions: &[Completion]) -> bool {
    let mut attempts: Vec<_> = charges.iter().map(|charge| charge.attempt).collect();
    attempts.sort_unstable();
    let each_once = attempts.windows(2).all(|pair| pair[0] < pair[1]);
    let last = attempts.last().copied();
    let of_this = completions.iter().filter(|done| done.order_id == id);
    let completed: Vec<_> = of_this.map(|done| done.attempt).collect();
    each_once && completed.len() <= 1 && completed.iter().all(|attempt| Some(*attempt) == last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excused(attempts: &[u32], completed: &[u32]) -> bool {
        let charges: Vec<_> = attempts.iter().map(|n| Charge::new("a", *n, "w")).collect();
        let charges: Vec<_> = charges.iter().collect();
        let mut completions: Vec<_> = completed.iter().map(|n| Completion::new("a", *n)).collect();
        completions.push(Completion::new("another", 1));
        is_excused(&charges, "a", &completions)
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
}
