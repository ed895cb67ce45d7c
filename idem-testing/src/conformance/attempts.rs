//! How often a key was tried, and whether the last try ended without a word.

use idem_core::store::Release;

use super::{Harness, LEASE, Rule, Scene};

/// A failure is an attempt, and a word: nothing is in doubt.
pub async fn a_failed_attempt_is_counted_and_not_in_doubt<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::AttemptsSurvive);
    for attempt in 1..=6 {
        let holder = scene.acquired().await;
        holder.is_attempt(attempt, false, "each one before has failed");
        holder.fails().await;
    }
}

/// A lease that ran out is an attempt, and its effects are in doubt.
pub async fn a_vanished_attempt_is_counted_and_in_doubt<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::AttemptsSurvive);
    let first = scene.acquired().await;
    first.is_attempt(1, false, "the first");
    for attempt in 2..=6 {
        scene.advance(LEASE).await;
        let holder = scene.acquired().await;
        holder.is_attempt(attempt, true, "the one before has vanished");
    }
}

/// A handler that was never polled did not try.
pub async fn an_abandoned_claim_is_no_attempt<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::AttemptsSurvive);
    for _ in 0..3 {
        let holder = scene.acquired().await;
        holder.is_attempt(1, false, "nobody has tried yet");
        let written = holder.release(&Release::Abandoned).await;
        written.is_applied("the holder");
    }
    scene.acquired().await.fails().await;
    let holder = scene.acquired().await;
    holder.is_attempt(2, false, "one has tried");
    let written = holder.release(&Release::Abandoned).await;
    written.is_applied("the holder");
    let holder = scene.acquired().await;
    holder.is_attempt(2, false, "still only one has tried");
}

/// A message that was given up starts over when it comes again.
pub async fn attempts_restart_after_giving_up<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::AttemptsSurvive);
    scene.acquired().await.fails().await;
    scene.acquired().await.fails().await;
    let last = scene.acquired().await;
    last.is_attempt(3, false, "two have failed");
    let written = last.release(&Release::gave_up("used up")).await;
    written.is_applied("the holder");
    let next = scene.acquired().await;
    next.is_attempt(1, false, "given up: it starts over");
}

/// Who vanished left a doubt; who fails after that ends it.
pub async fn a_failure_ends_the_doubt<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::AttemptsSurvive);
    let _vanished = scene.acquired().await;
    scene.advance(LEASE).await;
    let second = scene.acquired().await;
    second.is_attempt(2, true, "the first has vanished");
    second.fails().await;
    let third = scene.acquired().await;
    third.is_attempt(3, false, "the second has told");
}

/// Who vanished left a doubt; who abandons after that has not resolved it.
pub async fn an_abandoned_claim_leaves_the_doubt<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::AttemptsSurvive);
    let _vanished = scene.acquired().await;
    scene.advance(LEASE).await;
    let second = scene.acquired().await;
    second.is_attempt(2, true, "the first has vanished");
    let written = second.release(&Release::Abandoned).await;
    written.is_applied("the holder");
    let third = scene.acquired().await;
    third.is_attempt(2, true, "what the first has done is as unknown as before");
}

/// Giving up ends the doubt: the next one starts over.
pub async fn giving_up_ends_the_doubt<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::AttemptsSurvive);
    let _vanished = scene.acquired().await;
    scene.advance(LEASE).await;
    let second = scene.acquired().await;
    let written = second.release(&Release::gave_up("used up")).await;
    written.is_applied("the holder");
    let next = scene.acquired().await;
    next.is_attempt(1, false, "given up: it starts over");
}

/// Failures and vanished leases count together.
pub async fn attempts_are_counted_over_failures_and_takeovers<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::AttemptsSurvive);
    for round in 0..4 {
        let fails = scene.acquired().await;
        fails.is_attempt(2 * round + 1, round > 0, "the one before vanished");
        fails.fails().await;
        let vanishes = scene.acquired().await;
        vanishes.is_attempt(2 * round + 2, false, "the one before failed");
        scene.advance(LEASE).await;
    }
}

/// A heartbeat or a repeat is not another attempt.
pub async fn an_extension_is_no_attempt<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::AttemptsSurvive);
    let owner = scene.claimant();
    let holder = owner.claim().await.is_acquired("nobody has the key");
    holder.extend(LEASE).await.is_applied("the holder");
    owner.claim().await.is_acquired("it is this owner's");
    holder.fails().await;
    let next = scene.acquired().await;
    next.is_attempt(2, false, "there was one attempt");
}

/// A claim that was held off was no attempt.
pub async fn a_claim_that_was_held_off_is_no_attempt<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::AttemptsSurvive);
    let holder = scene.acquired().await;
    for _ in 0..3 {
        scene.claimant().claim().await.is_held("another holds it");
    }
    holder.fails().await;
    let next = scene.acquired().await;
    next.is_attempt(2, false, "only the holder has tried");
}
