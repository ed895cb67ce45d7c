//! The store: the rules that the real ones keep, and the flaws that they must not have.

use std::{sync::LazyLock, time::Duration};

use idem_core::{
    FencingToken, Key, Outcome, Policy,
    model::Kept,
    store::{Claim, ClaimRequest, Lease, Owner, Write},
};

use crate::{Ask, Breach, Call, Flaw, Grant, Protocol, Reason, World};

/// What a store has answered.
#[derive(Debug)]
pub(crate) enum Answer {
    Claim(Claim),
    Write(Write),
}

/// How long a lease and the delay after a failure are: one stroke of the clock.
pub(crate) const LEASE: Duration = Duration::from_secs(1);

static REQUEST: LazyLock<ClaimRequest> = LazyLock::new(|| {
    let key = Key::new("protocol", "message").expect("it is a valid key");
    let mut request = ClaimRequest::new(key, &Policy::DEFAULT);
    request.lease = LEASE;
    request.retention = Duration::MAX;
    request
});

static OUTCOME: LazyLock<Outcome> = LazyLock::new(Outcome::default);

impl Protocol {
    /// Carries a call out, and notes what must not come of it.
    pub(crate) fn apply(&self, world: &mut World, call: Call) -> Answer {
        let message = &mut world.messages[call.message];
        let before = message.kept.clone();
        let kept = &mut message.kept;
        let answer = match call.ask {
            Ask::Claim(owner) => Answer::Claim(self.claim(kept, owner)),
            Ask::Extend(token) => Answer::Write(kept.extend(self.fence(kept, token), LEASE)),
            Ask::Complete(_) if self.has(Flaw::RepeatIsRefused) && kept.is_completed() => {
                Answer::Write(Write::Fenced)
            }
            Ask::Complete(token) => Answer::Write(kept.complete(self.fence(kept, token), &OUTCOME)),
            Ask::Release(token, reason) => {
                Answer::Write(kept.release(self.fence(kept, token), &reason.into()))
            }
            Ask::Commit(token) => {
                let committed = self.commit(kept, token);
                if committed == Write::Applied {
                    message.effects = (message.effects + 1).min(2);
                }
                Answer::Write(committed)
            }
        };
        // After the last attempt it is a person who is told, by the dead letter.
        let gave_up = call.ask.reason() == Some(Reason::GaveUp) && *kept != before;
        message.untold &= !gave_up;
        if let Some(breach) = breach(call.ask, &before, &message.kept, &answer) {
            world.breaches.insert(breach);
        }
        answer
    }

    fn claim(&self, kept: &mut Kept, owner: u8) -> Claim {
        let request = REQUEST.clone().owner(owner_named(owner));
        let before = kept.clone();
        if self.has(Flaw::EndedOwnerAcquires) && has_ended(kept, owner) {
            forget_owner(kept);
        }
        if self.has(Flaw::LeaseIsIgnored) {
            kept.later(LEASE);
        }
        match kept.claim(&request) {
            Claim::Acquired(lease) => Claim::Acquired(self.acquired_after(&before, kept, lease)),
            answer if self.has(Flaw::EndedOwnerAcquires) => {
                *kept = before;
                answer
            }
            answer => answer,
        }
    }

    /// Where a lease was taken over, it may be broken.
    fn acquired_after(&self, before: &Kept, kept: &mut Kept, mut lease: Lease) -> Lease {
        let (Some(taken), Some((_, owner))) = (before.holder(), kept.last_claim()) else {
            return lease;
        };
        if lease.token == taken {
            return lease;
        }
        if self.has(Flaw::TakeoverKeepsToken) {
            kept.rename(taken, owner);
            lease.token = taken;
        }
        lease.in_doubt &= !self.has(Flaw::TakeoverWithoutDoubt);
        lease
    }

    /// The completion is the last statement of the handler's transaction: if it changes nothing,
    /// all is rolled back.
    fn commit(&self, kept: &mut Kept, token: FencingToken) -> Write {
        if self.has(Flaw::NoFencing) {
            let _ = kept.complete(self.fence(kept, token), &OUTCOME);
            return Write::Applied;
        }
        if kept.holder() == Some(token) {
            kept.complete(token, &OUTCOME)
        } else {
            Write::Fenced
        }
    }

    /// The token that a write is compared by.
    fn fence(&self, kept: &Kept, token: FencingToken) -> FencingToken {
        if self.has(Flaw::NoFencing) {
            kept.holder().unwrap_or(token)
        } else {
            token
        }
    }
}

/// What a call must never come to.
fn breach(ask: Ask, before: &Kept, after: &Kept, answer: &Answer) -> Option<Breach> {
    match (ask, answer) {
        (Ask::Claim(owner), Answer::Claim(claim)) => breach_of_claim(before, owner, claim),
        (_, Answer::Write(write)) => {
            let token = ask.token()?;
            let is_current = *write == Write::Applied && before.holder() == Some(token);
            if before != after && !is_current {
                return Some(Breach::StaleWrite);
            }
            let last = before.last_claim().map(|(token, _)| token);
            let is_repeated = matches!(ask, Ask::Complete(_)) && before.is_completed();
            let is_denied = is_repeated && last == Some(token) && *write == Write::Fenced;
            is_denied.then_some(Breach::Denied)
        }
        (_, Answer::Claim(_)) => unreachable!("only a claim is answered so"),
    }
}

fn breach_of_claim(before: &Kept, owner: u8, claim: &Claim) -> Option<Breach> {
    let given = match claim {
        Claim::Acquired(lease) => Some(lease.token),
        _ => None,
    };
    let holder = before.holder();
    if holder.is_some() && is_last(before, owner) {
        return (given != holder).then_some(Breach::Denied);
    }
    given?;
    if has_ended(before, owner) {
        Some(Breach::AcquiredAgain)
    } else if before.is_waiting() {
        Some(Breach::AcquiredTooEarly)
    } else {
        None
    }
}

fn is_last(kept: &Kept, owner: u8) -> bool {
    let last = kept.last_claim().map(|(_, owner)| owner);
    last == Some(owner_named(owner))
}

/// Whether the key's last lease was this owner's, and has been ended without a completion.
fn has_ended(kept: &Kept, owner: u8) -> bool {
    is_last(kept, owner) && kept.holder().is_none() && !kept.is_completed()
}

/// Nobody has this name.
fn forget_owner(kept: &mut Kept) {
    if let Some((token, _)) = kept.last_claim() {
        kept.rename(token, owner_named(u8::MAX));
    }
}

impl Grant {
    pub(crate) fn lease(&self) -> Lease {
        Lease::new(REQUEST.key.clone(), self.token, self.attempt, self.in_doubt)
    }
}

/// Owners are small numbers here.
pub(crate) fn owner_named(number: u8) -> Owner {
    Owner::from_bytes([number; 16])
}

pub(crate) fn number_of(owner: Owner) -> u8 {
    owner.as_bytes()[0]
}
