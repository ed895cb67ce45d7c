//! One handler in one stream, the workers that would read it, and what the store tells them.

use std::time::Duration;

use idem_core::store::{Owner, StreamClaim, StreamLease, StreamStore, Write};

use super::{LEASE, Rule, Scene, StreamHarness};

/// A stream that no other case reads.
pub(super) struct Reader<'a, H> {
    pub(super) scene: Scene<'a, H>,
    rule: Rule,
}

impl<'a, H: StreamHarness> Reader<'a, H> {
    pub(super) fn new(harness: &'a H, rule: Rule) -> Self {
        Self {
            scene: Scene::new(harness, rule),
            rule,
        }
    }

    pub(super) async fn claim_by(&self, owner: Owner) -> StreamClaim {
        let (store, stream) = (self.scene.store(), self.scene.key());
        let claim = store.claim_stream(stream, owner, LEASE).await;
        self.rule.answer(claim)
    }

    /// A new worker gets the stream, with this mark.
    pub(super) async fn acquires(&self, mark: Option<u64>, why: &str) -> StreamLease {
        self.acquires_as(Owner::new(), mark, why).await
    }

    pub(super) async fn acquires_as(
        &self,
        owner: Owner,
        expected: Option<u64>,
        why: &str,
    ) -> StreamLease {
        let (lease, mark) = self.claims_as(owner, why).await;
        self.scene.holds(
            mark == expected,
            &format!("{why}: expected the mark {expected:?}, found {mark:?}"),
        );
        lease
    }

    /// A new worker gets the stream, and finds this mark.
    pub(super) async fn claims(&self, why: &str) -> Option<u64> {
        self.claims_as(Owner::new(), why).await.1
    }

    async fn claims_as(&self, owner: Owner, why: &str) -> (StreamLease, Option<u64>) {
        match self.claim_by(owner).await {
            StreamClaim::Acquired { lease, mark } => (lease, mark),
            held @ StreamClaim::Held { .. } => {
                self.scene.holds(false, &format!("{why}: {held:?}"));
                unreachable!("it is held")
            }
        }
    }

    /// A new worker is held off for so long.
    pub(super) async fn is_held(&self, expected: Duration, why: &str) {
        match self.claim_by(Owner::new()).await {
            StreamClaim::Held { remaining } => self.scene.lasts(remaining, expected, why),
            claim @ StreamClaim::Acquired { .. } => {
                self.scene.holds(false, &format!("{why}: {claim:?}"));
            }
        }
    }

    pub(super) async fn extends(
        &self,
        lease: &StreamLease,
        mark: impl Into<Option<u64>>,
        expected: Write,
        why: &str,
    ) {
        let store = self.scene.store();
        let written = store.extend_stream(lease, mark.into(), LEASE).await;
        self.wrote(self.rule.answer(written), expected, why);
    }

    pub(super) async fn releases(
        &self,
        lease: &StreamLease,
        mark: impl Into<Option<u64>>,
        expected: Write,
        why: &str,
    ) {
        let store = self.scene.store();
        let written = store.release_stream(lease, mark.into()).await;
        self.wrote(self.rule.answer(written), expected, why);
    }

    pub(super) async fn sets(&self, mark: Option<u64>) {
        let store = self.scene.store();
        let set = store.set_mark(self.scene.key(), mark).await;
        self.rule.answer(set);
    }

    fn wrote(&self, written: Write, expected: Write, why: &str) {
        self.scene.holds(
            written == expected,
            &format!("{why}: expected {expected:?}, the store answered {written:?}"),
        );
    }
}
