//! What is kept of one key, and what each call comes to. Nothing here knows where it is kept.

use std::{mem::discriminant, time::Duration};

use idem_core::{
    FencingToken, Outcome,
    message::Fingerprint,
    store::{Claim, ClaimRequest, Lease, Owner, Release, Write},
};

/// Microseconds of the store's clock.
pub type Micros = i64;

/// One key's record.
#[derive(Debug, Clone)]
pub struct Record {
    /// Of the last claim. It stays when the lease ends, so that the next one is greater.
    token: i64,
    attempts: u32,
    in_doubt: bool,
    /// Of the last claim: the same owner gets the same answer again.
    owner: Owner,
    fingerprint: Option<Fingerprint>,
    /// How long the record lives after its last write.
    retention: Duration,
    forget_at: Micros,
    state: State,
}

#[derive(Debug, Clone)]
enum State {
    InProgress {
        lease_ends: Micros,
    },
    Completed {
        outcome: Outcome,
    },
    /// Given back; before `not_before` only a replay acquires.
    Failed {
        reason: Release,
        not_before: Micros,
    },
}

impl Record {
    /// The fencing token of the last claim.
    pub fn token(&self) -> FencingToken {
        FencingToken::new(self.token)
    }

    /// Whether its retention has ended.
    pub fn is_forgotten(&self, now: Micros) -> bool {
        self.forget_at <= now
    }

    /// The answer to a claim, and the record to write, if it was acquired.
    pub fn claim(
        old: Option<&Self>,
        request: &ClaimRequest,
        now: Micros,
        floor: i64,
    ) -> (Claim, Option<Self>) {
        // Greater than the key's last one, than every purged one, and than the time, which is all that is
        // left of a record that was lost.
        let token = old
            .map_or(floor, |old| old.token.max(floor))
            .saturating_add(1)
            .max(now);
        let first = (1, false, request.fingerprint);
        let Some(old) = old.filter(|old| !old.is_forgotten(now)) else {
            return Self::acquired(request, token, first, now);
        };
        let attempts = if request.replay { 1 } else { old.attempts + 1 };
        let fingerprint = request.fingerprint.or(old.fingerprint);
        let answer = match &old.state {
            State::Completed { .. } if old.is_other_content(request) => Claim::KeyReused,
            State::Completed { outcome } => Claim::Completed {
                outcome: outcome.clone(),
                remaining: until(old.forget_at, now),
            },
            // The owner did not hear the answer. It keeps its token and its attempt.
            State::InProgress { lease_ends } if old.owner == request.owner => {
                return old.acquired_again(request, *lease_ends, now);
            }
            State::InProgress { lease_ends } if *lease_ends > now => Claim::Held {
                remaining: until(*lease_ends, now),
            },
            // It may still complete, and this claim takes nothing over.
            State::InProgress { .. } if !request.takes_over => Claim::Held {
                remaining: Duration::ZERO,
            },
            // Its worker went silent: nobody knows what it did.
            State::InProgress { .. } => {
                return Self::acquired(request, token, (attempts, true, fingerprint), now);
            }
            // Its lease was ended: this may be a late copy of its claim.
            State::Failed { .. } if old.owner == request.owner => Claim::Held {
                remaining: Duration::ZERO,
            },
            State::Failed {
                reason: Release::Quarantined,
                ..
            } if request.replay => {
                return Self::acquired(request, token, first, now);
            }
            State::Failed {
                reason: Release::Quarantined,
                ..
            } => Claim::Quarantined,
            State::Failed { .. } if old.is_other_content(request) => Claim::KeyReused,
            State::Failed { not_before, .. } if *not_before > now && !request.replay => {
                Claim::Held {
                    remaining: until(*not_before, now),
                }
            }
            State::Failed { .. } => {
                return Self::acquired(request, token, (attempts, old.in_doubt, fingerprint), now);
            }
        };
        (answer, None)
    }

    fn acquired(
        request: &ClaimRequest,
        token: i64,
        (attempts, in_doubt, fingerprint): (u32, bool, Option<Fingerprint>),
        now: Micros,
    ) -> (Claim, Option<Self>) {
        let record = Self {
            token,
            attempts,
            in_doubt,
            owner: request.owner,
            fingerprint,
            retention: request.retention,
            forget_at: 0,
            state: State::InProgress { lease_ends: now },
        };
        record.acquired_again(request, now, now)
    }

    fn acquired_again(
        &self,
        request: &ClaimRequest,
        lease_ends: Micros,
        now: Micros,
    ) -> (Claim, Option<Self>) {
        let lease_ends = lease_ends.max(after(now, request.lease));
        let record = Self {
            retention: request.retention,
            forget_at: after(lease_ends, request.retention),
            state: State::InProgress { lease_ends },
            ..self.clone()
        };
        let lease = Lease::new(
            request.key.clone(),
            record.token(),
            record.attempts,
            record.in_doubt,
        );
        (Claim::Acquired(lease), Some(record))
    }

    fn is_other_content(&self, request: &ClaimRequest) -> bool {
        matches!(
            (self.fingerprint, request.fingerprint),
            (Some(kept), Some(asked)) if kept != asked
        )
    }

    /// Makes the lease end `by` from now.
    pub fn extend(&mut self, by: Duration, now: Micros) -> Write {
        let State::InProgress { lease_ends } = &mut self.state else {
            return Write::Fenced;
        };
        *lease_ends = after(now, by);
        self.forget_at = after(*lease_ends, self.retention);
        Write::Applied
    }

    /// Remembers the outcome. To repeat that is harmless.
    pub fn complete(&mut self, outcome: &Outcome, retention: Duration, now: Micros) -> Write {
        match self.state {
            State::InProgress { .. } => {
                self.retention = retention;
                self.forget_at = after(now, retention);
                self.state = State::Completed {
                    outcome: outcome.clone(),
                };
                Write::Applied
            }
            State::Completed { .. } => Write::Applied,
            State::Failed { .. } => Write::Fenced,
        }
    }

    /// Gives the key back. To repeat that is harmless.
    pub fn release(&mut self, reason: &Release, now: Micros) -> Write {
        match &self.state {
            State::InProgress { .. } => {}
            State::Failed { reason: before, .. }
                if discriminant(before) == discriminant(reason) =>
            {
                return Write::Applied;
            }
            State::Failed { .. } | State::Completed { .. } => return Write::Fenced,
        }
        let mut not_before = now;
        match reason {
            Release::Failed { retry_after, .. } => {
                self.in_doubt = false;
                not_before = after(now, *retry_after);
            }
            Release::Abandoned => {
                self.attempts = self.attempts.saturating_sub(1);
                // Nothing of this content ran, so other content may come instead.
                if self.attempts == 0 || self.in_doubt {
                    self.fingerprint = None;
                }
            }
            Release::GaveUp { .. } => {
                (self.attempts, self.in_doubt, self.fingerprint) = (0, false, None);
            }
            // Quarantined; or a reason that a later version of the contract adds, which has to be
            // looked up in its changelog.
            _ => {}
        }
        self.forget_at = after(not_before, self.retention);
        self.state = State::Failed {
            reason: reason.clone(),
            not_before,
        };
        Write::Applied
    }
}

/// A duration, as long as can be for one that is longer.
pub fn micros(duration: Duration) -> Micros {
    Micros::try_from(duration.as_micros()).unwrap_or(Micros::MAX)
}

fn after(then: Micros, duration: Duration) -> Micros {
    then.saturating_add(micros(duration))
}

fn until(then: Micros, now: Micros) -> Duration {
    Duration::from_micros(u64::try_from(then.saturating_sub(now)).unwrap_or(0))
}
