//! One client of a store that keeps sessions, and what comes of its requests.

use std::time::Duration;

use idem_core::{
    handler::Policy,
    message::{SessionKey, SessionPlace},
    store::{Claim, ClaimRequest, OpenSession, Opened, OutOfPlace, SessionStore, Touched},
};

use super::{
    LEASE, RETENTION, Rule, Scene, SessionHarness,
    claimant::{Answer, Claimant},
    holder::Holder,
    scene::{key, unique},
};

/// How long sessions live unless a case says otherwise.
pub(super) const LIFE: Duration = Duration::from_mins(5);
/// How many of their numbers may be in use.
pub(super) const WINDOW: u32 = 5;

/// A client that has a session of its own.
pub(super) struct Client<'a, H> {
    pub(super) scene: Scene<'a, H>,
    pub(super) session: SessionKey,
    rule: Rule,
}

impl<'a, H: SessionHarness> Client<'a, H> {
    /// One whose session nobody has opened.
    pub(super) fn unknown(harness: &'a H, rule: Rule) -> Self {
        Self {
            scene: Scene::new(harness, rule),
            session: key(&unique()).into(),
            rule,
        }
    }

    /// One whose session has just begun.
    pub(super) async fn new(harness: &'a H, rule: Rule) -> Self {
        let client = Self::unknown(harness, rule);
        client.opens(&client.opening(), Opened::New).await;
        client
    }

    /// What it opens its session with.
    pub(super) fn opening(&self) -> OpenSession {
        OpenSession::new(self.session.clone())
            .window(WINDOW)
            .life(LIFE)
    }

    pub(super) async fn opens(&self, opening: &OpenSession, expected: Opened) {
        let opened = self.rule.answer(self.scene.store().open(opening).await);
        self.scene.holds(
            opened == expected,
            &format!("opening: expected {expected:?}, the store answered {opened:?}"),
        );
    }

    /// A new owner with a request of this number.
    pub(super) fn asks(&self, number: u64, awaited: u64) -> Claimant<H::Store> {
        let place = SessionPlace::new(self.session.clone(), number, awaited);
        let mut request = ClaimRequest::in_session(place, &Policy::DEFAULT);
        request.lease = LEASE;
        request.retention = RETENTION;
        Claimant::new(self.scene.store(), request, self.rule)
    }

    pub(super) async fn claim(&self, number: u64, awaited: u64) -> Answer<H::Store> {
        self.asks(number, awaited).claim().await
    }

    /// A new owner that gets this number, which must be free.
    pub(super) async fn acquires(&self, number: u64, awaited: u64) -> Holder<H::Store> {
        let answer = self.claim(number, awaited).await;
        answer.is_acquired(&format!("number {number} is free at this point"))
    }

    /// Works on a number; the outcome is the number.
    pub(super) async fn works(&self, number: u64, awaited: u64) -> Holder<H::Store> {
        let holder = self.acquires(number, awaited).await;
        let written = holder.complete(number.to_string()).await;
        written.is_applied("it is the holder");
        holder
    }

    /// Asks for an answer that must be there.
    pub(super) async fn hears(&self, number: u64, awaited: u64, why: &str) {
        let answer = self.claim(number, awaited).await;
        answer.is_completed(number.to_string().as_bytes(), why);
    }

    pub(super) async fn touches(&self, expected: Touched, why: &str) {
        let touched = self
            .rule
            .answer(self.scene.store().touch(&self.session).await);
        self.scene.holds(
            touched == expected,
            &format!("{why}: expected {expected:?}, the store answered {touched:?}"),
        );
    }

    pub(super) async fn closes(&self) {
        self.rule
            .answer(self.scene.store().close(&self.session).await);
    }

    /// Lets the store remove whatever it removes, of this client's and of others.
    pub(super) async fn all_that_ended_is_removed(&self) {
        while self.rule.answer(self.scene.store().expire(100).await) == 100 {}
    }

    /// Moves the clock until the session may be removed, and lets the store remove it.
    pub(super) async fn is_gone(&self) {
        self.scene.advance(2 * LIFE).await;
        self.all_that_ended_is_removed().await;
    }
}

impl<S: idem_core::store::Store> Answer<S> {
    #[track_caller]
    pub(super) fn is_stale(&self, why: &str) {
        self.is(&Claim::OutOfPlace(OutOfPlace::Stale), why);
    }

    #[track_caller]
    pub(super) fn is_expired(&self, why: &str) {
        self.is(&Claim::OutOfPlace(OutOfPlace::SessionExpired), why);
    }

    #[track_caller]
    pub(super) fn is_beyond(&self, why: &str) {
        self.is(
            &Claim::OutOfPlace(OutOfPlace::BeyondWindow { window: WINDOW }),
            why,
        );
    }
}
