//! What a worker takes for the time decides nothing: the store's clock does.

use std::time::Duration;

use super::{LEASE, RETENTION, Rule, Scene, WorkerClockHarness};

/// A worker that was suspended, or whose clock was set, takes nothing over.
pub async fn a_workers_clock_that_leaps_ends_no_lease<H: WorkerClockHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::StoreClock);
    let holder = scene.acquired().await;
    harness.leap(10 * LEASE).await;
    let told = scene.claimant().claim().await.is_held("the lease goes on");
    scene.lasts(told, LEASE, "nothing of it has passed for the store");
    holder.complete("done").await.is_applied("it is the holder");
}

/// Nor does it forget.
pub async fn a_workers_clock_that_leaps_forgets_nothing<H: WorkerClockHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::StoreClock);
    let holder = scene.acquired().await;
    holder.complete("done").await.is_applied("it is the holder");
    harness.leap(2 * RETENTION).await;
    let answer = scene.claimant().claim().await;
    let told = answer.is_completed(b"done", "it is remembered");
    scene.lasts(told, RETENTION, "nothing of it has passed for the store");
}

/// Nor does it try again before its time.
pub async fn a_workers_clock_that_leaps_brings_no_retry_forward<H: WorkerClockHarness>(
    harness: &H,
) {
    let scene = Scene::new(harness, Rule::StoreClock);
    let delay = Duration::from_mins(10);
    scene.acquired().await.fails_for(delay).await;
    harness.leap(2 * delay).await;
    let told = scene.claimant().claim().await.is_held("it is too early");
    scene.lasts(told, delay, "nothing of it has passed for the store");
}
