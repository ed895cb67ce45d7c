//! Claims that are made before there is a transaction for them.

use std::{future::pending, time::Duration};

use idem_core::store::{
    Begun, Claim, Finished, Lease, Opening, Release, TransactionalStore, Write,
};

use super::{
    LEASE, Rule, Scene, TransactionalHarness, claimant::Claimant, open::Open, scene::unique,
};

/// A transaction in the making.
type Promised<'a, H> = Opening<
    'a,
    <<H as super::Harness>::Store as TransactionalStore<
        <H as TransactionalHarness>::Tx,
    >>::Transaction,
>;

/// What the store answers to a claim ahead.
async fn ahead<H: TransactionalHarness>(
    claimant: &Claimant<H::Store>,
) -> Result<(Lease, Promised<'_, H>), Claim> {
    let claimed = TransactionalStore::<H::Tx>::claim_ahead(&*claimant.store, &claimant.request);
    match Rule::Ahead.answer(claimed.await) {
        Begun::Acquired(lease, opening) => Ok((lease, opening)),
        Begun::Not(answer) => Err(answer),
    }
}

/// Claims a key ahead that must be free.
async fn claimed<'a, H: TransactionalHarness>(
    scene: &Scene<'_, H>,
    claimant: &'a Claimant<H::Store>,
) -> (Lease, Promised<'a, H>) {
    match ahead::<H>(claimant).await {
        Ok(claimed) => claimed,
        Err(answer) => {
            scene.did_not_expect(Err(answer), "Acquired: the key is free");
            pending().await
        }
    }
}

/// From the claim on the key is held; its transaction commits effect and completion.
pub async fn a_claim_ahead_opens_its_transaction<H: TransactionalHarness>(harness: &H) {
    let (scene, effect) = (Scene::new(harness, Rule::Ahead), unique());
    let claimant = scene.claimant();
    let (lease, opening) = claimed(&scene, &claimant).await;
    let told = (lease.attempt, lease.in_doubt);
    scene.holds(told == (1, false), "a new key is its first attempt");
    let mut open = Open::<H>::ahead(&claimant, lease, opening).await;
    scene
        .claimant()
        .claim()
        .await
        .is_held("it was claimed ahead");
    open.write_effect(&effect).await;
    open.commits().await;
    scene.has_effects(&effect, 1, "it was committed").await;
    let answer = scene.claimant().claim().await;
    answer.is_completed(b"done", "completed in the same commit");
}

/// What was never opened holds its key like any claim, and is an attempt that vanished.
pub async fn a_claim_ahead_that_is_not_opened_holds_until_its_lease_ends<
    H: TransactionalHarness,
>(
    harness: &H,
) {
    let scene = Scene::new(harness, Rule::Ahead);
    let claimant = scene.claimant();
    let (lease, opening) = claimed(&scene, &claimant).await;
    drop(opening);
    scene
        .claimant()
        .claim()
        .await
        .is_held("it was claimed ahead");
    scene.advance(LEASE).await;
    let next = scene.acquired().await;
    scene.holds(next.lease.token > lease.token, "tokens grow");
    next.is_attempt(2, true, "the first has vanished");
}

/// Whoever waits for its transaction keeps its key by a heartbeat.
pub async fn a_claim_ahead_can_be_extended<H: TransactionalHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Ahead);
    let claimant = scene.claimant();
    let (lease, opening) = claimed(&scene, &claimant).await;
    for _ in 0..3 {
        scene.advance(LEASE / 2).await;
        let extended = TransactionalStore::<H::Tx>::extend_open(&*claimant.store, &lease, LEASE);
        let extended = Rule::Ahead.answer(extended.await);
        scene.holds(extended == Write::Applied, "it is the holder");
        scene.claimant().claim().await.is_held("it was extended");
    }
    Open::<H>::ahead(&claimant, lease, opening)
        .await
        .commits()
        .await;
}

/// Attempts are counted as by any other claim.
pub async fn a_claim_ahead_is_an_attempt<H: TransactionalHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::AttemptsSurvive);
    for attempt in 1..=3 {
        let claimant = scene.claimant();
        let (lease, opening) = claimed(&scene, &claimant).await;
        let why = format!(
            "expected attempt {attempt}, the store told {}",
            lease.attempt
        );
        scene.holds(lease.attempt == attempt, &why);
        let open = Open::<H>::ahead(&claimant, lease, opening).await;
        open.rolls_back(&Release::failed("no")).await;
    }
}

/// Whom the store would lend no transaction it promises none.
pub async fn a_duplicate_is_promised_no_transaction<H: TransactionalHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::CompletedWins);
    Open::<H>::of(&scene.claimant()).await.commits().await;
    let claimant = scene.claimant();
    match ahead::<H>(&claimant).await {
        Err(Claim::Completed { outcome, .. }) => {
            scene.holds(outcome.as_bytes() == b"done", "the outcome is remembered");
        }
        Err(answer) => scene.did_not_expect(Err(answer), "Completed"),
        Ok(_) => scene.holds(
            false,
            "expected Completed, the store promised a transaction",
        ),
    }
}

/// Its lease ran out before its transaction was opened, and another took over.
pub async fn a_claim_ahead_that_was_taken_over_commits_nothing<H: TransactionalHarness>(
    harness: &H,
) {
    let (scene, effect) = (Scene::new(harness, Rule::Fencing), unique());
    let claimant = scene.claimant();
    let (lease, opening) = claimed(&scene, &claimant).await;
    scene.advance(LEASE).await;
    let successor = scene.acquired().await;
    let mut zombie = Open::<H>::ahead(&claimant, lease, opening).await;
    zombie.write_effect(&effect).await;
    let commit = zombie.commit("zombie").await;
    scene.holds(commit != Finished::Committed, "another has taken over");
    scene.has_effects(&effect, 0, "nothing was committed").await;
    let extended = successor.extend(Duration::from_mins(1)).await;
    extended.is_applied("the successor works");
}
