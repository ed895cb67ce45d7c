//! How long a record is remembered after its last write, and after its lease.

use std::time::Duration;

use idem_core::store::Release;

use super::{Harness, LEASE, RETENTION, Rule, Scene};

const HOUR: Duration = Duration::from_hours(1);

/// Remembered up to the last moment.
pub async fn a_completion_is_remembered_until_its_retention_ends<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::CompletedWins);
    let holder = scene.acquired().await;
    holder.complete("done").await.is_applied("the holder");
    scene.advance_nearly(RETENTION).await;
    let answer = scene.claimant().claim().await;
    let told = answer.is_completed(b"done", "the retention is not over");
    scene.lasts(told, H::CLOCK.slack(), "it is nearly over");
}

/// And then it is a new key.
pub async fn a_completion_is_forgotten_when_its_retention_ends<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Exits);
    scene.acquired().await.fails().await;
    let holder = scene.acquired().await;
    holder.complete("done").await.is_applied("the holder");
    scene.advance(RETENTION).await;
    let anew = scene.acquired().await;
    anew.is_attempt(1, false, "all is forgotten");
}

/// The completion says how long, whatever the claim said.
pub async fn the_completions_retention_replaces_the_claims<H: Harness>(harness: &H) {
    for (claimed, completed) in [(HOUR, 9 * HOUR), (9 * HOUR, HOUR)] {
        let scene = Scene::new(harness, Rule::CompletedWins);
        let claim = scene.claimant().retention(claimed).claim().await;
        let holder = claim.is_acquired("nobody has the key");
        let written = holder.complete_for("done", completed).await;
        written.is_applied("the holder");
        let answer = scene.claimant().claim().await;
        let told = answer.is_completed(b"done", "it is done");
        scene.lasts(told, completed, "the completion's own retention");
        scene.advance(completed).await;
        let answer = scene.claimant().claim().await;
        answer.is_acquired("the completion's retention is over");
    }
}

/// Years are no special case.
pub async fn a_retention_of_years_is_kept<H: Harness>(harness: &H) {
    let years = 10 * 365 * 24 * HOUR;
    let scene = Scene::new(harness, Rule::CompletedWins);
    let holder = scene.acquired().await;
    let written = holder.complete_for("done", years).await;
    written.is_applied("the holder");
    scene.advance(years / 2).await;
    let answer = scene.claimant().claim().await;
    let told = answer.is_completed(b"done", "years are left");
    scene.lasts(told, years / 2, "half of the retention is over");
}

/// A failed attempt is remembered for the retention of its claim, and then forgotten.
pub async fn a_failure_is_forgotten_when_its_retention_ends<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Exits);
    scene.acquired().await.fails().await;
    scene.advance_nearly(RETENTION).await;
    let second = scene.acquired().await;
    second.is_attempt(2, false, "the failure is still remembered");
    second.fails().await;
    scene.advance(RETENTION).await;
    let anew = scene.acquired().await;
    anew.is_attempt(1, false, "all is forgotten");
}

/// An attempt that vanished is forgotten as well: no record stays for ever.
pub async fn a_vanished_attempt_is_forgotten_when_its_retention_ends<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Exits);
    let _vanished = scene.acquired().await;
    scene.advance(LEASE + RETENTION).await;
    let anew = scene.acquired().await;
    anew.is_attempt(1, false, "nothing is remembered, nothing in doubt");
}

/// The retention counts from the lease's end: however short it is, there is a time in which the
/// next worker is told that an attempt vanished.
pub async fn a_vanished_attempt_is_remembered_after_its_lease<H: Harness>(harness: &H) {
    for extended in [false, true] {
        let scene = Scene::new(harness, Rule::AttemptsSurvive);
        let claimant = scene.claimant().retention(LEASE);
        let vanished = claimant.claim().await.is_acquired("nobody has the key");
        if extended {
            vanished.extend(LEASE).await.is_applied("it is the holder");
        }
        scene.advance(LEASE * 3 / 2).await;
        let next = scene.acquired().await;
        next.is_attempt(2, true, "the lease has just run out");
    }
}

/// The retention may be shorter than the lease: a held key is held.
pub async fn a_lease_outlives_its_retention<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Exits);
    let second = Duration::from_secs(1);
    let claim = scene.claimant().retention(second).claim().await;
    let holder = claim.is_acquired("nobody has the key");
    scene.advance(LEASE / 2).await;
    let told = scene.claimant().claim().await.is_held("the lease lasts");
    scene.lasts(told, LEASE / 2, "half of the lease has passed");
    holder.complete("done").await.is_applied("it is the holder");
}

/// An extension is a write: the record lives for its retention from then on.
pub async fn an_extension_prolongs_the_record<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Exits);
    let holder = scene.acquired().await;
    scene.advance(RETENTION * 3 / 4).await;
    holder.extend(LEASE).await.is_applied("nobody took over");
    scene.advance(RETENTION * 3 / 4).await;
    let successor = scene.acquired().await;
    successor.is_attempt(2, true, "the extended attempt is remembered");
}

/// A release is a write: attempts are remembered for the retention from then on.
pub async fn a_release_prolongs_the_record<H: Harness>(harness: &H) {
    for reason in [Release::failed("x"), Release::Quarantined] {
        let scene = Scene::new(harness, Rule::Exits);
        let holder = scene.acquired().await;
        scene.advance(RETENTION * 3 / 4).await;
        holder.release(&reason).await.is_applied("nobody took over");
        scene.advance(RETENTION * 3 / 4).await;
        let answer = scene.claimant().claim().await;
        if reason == Release::Quarantined {
            answer.is_quarantined("the quarantine is not forgotten yet");
        } else {
            let next = answer.is_acquired("the key is free");
            next.is_attempt(2, false, "the failed attempt is remembered");
        }
    }
}

/// A repeated claim is a write.
pub async fn a_repeated_claim_prolongs_the_record<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Exits);
    let owner = scene.claimant();
    owner.claim().await.is_acquired("nobody has the key");
    scene.advance(RETENTION * 3 / 4).await;
    owner.claim().await.is_acquired("nobody took over");
    scene.advance(RETENTION * 3 / 4).await;
    let successor = scene.acquired().await;
    successor.is_attempt(2, true, "the attempt is remembered");
}

/// A claim that was held off is no write: it does not keep a record alive.
pub async fn a_claim_that_was_held_off_does_not_prolong_the_record<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Exits);
    let _vanished = scene.acquired().await;
    let waiting = scene.claimant().retention(9 * RETENTION);
    waiting.claim().await.is_held("another holds it");
    scene.advance(LEASE + RETENTION).await;
    let anew = scene.acquired().await;
    anew.is_attempt(1, false, "the retention of the claim is over");
}

/// Each attempt brings its own retention.
pub async fn the_last_claims_retention_counts<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Exits);
    let claim = scene.claimant().retention(9 * HOUR).claim().await;
    claim.is_acquired("nobody has the key").fails().await;
    let claim = scene.claimant().retention(HOUR).claim().await;
    let second = claim.is_acquired("the key is free");
    second.is_attempt(2, false, "one has failed");
    second.fails().await;
    scene.advance(HOUR).await;
    let anew = scene.acquired().await;
    anew.is_attempt(1, false, "the second claim's retention is over");
}
