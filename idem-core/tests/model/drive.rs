//! Runs an interleaving on a store and on the model side by side, and compares every answer.

use std::time::Duration;

use idem_core::{
    Key, Outcome, Policy, Store,
    message::Fingerprint,
    store::{Claim, ClaimRequest, Lease, Owner},
};
use idem_testing::conformance::{Clock, Harness};
use proptest::{prelude::prop_assert, test_runner::TestCaseError};

use crate::{
    call::{Ask, Call},
    compare::{UNIT, at, known, lease_of, unique_key},
    forgets::Forgets,
    oracle::{Expected, Oracle, Token},
};

/// Runs the calls, on keys of their own.
pub(crate) async fn run<H: Harness>(
    harness: &H,
    forgets: &impl Forgets<H::Store>,
    calls: &[Call],
) -> Result<(), TestCaseError> {
    forget_everything(harness, forgets).await;
    let mut run = Run::new(harness, forgets);
    for (step, call) in calls.iter().enumerate() {
        at(step, call, run.step(call).await)?;
    }
    Ok(())
}

/// Purges are compared by number, so nothing may be left of runs before.
async fn forget_everything<H: Harness>(harness: &H, forgets: &impl Forgets<H::Store>) {
    harness.advance(1000 * UNIT).await;
    let store = harness.store();
    while let Some(removed) = forgets.purge(&store, 1000).await {
        if removed.expect("the store works") == 0 {
            break;
        }
    }
}

struct Run<'a, H, F> {
    harness: &'a H,
    forgets: &'a F,
    keys: [Key; 3],
    owners: [Owner; 4],
    given: Vec<(u8, Lease)>,
    oracle: Oracle,
}

impl<'a, H: Harness, F: Forgets<H::Store>> Run<'a, H, F> {
    fn new(harness: &'a H, forgets: &'a F) -> Self {
        Self {
            harness,
            forgets,
            keys: std::array::from_fn(|_| unique_key()),
            owners: std::array::from_fn(|_| Owner::new()),
            given: Vec::new(),
            oracle: Oracle::default(),
        }
    }

    async fn step(&mut self, call: &Call) -> Result<(), TestCaseError> {
        let store = self.harness.store();
        match *call {
            Call::Claim(ask) => self.claim(&store, &ask).await,
            Call::Extend { lease, by } => {
                let Some((key, lease)) = lease_of(&self.given, lease) else {
                    return Ok(());
                };
                let answer = known(store.extend(&lease, by * UNIT).await)?;
                let fine = self.oracle.extend(key, &lease, by, answer);
                judged(fine, &answer, &self.oracle)
            }
            Call::Complete {
                lease,
                outcome,
                retention,
            } => {
                let Some((key, lease)) = lease_of(&self.given, lease) else {
                    return Ok(());
                };
                let bytes = Outcome::new(vec![outcome]);
                let answer = store.complete(&lease, &bytes, retention * UNIT).await;
                let answer = known(answer)?;
                let done = (outcome, retention);
                let fine = self.oracle.complete(key, &lease, done, answer);
                judged(fine, &answer, &self.oracle)
            }
            Call::Release { lease, reason } => {
                let Some((key, lease)) = lease_of(&self.given, lease) else {
                    return Ok(());
                };
                let answer = store.release(&lease, &reason.release(UNIT)).await;
                let answer = known(answer)?;
                let fine = self.oracle.release(key, &lease, reason, answer);
                judged(fine, &answer, &self.oracle)
            }
            Call::Purge { batch } => {
                let Some(removed) = self.forgets.purge(&store, batch).await else {
                    return Ok(());
                };
                let removed = known(removed)?;
                let fine = self.oracle.purge(batch, removed);
                judged(fine, &removed, &self.oracle)
            }
            Call::Advance { by } => {
                self.harness.advance(by * UNIT).await;
                self.oracle.advance(by);
                Ok(())
            }
        }
    }

    async fn claim(&mut self, store: &H::Store, ask: &Ask) -> Result<(), TestCaseError> {
        let answer = known(store.claim(&self.request(ask)).await)?;
        let expected = self.oracle.expect(ask);
        prop_assert!(
            agrees::<H>(&expected, &answer),
            "expected {expected:?}, the store answered {answer:?}"
        );
        self.oracle.note(ask, &answer);
        if let Claim::Acquired(lease) = answer {
            self.given.push((ask.key, lease));
        }
        Ok(())
    }

    fn request(&self, ask: &Ask) -> ClaimRequest {
        let key = self.keys[usize::from(ask.key)].clone();
        let mut request = ClaimRequest::new(key, &Policy::DEFAULT)
            .owner(self.owners[usize::from(ask.owner)])
            .fingerprint(ask.content.map(|content| Fingerprint::of(&[content])))
            .replay(ask.replay);
        request.lease = ask.lease * UNIT;
        request.retention = ask.retention * UNIT;
        request
    }
}

fn agrees<H: Harness>(expected: &Expected, answer: &Claim) -> bool {
    match (expected, answer) {
        (
            Expected::Acquired {
                token,
                attempt,
                in_doubt,
            },
            Claim::Acquired(lease),
        ) => {
            let right = match *token {
                Token::Same(token) => lease.token.get() == token,
                Token::GreaterThan(token) => lease.token.get() > token,
            };
            right && lease.attempt == *attempt && lease.in_doubt == *in_doubt
        }
        (Expected::Held { remaining }, Claim::Held { remaining: told }) => {
            same_time::<H>(*remaining, *told)
        }
        (
            Expected::Completed { outcome, remaining },
            Claim::Completed {
                outcome: bytes,
                remaining: told,
            },
        ) => bytes.as_bytes() == [*outcome] && same_time::<H>(*remaining, *told),
        (Expected::KeyReused, Claim::KeyReused) | (Expected::Quarantined, Claim::Quarantined) => {
            true
        }
        _ => false,
    }
}

/// Exact on a paused clock; a running one may have moved a little in the meantime.
fn same_time<H: Harness>(expected: u32, told: Duration) -> bool {
    let expected = expected * UNIT;
    match H::CLOCK {
        Clock::Paused => told == expected,
        Clock::Running => told <= expected && told + UNIT / 2 > expected,
    }
}

fn judged(fine: bool, answer: &impl std::fmt::Debug, oracle: &Oracle) -> Result<(), TestCaseError> {
    prop_assert!(
        fine,
        "the store answered {answer:?}, the model is now at {oracle:#?}"
    );
    Ok(())
}
