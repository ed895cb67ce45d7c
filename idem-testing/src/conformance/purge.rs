//! What a purge removes, and what it must leave. The cases count records, and want data that no
//! other case touches.

use std::time::Duration;

use futures_util::{FutureExt as _, future::BoxFuture};
use idem_core::store::{Claim, Lease, Purge, Release};

use super::{
    Harness, LEASE, PurgeHarness, RETENTION, Rule, Scene,
    holder::Holder,
    race::race,
    scene::{key, reasons, unique},
};

/// Every state a record can be in ends here, once its retention is over.
pub async fn a_purge_removes_what_the_retention_has_ended_for<H: PurgeHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Purge);
    let _vanished = other(&scene).await;
    let done = other(&scene).await;
    done.complete("done").await.is_applied("the holder");
    for reason in reasons() {
        let holder = other(&scene).await;
        holder.release(&reason).await.is_applied("the holder");
    }
    removes(&scene, 100, 0, "nothing is forgotten yet").await;
    scene.advance(LEASE + RETENTION).await;
    removes(&scene, 100, 6, "one record of each state").await;
    removes(&scene, 100, 0, "all were removed").await;
}

/// Shortly before the end of its retention a record is remembered.
pub async fn a_purge_leaves_what_is_remembered<H: PurgeHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Purge);
    let holder = scene.acquired().await;
    holder.complete("done").await.is_applied("the holder");
    let failed = scene.claimant_of(key(&unique()));
    failed.claim().await.is_acquired("a new key").fails().await;
    scene.advance_nearly(RETENTION).await;
    removes(&scene, 100, 0, "the retention is not over").await;
    let answer = scene.claimant().claim().await;
    answer.is_completed(b"done", "it is still remembered");
    let retry = scene.claimant_of(failed.request.key).claim().await;
    let retry = retry.is_acquired("the key is free");
    retry.is_attempt(2, false, "the failure is still remembered");
}

/// A worker that holds its key for longer than the retention keeps it.
pub async fn a_purge_leaves_a_key_that_is_held<H: PurgeHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Purge);
    let second = Duration::from_secs(1);
    let claim = scene.claimant().retention(second).claim().await;
    let holder = claim.is_acquired("nobody has the key");
    scene.advance(LEASE / 2).await;
    removes(&scene, 100, 0, "the lease is not over").await;
    let answer = scene.claimant().claim().await;
    answer.is_held("the lease is not over");
    holder.complete("done").await.is_applied("it is the holder");
}

/// A key that waits for its retry for longer than the retention goes on waiting, and its attempts
/// are counted on.
pub async fn a_purge_leaves_a_key_that_waits_for_its_retry<H: PurgeHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Purge);
    let (short, delay) = (Duration::from_mins(1), Duration::from_mins(10));
    let claim = scene.claimant().retention(short).claim().await;
    claim
        .is_acquired("nobody has the key")
        .fails_for(delay)
        .await;
    scene.advance(delay / 2).await;
    removes(&scene, 100, 0, "the retry is not due").await;
    let answer = scene.claimant().claim().await;
    answer.is_held("the retry is not due");
    scene.advance(delay / 2).await;
    removes(&scene, 100, 0, "the retry is due only now").await;
    let answer = scene.claimant().retention(short).claim().await;
    let next = answer.is_acquired("the retry is due");
    next.is_attempt(2, false, "the first one counts");
    next.fails_for(delay).await;
    scene.advance(delay + short).await;
    removes(&scene, 100, 1, "nobody has come for the retry").await;
}

/// At most as many as asked for; fewer means that none are left.
pub async fn a_purge_removes_at_most_a_batch<H: PurgeHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Purge);
    for _ in 0..7 {
        other(&scene).await.fails().await;
    }
    scene.advance(RETENTION).await;
    for expected in [3, 3, 1, 0] {
        removes(&scene, 3, expected, "seven records in batches of three").await;
    }
}

/// Forgotten once and for all, but for the token.
pub async fn a_purged_key_is_new_and_its_token_grows<H: PurgeHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::TokensGrow);
    let mut last = 0;
    for round in 0..5 {
        let holder = scene.acquired().await;
        holder.is_attempt(1, false, "the key was purged");
        scene.holds(holder.token() > last, &format!("purged {round} times"));
        last = holder.token();
        holder.complete("done").await.is_applied("the holder");
        scene.advance(RETENTION).await;
        removes(&scene, 100, 1, "the completion").await;
    }
}

/// A worker that wakes up after its record was purged writes nothing.
pub async fn a_purged_key_is_not_revived<H: PurgeHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Fencing);
    let zombie = scene.acquired().await;
    scene.advance(LEASE + RETENTION).await;
    removes(&scene, 100, 1, "the vanished attempt").await;
    zombie.extend(LEASE).await.is_fenced("it was purged");
    zombie.complete("late").await.is_fenced("it was purged");
    for reason in reasons() {
        zombie.release(&reason).await.is_fenced("it was purged");
    }
    let anew = scene.acquired().await;
    anew.is_attempt(1, false, "nothing was written");
    zombie.complete("late").await.is_fenced("claimed anew");
}

/// A repeated completion of a purged key is no completion any more.
pub async fn a_purged_completion_is_not_repeated<H: PurgeHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Fencing);
    let holder = scene.acquired().await;
    holder.complete("done").await.is_applied("the holder");
    scene.advance(RETENTION).await;
    removes(&scene, 100, 1, "the completion").await;
    holder.complete("done").await.is_fenced("it was purged");
    let answer = scene.claimant().claim().await;
    answer.is_acquired("nothing is remembered");
}

/// The record is forgotten, workers ask for it, and a purge is going on: one gets it and keeps it.
pub async fn a_purge_that_races_with_claims_takes_nothing_from_the_winner<H: PurgeHarness>(
    harness: &H,
) {
    let scene = Scene::new(harness, Rule::Purge);
    let mut last = 0;
    for round in 0..15 {
        let _vanished = scene.acquired().await;
        scene.advance(LEASE + RETENTION).await;
        let mut all: Vec<BoxFuture<'static, Option<Claim>>> = Vec::new();
        for _ in 0..6 {
            let claimant = scene.claimant();
            all.push(claimant.claim_plainly().map(Some).boxed());
            let store = scene.store();
            all.push(
                async move {
                    let _removed = Rule::Purge.answer(store.purge(100).await);
                    None
                }
                .boxed(),
            );
        }
        let said = race(all).await.into_iter().flatten();
        let leases: Vec<Lease> = said
            .filter_map(|claim| match claim {
                Claim::Acquired(lease) => Some(lease),
                _ => None,
            })
            .collect();
        let found = leases.len();
        scene.holds(found == 1, &format!("{found} acquired in round {round}"));
        scene.holds(leases[0].token.get() > last, "the token grows");
        last = leases[0].token.get();
        let answer = scene.claimant().claim().await;
        answer.is_held("the winner has the key");
        let holder = scene.holder_of(leases[0].clone());
        let written = holder.release(&Release::Abandoned).await;
        written.is_applied("the winner has the key");
    }
}

/// Two that purge at once remove each record once, and neither fails.
pub async fn purges_that_race_share_the_work<H: PurgeHarness>(harness: &H) {
    const RECORDS: u32 = 30;
    let scene = Scene::new(harness, Rule::Purge);
    for _ in 0..RECORDS {
        other(&scene).await.fails().await;
    }
    scene.advance(RETENTION).await;
    let purges = (0..6).map(|_| {
        let store = scene.store();
        async move {
            let mut removed = 0;
            for _ in 0..RECORDS {
                removed += Rule::Purge.answer(store.purge(4).await);
            }
            removed
        }
        .boxed()
    });
    let removed: u32 = race(purges.collect()).await.into_iter().sum();
    scene.holds(
        removed == RECORDS,
        &format!("{removed} removals of {RECORDS} records"),
    );
}

/// A new key, claimed.
async fn other<H: Harness>(scene: &Scene<'_, H>) -> Holder<H::Store> {
    let claim = scene.claimant_of(key(&unique())).claim().await;
    claim.is_acquired("a new key")
}

async fn removes<H: PurgeHarness>(scene: &Scene<'_, H>, batch: u32, expected: u32, why: &str) {
    let removed = Rule::Purge.answer(scene.store().purge(batch).await);
    scene.holds(
        removed == expected,
        &format!("{why}: expected {expected} removed, the store says {removed}"),
    );
}
