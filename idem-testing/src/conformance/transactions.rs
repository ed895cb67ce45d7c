//! The handler's writes and the completion commit together or not at all.

use std::time::Duration;

use idem_core::store::{Claim, Finished, Release, Write};

use super::{
    LEASE, RETENTION, Rule, Scene, TransactionalHarness,
    dropped::{POLLS, dropped_after},
    open::{Open, begin},
    scene::unique,
};

/// Before the commit neither is to be seen, after it both are.
pub async fn a_commit_shows_effect_and_completion_together<H: TransactionalHarness>(harness: &H) {
    let (scene, effect) = (Scene::new(harness, Rule::Atomic), unique());
    let mut open = Open::<H>::of(&scene.claimant()).await;
    scene.holds(
        (open.lease.attempt, open.lease.in_doubt) == (1, false),
        "a new key is acquired as its first attempt",
    );
    open.write_effect(&effect).await;
    scene
        .has_effects(&effect, 0, "nothing is committed yet")
        .await;
    open.commits().await;
    scene.has_effects(&effect, 1, "it was committed").await;
    let answer = scene.claimant().claim().await;
    let told = answer.is_completed(b"done", "completed in the same commit");
    scene.lasts(told, RETENTION, "the retention counts from the commit");
}

/// After a rollback the effect is gone, and the key is free.
pub async fn a_rollback_leaves_neither_effect_nor_completion<H: TransactionalHarness>(harness: &H) {
    let (scene, effect) = (Scene::new(harness, Rule::Atomic), unique());
    let mut open = Open::<H>::of(&scene.claimant()).await;
    open.write_effect(&effect).await;
    open.rolls_back(&Release::failed("no")).await;
    scene.has_effects(&effect, 0, "it was rolled back").await;
    let mut open = Open::<H>::of(&scene.claimant()).await;
    open.write_effect(&effect).await;
    open.commits().await;
    scene
        .has_effects(&effect, 1, "only the second try counts")
        .await;
}

/// Asked while the handler's writes are not committed, a store may let the duplicate wait, but it
/// tells it nothing that the rollback makes untrue.
pub async fn a_duplicate_is_told_nothing_that_rolls_back<H: TransactionalHarness>(harness: &H) {
    let (scene, effect) = (Scene::new(harness, Rule::Isolation), unique());
    let mut open = Open::<H>::of(&scene.claimant()).await;
    open.write_effect(&effect).await;
    let duplicate = scene.claimant();
    let failed = Release::failed("no");
    let (answer, ()) = tokio::join!(duplicate.claim(), open.rolls_back(&failed));
    let next = if let Some(holder) = answer.lease() {
        holder
    } else {
        answer.is_held("a worker had the key");
        scene.acquired().await
    };
    next.is_attempt(2, false, "the first was rolled back");
    scene.has_effects(&effect, 0, "it was rolled back").await;
}

/// Asked while the commit is under way, a duplicate waits, is held, or is told the outcome.
pub async fn a_duplicate_during_the_commit_never_works<H: TransactionalHarness>(harness: &H) {
    let (scene, effect) = (Scene::new(harness, Rule::Isolation), unique());
    let mut open = Open::<H>::of(&scene.claimant()).await;
    open.write_effect(&effect).await;
    let duplicate = scene.claimant();
    let (answer, ()) = tokio::join!(duplicate.claim(), open.commits());
    if answer.says_completed() {
        answer.is_completed(b"done", "it was committed");
    } else {
        answer.is_held("a worker had the key");
    }
    scene.has_effects(&effect, 1, "it was committed").await;
}

/// The heartbeat of an open transaction keeps its key beyond the first lease.
pub async fn an_open_transaction_can_be_extended<H: TransactionalHarness>(harness: &H) {
    let (scene, effect) = (Scene::new(harness, Rule::Atomic), unique());
    let mut open = Open::<H>::of(&scene.claimant()).await;
    for _ in 0..3 {
        scene.advance(LEASE / 2).await;
        let extended = open.extend(LEASE).await;
        scene.holds(extended == Write::Applied, "it is the holder");
        scene.claimant().claim().await.is_held("it was extended");
    }
    open.write_effect(&effect).await;
    open.commits().await;
    scene.has_effects(&effect, 1, "it was committed").await;
}

/// The lease ran out while the handler ran, but nobody came: the work counts.
pub async fn a_transaction_that_nobody_overtook_commits_late<H: TransactionalHarness>(harness: &H) {
    let (scene, effect) = (Scene::new(harness, Rule::Fencing), unique());
    let mut open = Open::<H>::of(&scene.claimant()).await;
    scene.advance(10 * LEASE).await;
    open.write_effect(&effect).await;
    open.commits().await;
    scene.has_effects(&effect, 1, "it was committed").await;
}

/// A worker slept beyond its lease: if another took over, the commit is fenced, with its effects.
pub async fn a_zombie_commits_nothing<H: TransactionalHarness>(harness: &H) {
    let (scene, effect) = (Scene::new(harness, Rule::Fencing), unique());
    let mut zombie = Open::<H>::of(&scene.claimant()).await;
    scene.advance(LEASE).await;
    match begin::<H>(&scene.claimant()).await {
        Ok(mut successor) => {
            scene.holds(successor.lease.token > zombie.lease.token, "tokens grow");
            successor.write_effect(&effect).await;
            successor.commits().await;
            zombie.write_effect(&effect).await;
            let commit = zombie.commit("zombie").await;
            scene.holds(
                !matches!(commit, Finished::Committed),
                "another has taken over and committed",
            );
        }
        // A store whose claim is part of the transaction: an open one cannot be taken over.
        Err(Claim::Held { .. }) => {
            zombie.write_effect(&effect).await;
            zombie.commits().await;
        }
        Err(other) => scene.did_not_expect(Err(other), "Acquired or Held"),
    }
    scene
        .has_effects(&effect, 1, "one of the two has committed")
        .await;
}

/// A zombie that gives up does not free the successor's claim, nor keep its effects.
pub async fn a_zombies_rollback_frees_nothing<H: TransactionalHarness>(harness: &H) {
    let (scene, effect) = (Scene::new(harness, Rule::Fencing), unique());
    let mut zombie = Open::<H>::of(&scene.claimant()).await;
    scene.advance(LEASE).await;
    match begin::<H>(&scene.claimant()).await {
        Ok(successor) => {
            zombie.write_effect(&effect).await;
            let write = zombie.roll_back(&Release::failed("late")).await;
            scene.holds(write == Write::Fenced, "another has taken over");
            scene
                .claimant()
                .claim()
                .await
                .is_held("the successor works");
            successor.commits().await;
        }
        Err(Claim::Held { .. }) => zombie.rolls_back(&Release::failed("late")).await,
        Err(other) => scene.did_not_expect(Err(other), "Acquired or Held"),
    }
    scene.has_effects(&effect, 0, "it was rolled back").await;
}

/// A process that dies, or a future that is dropped, leaves no effect and frees its key.
pub async fn a_transaction_that_was_dropped_leaves_nothing<H: TransactionalHarness>(harness: &H) {
    let (scene, effect) = (Scene::new(harness, Rule::Atomic), unique());
    let mut open = Open::<H>::of(&scene.claimant()).await;
    let token = open.lease.token;
    open.write_effect(&effect).await;
    drop(open);
    scene.advance(LEASE).await;
    let mut open = Open::<H>::of(&scene.claimant()).await;
    scene.holds(open.lease.token > token, "tokens grow");
    scene
        .has_effects(&effect, 0, "it was never committed")
        .await;
    open.write_effect(&effect).await;
    open.commits().await;
    scene.has_effects(&effect, 1, "the second try counts").await;
}

/// A handler that rolls back by itself has not completed.
pub async fn a_transaction_that_the_handler_rolled_back_is_refused<H: TransactionalHarness>(
    harness: &H,
) {
    let (scene, effect) = (Scene::new(harness, Rule::Atomic), unique());
    let mut open = Open::<H>::of(&scene.claimant()).await;
    open.write_effect(&effect).await;
    H::roll_back_early(open.lend()).await;
    open.must_be_refused().await;
    scene
        .has_effects(&effect, 0, "the handler rolled back")
        .await;
    scene.advance(LEASE).await;
    let open = Open::<H>::of(&scene.claimant()).await;
    open.commits().await;
}

/// A handler that commits by itself has taken the completion apart from its effect: that is not
/// reported as done.
pub async fn a_transaction_that_the_handler_committed_is_refused<H: TransactionalHarness>(
    harness: &H,
) {
    let (scene, effect) = (Scene::new(harness, Rule::Atomic), unique());
    let mut open = Open::<H>::of(&scene.claimant()).await;
    open.write_effect(&effect).await;
    H::commit_early(open.lend()).await;
    open.must_be_refused().await;
    scene.advance(LEASE).await;
    let open = Open::<H>::of(&scene.claimant()).await;
    open.commits().await;
}

/// A handler that went on after an error: a database that drops the whole transaction for it
/// must not be taken at its word when it says that the commit went well.
pub async fn a_commit_after_a_swallowed_error_tells_the_truth<H: TransactionalHarness>(
    harness: &H,
) {
    let (scene, effect) = (Scene::new(harness, Rule::Atomic), unique());
    let mut open = Open::<H>::of(&scene.claimant()).await;
    open.write_effect(&effect).await;
    H::swallow_an_error(open.lend()).await;
    if open.commit("done").await == Finished::Committed {
        scene.has_effects(&effect, 1, "it was committed").await;
        let answer = scene.claimant().claim().await;
        answer.is_completed(b"done", "it was committed");
    } else {
        scene.has_effects(&effect, 0, "nothing was committed").await;
        scene.advance(LEASE).await;
        Open::<H>::of(&scene.claimant()).await.commits().await;
    }
}

/// The commit says how long it is remembered.
pub async fn a_commit_is_remembered_for_its_retention<H: TransactionalHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::CompletedWins);
    let hour = Duration::from_hours(1);
    let open = Open::<H>::of(&scene.claimant()).await;
    let commit = open.commit_for("done", hour).await;
    scene.holds(commit == Finished::Committed, "nothing speaks against it");
    let answer = scene.claimant().claim().await;
    let told = answer.is_completed(b"done", "it is committed");
    scene.lasts(told, hour, "the commit's own retention");
    scene.advance(hour).await;
    let open = Open::<H>::of(&scene.claimant()).await;
    scene.holds(open.lease.attempt == 1, "all is forgotten");
    open.commits().await;
}

/// A worker stops waiting for its commit: it was done, with its effect, or nothing was.
pub async fn a_commit_that_was_dropped_midway_is_whole_or_nothing<H: TransactionalHarness>(
    harness: &H,
) {
    for polls in POLLS {
        let (scene, effect) = (Scene::new(harness, Rule::Atomic), unique());
        let mut open = Open::<H>::of(&scene.claimant()).await;
        open.write_effect(&effect).await;
        dropped_after(polls, open.commit("done")).await;
        scene.advance(LEASE).await;
        let answer = scene.claimant().claim().await;
        if answer.says_completed() {
            scene.has_effects(&effect, 1, "it is completed").await;
        } else {
            let next = answer.is_acquired("its lease has run out");
            next.is_attempt(2, true, "the first has vanished");
            scene.has_effects(&effect, 0, "it was fenced").await;
        }
    }
}
