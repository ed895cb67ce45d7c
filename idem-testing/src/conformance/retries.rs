//! A failed key waits until its next attempt is due.

use std::time::Duration;

use idem_core::store::Release;

use super::{Harness, LEASE, Rule, Scene};

/// The delay that failures ask for.
const DELAY: Duration = Duration::from_mins(10);

/// Copies of a failing message neither run nor use up its attempts.
pub async fn a_failed_key_is_held_until_its_retry_is_due<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::AttemptsSurvive);
    scene.acquired().await.fails_for(DELAY).await;
    for left in [DELAY, DELAY / 2] {
        for _ in 0..3 {
            let told = scene.claimant().claim().await.is_held("it is too early");
            scene.lasts(told, left, "the rest of the delay");
        }
        scene.advance(DELAY / 2).await;
    }
    let next = scene.acquired().await;
    next.is_attempt(2, false, "nobody has tried in between");
    next.fails_for(DELAY).await;
    let told = scene.claimant().claim().await.is_held("it failed again");
    scene.lasts(told, DELAY, "counted from the last failure");
}

/// The delay counts from the failure, not from the lease's end or the claim.
pub async fn the_delay_counts_from_the_failure<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::StoreClock);
    let holder = scene.acquired().await;
    scene.advance(2 * LEASE).await;
    holder.fails_for(DELAY).await;
    let told = scene.claimant().claim().await.is_held("it is too early");
    scene.lasts(told, DELAY, "the whole delay");
}

/// Without a delay the next attempt is due at once.
pub async fn a_failure_without_a_delay_frees_its_key_at_once<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Exits);
    scene.acquired().await.fails_for(Duration::ZERO).await;
    let next = scene.acquired().await;
    next.is_attempt(2, false, "one has failed");
}

/// Other content is told that the key is taken, not to wait for it.
pub async fn other_content_is_refused_before_the_retry_is_due<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::KeyReused);
    let claim = scene.claimant().content("ten euros").claim().await;
    claim
        .is_acquired("nobody has the key")
        .fails_for(DELAY)
        .await;
    let answer = scene.claimant().content("a million").claim().await;
    answer.is_key_reused("the key stands for the failed message");
    let answer = scene.claimant().content("ten euros").claim().await;
    answer.is_held("it is the failed message, and too early");
}

/// A person has decided that it is time.
pub async fn a_replay_does_not_wait_for_the_retry<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::AttemptsSurvive);
    scene.acquired().await.fails_for(DELAY).await;
    let answer = scene.claimant().replay().claim().await;
    let replay = answer.is_acquired("a replay does not wait");
    replay.is_attempt(1, false, "a replay starts over");
    replay.complete("done").await.is_applied("it is the holder");
}

/// What the replay leaves behind is due when the replay says.
pub async fn a_replay_ends_the_delay<H: Harness>(harness: &H) {
    for reason in [Release::failed("once more"), Release::Abandoned] {
        let scene = Scene::new(harness, Rule::Exits);
        scene.acquired().await.fails_for(DELAY).await;
        let answer = scene.claimant().replay().claim().await;
        let replay = answer.is_acquired("a replay does not wait");
        replay.release(&reason).await.is_applied("the holder");
        let answer = scene.claimant().claim().await;
        answer.is_acquired("the failure before the replay is history");
    }
}

/// An answer that was lost is asked for again, and the retry is not put off.
pub async fn a_repeated_failure_does_not_put_off_the_retry<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Fencing);
    let holder = scene.acquired().await;
    holder.fails_for(DELAY).await;
    scene.advance(DELAY / 2).await;
    holder.fails_for(DELAY).await;
    holder.fails_for(2 * DELAY).await;
    let told = scene.claimant().claim().await.is_held("it is too early");
    scene.lasts(told, DELAY / 2, "counted from the first time");
}

/// The delay may be longer than the retention: the key is held to its end.
pub async fn a_delay_outlives_the_retention<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Exits);
    let claim = scene.claimant().retention(DELAY / 10).claim().await;
    claim
        .is_acquired("nobody has the key")
        .fails_for(DELAY)
        .await;
    scene.advance(DELAY / 2).await;
    let told = scene.claimant().claim().await.is_held("it is too early");
    scene.lasts(told, DELAY / 2, "half of the delay has passed");
    scene.advance(DELAY / 2).await;
    scene.acquired().await;
}
