//! Writes under a lease that is no longer the current one have no effect.

use super::{Harness, LEASE, RETENTION, Rule, Scene, scene::reasons};

/// The zombie's completion is refused, and the successor's work goes on.
pub async fn a_late_completion_does_not_end_the_successors_claim<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Fencing);
    let zombie = scene.acquired().await;
    scene.advance(LEASE).await;
    let successor = scene.acquired().await;
    zombie.complete("late").await.is_fenced("taken over");
    let answer = scene.claimant().claim().await;
    answer.is_held("the successor works");
    let written = successor.complete("done").await;
    written.is_applied("it is the holder");
    let answer = scene.claimant().claim().await;
    answer.is_completed(b"done", "the successor completed");
}

/// The zombie's release, for whatever reason, frees nothing.
pub async fn a_late_release_does_not_free_the_successors_claim<H: Harness>(harness: &H) {
    for reason in reasons() {
        let scene = Scene::new(harness, Rule::Fencing);
        let zombie = scene.acquired().await;
        scene.advance(LEASE).await;
        let successor = scene.acquired().await;
        zombie.release(&reason).await.is_fenced("taken over");
        let told = scene.claimant().claim().await.is_held("still claimed");
        scene.lasts(told, LEASE, "the successor's lease is untouched");
        successor.extend(LEASE).await.is_applied("it is the holder");
    }
}

/// The zombie's heartbeat neither prolongs nor shortens the successor's lease.
pub async fn a_late_extension_does_not_touch_the_successors_lease<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Fencing);
    let zombie = scene.acquired().await;
    scene.advance(LEASE).await;
    let _successor = scene.acquired().await;
    for by in [LEASE / 10, 10 * LEASE] {
        zombie.extend(by).await.is_fenced("taken over");
        let told = scene.claimant().claim().await.is_held("still claimed");
        scene.lasts(told, LEASE, "the successor's lease is untouched");
    }
}

/// What the successor completed stays, whatever the zombie still writes.
pub async fn a_zombie_does_not_overwrite_a_completion<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Fencing);
    let zombie = scene.acquired().await;
    scene.advance(LEASE).await;
    let successor = scene.acquired().await;
    successor.complete("done").await.is_applied("the holder");
    zombie
        .complete("late")
        .await
        .is_fenced("completed by another");
    zombie.extend(LEASE).await.is_fenced("completed by another");
    for reason in reasons() {
        zombie
            .release(&reason)
            .await
            .is_fenced("completed by another");
    }
    let answer = scene.claimant().claim().await;
    answer.is_completed(b"done", "the successor's outcome stays");
}

/// The zombie cannot complete what the successor gave back.
pub async fn a_zombie_does_not_end_what_the_successor_released<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Fencing);
    let zombie = scene.acquired().await;
    scene.advance(LEASE).await;
    scene.acquired().await.fails().await;
    zombie.complete("late").await.is_fenced("taken over");
    zombie.extend(LEASE).await.is_fenced("taken over");
    zombie
        .release(&idem_core::store::Release::failed("late"))
        .await
        .is_fenced("taken over");
    let next = scene.acquired().await;
    next.is_attempt(3, false, "two attempts were made");
}

/// A heartbeat that arrives after the release does not bring the claim back.
pub async fn an_extension_does_not_revive_a_released_key<H: Harness>(harness: &H) {
    for reason in reasons() {
        let scene = Scene::new(harness, Rule::Fencing);
        let holder = scene.acquired().await;
        holder.release(&reason).await.is_applied("the holder");
        let why = format!("it was released: {reason:?}");
        holder.extend(LEASE).await.is_fenced(&why);
        let answer = scene.claimant().replay().claim().await;
        answer.is_acquired("the released key is free");
    }
}

/// A completion that arrives after the release makes no duplicate.
pub async fn a_completion_does_not_revive_a_released_key<H: Harness>(harness: &H) {
    for reason in reasons() {
        let scene = Scene::new(harness, Rule::Fencing);
        let holder = scene.acquired().await;
        holder.release(&reason).await.is_applied("the holder");
        let why = format!("it was released: {reason:?}");
        holder.complete("late").await.is_fenced(&why);
        let answer = scene.claimant().replay().claim().await;
        answer.is_acquired("the released key is free");
    }
}

/// A completed key stays completed, also against its own holder.
pub async fn a_completed_key_is_neither_extended_nor_released<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Fencing);
    let holder = scene.acquired().await;
    holder.complete("done").await.is_applied("the holder");
    holder.extend(LEASE).await.is_fenced("it is completed");
    for reason in reasons() {
        holder.release(&reason).await.is_fenced("it is completed");
    }
    let answer = scene.claimant().claim().await;
    answer.is_completed(b"done", "completed is completed");
}

/// A write for a key that nobody ever claimed creates nothing.
pub async fn a_write_to_an_unknown_key_creates_nothing<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Fencing);
    let forged = scene.forged(1);
    forged.extend(LEASE).await.is_fenced("never claimed");
    forged.complete("x").await.is_fenced("never claimed");
    for reason in reasons() {
        forged.release(&reason).await.is_fenced("never claimed");
    }
    let first = scene.acquired().await;
    first.is_attempt(1, false, "nothing was recorded");
}

/// A token that is too great is as wrong as one that is too small.
pub async fn a_write_with_a_token_never_given_is_fenced<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Fencing);
    let holder = scene.acquired().await;
    for token in [holder.token() + 1, holder.token() - 1, i64::MAX] {
        let forged = scene.forged(token);
        forged.extend(10 * LEASE).await.is_fenced("another token");
        forged.complete("x").await.is_fenced("another token");
        let written = forged.release(&idem_core::store::Release::Abandoned).await;
        written.is_fenced("another token");
    }
    let told = scene.claimant().claim().await.is_held("still claimed");
    scene.lasts(told, LEASE, "nothing has changed");
}

/// The lease ran out, nobody came: the work that was done counts.
pub async fn a_lease_that_ran_out_unnoticed_may_complete<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Fencing);
    let holder = scene.acquired().await;
    scene.advance(10 * LEASE).await;
    holder.complete("done").await.is_applied("nobody took over");
    let answer = scene.claimant().claim().await;
    answer.is_completed(b"done", "the work was done");
}

/// The lease ran out, nobody came: it holds again.
pub async fn a_lease_that_ran_out_unnoticed_may_be_extended<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Fencing);
    let holder = scene.acquired().await;
    scene.advance(10 * LEASE).await;
    holder.extend(LEASE).await.is_applied("nobody took over");
    let told = scene.claimant().claim().await.is_held("it was extended");
    scene.lasts(told, LEASE, "extended from now");
}

/// The lease ran out, nobody came: a release is still a word, so nothing is in doubt.
pub async fn a_lease_that_ran_out_unnoticed_may_be_released<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Fencing);
    let holder = scene.acquired().await;
    scene.advance(10 * LEASE).await;
    holder.fails().await;
    let next = scene.acquired().await;
    next.is_attempt(2, false, "the attempt ended with a word");
}

/// A lease from before the key was forgotten does not write to the one claimed anew.
pub async fn a_lease_from_a_former_life_is_fenced<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Fencing);
    let ancient = scene.acquired().await;
    scene.advance(LEASE + RETENTION).await;
    let holder = scene.acquired().await;
    ancient.complete("late").await.is_fenced("claimed anew");
    ancient.extend(LEASE).await.is_fenced("claimed anew");
    ancient
        .release(&idem_core::store::Release::Abandoned)
        .await
        .is_fenced("claimed anew");
    holder.complete("done").await.is_applied("it is the holder");
}
