//! One producer of a store that keeps sequences, and what comes of its messages.

use std::{ops::Range, time::Duration};

use idem_core::{
    handler::{Answer as Meaning, Policy, Refusal},
    message::{SequenceKey, SequencePlace},
    store::{Claim, ClaimRequest, OutOfPlace, Release, Store},
};

use super::{
    LEASE, RETENTION, Rule, Scene, SequenceHarness,
    claimant::{Answer, Claimant},
    holder::Holder,
    scene::{key, unique},
};

/// How many numbers of a sequence may be in use unless a case says otherwise.
pub(super) const PRODUCED: u32 = 8;
/// A number that is ahead of all sequences of this suite.
pub(super) const FAR: u64 = 1_000_000_000;

/// A producer with a sequence of its own.
pub(super) struct Producer<'a, H> {
    pub(super) scene: Scene<'a, H>,
    pub(super) sequence: SequenceKey,
    window: u32,
    rule: Rule,
}

impl<'a, H: SequenceHarness> Producer<'a, H> {
    /// One of whom the store has not heard.
    pub(super) fn new(harness: &'a H, rule: Rule) -> Self {
        Self::named(harness, rule, &unique())
    }

    pub(super) fn named(harness: &'a H, rule: Rule, name: &str) -> Self {
        Self {
            scene: Scene::new(harness, rule),
            sequence: key(name).into(),
            window: PRODUCED,
            rule,
        }
    }

    pub(super) fn with_window(self, window: u32) -> Self {
        Self { window, ..self }
    }

    pub(super) fn place(&self, number: u64) -> SequencePlace {
        SequencePlace::new(self.sequence.clone(), number).window(self.window)
    }

    /// A new owner with a message of this number.
    pub(super) fn asks(&self, number: u64) -> Claimant<H::Store> {
        self.asks_at(self.place(number))
    }

    pub(super) fn asks_at(&self, place: SequencePlace) -> Claimant<H::Store> {
        let mut request = ClaimRequest::in_sequence(place, &Policy::DEFAULT);
        request.lease = LEASE;
        request.retention = RETENTION;
        Claimant::new(self.scene.store(), request, self.rule)
    }

    pub(super) async fn claim(&self, number: u64) -> Answer<H::Store> {
        self.asks(number).claim().await
    }

    pub(super) async fn replays(&self, number: u64) -> Answer<H::Store> {
        self.asks(number).replay().claim().await
    }

    /// A new owner that gets this number, which must be free.
    pub(super) async fn acquires(&self, number: u64) -> Holder<H::Store> {
        let answer = self.claim(number).await;
        answer.is_acquired(&format!("number {number} is free at this point"))
    }

    /// Works on a number; the outcome is the number.
    pub(super) async fn works(&self, number: u64) -> Holder<H::Store> {
        let holder = self.acquires(number).await;
        let written = holder.complete(number.to_string()).await;
        written.is_applied("it is the holder");
        holder
    }

    /// Works on one number after the other.
    pub(super) async fn works_on(&self, numbers: Range<u64>) {
        for number in numbers {
            self.works(number).await;
        }
    }

    /// Has a number given back for this reason.
    pub(super) async fn releases(&self, number: u64, reason: &Release) {
        let holder = self.acquires(number).await;
        holder.release(reason).await.is_applied("it is the holder");
    }

    /// Asks for an outcome that must be there.
    pub(super) async fn hears(&self, number: u64, why: &str) {
        let answer = self.claim(number).await;
        answer.is_completed(number.to_string().as_bytes(), why);
    }

    /// Lets the mark move as far as it can, and says where it must be then.
    pub(super) async fn mark_is(&self, mark: u64, why: &str) {
        let window = self.window;
        let answer = self.claim(FAR).await;
        answer.is(&Claim::OutOfPlace(OutOfPlace::Ahead { mark, window }), why);
    }

    /// Each of these is done, and nothing but that is known of it; copies, replays and other content
    /// are told so.
    pub(super) async fn are_done(&self, numbers: Range<u64>, why: &str) {
        for number in numbers {
            self.claim(number).await.is_done(why);
            self.replays(number).await.is_done(why);
        }
    }

    /// None of these runs, unless for a replay.
    pub(super) async fn are_late(&self, numbers: Range<u64>, why: &str) {
        for number in numbers {
            self.claim(number)
                .await
                .is(&Claim::OutOfPlace(OutOfPlace::Late), why);
        }
    }
}

impl<S: Store> Answer<S> {
    #[track_caller]
    pub(super) fn is_ahead(&self, mark: u64, why: &str) {
        let window = PRODUCED;
        self.is(&Claim::OutOfPlace(OutOfPlace::Ahead { mark, window }), why);
    }

    /// The rest of the time for which it is known.
    #[track_caller]
    pub(super) fn is_done(&self, why: &str) -> Duration {
        if let Claim::Completed { outcome, remaining } = self.claim()
            && let Meaning::Forgotten(refusal) = outcome.answer()
            && refusal.code() == Refusal::STALE
        {
            return *remaining;
        }
        self.is_not("Completed with a forgotten outcome", why)
    }
}
