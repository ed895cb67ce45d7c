//! Runs an interleaving on a store and on the model side by side, and compares every answer. What
//! nobody may ever be told is checked beside that, without the model.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::BoxFuture;
use idem_core::{
    Outcome, Policy, Store, StoreError,
    handler::Answer,
    message::{SequenceKey, SequencePlace},
    store::{Claim, ClaimRequest, Lease, OutOfPlace, Owner, Release, Write},
};
use idem_testing::conformance::{Harness, SequenceHarness};
use proptest::{prelude::prop_assert, test_runner::TestCaseError};

use crate::compare::{Given, UNIT, at, known, lease_of, same, unique_key};

use super::{
    call::{Ask, Call, FIRST, LEASE, PATIENCE, REFUSED, RETENTION, WINDOW},
    oracle::{Expected, Message, Oracle},
};

/// How a store is told to forget. One that forgets by itself does so on its server's clock, which no
/// test can move.
pub(crate) type Purges<S> = Option<for<'a> fn(&'a S) -> BoxFuture<'a, Result<u32, StoreError>>>;

/// Runs the calls, in sequences of their own.
pub(crate) async fn run<H: SequenceHarness>(
    harness: &H,
    purges: Purges<H::Store>,
    calls: &[Call],
) -> Result<(), TestCaseError> {
    let mut run = Run::new(harness, purges);
    for (step, call) in calls.iter().enumerate() {
        at(step, call, run.step(call).await)?;
    }
    Ok(())
}

struct Run<'a, H: Harness> {
    harness: &'a H,
    purges: Purges<H::Store>,
    sequences: [SequenceKey; 2],
    owners: [Owner; 3],
    given: Vec<(Message, Lease)>,
    now: u32,
    /// When a number was done last.
    done: BTreeMap<Message, u32>,
    /// Which claims have ended with an outcome.
    ended: BTreeSet<(Message, i64)>,
    oracle: Oracle,
}

impl<'a, H: SequenceHarness> Run<'a, H> {
    fn new(harness: &'a H, purges: Purges<H::Store>) -> Self {
        let sequence = || SequenceKey::from(unique_key());
        Self {
            harness,
            purges,
            sequences: [sequence(), sequence()],
            owners: [Owner::new(), Owner::new(), Owner::new()],
            given: Vec::new(),
            now: 0,
            done: BTreeMap::new(),
            ended: BTreeSet::new(),
            oracle: Oracle::default(),
        }
    }

    async fn step(&mut self, call: &Call) -> Result<(), TestCaseError> {
        match *call {
            Call::Claim(ask) => self.claim(ask).await,
            Call::Complete { lease, outcome } => self.complete(lease, outcome).await,
            Call::Fail { lease } => self.release(lease, &Release::failed("no")).await,
            Call::GiveUp { lease } => self.release(lease, &Release::gave_up("no")).await,
            Call::Quarantine { lease } => self.release(lease, &Release::Quarantined).await,
            Call::Purge => {
                if let Some(purge) = self.purges {
                    while known(purge(&self.harness.store()).await)? == 100 {}
                    self.oracle.forget();
                }
                Ok(())
            }
            Call::Advance { by } => {
                self.harness.advance(by * UNIT).await;
                self.oracle.advance(by);
                self.now += by;
                Ok(())
            }
        }
    }

    async fn claim(&mut self, ask: Ask) -> Result<(), TestCaseError> {
        let number = self.number(ask);
        let message = (ask.producer, number);
        let sequence = self.sequences[usize::from(ask.producer)].clone();
        let place = SequencePlace::new(sequence, number)
            .window(WINDOW)
            .skip_after(ask.skips.then_some(PATIENCE * UNIT));
        let mut request = ClaimRequest::in_sequence(place, &Policy::DEFAULT)
            .owner(self.owners[usize::from(ask.owner)])
            .replay(ask.replay);
        request.lease = LEASE * UNIT;
        request.retention = RETENTION * UNIT;
        let answer = known(self.harness.store().claim(&request).await)?;
        self.check(message, &answer)?;
        let expected = self.oracle.claim(ask, number);
        prop_assert!(
            agrees(&expected, &answer),
            "number {number}: expected {expected:?}, the store answered {answer:?}"
        );
        self.oracle.note(ask, message, &answer);
        if let Claim::Acquired(lease) = answer {
            self.given.push((message, lease));
        }
        Ok(())
    }

    /// What was not done is never said to be, and what is done does not run again while it is
    /// remembered.
    fn check(&self, message: Message, answer: &Claim) -> Result<(), TestCaseError> {
        let done = self.done.get(&message);
        match answer {
            // It was told that nothing was done.
            Claim::Completed { outcome, .. } if outcome.as_bytes() == [REFUSED] => {}
            Claim::Completed { .. } => {
                prop_assert!(done.is_some(), "{message:?} was lost: {answer:?}");
            }
            Claim::Acquired(_) => prop_assert!(
                done.is_none_or(|done| done + RETENTION * 7 / 8 <= self.now),
                "{message:?} was done at {done:?}, and runs again at {}: {answer:?}",
                self.now
            ),
            _ => {}
        }
        Ok(())
    }

    async fn complete(&mut self, lease: Given, outcome: u8) -> Result<(), TestCaseError> {
        let Some((of, lease)) = lease_of(&self.given, lease) else {
            return Ok(());
        };
        let bytes = Outcome::new(vec![outcome]);
        let store = self.harness.store();
        let answer = known(store.complete(&lease, &bytes, RETENTION * UNIT).await)?;
        let first = answer == Write::Applied && self.ended.insert((of, lease.token.get()));
        if first && outcome != REFUSED {
            self.done.entry(of).or_insert(self.now);
        }
        same(self.oracle.complete(of, &lease, outcome), answer)
    }

    async fn release(&mut self, lease: Given, reason: &Release) -> Result<(), TestCaseError> {
        let Some((of, lease)) = lease_of(&self.given, lease) else {
            return Ok(());
        };
        let answer = known(self.harness.store().release(&lease, reason).await)?;
        let expected = match reason {
            Release::Quarantined => self.oracle.quarantine(of, &lease),
            Release::GaveUp { .. } => self.oracle.give_up(of, &lease),
            _ => self.oracle.fail(of, &lease),
        };
        same(expected, answer)
    }

    /// Counted from the lowest number that is not done, so that producers get ahead.
    fn number(&self, ask: Ask) -> u64 {
        let mut lowest = u64::from(FIRST);
        while self.done.contains_key(&(ask.producer, lowest)) {
            lowest += 1;
        }
        lowest.saturating_add_signed(ask.ahead.into())
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
        (Expected::Done, Claim::Completed { outcome, .. }) => {
            matches!(outcome.answer(), Answer::Forgotten(_))
        }
        (Expected::Ahead { mark }, Claim::OutOfPlace(OutOfPlace::Ahead { mark: told, window })) => {
            (mark, WINDOW) == (told, *window)
        }
        (Expected::Held, Claim::Held { .. })
        | (Expected::Quarantined, Claim::Quarantined)
        | (Expected::Late, Claim::OutOfPlace(OutOfPlace::Late)) => true,
        _ => false,
    }
}
