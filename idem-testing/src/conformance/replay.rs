//! Quarantine, and the dead letters that a person sends again.

use idem_core::store::Release;

use super::{Harness, LEASE, RETENTION, Rule, Scene};

/// After an attempt in doubt was quarantined, no copy of the message runs.
pub async fn a_quarantined_key_stops_all_copies<H: Harness>(harness: &H) {
    let scene = quarantined(harness).await;
    for content in ["same", "other"] {
        let copy = scene.claimant().content(content);
        copy.claim().await.is_quarantined("it waits for a person");
        scene.advance(10 * LEASE).await;
    }
    let answer = scene.claimant().claim().await;
    answer.is_quarantined("time alone, short of the retention, changes nothing");
}

/// A person has looked at it: the replay runs, and starts over.
pub async fn a_replay_runs_a_quarantined_key<H: Harness>(harness: &H) {
    let scene = quarantined(harness).await;
    let answer = scene.claimant().replay().claim().await;
    let replay = answer.is_acquired("only a replay runs");
    replay.is_attempt(1, false, "a replay starts over");
    replay.complete("done").await.is_applied("it is the holder");
    let answer = scene.claimant().claim().await;
    answer.is_completed(b"done", "the replay completed");
}

/// The person may have corrected the message.
pub async fn a_replay_of_a_quarantined_key_may_carry_other_content<H: Harness>(harness: &H) {
    let scene = quarantined(harness).await;
    let corrected = scene.claimant().content("corrected").replay();
    let replay = corrected.claim().await.is_acquired("a replay runs");
    replay.complete("done").await.is_applied("it is the holder");
    let answer = scene.claimant().content("same").claim().await;
    answer.is_key_reused("other content than what completed");
    let answer = scene.claimant().content("corrected").claim().await;
    answer.is_completed(b"done", "that is what ran");
}

/// A replay that does not compare clears the content that was quarantined.
pub async fn a_replay_without_fingerprint_drops_the_quarantined_content<H: Harness>(harness: &H) {
    let scene = quarantined(harness).await;
    let replay = scene.claimant().replay().claim().await;
    let replay = replay.is_acquired("a replay runs");
    replay.complete("done").await.is_applied("it is the holder");
    let answer = scene.claimant().content("other").claim().await;
    answer.is_completed(b"done", "nothing to compare with");
}

/// Quarantine is not for ever: the record ends with its retention.
pub async fn a_quarantine_ends_with_its_retention<H: Harness>(harness: &H) {
    let scene = quarantined(harness).await;
    scene.advance_nearly(RETENTION).await;
    let answer = scene.claimant().claim().await;
    answer.is_quarantined("the retention is not over");
    scene.advance(H::CLOCK.slack()).await;
    let holder = scene.acquired().await;
    holder.is_attempt(1, false, "all is forgotten");
}

/// A replay of a failed key starts over.
pub async fn a_replay_of_a_failed_key_starts_over<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::AttemptsSurvive);
    scene.acquired().await.fails().await;
    scene.acquired().await.fails().await;
    let answer = scene.claimant().replay().claim().await;
    let replay = answer.is_acquired("a failed key is free");
    replay.is_attempt(1, false, "a replay starts over");
    replay.fails().await;
    let next = scene.acquired().await;
    next.is_attempt(2, false, "counted from the replay");
}

/// A replay that takes over starts over, in doubt: the person who sent it has not seen what the
/// vanished attempt left behind.
pub async fn a_replay_that_takes_over_starts_over<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::AttemptsSurvive);
    scene.acquired().await.fails().await;
    let _vanished = scene.acquired().await;
    scene.advance(LEASE).await;
    let answer = scene.claimant().replay().claim().await;
    let replay = answer.is_acquired("the lease has run out");
    replay.is_attempt(1, true, "a replay starts over");
}

/// A replay waits like everybody else while a worker holds the key.
pub async fn a_replay_is_held_while_a_worker_holds_the_key<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::OneStep);
    let holder = scene.acquired().await;
    let answer = scene.claimant().replay().claim().await;
    answer.is_held("a worker holds the key");
    holder.complete("done").await.is_applied("the holder");
}

/// A key on which an attempt ended in doubt, with content, and was quarantined.
async fn quarantined<H: Harness>(harness: &H) -> Scene<'_, H> {
    let scene = Scene::new(harness, Rule::Exits);
    let claim = scene.claimant().content("same").claim().await;
    claim.is_acquired("nobody has the key");
    scene.advance(LEASE).await;
    let claim = scene.claimant().content("same").claim().await;
    let second = claim.is_acquired("the lease has run out");
    second.is_attempt(2, true, "the first has vanished");
    let written = second.release(&Release::Quarantined).await;
    written.is_applied("it is the holder");
    scene
}
