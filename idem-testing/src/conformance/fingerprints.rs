//! The same key with other content.

use idem_core::store::Release;

use super::{Harness, LEASE, RETENTION, Rule, Scene, holder::Holder};

/// A duplicate has the same content.
pub async fn the_same_content_is_a_duplicate<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::KeyReused);
    let holder = acquired(&scene, "ten euros").await;
    holder.complete("done").await.is_applied("the holder");
    let answer = scene.claimant().content("ten euros").claim().await;
    answer.is_completed(b"done", "it is the same message");
}

/// Completion keeps the fingerprint: other content is no duplicate.
pub async fn other_content_on_a_completed_key_is_key_reuse<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::KeyReused);
    let holder = acquired(&scene, "ten euros").await;
    holder.complete("done").await.is_applied("the holder");
    for _ in 0..2 {
        let answer = scene.claimant().content("a million").claim().await;
        answer.is_key_reused("another message has completed");
    }
    let answer = scene.claimant().content("ten euros").claim().await;
    answer.is_completed(b"done", "the answer before changed nothing");
}

/// While a worker holds the key nobody knows yet what will come of it.
pub async fn other_content_is_held_while_a_worker_holds_the_key<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::KeyReused);
    let _holder = acquired(&scene, "ten euros").await;
    let answer = scene.claimant().content("a million").claim().await;
    let told = answer.is_held("a worker holds the key");
    scene.lasts(told, LEASE, "held like everybody else");
}

/// The failed message will come again; another may not take its place.
pub async fn other_content_on_a_failed_key_is_key_reuse<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::KeyReused);
    acquired(&scene, "ten euros").await.fails().await;
    let answer = scene.claimant().content("a million").claim().await;
    answer.is_key_reused("the key stands for the failed message");
    let next = acquired(&scene, "ten euros").await;
    next.is_attempt(2, false, "the answer before was no attempt");
}

/// A replay does not make other content the same message, unless the key was given up.
pub async fn a_replay_with_other_content_on_a_failed_key_is_key_reuse<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::KeyReused);
    acquired(&scene, "ten euros").await.fails().await;
    let answer = scene.claimant().content("a million").replay().claim().await;
    answer.is_key_reused("the key stands for the failed message");
}

/// Giving up drops the content, so that a corrected message runs.
pub async fn other_content_runs_after_giving_up<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::KeyReused);
    let holder = acquired(&scene, "ten euro").await;
    let written = holder.release(&Release::gave_up("a typing error")).await;
    written.is_applied("the holder");
    let corrected = acquired(&scene, "ten euros").await;
    corrected.is_attempt(1, false, "it starts over");
    corrected.fails().await;
    let answer = scene.claimant().content("ten euro").claim().await;
    answer.is_key_reused("the key now stands for the corrected message");
}

/// What was never polled is no content either.
pub async fn other_content_runs_after_a_claim_was_abandoned<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::KeyReused);
    let holder = acquired(&scene, "ten euros").await;
    let written = holder.release(&Release::Abandoned).await;
    written.is_applied("the holder");
    let other = acquired(&scene, "a million").await;
    other.is_attempt(1, false, "nobody has tried yet");
}

/// Nor what took over from another, and was never polled.
pub async fn the_content_of_an_abandoned_takeover_is_dropped<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::KeyReused);
    let _vanished = acquired(&scene, "ten euros").await;
    scene.advance(LEASE).await;
    let successor = acquired(&scene, "a million").await;
    let written = successor.release(&Release::Abandoned).await;
    written.is_applied("the holder");
    let next = acquired(&scene, "ten euros").await;
    next.is_attempt(2, true, "the first attempt alone was one");
}

/// An abandoned retry does not make the key forget what was tried before.
pub async fn an_abandoned_retry_keeps_the_content<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::KeyReused);
    acquired(&scene, "ten euros").await.fails().await;
    let retry = acquired(&scene, "ten euros").await;
    let written = retry.release(&Release::Abandoned).await;
    written.is_applied("the holder");
    let answer = scene.claimant().content("a million").claim().await;
    answer.is_key_reused("this content was tried before");
}

/// An expired lease is nobody's: other content may take over, and the key stands for it.
pub async fn other_content_may_take_over<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::KeyReused);
    let _vanished = acquired(&scene, "ten euros").await;
    scene.advance(LEASE).await;
    let successor = acquired(&scene, "a million").await;
    successor.is_attempt(2, true, "the first has vanished");
    successor.complete("done").await.is_applied("the holder");
    let answer = scene.claimant().content("ten euros").claim().await;
    answer.is_key_reused("other content has completed");
    let answer = scene.claimant().content("a million").claim().await;
    answer.is_completed(b"done", "this is what ran");
}

/// Who does not compare is told what happened, whatever the content.
pub async fn a_claim_without_fingerprint_matches_any_content<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::KeyReused);
    acquired(&scene, "ten euros").await.fails().await;
    let second = scene.acquired().await;
    second.is_attempt(2, false, "nothing to compare");
    second.complete("done").await.is_applied("the holder");
    let answer = scene.claimant().claim().await;
    answer.is_completed(b"done", "nothing to compare");
}

/// A key that was claimed without a fingerprint refuses nobody.
pub async fn a_key_without_fingerprint_matches_any_content<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::KeyReused);
    let holder = scene.acquired().await;
    holder.complete("done").await.is_applied("the holder");
    for content in ["ten euros", "a million"] {
        let answer = scene.claimant().content(content).claim().await;
        answer.is_completed(b"done", "nothing to compare with");
    }
}

/// A claim that does not compare does not make the key forget its content.
pub async fn a_claim_without_fingerprint_keeps_the_one_there_is<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::KeyReused);
    acquired(&scene, "ten euros").await.fails().await;
    let _vanished = scene.acquired().await;
    scene.advance(LEASE).await;
    let successor = scene.acquired().await;
    successor.complete("done").await.is_applied("the holder");
    let answer = scene.claimant().content("a million").claim().await;
    answer.is_key_reused("the first claim's content is remembered");
}

/// A refused claim changes nothing: neither the count nor the memory's end.
pub async fn key_reuse_does_not_prolong_the_memory<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::KeyReused);
    acquired(&scene, "ten euros").await.fails().await;
    scene.advance(RETENTION / 2).await;
    let answer = scene.claimant().content("a million").claim().await;
    answer.is_key_reused("the key stands for the failed message");
    scene.advance(RETENTION / 2).await;
    let anew = acquired(&scene, "a million").await;
    anew.is_attempt(1, false, "the failed message is forgotten");
}

/// With the record the content is forgotten.
pub async fn content_is_forgotten_with_the_record<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::KeyReused);
    let holder = acquired(&scene, "ten euros").await;
    holder.complete("done").await.is_applied("the holder");
    scene.advance(RETENTION).await;
    let anew = acquired(&scene, "a million").await;
    anew.is_attempt(1, false, "the retention is over");
}

async fn acquired<H: Harness>(scene: &Scene<'_, H>, content: &str) -> Holder<H::Store> {
    let answer = scene.claimant().content(content).claim().await;
    answer.is_acquired(&format!("free for {content:?} at this point"))
}
