//! Runs an interleaving on a store and on the model side by side, and compares every answer.

use idem_core::{
    Key, Outcome, Policy, Store,
    message::{SessionKey, SessionPlace},
    store::{Claim, ClaimRequest, Lease, OpenSession, OutOfPlace, Owner, Release, SessionStore},
};
use idem_testing::conformance::SessionHarness;
use proptest::{prelude::prop_assert, test_runner::TestCaseError};

use crate::compare::{UNIT, at, known, lease_of, same, unique_key};

use super::{
    call::{Ask, Call, LEASE, LIFE, WINDOW},
    oracle::{Expected, Oracle},
};

/// How a store forgets sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Forgets {
    WhenTold,
    ByItself,
}

/// Runs the calls, in sessions of their own.
pub(crate) async fn run<H: SessionHarness>(
    harness: &H,
    forgets: Forgets,
    calls: &[Call],
) -> Result<(), TestCaseError> {
    // Removals are compared by number, so nothing may be left of runs before.
    harness.advance(1000 * UNIT).await;
    while known(harness.store().expire(1000).await)? > 0 {}
    let mut run = Run::new(harness, forgets);
    for (step, call) in calls.iter().enumerate() {
        at(step, call, run.step(call).await)?;
    }
    Ok(())
}

struct Run<'a, H> {
    harness: &'a H,
    forgets: Forgets,
    sessions: [SessionKey; 2],
    owners: [Owner; 3],
    given: Vec<((u8, u8), Lease)>,
    oracle: Oracle,
}

impl<'a, H: SessionHarness> Run<'a, H> {
    fn new(harness: &'a H, forgets: Forgets) -> Self {
        let session = || SessionKey::from(unique_key());
        Self {
            harness,
            forgets,
            sessions: [session(), session()],
            owners: [Owner::new(), Owner::new(), Owner::new()],
            given: Vec::new(),
            oracle: Oracle::new(forgets == Forgets::ByItself),
        }
    }

    async fn step(&mut self, call: &Call) -> Result<(), TestCaseError> {
        let store = self.harness.store();
        match *call {
            Call::Open { client } => {
                let opening = OpenSession::new(Key::new("model", "any").expect("it is short"));
                let mut opening = opening.window(WINDOW).life(LIFE * UNIT);
                opening.session = self.session(client);
                let answer = known(store.open(&opening).await)?;
                same(self.oracle.open(client), answer)
            }
            Call::Touch { client } => {
                let answer = known(store.touch(&self.session(client)).await)?;
                same(self.oracle.touch(client), answer)
            }
            Call::Close { client } => {
                known(store.close(&self.session(client)).await)?;
                self.oracle.close(client);
                Ok(())
            }
            Call::Claim(ask) => self.claim(&store, &ask).await,
            Call::Complete { lease, outcome } => {
                let Some((of, lease)) = lease_of(&self.given, lease) else {
                    return Ok(());
                };
                let bytes = Outcome::new(vec![outcome]);
                let answer = store.complete(&lease, &bytes, Policy::DEFAULT.retention());
                let answer = known(answer.await)?;
                same(self.oracle.complete(of, &lease, outcome), answer)
            }
            Call::Fail { lease } => {
                let Some((of, lease)) = lease_of(&self.given, lease) else {
                    return Ok(());
                };
                let answer = known(store.release(&lease, &Release::failed("no")).await)?;
                same(self.oracle.fail(of, &lease), answer)
            }
            Call::Expire => match self.forgets {
                Forgets::ByItself => same(0, known(store.expire(100).await)?),
                Forgets::WhenTold => {
                    let removed = known(store.expire(100).await)?;
                    same(self.oracle.expire(), removed)
                }
            },
            Call::Advance { by } => {
                self.harness.advance(by * UNIT).await;
                self.oracle.advance(by);
                Ok(())
            }
        }
    }

    async fn claim(&mut self, store: &H::Store, ask: &Ask) -> Result<(), TestCaseError> {
        let place = SessionPlace::new(
            self.session(ask.client),
            ask.number.into(),
            ask.awaited.into(),
        );
        let mut request = ClaimRequest::in_session(place, &Policy::DEFAULT)
            .owner(self.owners[usize::from(ask.owner)]);
        request.lease = LEASE * UNIT;
        let answer = known(store.claim(&request).await)?;
        let expected = self.oracle.claim(*ask);
        prop_assert!(
            agrees(&expected, &answer),
            "expected {expected:?}, the store answered {answer:?}"
        );
        self.oracle.note(*ask, &answer);
        if let Claim::Acquired(lease) = answer {
            self.given.push(((ask.client, ask.number), lease));
        }
        Ok(())
    }

    fn session(&self, client: u8) -> SessionKey {
        self.sessions[usize::from(client)].clone()
    }
}

fn agrees(expected: &Expected, answer: &Claim) -> bool {
    match (expected, answer) {
        (
            Expected::Acquired {
                token,
                attempt,
                in_doubt,
            },
            Claim::Acquired(lease),
        ) => {
            token.is_none_or(|token| token == lease.token.get())
                && (lease.attempt, lease.in_doubt) == (*attempt, *in_doubt)
        }
        (Expected::Completed(expected), Claim::Completed { outcome, .. }) => {
            outcome.as_bytes() == [*expected]
        }
        (Expected::Beyond, Claim::OutOfPlace(OutOfPlace::BeyondWindow { window })) => {
            *window == WINDOW
        }
        (Expected::Held, Claim::Held { .. })
        | (Expected::Stale, Claim::OutOfPlace(OutOfPlace::Stale))
        | (Expected::Expired, Claim::OutOfPlace(OutOfPlace::SessionExpired)) => true,
        _ => false,
    }
}
