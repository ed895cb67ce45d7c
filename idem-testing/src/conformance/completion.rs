//! What is remembered of work that is done, and that only done work is remembered as done.

use std::time::Duration;

use idem_core::store::Release;

use super::{Harness, LEASE, RETENTION, Rule, Scene, scene::reasons};

/// Everybody gets the outcome, and is told how long it will be remembered.
pub async fn a_completed_key_answers_its_outcome<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::CompletedWins);
    let holder = scene.acquired().await;
    holder.complete("receipt 17").await.is_applied("the holder");
    for _ in 0..3 {
        let answer = scene.claimant().claim().await;
        let told = answer.is_completed(b"receipt 17", "the work is done");
        scene.lasts(told, RETENTION, "the retention counts from completion");
    }
}

/// A claim alone is no completion, even when its lease has run out.
pub async fn work_that_was_only_claimed_is_never_a_duplicate<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::CompletedWins);
    for attempt in 1..4 {
        let holder = scene.acquired().await;
        holder.is_attempt(attempt, attempt > 1, "nobody has completed");
        let answer = scene.claimant().claim().await;
        answer.is_held("the work is going on");
        scene.advance(LEASE).await;
    }
}

/// Work that failed has to run again.
pub async fn work_that_failed_is_never_a_duplicate<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::CompletedWins);
    for reason in [
        Release::failed("x"),
        Release::Abandoned,
        Release::gave_up("x"),
    ] {
        let holder = scene.acquired().await;
        holder.release(&reason).await.is_applied("the holder");
    }
    let holder = scene.acquired().await;
    holder.complete("done").await.is_applied("the holder");
}

/// The answer to a completion was lost and it is sent again: it counts once, as it was first.
pub async fn a_repeated_completion_is_applied_and_changes_nothing<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Fencing);
    let holder = scene.acquired().await;
    holder.complete("first").await.is_applied("the holder");
    scene.advance(RETENTION / 2).await;
    for again in ["first", "second"] {
        let written = holder.complete(again).await;
        written.is_applied("the write that ended this lease is repeated");
    }
    let answer = scene.claimant().claim().await;
    let told = answer.is_completed(b"first", "the first outcome stays");
    scene.lasts(told, RETENTION / 2, "a repeat prolongs nothing");
}

/// The answer to a release was lost and it is sent again: it counts once.
pub async fn a_repeated_release_is_applied_and_changes_nothing<H: Harness>(harness: &H) {
    for reason in reasons() {
        let scene = Scene::new(harness, Rule::Fencing);
        let holder = scene.acquired().await;
        for _ in 0..3 {
            let written = holder.release(&reason).await;
            written.is_applied(&format!("the very write that ended this lease: {reason:?}"));
        }
        let answer = scene.claimant().replay().claim().await;
        answer.is_acquired("a released key is free for a replay");
    }
}

/// An abandoned claim is taken off the count once, however often the release is repeated.
pub async fn a_repeated_abandonment_is_counted_once<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Fencing);
    scene.acquired().await.fails().await;
    scene.acquired().await.fails().await;
    let holder = scene.acquired().await;
    holder.is_attempt(3, false, "two have failed");
    for _ in 0..3 {
        let written = holder.release(&Release::Abandoned).await;
        written.is_applied("the very write that ended this lease");
    }
    let next = scene.acquired().await;
    next.is_attempt(3, false, "one claim was abandoned");
}

/// A release does not turn into another one.
pub async fn a_release_with_another_reason_is_fenced<H: Harness>(harness: &H) {
    for reason in reasons() {
        for other in reasons().into_iter().filter(|other| *other != reason) {
            let scene = Scene::new(harness, Rule::Fencing);
            let holder = scene.acquired().await;
            holder.release(&reason).await.is_applied("the holder");
            let why = format!("{other:?} after {reason:?}");
            holder.release(&other).await.is_fenced(&why);
        }
    }
}

/// Asking does not prolong the memory.
pub async fn looking_at_a_completed_key_does_not_prolong_it<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::CompletedWins);
    let holder = scene.acquired().await;
    holder.complete("done").await.is_applied("the holder");
    for quarter in [3, 2, 1] {
        scene.advance(RETENTION / 4).await;
        let answer = scene.claimant().claim().await;
        let told = answer.is_completed(b"done", "the retention is not over");
        scene.lasts(told, RETENTION / 4 * quarter, "counted from completion");
    }
    scene.advance(RETENTION / 4).await;
    let answer = scene.claimant().claim().await;
    answer.is_acquired("the retention is over");
}

/// A dead letter sent again by a person after all was done: it is done.
pub async fn a_replay_of_completed_work_is_a_duplicate<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::CompletedWins);
    let holder = scene.acquired().await;
    holder.complete("done").await.is_applied("the holder");
    let answer = scene.claimant().replay().claim().await;
    answer.is_completed(b"done", "a replay does not undo a completion");
}

/// A completion under a short lease is remembered for its retention, not for the lease.
pub async fn a_completion_outlives_its_lease<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::CompletedWins);
    let claim = scene
        .claimant()
        .lease(Duration::from_millis(50))
        .claim()
        .await;
    let holder = claim.is_acquired("nobody has the key");
    holder.complete("done").await.is_applied("the holder");
    scene.advance(RETENTION / 2).await;
    let answer = scene.claimant().claim().await;
    answer.is_completed(b"done", "the retention is not over");
}
