//! One who has a lease, or had it, and what comes of its writes.

use std::{sync::Arc, time::Duration};

use idem_core::{
    handler::Outcome,
    store::{Lease, Release, Store, StoreError, Write},
};

use super::Rule;

/// The retention that claims and completions ask for unless a case says otherwise.
pub(super) const RETENTION: Duration = Duration::from_hours(72);

/// One who has, or had, a lease.
pub(super) struct Holder<S> {
    store: Arc<S>,
    pub(super) lease: Lease,
    rule: Rule,
}

impl<S: Store> Holder<S> {
    pub(super) fn new(store: Arc<S>, lease: Lease, rule: Rule) -> Self {
        Self { store, lease, rule }
    }

    pub(super) fn token(&self) -> i64 {
        self.lease.token.get()
    }

    pub(super) async fn extend(&self, by: Duration) -> Written {
        Written::new(self.store.extend(&self.lease, by).await, self.rule)
    }

    pub(super) async fn complete(&self, outcome: impl Into<Vec<u8>>) -> Written {
        self.complete_for(outcome, RETENTION).await
    }

    pub(super) async fn complete_for(
        &self,
        outcome: impl Into<Vec<u8>>,
        retention: Duration,
    ) -> Written {
        let outcome = Outcome::new(outcome.into());
        let write = self.store.complete(&self.lease, &outcome, retention).await;
        Written::new(write, self.rule)
    }

    pub(super) async fn release(&self, reason: &Release) -> Written {
        Written::new(self.store.release(&self.lease, reason).await, self.rule)
    }

    /// Releases as failed, which must take effect.
    pub(super) async fn fails(&self) {
        let written = self.release(&Release::failed("it did not work")).await;
        written.is_applied("the holder says that it failed");
    }

    /// Releases as failed, to be retried after this delay, which must take effect.
    pub(super) async fn fails_for(&self, delay: Duration) {
        let failed = Release::retry_after(delay, "it did not work");
        let written = self.release(&failed).await;
        written.is_applied("the holder says that it failed");
    }

    /// Which attempt this is, and whether the one before is in doubt.
    #[track_caller]
    pub(super) fn is_attempt(&self, number: u32, in_doubt: bool, why: &str) {
        let told = (self.lease.attempt, self.lease.in_doubt);
        assert!(
            told == (number, in_doubt),
            "{}\n  here: {why}\n  expected (attempt, in doubt) {:?}, the store answered {told:?}",
            self.rule,
            (number, in_doubt),
        );
    }
}

/// What a store answered to a write.
#[must_use]
pub(super) struct Written {
    write: Write,
    rule: Rule,
}

impl Written {
    #[track_caller]
    fn new(write: Result<Write, StoreError>, rule: Rule) -> Self {
        Self {
            write: rule.answer(write),
            rule,
        }
    }

    #[track_caller]
    pub(super) fn is_applied(&self, why: &str) {
        self.is(Write::Applied, why);
    }

    #[track_caller]
    pub(super) fn is_fenced(&self, why: &str) {
        self.is(Write::Fenced, why);
    }

    pub(super) fn was_applied(&self) -> bool {
        self.write == Write::Applied
    }

    #[track_caller]
    fn is(&self, expected: Write, why: &str) {
        let Self { write, rule } = *self;
        assert!(
            write == expected,
            "{rule}\n  here: {why}\n  expected {expected:?}, the store answered {write:?}"
        );
    }
}
