//! Nobody knows whether a write was recorded whose future was dropped: it is there wholly or not at
//! all, and may be repeated.

use idem_core::{handler::Outcome, store::Store};

use super::{
    Harness, LEASE, RETENTION, Rule, Scene,
    dropped::{POLLS, dropped_after},
    scene::reasons,
};

/// The lease is as it was or extended; the key is not lost.
pub async fn an_extension_that_was_dropped_midway_can_be_repeated<H: Harness>(harness: &H) {
    for polls in POLLS {
        let scene = Scene::new(harness, Rule::Repeats);
        let holder = scene.acquired().await;
        let store = scene.store();
        dropped_after(polls, store.extend(&holder.lease, LEASE)).await;
        let other = scene.claimant().claim().await;
        other.is_held("the extension was dropped, not the lease");
        holder.extend(LEASE).await.is_applied("it is the holder");
        holder.complete("done").await.is_applied("it is the holder");
    }
}

/// The work is done once the completion is repeated, whatever became of the first one.
pub async fn a_completion_that_was_dropped_midway_can_be_repeated<H: Harness>(harness: &H) {
    for polls in POLLS {
        let scene = Scene::new(harness, Rule::Repeats);
        let holder = scene.acquired().await;
        let (store, outcome) = (scene.store(), Outcome::new("done"));
        let call = store.complete(&holder.lease, &outcome, RETENTION);
        dropped_after(polls, call).await;
        let other = scene.claimant().claim().await;
        if !other.says_completed() {
            other.is_held("the completion was dropped, not the lease");
        }
        holder.complete("done").await.is_applied("it is repeated");
        let answer = scene.claimant().claim().await;
        answer.is_completed(b"done", "it was repeated");
    }
}

/// The attempt has ended once the release is repeated, and counts as one.
pub async fn a_release_that_was_dropped_midway_can_be_repeated<H: Harness>(harness: &H) {
    for polls in POLLS {
        for reason in reasons() {
            let scene = Scene::new(harness, Rule::Repeats);
            scene.acquired().await.fails().await;
            let holder = scene.acquired().await;
            let store = scene.store();
            dropped_after(polls, store.release(&holder.lease, &reason)).await;
            holder.release(&reason).await.is_applied("it is repeated");
            let answer = scene.claimant().replay().claim().await;
            let next = answer.is_acquired("the key was given back");
            next.is_attempt(1, false, "a replay starts over");
            scene.holds(next.token() > holder.token(), "tokens grow");
        }
        let scene = Scene::new(harness, Rule::AttemptsSurvive);
        let holder = scene.acquired().await;
        let (store, reason) = (scene.store(), reasons()[0].clone());
        dropped_after(polls, store.release(&holder.lease, &reason)).await;
        holder.release(&reason).await.is_applied("it is repeated");
        let next = scene.acquired().await;
        next.is_attempt(2, false, "one has failed, and said so");
    }
}
