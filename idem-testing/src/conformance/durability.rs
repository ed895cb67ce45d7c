//! What was answered is still true after the store was closed and opened again.

use std::time::Duration;

use idem_core::store::Release;

use super::{DurableHarness, LEASE, RETENTION, Rule, Scene};

/// A duplicate is a duplicate for a new process as well.
pub async fn a_completion_survives_a_restart<H: DurableHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::CompletedWins);
    let claim = scene.claimant().content("ten euros").claim().await;
    let holder = claim.is_acquired("nobody has the key");
    holder.complete("receipt 17").await.is_applied("the holder");
    harness.reopen().await;
    let answer = scene.claimant().content("ten euros").claim().await;
    let told = answer.is_completed(b"receipt 17", "it was completed before");
    scene.lasts(told, RETENTION, "the retention goes on");
    let answer = scene.claimant().content("a million").claim().await;
    answer.is_key_reused("other content has completed before");
}

/// A store that restarts while a worker works does not give the key to another.
pub async fn a_claim_survives_a_restart<H: DurableHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::OneStep);
    let owner = scene.claimant();
    let holder = owner.claim().await.is_acquired("nobody has the key");
    scene.advance(LEASE / 2).await;
    harness.reopen().await;
    let told = scene.claimant().claim().await.is_held("claimed before");
    scene.lasts(told, LEASE / 2, "half of the lease has passed");
    let holder = scene.holder_of(holder.lease);
    holder.extend(LEASE).await.is_applied("it is the holder");
    holder.complete("done").await.is_applied("it is the holder");
    let answer = scene.claimant().claim().await;
    answer.is_completed(b"done", "the work has gone on");
}

/// Attempts, doubt and content are not started over.
pub async fn attempts_survive_a_restart<H: DurableHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::AttemptsSurvive);
    let claim = scene.claimant().content("ten euros").claim().await;
    claim.is_acquired("nobody has the key").fails().await;
    harness.reopen().await;
    let answer = scene.claimant().content("a million").claim().await;
    answer.is_key_reused("other content has failed before");
    let second = scene.acquired().await;
    second.is_attempt(2, false, "one has failed before");
    scene.advance(LEASE).await;
    harness.reopen().await;
    let third = scene.acquired().await;
    third.is_attempt(3, true, "the second has vanished before");
}

/// A restart is no reason to try again at once.
pub async fn a_delay_survives_a_restart<H: DurableHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::AttemptsSurvive);
    let delay = Duration::from_mins(10);
    scene.acquired().await.fails_for(delay).await;
    harness.reopen().await;
    let told = scene.claimant().claim().await.is_held("it is too early");
    scene.lasts(told, delay, "the delay goes on");
    scene.advance(delay).await;
    let next = scene.acquired().await;
    next.is_attempt(2, false, "one has failed before");
}

/// What waits for a person goes on waiting.
pub async fn a_quarantine_survives_a_restart<H: DurableHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Exits);
    let holder = scene.acquired().await;
    let written = holder.release(&Release::Quarantined).await;
    written.is_applied("it is the holder");
    harness.reopen().await;
    let answer = scene.claimant().claim().await;
    answer.is_quarantined("it was quarantined before");
}

/// A token from before the restart is not given again.
pub async fn tokens_grow_over_a_restart<H: DurableHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::TokensGrow);
    let mut last = 0;
    for round in 0..4 {
        let holder = scene.acquired().await;
        let token = holder.token();
        scene.holds(token > last, &format!("after {round} restarts"));
        last = token;
        holder.complete("done").await.is_applied("the holder");
        scene.advance(RETENTION).await;
        harness.reopen().await;
    }
}
