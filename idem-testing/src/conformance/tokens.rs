//! Fencing tokens grow, whatever becomes of a key.

use super::{Harness, LEASE, RETENTION, Rule, Scene, holder::Holder, scene::reasons};

/// Every reason to release.
pub async fn tokens_grow_over_a_release<H: Harness>(harness: &H) {
    for reason in reasons() {
        let scene = Scene::new(harness, Rule::TokensGrow);
        let first = scene.acquired().await;
        first.release(&reason).await.is_applied("the holder");
        let answer = scene.claimant().replay().claim().await;
        let second = answer.is_acquired("the key was released");
        scene.holds(
            second.token() > first.token(),
            &format!("claimed after it was released: {reason:?}"),
        );
    }
}

/// The zombie has the smaller number.
pub async fn tokens_grow_over_a_takeover<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::TokensGrow);
    let first = scene.acquired().await;
    scene.advance(LEASE).await;
    let second = scene.acquired().await;
    scene.holds(second.token() > first.token(), "taken over");
}

/// A completed key that was forgotten, and is claimed anew.
pub async fn tokens_grow_after_a_completion_is_forgotten<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::TokensGrow);
    let first = scene.acquired().await;
    first.complete("done").await.is_applied("the holder");
    scene.advance(RETENTION).await;
    let second = scene.acquired().await;
    scene.holds(second.token() > first.token(), "claimed after retention");
}

/// An unfinished key that was forgotten, and is claimed anew.
pub async fn tokens_grow_after_an_attempt_is_forgotten<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::TokensGrow);
    let first = scene.acquired().await;
    scene.advance(LEASE + RETENTION).await;
    let second = scene.acquired().await;
    scene.holds(second.token() > first.token(), "claimed after retention");
}

/// Many claims in the same moment: a clock alone cannot tell them apart.
pub async fn tokens_grow_even_if_the_clock_stands_still<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::TokensGrow);
    let mut last = 0;
    for round in 0..40 {
        let holder = scene.acquired().await;
        let token = holder.token();
        scene.holds(token > last, &format!("claim {round} in quick succession"));
        last = token;
        holder.fails().await;
    }
}

/// All exits of a key one after the other.
pub async fn tokens_grow_over_a_whole_life<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::TokensGrow);
    let failed = scene.acquired().await;
    failed.fails().await;
    let vanished = scene.acquired().await;
    scene.advance(LEASE).await;
    let done = scene.acquired().await;
    done.complete("done").await.is_applied("the holder");
    scene.advance(RETENTION).await;
    let anew = scene.acquired().await;
    let tokens = [&failed, &vanished, &done, &anew].map(Holder::token);
    scene.holds(
        tokens.is_sorted_by(|a, b| a < b),
        &format!("failed, taken over, completed, forgotten: {tokens:?}"),
    );
}
