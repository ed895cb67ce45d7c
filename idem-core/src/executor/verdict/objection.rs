//! Why a key that was just acquired is given back without a run.
//!
//! Each mode asks after its claim, and gives the key back if there is an objection. What must stay true: the attempt
//! that was claimed did not run, and is not reported as one.

use super::NotRun;
use crate::{
    executor::{Cause, Lateness},
    handler::{Failed, InDoubt, Late, Policy},
    store::{Claim, Lease, Release},
};

/// What speaks against running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Objection {
    /// The executor is closed.
    Closed,
    /// The last attempt ended without a word, and the policy is to quarantine what is in doubt.
    InDoubt,
    /// The message is older than its key would be remembered, nothing is known of the key, and the policy is to
    /// quarantine such messages.
    TooOld,
    /// The message has had this many attempts, which is all that the policy allows.
    Exhausted(u32),
}

impl Objection {
    /// `None` if the handler is to run.
    ///
    /// `closed` says whether the executor is closed, `doubt` whether an attempt of this mode can be in doubt: the
    /// writes of an atomic one are rolled back when it vanishes, and leave no doubt.
    pub(crate) fn to(lease: &Lease, policy: &Policy, closed: bool, doubt: bool) -> Option<Self> {
        // First, because it says nothing about the message: it must be neither quarantined nor given up by a process
        // that is only about to end. The next one decides.
        if closed {
            return Some(Self::Closed);
        }
        if doubt && lease.in_doubt && policy.in_doubt() == InDoubt::Quarantine {
            return Some(Self::InDoubt);
        }
        // Not if an earlier attempt is known, and what came of it. The one before may have ended here, without a word,
        // because its worker died.
        if policy.late() == Late::Quarantine && (lease.attempt == 1 || lease.in_doubt) {
            return Some(Self::TooOld);
        }
        // The last attempt that the policy allows gives its key up when it fails, and attempts restart then. So a
        // higher number means, as a rule, that the last one vanished. Without this limit a message that kills its
        // worker would do so for ever.
        (lease.attempt > policy.max_attempts()).then_some(Self::Exhausted(lease.attempt - 1))
    }

    /// What becomes of the key.
    pub(crate) fn release(self) -> Release {
        match self {
            Self::Closed => Release::Abandoned,
            Self::InDoubt => Release::Quarantined,
            // Given up, because the message is dead-lettered: a replay starts over.
            Self::TooOld => Release::gave_up(Lateness::BeyondRetention.to_string()),
            Self::Exhausted(_) => Release::gave_up(Cause::<Failed>::Vanished.to_string()),
        }
    }
}

/// How the message ends.
impl From<Objection> for NotRun {
    fn from(objection: Objection) -> Self {
        match objection {
            Objection::Closed => Self::Abandoned,
            Objection::InDoubt => Self::Answered(Claim::Quarantined),
            Objection::TooOld => Self::TooOld,
            Objection::Exhausted(attempts) => Self::Exhausted(attempts),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{handler::FencingToken, message::Key};

    fn lease(attempt: u32, in_doubt: bool) -> Lease {
        let key = Key::new("orders", "a").unwrap();
        Lease::new(key, FencingToken::new(1), attempt, in_doubt)
    }

    #[test]
    fn a_late_message_runs_only_if_an_attempt_is_known_that_has_said_how_it_ended() {
        let quarantines = Policy::builder().max_attempts(3).late(Late::Quarantine);
        let doubts = quarantines.in_doubt(InDoubt::Quarantine).build().unwrap();
        let quarantines = quarantines.build().unwrap();
        let in_time = quarantines.in_time();
        let to = Objection::to;
        let late = Some(Objection::TooOld);
        let table = [
            (to(&lease(1, false), &quarantines, false, true), late),
            (to(&lease(2, false), &quarantines, false, true), None),
            (to(&lease(2, true), &quarantines, false, true), late),
            (to(&lease(2, true), &quarantines, false, false), late),
            (
                to(&lease(4, false), &quarantines, false, true),
                Some(Objection::Exhausted(3)),
            ),
            // What is in doubt is that first, for its effects may have happened.
            (
                to(&lease(2, true), &doubts, false, true),
                Some(Objection::InDoubt),
            ),
            (to(&lease(2, true), &doubts, false, false), late),
            (
                to(&lease(1, false), &quarantines, true, true),
                Some(Objection::Closed),
            ),
            (to(&lease(1, false), &in_time, false, true), None),
            (to(&lease(2, true), &in_time, false, true), None),
        ];
        for (row, (objection, expected)) in table.into_iter().enumerate() {
            assert_eq!(objection, expected, "row {row}");
        }
    }
}
