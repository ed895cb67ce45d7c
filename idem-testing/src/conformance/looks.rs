//! What is told of one key, without claiming it.

use std::time::Duration;

use idem_core::{
    handler::Outcome,
    message::Fingerprint,
    store::{Condition, FailedReason, Release},
};

use super::{LEASE, LookHarness, RETENTION, Rule, Scene};

/// Who holds it, since when, and for how long.
pub async fn a_key_in_progress_is_shown_with_its_lease<H: LookHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Looks);
    scene.acquired().await.fails().await;
    let claimant = scene.claimant().content("a");
    let holder = claimant.claim().await.is_acquired("the key is free");
    scene.advance(LEASE / 2).await;
    let record = scene.record().await;
    let Condition::InProgress { lease_remaining } = record.condition else {
        panic!("{}\n  here: {record:?} is in progress", scene.rule())
    };
    scene.lasts(lease_remaining, LEASE / 2, "the rest of the lease");
    let rest = LEASE / 2 + RETENTION;
    scene.lasts(record.remembered_for, rest, "until it is forgotten");
    scene.is_about(record.age, LEASE / 2, "since it was claimed");
    scene.holds(record.token == holder.lease.token, "the token");
    scene.holds((record.attempts, record.in_doubt) == (2, false), "attempts");
    let owner = Some(claimant.request.owner);
    scene.holds(record.owner == owner, "the owner");
    let content = Some(Fingerprint::of(b"a"));
    scene.holds(record.fingerprint == content, "the fingerprint");
    scene.advance(LEASE).await;
    let condition = scene.record().await.condition;
    let over = Condition::InProgress {
        lease_remaining: Duration::ZERO,
    };
    scene.holds(condition == over, "the lease has run out");
}

/// The bytes themselves, and how long they are remembered.
pub async fn a_completed_key_is_shown_with_its_outcome<H: LookHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Looks);
    let outcome = vec![0, 255, b'\n', 7];
    let holder = scene.acquired().await;
    holder.complete(outcome.clone()).await.is_applied("holder");
    let told = scene.outcome().await;
    scene.holds(told == Some(Outcome::new(outcome)), "the bytes");
    let record = scene.record().await;
    let completed = Condition::Completed { outcome_bytes: 4 };
    scene.holds(record.condition == completed, "how large it is");
    scene.lasts(record.remembered_for, RETENTION, "the retention");
    scene.holds(record.attempts == 1, "the attempts");
    scene.advance(RETENTION).await;
    if let Some(known) = scene.looked().await {
        let rest = known.record.remembered_for;
        scene.holds(
            rest.is_zero(),
            &format!("it is over, and {rest:?} are left"),
        );
    }
}

/// The words of the last failure, and when there is another attempt.
pub async fn a_failed_key_is_shown_with_its_error_and_its_retry<H: LookHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Looks);
    let delay = Duration::from_mins(10);
    let failed = Release::retry_after(delay, "no such customer: ü");
    let holder = scene.acquired().await;
    holder.release(&failed).await.is_applied("the holder");
    let record = scene.record().await;
    let Condition::Failed {
        reason,
        error,
        retry_in,
    } = record.condition
    else {
        panic!("{}\n  here: {record:?} is failed", scene.rule())
    };
    scene.holds(reason == FailedReason::Failed, "why it was released");
    let error = error.as_deref();
    scene.holds(error == Some("no such customer: ü"), "the error");
    scene.lasts(retry_in, delay, "until the retry");
    scene.holds(scene.outcome().await.is_none(), "no outcome");
}

/// A person has to look at it.
pub async fn a_quarantined_key_is_shown_as_such<H: LookHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Looks);
    let _vanished = scene.acquired().await;
    scene.advance(LEASE).await;
    let second = scene.acquired().await;
    let quarantined = second.release(&Release::Quarantined).await;
    quarantined.is_applied("the holder");
    let record = scene.record().await;
    let expected = Condition::Failed {
        reason: FailedReason::Quarantined,
        error: None,
        retry_in: Duration::ZERO,
    };
    scene.holds(record.condition == expected, &format!("{record:?}"));
    scene.holds((record.attempts, record.in_doubt) == (2, true), "in doubt");
}

/// Nothing is made by looking.
pub async fn what_nobody_has_claimed_is_not_shown<H: LookHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Looks);
    for _ in 0..2 {
        let known = scene.looked().await;
        scene.holds(known.is_none(), &format!("{known:?}"));
    }
    scene.acquired().await.is_attempt(1, false, "a new key");
}

/// Whatever was tried between them, and whoever has tried it.
pub async fn a_key_is_shown_with_its_first_claim_and_its_completion<H: LookHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Looks);
    scene.acquired().await.fails().await;
    let first = scene.record().await;
    scene.holds(first.completed_at.is_none(), "it is not completed");
    let created_at = first.created_at;
    scene.holds(created_at.is_some(), "the first claim is told");
    scene.advance(LEASE).await;
    let _vanished = scene.acquired().await;
    scene.advance(LEASE).await;
    let third = scene.acquired().await;
    scene.holds(
        scene.record().await.created_at == created_at,
        "the third claim",
    );
    third.extend(LEASE).await.is_applied("the holder");
    scene.advance(LEASE / 2).await;
    third.complete("done").await.is_applied("the holder");
    scene.advance(LEASE).await;
    let copy = scene.claimant().claim().await;
    copy.is_completed(b"done", "it is completed");
    let done = scene.record().await;
    scene.holds(done.created_at == created_at, "the completion");
    let took = done.completed_at.zip(created_at).map(|(end, begin)| {
        let took = end.duration_since(begin);
        took.unwrap_or_default()
    });
    scene.is_about(took.unwrap_or_default(), LEASE / 2 * 5, "it took");
    scene.is_about(done.age, LEASE, "since it was written");
}

/// Its message comes as if it had never come.
pub async fn a_key_that_was_forgotten_is_shown_as_a_new_one<H: LookHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Looks);
    let holder = scene.acquired().await;
    holder.complete("done").await.is_applied("the holder");
    let done = scene.record().await;
    scene.advance(RETENTION).await;
    let _anew = scene.acquired().await;
    let record = scene.record().await;
    scene.holds(record.completed_at.is_none(), "it is in progress");
    let gap = record.created_at.zip(done.created_at).map(|(new, old)| {
        let gap = new.duration_since(old);
        gap.unwrap_or_default()
    });
    scene.is_about(gap.unwrap_or_default(), RETENTION, "between the two");
}

/// It is forgotten when its retention has ended, however often somebody has looked.
pub async fn looking_at_a_key_does_not_prolong_it<H: LookHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Looks);
    let holder = scene.acquired().await;
    holder.complete("done").await.is_applied("the holder");
    for _ in 0..2 {
        scene.advance(RETENTION / 2).await;
        let _ = scene.looked().await;
    }
    scene
        .acquired()
        .await
        .is_attempt(1, false, "it is forgotten");
}

/// Whoever comes next takes over when the lease has run out.
pub async fn looking_at_a_key_does_not_extend_its_lease<H: LookHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Looks);
    let _vanished = scene.acquired().await;
    for _ in 0..2 {
        scene.advance(LEASE / 2).await;
        let _ = scene.looked().await;
    }
    let next = scene.acquired().await;
    next.is_attempt(2, true, "the first one vanished");
}
