//! One who looks into the store and changes it by hand.

use std::time::Duration;

use idem_core::{
    handler::Outcome,
    store::{
        KeyRecord, Look, Looked,
        operator::{Action, AuditEntry, Intervened, Intervention, Listing, OperatorStore, Seen},
    },
};

use super::{LookHarness, OperatorHarness, RETENTION, Scene};

/// Who changes things in these cases.
pub(super) const BY: &str = "operator@ops-1";

impl<H: LookHarness> Scene<'_, H> {
    pub(super) async fn looked(&self) -> Option<Looked> {
        self.rule().answer(self.store().look(self.key()).await)
    }

    /// The record of this case's key, which must be there.
    pub(super) async fn record(&self) -> KeyRecord {
        let known = self.looked().await;
        let known = known.unwrap_or_else(|| panic!("{}\n  here: the key is not told", self.rule()));
        known.record
    }

    pub(super) async fn outcome(&self) -> Option<Outcome> {
        self.looked().await?.outcome
    }

    pub(super) async fn seen(&self) -> Option<Seen> {
        let known = self.looked().await;
        known.map(|known| known.record.seen())
    }

    /// Checks a time that has passed or is left, and may be told a little late.
    #[track_caller]
    pub(super) fn is_about(&self, told: Duration, expected: Duration, why: &str) {
        let gap = told.abs_diff(expected);
        let text = format!("{why}: expected {expected:?}, the store told {told:?}");
        self.holds(gap <= H::CLOCK.slack(), &text);
    }
}

impl<H: OperatorHarness> Scene<'_, H> {
    pub(super) async fn audit(&self) -> Vec<AuditEntry> {
        self.rule().answer(self.store().audit(self.key()).await)
    }

    /// Does this to the case's key as it is now.
    pub(super) async fn intervene(&self, action: Action) -> Intervened {
        let seen = self.seen().await;
        self.intervene_with(&self.intervention(action, seen)).await
    }

    pub(super) async fn intervene_with(&self, intervention: &Intervention) -> Intervened {
        self.rule()
            .answer(self.store().intervene(intervention).await)
    }

    pub(super) async fn applies(&self, action: Action) {
        let answer = self.intervene(action).await;
        self.is(answer, Intervened::Applied, "nobody else is at the key");
    }

    #[track_caller]
    pub(super) fn is(&self, answer: Intervened, expected: Intervened, why: &str) {
        let text = format!("{why}: expected {expected:?}, the store answered {answer:?}");
        self.holds(answer == expected, &text);
    }

    /// On this case's key. A completion is remembered like any other, and says `by hand`.
    pub(super) fn intervention(&self, action: Action, seen: Option<Seen>) -> Intervention {
        let key = self.key().clone();
        match action {
            Action::Release => Intervention::release(key, seen, BY),
            Action::Forget => Intervention::forget(key, seen, BY),
            Action::Complete => {
                Intervention::complete(key, seen, BY, Outcome::new("by hand"), RETENTION)
            }
            other => unreachable!("no case asks for {other:?}"),
        }
    }

    /// All pages of a listing.
    pub(super) async fn listed(&self, mut listing: Listing) -> Vec<KeyRecord> {
        let mut all = Vec::new();
        for _ in 0..10_000 {
            let page = self.rule().answer(self.store().list(&listing).await);
            all.extend(page.records);
            match page.next {
                Some(next) => listing = listing.after(next),
                None => return all,
            }
        }
        panic!("{}\n  here: the pages do not end", self.rule())
    }
}
