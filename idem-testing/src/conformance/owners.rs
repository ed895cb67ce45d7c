//! What an owner that asks again is told: the answer to its first call may have been lost.

use idem_core::store::{Release, Store};

use super::{
    Harness, LEASE, Rule, Scene,
    dropped::{POLLS, dropped_after},
    scene::{key, reasons, unique},
};

/// The same owner gets the same lease again, as often as it asks.
pub async fn a_repeated_claim_gets_the_same_lease<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Repeats);
    let owner = scene.claimant();
    let first = owner.claim().await.is_acquired("nobody has the key");
    for _ in 0..3 {
        let again = owner.claim().await.is_acquired("it is this owner's");
        scene.holds(again.lease == first.lease, "the lease is the same");
    }
}

/// A repeated claim through another handle, as after a reconnect, is the same owner's.
pub async fn a_repeated_claim_may_come_through_another_handle<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Repeats);
    let owner = scene.claimant();
    let first = owner.claim().await.is_acquired("nobody has the key");
    let elsewhere = scene.claimant().owner(owner.request.owner);
    let again = elsewhere.claim().await.is_acquired("it is this owner's");
    scene.holds(again.lease == first.lease, "the lease is the same");
    again.complete("done").await.is_applied("it is the holder");
}

/// A repeat renews the lease from now.
pub async fn a_repeated_claim_renews_the_lease<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Repeats);
    let owner = scene.claimant();
    owner.claim().await.is_acquired("nobody has the key");
    scene.advance(LEASE / 2).await;
    owner.claim().await.is_acquired("it is this owner's");
    let told = scene.claimant().claim().await.is_held("it was renewed");
    scene.lasts(told, LEASE, "the repeat asked for a whole lease");
}

/// A repeat that comes late does not cut short what a heartbeat has extended.
pub async fn a_repeated_claim_never_shortens_the_lease<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Repeats);
    let owner = scene.claimant();
    let holder = owner.claim().await.is_acquired("nobody has the key");
    let written = holder.extend(10 * LEASE).await;
    written.is_applied("the holder extends");
    owner.claim().await.is_acquired("it is this owner's");
    let told = scene.claimant().claim().await.is_held("it was extended");
    scene.lasts(told, 10 * LEASE, "the extension still counts");
}

/// The lease ran out, but nobody came: the owner still has its key.
pub async fn an_owner_whose_lease_ran_out_unnoticed_has_its_key_again<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Repeats);
    let owner = scene.claimant();
    let first = owner.claim().await.is_acquired("nobody has the key");
    scene.advance(2 * LEASE).await;
    let again = owner.claim().await.is_acquired("nobody took over");
    scene.holds(again.lease == first.lease, "it is the same attempt");
    let told = scene.claimant().claim().await.is_held("renewed");
    scene.lasts(told, LEASE, "the repeat asked for a whole lease");
}

/// Once another has taken over, the first owner is like anybody else.
pub async fn an_owner_that_was_taken_over_is_held_off<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Repeats);
    let owner = scene.claimant();
    owner.claim().await.is_acquired("nobody has the key");
    scene.advance(LEASE).await;
    let successor = scene.acquired().await;
    owner.claim().await.is_held("another has taken over");
    successor.fails().await;
}

/// A repeat says about the attempt before what the first answer said.
pub async fn a_repeated_claim_is_as_much_in_doubt_as_before<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Repeats);
    let _vanished = scene.acquired().await;
    scene.advance(LEASE).await;
    let owner = scene.claimant();
    let first = owner.claim().await.is_acquired("the lease has run out");
    let again = owner.claim().await.is_acquired("it is this owner's");
    first.is_attempt(2, true, "taken over");
    again.is_attempt(2, true, "the answer is repeated");
}

/// A claim that arrives late, after its owner gave the key back, starts nothing.
pub async fn an_owner_that_released_does_not_acquire_again<H: Harness>(harness: &H) {
    for reason in reasons() {
        let scene = Scene::new(harness, Rule::Repeats);
        let owner = scene.claimant();
        let holder = owner.claim().await.is_acquired("nobody has the key");
        holder.release(&reason).await.is_applied("the holder");
        let why = format!("this owner released the key: {reason:?}");
        let told = owner.claim().await.is_held(&why);
        scene.lasts(told, std::time::Duration::ZERO, "nobody holds the key");
    }
}

/// A late claim of the one that released does not keep the next owner from working.
pub async fn a_late_claim_does_not_block_the_next_owner<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Repeats);
    let owner = scene.claimant();
    let holder = owner.claim().await.is_acquired("nobody has the key");
    holder.fails().await;
    owner.claim().await.is_held("this owner's lease was ended");
    let next = scene.acquired().await;
    next.is_attempt(2, false, "the late claim was no attempt");
    owner.claim().await.is_held("another holds the key");
}

/// The owner that completed is told so, like everybody else.
pub async fn an_owner_that_completed_is_told_so<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Repeats);
    let owner = scene.claimant();
    let holder = owner.claim().await.is_acquired("nobody has the key");
    holder.complete("done").await.is_applied("the holder");
    owner.claim().await.is_completed(b"done", "it is done");
}

/// Nobody knows whether a claim was recorded whose future was dropped: its owner asks again.
pub async fn a_claim_that_was_dropped_midway_can_be_repeated<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Repeats);
    for polls in POLLS {
        let owner = scene.claimant_of(key(&unique()));
        dropped_after(polls, owner.store.claim(&owner.request)).await;
        let holder = owner.claim().await.is_acquired("only it asked");
        holder.is_attempt(1, false, "it is one try, however often asked");
        let written = holder.release(&Release::Abandoned).await;
        written.is_applied("it is the holder");
    }
}
