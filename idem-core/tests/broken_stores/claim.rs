//! What the plain store answers to a claim.

use std::time::Duration;

use idem_core::{
    FencingToken, Outcome,
    store::{Claim, ClaimRequest, Lease, Release},
};

use crate::{
    flaw::Flaw,
    record::{Record, State},
    store::PlainStore,
};

impl PlainStore {
    /// The record to write, if any, and the answer.
    pub(crate) fn decide(
        &self,
        old: Option<&Record>,
        request: &ClaimRequest,
        token: i64,
    ) -> (Option<Record>, Claim) {
        let Some(old) = old.filter(|record| !self.forgotten(record)) else {
            return self.acquire(request, token, (1, self.has(Flaw::AlwaysInDoubt)), None);
        };
        if old.owner == request.owner && self.has(Flaw::RepeatsTheCompleted) {
            return self.repeat(old, self.now(), request);
        }
        match &old.state {
            State::Completed(_) if request.replay && self.has(Flaw::ReplaysTheCompleted) => {
                self.acquire(request, token, (1, false), Some(old))
            }
            State::Completed(outcome) => self.answer_completed(old, outcome, request),
            State::InProgress { lease_ends } => {
                self.answer_in_progress(old, *lease_ends, request, token)
            }
            State::Released(reason) => self.answer_released(old, reason, request, token),
        }
    }

    fn answer_completed(
        &self,
        old: &Record,
        outcome: &Outcome,
        request: &ClaimRequest,
    ) -> (Option<Record>, Claim) {
        if self.differs(old, request) && !self.has(Flaw::DropsFingerprints) {
            return (None, Claim::KeyReused);
        }
        let remaining = old.forget_at.saturating_sub(self.now());
        let prolonged = self.has(Flaw::LookingProlongs).then(|| Record {
            forget_at: self.now() + old.retention,
            ..old.clone()
        });
        let outcome = outcome.clone();
        (prolonged, Claim::Completed { outcome, remaining })
    }

    fn answer_in_progress(
        &self,
        old: &Record,
        lease_ends: Duration,
        request: &ClaimRequest,
        token: i64,
    ) -> (Option<Record>, Claim) {
        let now = self.now();
        if old.owner == request.owner && !self.has(Flaw::HoldsOffItsOwner) {
            return self.repeat(old, lease_ends, request);
        }
        let over = lease_ends <= now && !(self.has(Flaw::HoldsAtZero) && lease_ends == now);
        let may_take_over = request.takes_over || self.has(Flaw::AlwaysTakesOver);
        if over && may_take_over && !self.has(Flaw::NeverTakesOver) {
            let mut counted = (old.attempts + 1, !self.has(Flaw::NeverInDoubt));
            if self.has(Flaw::ForgetsAttemptsOnTakeover) {
                counted.0 = 1;
            }
            if request.replay && !self.has(Flaw::CountsOnInReplay) {
                counted.0 = 1;
            }
            return self.acquire(request, token, counted, Some(old));
        }
        if self.has(Flaw::CallsClaimedWorkDone) {
            let remaining = old.forget_at.saturating_sub(now);
            let outcome = Outcome::default();
            return (None, Claim::Completed { outcome, remaining });
        }
        if self.differs(old, request) && self.has(Flaw::RefusesWhileInProgress) {
            return (None, Claim::KeyReused);
        }
        let remaining = lease_ends.saturating_sub(now);
        (None, Claim::Held { remaining })
    }

    fn repeat(
        &self,
        old: &Record,
        lease_ends: Duration,
        request: &ClaimRequest,
    ) -> (Option<Record>, Claim) {
        let mut record = old.clone();
        let asked = self.now() + request.lease;
        let lease_ends = if self.has(Flaw::RepeatShortens) {
            asked
        } else {
            asked.max(lease_ends)
        };
        record.state = State::InProgress { lease_ends };
        record.retention = request.retention;
        record.forget_at = self.forgets_claim_at(lease_ends, request.retention);
        if self.has(Flaw::CountsRepeats) {
            record.attempts += 1;
        }
        let token = FencingToken::new(record.token);
        let lease = Lease::new(request.key.clone(), token, record.attempts, record.in_doubt);
        (Some(record), Claim::Acquired(lease))
    }

    fn answer_released(
        &self,
        old: &Record,
        reason: &Release,
        request: &ClaimRequest,
        token: i64,
    ) -> (Option<Record>, Claim) {
        let remaining = Duration::ZERO;
        if old.owner == request.owner && !self.has(Flaw::AcquiresAfterRelease) {
            return (None, Claim::Held { remaining });
        }
        if self.has(Flaw::CallsFailedWorkDone) {
            let outcome = Outcome::default();
            return (None, Claim::Completed { outcome, remaining });
        }
        let quarantined = *reason == Release::Quarantined && !self.has(Flaw::RunsTheQuarantined);
        if quarantined && (!request.replay || self.has(Flaw::QuarantinesForEver)) {
            return (None, Claim::Quarantined);
        }
        let early = old.not_before > self.now() && !self.has(Flaw::RetriesEarly);
        if early && self.has(Flaw::HoldsOtherContentBeforeTheRetry) {
            return self.answer_early(old);
        }
        if !quarantined && self.differs(old, request) {
            return (None, Claim::KeyReused);
        }
        if early && (!request.replay || self.has(Flaw::DelaysReplays)) {
            return self.answer_early(old);
        }
        let counted = if request.replay && !self.has(Flaw::CountsOnInReplay) {
            (1, old.in_doubt && !quarantined)
        } else {
            (
                old.attempts + 1,
                old.in_doubt || self.has(Flaw::AlwaysInDoubt),
            )
        };
        let clears = quarantined && !self.has(Flaw::RemembersWhatWasQuarantined);
        self.acquire(request, token, counted, (!clears).then_some(old))
    }

    fn answer_early(&self, old: &Record) -> (Option<Record>, Claim) {
        let counted = self.has(Flaw::CountsWhatIsEarly).then(|| Record {
            attempts: old.attempts + 1,
            ..old.clone()
        });
        let remaining = old.not_before.saturating_sub(self.now());
        (counted, Claim::Held { remaining })
    }

    fn acquire(
        &self,
        request: &ClaimRequest,
        token: i64,
        (attempts, in_doubt): (u32, bool),
        old: Option<&Record>,
    ) -> (Option<Record>, Claim) {
        let known = old.and_then(|old| old.fingerprint);
        let known = known.filter(|_| !self.has(Flaw::ForgetsContent));
        let kept = old.filter(|_| self.has(Flaw::KeepsTheOldLease));
        let lease = kept.map_or(request.lease, |old| old.lease);
        let lease_ends = self.now() + lease;
        let record = Record {
            token,
            attempts,
            in_doubt,
            owner: request.owner,
            fingerprint: request.fingerprint.or(known),
            retention: request.retention,
            forget_at: self.forgets_claim_at(lease_ends, request.retention),
            created_at: self.now(),
            written_at: self.now(),
            lease,
            not_before: old
                .filter(|_| self.has(Flaw::KeepsTheDelay))
                .map_or(Duration::ZERO, |old| old.not_before),
            state: State::InProgress { lease_ends },
        };
        let token = FencingToken::new(token);
        let lease = Lease::new(request.key.clone(), token, attempts, in_doubt);
        (Some(record), Claim::Acquired(lease))
    }
}
