//! Keys, outcomes and errors that a careless encoding would change.

use idem_core::{message::Key, store::Release};

use super::{
    Harness, LEASE, Rule, Scene,
    scene::{key, unique},
};

/// Nothing is something: a handler may return nothing.
pub async fn an_empty_outcome_is_remembered<H: Harness>(harness: &H) {
    remembers(harness, Vec::new()).await;
}

/// All 256 byte values, NUL and invalid UTF-8 among them.
pub async fn an_outcome_of_odd_bytes_is_remembered<H: Harness>(harness: &H) {
    let bytes: Vec<u8> = (0..=255).rev().chain(0..=255).collect();
    remembers(harness, bytes).await;
}

/// 64 KiB.
pub async fn a_large_outcome_is_remembered<H: Harness>(harness: &H) {
    let bytes = (0..64 * 1024_u32).map(|i| (i % 251) as u8).collect();
    remembers(harness, bytes).await;
}

/// Two keys of the greatest length that differ in their last byte only.
pub async fn keys_of_the_greatest_length_are_kept_apart<H: Harness>(harness: &H) {
    let head = unique();
    let free = Key::MAX_LEN - key(&head).as_str().len() - 1;
    let keys = ["a", "b"].map(|last| key(&format!("{head}{}{last}", "x".repeat(free))));
    assert!(keys.iter().all(|key| key.as_str().len() == Key::MAX_LEN));
    apart(harness, keys.to_vec()).await;
}

/// Keys that were too long end with a digest, and are as good as any.
pub async fn keys_that_were_shortened_are_kept_apart<H: Harness>(harness: &H) {
    let tails = ["a", "b"].map(|last| format!("-{}{last}", "ü".repeat(300)));
    apart(harness, beginning_alike(&tails)).await;
}

/// Unicode that looks alike, or is equal after normalisation, names different work.
pub async fn keys_that_look_alike_are_kept_apart<H: Harness>(harness: &H) {
    let tails = [
        "-caf\u{e9}",
        "-cafe\u{301}",
        "-cafe",
        "-\u{441}afe",
        "-ｃafe",
        "-🦀",
        "-🦞",
    ];
    apart(harness, beginning_alike(&tails)).await;
}

/// Neither a collation nor a fixed-width column may make two keys one.
pub async fn keys_that_differ_in_case_or_spaces_are_kept_apart<H: Harness>(harness: &H) {
    let tails = [
        "-order", "-ORDER", "-Order", "-order ", "-order  ", "- order",
    ];
    apart(harness, beginning_alike(&tails)).await;
}

/// What means something to SQL, Lua, patterns, URLs or cluster slots means nothing in a key.
pub async fn keys_of_odd_characters_are_kept_apart<H: Harness>(harness: &H) {
    let tails = [
        "-'; DROP TABLE records; --",
        "-\"",
        "-\\",
        "-\\\\",
        "-%",
        "-_",
        "-*",
        "-?",
        "-{a}",
        "-{b}",
        "-{}a",
        "-:",
        "-a:b",
        "-~",
        "-\0",
        "-\n",
        "-$1",
        "-a/b",
        "-&#39;",
        "-NULL",
    ];
    apart(harness, beginning_alike(&tails)).await;
}

/// An error of the greatest length, with all that an error may contain.
pub async fn errors_of_any_text_are_accepted<H: Harness>(harness: &H) {
    let errors = [
        String::new(),
        "x".repeat(Release::MAX_ERROR_LEN),
        "ü".repeat(Release::MAX_ERROR_LEN),
        "it's \"odd\" \\ %s $1 {} \u{0}\u{7f}\r\n\t🦀".to_owned(),
    ];
    for error in errors {
        let scene = Scene::new(harness, Rule::AttemptsSurvive);
        let holder = scene.acquired().await;
        let failed = Release::failed(error.clone());
        holder
            .release(&failed)
            .await
            .is_applied("any text may be told");
        holder
            .release(&failed)
            .await
            .is_applied("the same once more");
        let next = scene.acquired().await;
        next.is_attempt(2, false, "the failure was recorded");
        let gave_up = Release::gave_up(error);
        next.release(&gave_up)
            .await
            .is_applied("any text may be told");
    }
}

async fn remembers<H: Harness>(harness: &H, bytes: Vec<u8>) {
    let scene = Scene::new(harness, Rule::CompletedWins);
    let holder = scene.acquired().await;
    holder
        .complete(bytes.clone())
        .await
        .is_applied("the holder");
    let answer = scene.claimant().claim().await;
    answer.is_completed(&bytes, "every byte of the outcome is remembered");
}

/// Each key is acquired, completed and answered on its own.
async fn apart<H: Harness>(harness: &H, keys: Vec<Key>) {
    let scene = Scene::new(harness, Rule::OneStep);
    let mut holders = Vec::new();
    for key in &keys {
        let claim = scene.claimant_of(key.clone()).claim().await;
        let holder = claim.is_acquired(&format!("{key} is a key of its own"));
        scene.holds(&holder.lease.key == key, "the lease names the key");
        holders.push(holder);
    }
    for (number, holder) in holders.iter().enumerate() {
        holder
            .extend(LEASE)
            .await
            .is_applied("each holds its own key");
        let written = holder.complete(number.to_string()).await;
        written.is_applied("each holds its own key");
    }
    for (number, key) in keys.iter().enumerate() {
        let answer = scene.claimant_of(key.clone()).claim().await;
        let expected = number.to_string();
        answer.is_completed(expected.as_bytes(), &format!("{key} has its own outcome"));
    }
}

/// Keys with one random beginning, which no other case has, and these ends.
fn beginning_alike<T: AsRef<str>>(tails: &[T]) -> Vec<Key> {
    let head = unique();
    let part = |tail: &T| format!("{head}{}", tail.as_ref());
    tails.iter().map(|tail| key(&part(tail))).collect()
}
