//! One who asks for a key, and what it is told.

use std::{sync::Arc, time::Duration};

use idem_core::{
    message::Fingerprint,
    store::{Claim, ClaimRequest, Owner, Store},
};

use super::{Rule, holder::Holder};

/// One owner, and what it asks for.
pub(super) struct Claimant<S> {
    pub(super) store: Arc<S>,
    pub(super) request: ClaimRequest,
    rule: Rule,
}

impl<S: Store> Claimant<S> {
    pub(super) fn new(store: Arc<S>, request: ClaimRequest, rule: Rule) -> Self {
        Self {
            store,
            request,
            rule,
        }
    }

    /// On behalf of an owner that there is already.
    pub(super) fn owner(mut self, owner: Owner) -> Self {
        self.request.owner = owner;
        self
    }

    /// With a fingerprint.
    pub(super) fn content(mut self, content: &str) -> Self {
        self.request.fingerprint = Some(Fingerprint::of(content.as_bytes()));
        self
    }

    pub(super) fn lease(mut self, lease: Duration) -> Self {
        self.request.lease = lease;
        self
    }

    /// For one that asks only for what its owner has.
    pub(super) fn taking_nothing_over(mut self) -> Self {
        self.request.takes_over = false;
        self
    }

    pub(super) fn retention(mut self, retention: Duration) -> Self {
        self.request.retention = retention;
        self
    }

    pub(super) fn replay(mut self) -> Self {
        self.request.replay = true;
        self
    }

    pub(super) async fn claim(&self) -> Answer<S> {
        let claim = self.store.claim(&self.request).await;
        Answer {
            store: Arc::clone(&self.store),
            claim: self.rule.answer(claim),
            rule: self.rule,
        }
    }

    /// The claim as it was answered, for cases that look at more than one answer.
    pub(super) async fn claim_plainly(self) -> Claim {
        self.claim().await.claim
    }
}

/// What a store answered to a claim.
pub(super) struct Answer<S> {
    store: Arc<S>,
    claim: Claim,
    rule: Rule,
}

impl<S: Store> Answer<S> {
    #[track_caller]
    pub(super) fn is_acquired(&self, why: &str) -> Holder<S> {
        self.lease().unwrap_or_else(|| self.is_not("Acquired", why))
    }

    /// The rest of the lease.
    #[track_caller]
    pub(super) fn is_held(&self, why: &str) -> Duration {
        match &self.claim {
            Claim::Held { remaining } => *remaining,
            _ => self.is_not("Held", why),
        }
    }

    /// The rest of the retention.
    #[track_caller]
    pub(super) fn is_completed(&self, expected: &[u8], why: &str) -> Duration {
        match &self.claim {
            Claim::Completed { outcome, remaining } if outcome.as_bytes() == expected => *remaining,
            _ => {
                let text = String::from_utf8_lossy(expected);
                self.is_not(&format!("Completed with {text:.40?}"), why)
            }
        }
    }

    /// The lease, if it was acquired.
    pub(super) fn lease(&self) -> Option<Holder<S>> {
        let Claim::Acquired(lease) = &self.claim else {
            return None;
        };
        Some(Holder::new(
            Arc::clone(&self.store),
            lease.clone(),
            self.rule,
        ))
    }

    /// As it was answered.
    pub(super) fn claim(&self) -> &Claim {
        &self.claim
    }

    pub(super) fn says_completed(&self) -> bool {
        matches!(self.claim, Claim::Completed { .. })
    }

    #[track_caller]
    pub(super) fn is_key_reused(&self, why: &str) {
        self.is(&Claim::KeyReused, why);
    }

    #[track_caller]
    pub(super) fn is_quarantined(&self, why: &str) {
        self.is(&Claim::Quarantined, why);
    }

    /// An answer that says no more than its name.
    #[track_caller]
    pub(super) fn is(&self, expected: &Claim, why: &str) {
        if self.claim != *expected {
            self.is_not(&format!("{expected:?}"), why);
        }
    }

    #[track_caller]
    pub(super) fn is_not(&self, expected: &str, why: &str) -> ! {
        let (rule, answer) = (self.rule, format!("{:?}", self.claim));
        panic!("{rule}\n  here: {why}\n  expected {expected}, the store answered {answer:.200}")
    }
}
