//! What the plain store lets a lease write.

use std::{mem::discriminant, time::Duration};

use idem_core::{
    Outcome,
    store::{Release, Write},
};

use crate::{
    flaw::Flaw,
    record::{Record, State},
    store::PlainStore,
};

impl PlainStore {
    pub(crate) fn extend_record(&self, record: &mut Record, current: bool, by: Duration) -> Write {
        let now = self.now();
        let lease_ends = match record.state {
            State::InProgress { lease_ends } => lease_ends,
            State::Released(_) if self.has(Flaw::ExtendRevives) => now,
            _ => return Write::Fenced,
        };
        let expired = lease_ends <= now && self.has(Flaw::ExtensionExpires);
        if expired || !(current || self.has(Flaw::ExtendsUnfenced)) {
            return Write::Fenced;
        }
        let from = if self.has(Flaw::ExtendsFromTheEnd) {
            lease_ends
        } else {
            now
        };
        let lease_ends = from + by;
        record.state = State::InProgress { lease_ends };
        record.written_at = now;
        if !self.has(Flaw::ExtensionsAreNoWrites) {
            record.forget_at = self.forgets_claim_at(lease_ends, record.retention);
        }
        Write::Applied
    }

    pub(crate) fn complete_record(
        &self,
        record: &mut Record,
        current: bool,
        outcome: &Outcome,
        retention: Duration,
    ) -> Write {
        let current = current || self.has(Flaw::CompletesUnfenced);
        let open = match &record.state {
            State::InProgress { lease_ends } => {
                *lease_ends > self.now() || !self.has(Flaw::CompletionExpires)
            }
            State::Completed(_) if current && self.has(Flaw::OverwritesOutcomes) => true,
            State::Completed(_) if current && !self.has(Flaw::FencesRepeatedCompletions) => {
                return Write::Applied;
            }
            State::Completed(_) => false,
            State::Released(_) => self.has(Flaw::CompleteRevives),
        };
        if !open || !current {
            return Write::Fenced;
        }
        if self.has(Flaw::EmptyIsUnfinished) && outcome.as_bytes().is_empty() {
            return Write::Applied;
        }
        record.state = State::Completed(self.as_stored(outcome));
        if !self.has(Flaw::CompletesWhenClaimed) {
            record.written_at = self.now();
        }
        if !self.has(Flaw::KeepsTheClaimsRetention) {
            record.retention = retention;
        }
        record.forget_at = self.now() + self.unit(record.retention);
        if self.has(Flaw::ForgetsCompletions) {
            record.forget_at = self.now();
        }
        Write::Applied
    }

    pub(crate) fn release_record(
        &self,
        record: &mut Record,
        current: bool,
        reason: &Release,
    ) -> Write {
        let current = current || self.has(Flaw::ReleasesUnfenced);
        let open = match &record.state {
            State::InProgress { lease_ends } => {
                *lease_ends > self.now() || !self.has(Flaw::ReleaseExpires)
            }
            State::Released(before) if current && self.repeats(before, reason) => {
                if self.has(Flaw::FencesRepeatedReleases) {
                    return Write::Fenced;
                }
                if self.has(Flaw::RepeatedFailuresDelay) {
                    self.delay(record, reason);
                }
                return Write::Applied;
            }
            State::Released(_) => self.has(Flaw::ReleasesTwice),
            State::Completed(_) => self.has(Flaw::ReleasesTheCompleted),
        };
        if !open || !current {
            return Write::Fenced;
        }
        self.apply_release(record, reason);
        Write::Applied
    }

    fn repeats(&self, before: &Release, reason: &Release) -> bool {
        if self.has(Flaw::ComparesDelays) {
            before == reason
        } else {
            discriminant(before) == discriminant(reason)
        }
    }

    fn delay(&self, record: &mut Record, reason: &Release) {
        let Release::Failed { retry_after, .. } = reason else {
            return;
        };
        let from = match record.state {
            State::InProgress { lease_ends } if self.has(Flaw::DelaysFromTheEnd) => lease_ends,
            _ => self.now(),
        };
        let least = if self.has(Flaw::AlwaysDelays) {
            Duration::from_secs(1)
        } else {
            Duration::ZERO
        };
        record.not_before = record.not_before.max(from + (*retry_after).max(least));
    }

    fn apply_release(&self, record: &mut Record, reason: &Release) {
        record.written_at = self.now();
        match reason {
            Release::Failed { .. } => {
                record.in_doubt = false;
                if self.has(Flaw::ForgetsAttemptsOnFailure) {
                    record.attempts = 0;
                }
            }
            Release::Abandoned => {
                if !self.has(Flaw::CountsAbandoned) {
                    record.attempts = record.attempts.saturating_sub(1);
                }
                let tried = record.attempts > 0 && !record.in_doubt;
                if !tried && !self.has(Flaw::RemembersWhatWasAbandoned) {
                    record.fingerprint = None;
                }
                record.in_doubt &= !self.has(Flaw::AbandoningEndsDoubt);
            }
            Release::GaveUp { .. } => {
                record.in_doubt = false;
                if !self.has(Flaw::CountsOnAfterGivingUp) {
                    record.attempts = 0;
                }
                if !self.has(Flaw::RemembersWhatWasGivenUp) {
                    record.fingerprint = None;
                }
            }
            _ => {}
        }
        self.delay(record, reason);
        record.state = State::Released(reason.clone());
        if !self.has(Flaw::ReleasesAreNoWrites) {
            record.forget_at = self.now() + self.unit(record.retention);
        }
        if !self.has(Flaw::ForgetsTheDelayed) && record.not_before > self.now() {
            record.forget_at = record.not_before + self.unit(record.retention);
        }
    }

    fn as_stored(&self, outcome: &Outcome) -> Outcome {
        if self.has(Flaw::OutcomesAsText) {
            let text = String::from_utf8_lossy(outcome.as_bytes());
            Outcome::new(text.into_owned())
        } else {
            outcome.clone()
        }
    }
}
