//! The stage of a case: a store, a key of its own, a clock, and the rule in question.

use std::{sync::Arc, time::Duration};

use idem_core::{
    handler::{FencingToken, Policy},
    message::Key,
    store::{ClaimRequest, Lease, Release},
};

use super::{
    Harness, Rule,
    claimant::Claimant,
    holder::{Holder, RETENTION},
};

/// The lease that claims ask for unless a case says otherwise.
pub(super) const LEASE: Duration = Duration::from_mins(1);
/// One case: the rule it is about and a key that no other case has.
pub(super) struct Scene<'a, H> {
    pub(super) harness: &'a H,
    rule: Rule,
    key: Key,
}

impl<'a, H: Harness> Scene<'a, H> {
    pub(super) fn new(harness: &'a H, rule: Rule) -> Self {
        Self {
            harness,
            rule,
            key: key(&unique()),
        }
    }

    pub(super) fn rule(&self) -> Rule {
        self.rule
    }

    pub(super) fn key(&self) -> &Key {
        &self.key
    }

    /// A new owner that asks for this case's key.
    pub(super) fn claimant(&self) -> Claimant<H::Store> {
        self.claimant_of(self.key.clone())
    }

    /// A new owner that asks for another key.
    pub(super) fn claimant_of(&self, key: Key) -> Claimant<H::Store> {
        let mut request = ClaimRequest::new(key, &Policy::DEFAULT);
        request.lease = LEASE;
        request.retention = RETENTION;
        Claimant::new(self.store(), request, self.rule)
    }

    /// A new owner that gets this case's key, which must be free.
    pub(super) async fn acquired(&self) -> Holder<H::Store> {
        let answer = self.claimant().claim().await;
        answer.is_acquired("the key is free at this point")
    }

    /// One who has this lease, through another handle.
    pub(super) fn holder_of(&self, lease: Lease) -> Holder<H::Store> {
        Holder::new(self.store(), lease, self.rule)
    }

    /// A lease that the store never gave, under this token.
    pub(super) fn forged(&self, token: i64) -> Holder<H::Store> {
        let token = FencingToken::new(token);
        self.holder_of(Lease::new(self.key.clone(), token, 1, false))
    }

    /// Another handle on the store.
    pub(super) fn store(&self) -> Arc<H::Store> {
        Arc::new(self.harness.store())
    }

    pub(super) async fn advance(&self, by: Duration) {
        self.harness.advance(by).await;
    }

    /// Moves the clock to shortly before `by` from now.
    pub(super) async fn advance_nearly(&self, by: Duration) {
        self.advance(by.saturating_sub(H::CLOCK.slack())).await;
    }

    /// Checks a time that the store has told.
    #[track_caller]
    pub(super) fn lasts(&self, told: Duration, expected: Duration, why: &str) {
        let exact = told == expected;
        let close = expected
            .checked_sub(told)
            .is_some_and(|gap| gap < H::CLOCK.slack());
        let fine = match H::CLOCK {
            super::Clock::Paused => exact,
            super::Clock::Running => close,
        };
        self.holds(
            fine,
            &format!("{why}: expected {expected:?}, the store told {told:?}"),
        );
    }

    /// Checks anything else.
    #[track_caller]
    pub(super) fn holds(&self, fact: bool, why: &str) {
        assert!(fact, "{}\n  here: {why}", self.rule);
    }
}

/// A part that no other key has.
pub(super) fn unique() -> String {
    crate::unique_name()
}

/// A key of the suite's own scope.
pub(super) fn key(part: &str) -> Key {
    Key::new("conformance", part).expect("the part is not empty")
}

/// All four reasons to release.
pub(super) fn reasons() -> [Release; 4] {
    [
        Release::failed("it did not work"),
        Release::Abandoned,
        Release::gave_up("it will not work"),
        Release::Quarantined,
    ]
}
