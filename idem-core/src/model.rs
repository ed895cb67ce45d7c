//! The rules as values without clock or I/O, for model checkers: what a store keeps of a key, and
//! what a worker decides about its answers. Not part of the stable interface.

use std::{sync::Arc, time::Duration};

use crate::{
    executor::{Cause, Execution, ExecutionKind, NotRun, Objection, Requester, judge},
    handler::{Failed, FencingToken, Outcome, Policy},
    store::{
        Claim, ClaimRequest, Lease, Owner, Release, Write,
        rules::record::{self, Record, State, Step, micros},
    },
};

/// The clock stands still, and [`Kept::later`] moves what was written into the past: so states that
/// differ only in when they were reached are the same.
const NOW: i64 = 0;

/// What a store keeps of one key, and the calls that change it: the state machine behind
/// [`MemoryStore`](crate::MemoryStore). Retentions do not end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Kept(Option<Arc<Record>>);

impl Kept {
    /// [`Store::claim`](crate::Store::claim).
    pub fn claim(&mut self, request: &ClaimRequest) -> Claim {
        let step = record::claim(self.record(), request, NOW, 0);
        self.take(step)
    }

    /// [`Store::extend`](crate::Store::extend).
    pub fn extend(&mut self, token: FencingToken, by: Duration) -> Write {
        let step = record::extend(self.record(), token.get(), by, NOW);
        self.take(step)
    }

    /// [`Store::complete`](crate::Store::complete), remembered for ever.
    pub fn complete(&mut self, token: FencingToken, outcome: &Outcome) -> Write {
        let (record, retention) = (self.record(), Duration::MAX);
        let step = record::complete(record, token.get(), outcome, retention, NOW);
        self.take(step)
    }

    /// [`Store::release`](crate::Store::release).
    pub fn release(&mut self, token: FencingToken, reason: &Release) -> Write {
        let step = record::release(self.record(), token.get(), reason, NOW);
        self.take(step)
    }

    /// The clock moves on: a lease or a delay that ends meanwhile has ended just now.
    pub fn later(&mut self, by: Duration) {
        let earlier = |then: i64| then.saturating_sub(micros(by)).max(NOW);
        let Some(record) = &mut self.0 else {
            return;
        };
        match &mut Arc::make_mut(record).state {
            State::InProgress { lease_ends } => *lease_ends = earlier(*lease_ends),
            State::Failed { not_before, .. } => *not_before = not_before.map(earlier),
            State::Completed { .. } => {}
        }
    }

    /// The token and the owner of the last claim.
    pub fn last_claim(&self) -> Option<(FencingToken, Owner)> {
        let record = self.record()?;
        Some((FencingToken::new(record.token), record.owner))
    }

    /// The token under which the key is claimed, be the lease over or not.
    pub fn holder(&self) -> Option<FencingToken> {
        let record = self.record()?;
        matches!(record.state, State::InProgress { .. }).then(|| FencingToken::new(record.token))
    }

    /// Whether a lease or a delay has yet to end.
    pub fn is_waiting(&self) -> bool {
        match self.record().map(|record| &record.state) {
            Some(State::InProgress { lease_ends }) => *lease_ends > NOW,
            Some(State::Failed { not_before, .. }) => not_before.is_some_and(|due| due > NOW),
            Some(State::Completed { .. }) | None => false,
        }
    }

    /// Whether the work is done.
    pub fn is_completed(&self) -> bool {
        self.0
            .as_ref()
            .is_some_and(|record| matches!(record.state, State::Completed { .. }))
    }

    /// The same under another token and owner of the last claim. A model renames both, so that
    /// states that differ only in names are the same.
    pub fn rename(&mut self, token: FencingToken, owner: Owner) {
        if self.last_claim().is_none_or(|last| last == (token, owner)) {
            return;
        }
        if let Some(record) = &mut self.0 {
            let record = Arc::make_mut(record);
            record.token = token.get();
            record.owner = owner;
        }
    }

    fn take<A>(&mut self, step: Step<A>) -> A {
        if let Some(record) = step.write {
            self.0 = Some(Arc::new(record));
        }
        step.answer
    }

    fn record(&self) -> Option<&Record> {
        self.0.as_deref()
    }
}

/// How a claim that acquired nothing ends a message.
pub fn answered(answer: Claim) -> ExecutionKind {
    NotRun::Answered(answer)
        .into_execution::<(), Failed>(Requester::Nobody)
        .kind()
}

/// Why a worker gives a lease back unrun, and how that ends the message; `in_doubt` says whether
/// its mode knows doubt.
pub fn unrun(
    lease: &Lease,
    policy: &Policy,
    closed: bool,
    in_doubt: bool,
) -> Option<(Release, ExecutionKind)> {
    let objection = Objection::to(lease, policy, closed, in_doubt)?;
    let ended: Execution<(), Failed> = NotRun::from(objection).into_execution(Requester::Nobody);
    Some((objection.release(), ended.kind()))
}

/// What the store is told after a failed attempt, and how that ends the message.
pub fn failed(lease: &Lease, policy: &Policy, error: Failed) -> (Release, ExecutionKind) {
    let (reason, ended) = judge::<(), _>(Cause::Error(error), lease, policy);
    (reason, ended.kind())
}
