//! Who gets a key, and what everybody else is told.

use std::time::Duration;

use super::{
    Harness, LEASE, Rule, Scene,
    scene::{key, unique},
};

/// Nobody knows the key: attempt 1, not in doubt, under a positive token and that very key.
pub async fn a_new_key_is_acquired_as_its_first_attempt<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::OneStep);
    let claimant = scene.claimant();
    let holder = claimant.claim().await.is_acquired("nobody has the key");
    holder.is_attempt(1, false, "nobody has claimed the key before");
    scene.holds(holder.token() > 0, "a fencing token is positive");
    scene.holds(
        holder.lease.key == claimant.request.key,
        "the lease names the key",
    );
}

/// Everybody but the holder is told how long the lease still lasts.
pub async fn a_claimed_key_is_held_for_everybody_else<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::OneStep);
    let _holder = scene.acquired().await;
    for _ in 0..3 {
        let told = scene.claimant().claim().await.is_held("another holds it");
        scene.lasts(told, LEASE, "the whole lease remains");
    }
}

/// What remains shrinks with the store's clock.
pub async fn a_lease_runs_down_on_the_clock_of_the_store<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::StoreClock);
    let _holder = scene.acquired().await;
    scene.advance(LEASE / 2).await;
    let told = scene.claimant().claim().await.is_held("half is left");
    scene.lasts(told, LEASE / 2, "half of the lease has passed");
}

/// A lease holds up to its last moment.
pub async fn a_lease_holds_until_its_end<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::StoreClock);
    let _holder = scene.acquired().await;
    scene.advance_nearly(LEASE).await;
    let told = scene.claimant().claim().await.is_held("some time is left");
    scene.lasts(told, H::CLOCK.slack(), "the lease has nearly run out");
}

/// The moment in which nothing remains is no longer part of the lease.
pub async fn a_lease_that_has_run_out_is_taken_over<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::OneStep);
    let _vanished = scene.acquired().await;
    scene.advance(LEASE).await;
    let successor = scene.claimant().claim().await;
    let successor = successor.is_acquired("the lease has run out");
    successor.is_attempt(2, true, "the first attempt ended without a word");
}

/// Each claim is held for as long as it asked for, whatever the one before had.
pub async fn a_takeover_has_the_lease_that_it_asked_for<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::OneStep);
    let _vanished = scene.acquired().await;
    scene.advance(LEASE).await;
    let claim = scene.claimant().lease(5 * LEASE).claim().await;
    let _successor = claim.is_acquired("the lease has run out");
    let told = scene.claimant().claim().await.is_held("taken over");
    scene.lasts(told, 5 * LEASE, "the successor asked for a longer lease");
}

/// An extension counts from now, not from the end of the lease.
pub async fn an_extension_counts_from_now<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::StoreClock);
    let holder = scene.acquired().await;
    scene.advance(LEASE / 2).await;
    let written = holder.extend(LEASE).await;
    written.is_applied("the holder extends");
    let told = scene.claimant().claim().await.is_held("it was extended");
    scene.lasts(told, LEASE, "extended by a lease from now");
    scene.advance(LEASE).await;
    let answer = scene.claimant().claim().await;
    answer.is_acquired("the extension has run out as well");
}

/// A holder can keep its key for as long as it keeps extending.
pub async fn a_heartbeat_keeps_a_key_for_many_leases<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::OneStep);
    let holder = scene.acquired().await;
    for _ in 0..5 {
        scene.advance(LEASE / 2).await;
        let written = holder.extend(LEASE).await;
        written.is_applied("the holder extends in time");
        let answer = scene.claimant().claim().await;
        answer.is_held("the heartbeat came in time");
    }
}

/// `extend` makes the lease end at the time it names, also if that is sooner.
pub async fn an_extension_may_shorten_a_lease<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::StoreClock);
    let holder = scene.acquired().await;
    let written = holder.extend(LEASE / 2).await;
    written.is_applied("the holder asks for less");
    let told = scene
        .claimant()
        .claim()
        .await
        .is_held("half a lease is left");
    scene.lasts(told, LEASE / 2, "the lease ends when the holder says");
}

/// Its holder may still complete. The same owner has its lease back, and a free key is acquired as ever.
pub async fn a_claim_that_takes_nothing_over_leaves_a_lease_that_has_run_out<H: Harness>(
    harness: &H,
) {
    let scene = Scene::new(harness, Rule::Fencing);
    let owner = scene.claimant().taking_nothing_over();
    let holder = owner.claim().await.is_acquired("nobody has the key");
    scene.advance(LEASE).await;
    let other = || scene.claimant().taking_nothing_over();
    for other in [other(), other().replay()] {
        let told = other.claim().await.is_held("another owner has had it");
        scene.lasts(told, Duration::ZERO, "nothing remains of the lease");
    }
    owner.claim().await.is_acquired("it is this owner's");
    holder.complete("done").await.is_applied("nobody took over");
}

/// A lease of no time at all is a claim like any other: free for the next, and fenced.
pub async fn a_lease_of_zero_is_still_a_claim<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::OneStep);
    let claim = scene.claimant().lease(Duration::ZERO).claim().await;
    let first = claim.is_acquired("nobody has the key");
    let second = scene.claimant().lease(Duration::ZERO).claim().await;
    let second = second.is_acquired("no time remains");
    second.is_attempt(2, true, "the first attempt counts");
    first.complete("first").await.is_fenced("taken over");
    let written = second.complete("second").await;
    written.is_applied("nobody has taken over");
}

/// Claims of different keys do not know of each other.
pub async fn different_keys_are_independent<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::OneStep);
    let one = scene.acquired().await;
    let other = scene.claimant_of(key(&unique()));
    let held = other.claim().await.is_acquired("another key is free");
    one.complete("one").await.is_applied("the first holder");
    held.extend(LEASE).await.is_applied("the other holder");
    held.fails().await;
    let answer = scene.claimant().claim().await;
    answer.is_completed(b"one", "the other key's failure is its own");
}
