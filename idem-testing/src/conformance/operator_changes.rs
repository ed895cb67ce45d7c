//! What an intervention comes to, by the state that it finds.

use std::time::Duration;

use idem_core::store::{
    Release,
    operator::{Action, Intervened, KeyState},
};

use super::{LEASE, OperatorHarness, RETENTION, Rule, Scene, operator::BY};

/// Nobody has to wait for it, and its attempts are counted on.
pub async fn a_released_retry_is_due_at_once<H: OperatorHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::ByState);
    let holder = scene.acquired().await;
    holder.fails_for(Duration::from_hours(1)).await;
    let answer = scene.claimant().claim().await;
    answer.is_held("the retry is not due");
    scene.applies(Action::Release).await;
    let next = scene.acquired().await;
    next.is_attempt(2, false, "the first one counts, and is known");
    scene.holds(next.token() > holder.token(), "the token grows");
}

/// It runs without being sent again, and is in doubt no more.
pub async fn a_quarantined_key_that_is_released_runs<H: OperatorHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::ByState);
    let _vanished = scene.acquired().await;
    scene.advance(LEASE).await;
    let second = scene.acquired().await;
    second.is_attempt(2, true, "the first one vanished");
    let quarantined = second.release(&Release::Quarantined).await;
    quarantined.is_applied("the holder");
    scene.applies(Action::Release).await;
    let third = scene.acquired().await;
    third.is_attempt(3, false, "somebody has seen to it");
}

/// Only forgetting it lets it run again.
pub async fn a_completed_key_is_not_released<H: OperatorHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::ByState);
    let holder = scene.acquired().await;
    holder.complete("done").await.is_applied("the holder");
    let answer = scene.intervene(Action::Release).await;
    scene.is(answer, Intervened::Unfit, "it is completed");
    let answer = scene.claimant().claim().await;
    answer.is_completed(b"done", "it stays completed");
}

/// As if it had never come, but for the token.
pub async fn a_forgotten_completion_runs_anew<H: OperatorHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::ByState);
    let claimant = scene.claimant().content("a");
    let holder = claimant.claim().await.is_acquired("a new key");
    holder.complete("done").await.is_applied("the holder");
    scene.applies(Action::Forget).await;
    scene.holds(scene.seen().await.is_none(), "it is gone");
    let other = scene.claimant().content("b").claim().await;
    let anew = other.is_acquired("nothing is remembered, not even the content");
    anew.is_attempt(1, false, "nothing is remembered");
    scene.holds(anew.token() > holder.token(), "the token grows");
    holder.complete("late").await.is_fenced("it was forgotten");
}

/// The outcome is the operator's, the content stays the message's.
pub async fn a_key_completed_by_hand_makes_copies_duplicates<H: OperatorHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::ByState);
    let claimant = scene.claimant().content("a");
    let holder = claimant.claim().await.is_acquired("a new key");
    holder.fails_for(Duration::from_hours(1)).await;
    scene.applies(Action::Complete).await;
    let copy = scene.claimant().content("a").claim().await;
    let rest = copy.is_completed(b"by hand", "completed by hand");
    scene.lasts(rest, RETENTION, "remembered");
    let other = scene.claimant().content("b").claim_plainly().await;
    let is_reuse = other == idem_core::store::Claim::KeyReused;
    scene.holds(is_reuse, &format!("other content, and {other:?}"));
    scene.advance(RETENTION).await;
    scene
        .acquired()
        .await
        .is_attempt(1, false, "it is forgotten");
}

/// So that its message does not run when it comes.
pub async fn a_key_that_never_came_can_be_completed<H: OperatorHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::ByState);
    scene.applies(Action::Complete).await;
    let answer = scene.claimant().content("a").claim().await;
    let rest = answer.is_completed(b"by hand", "completed by hand");
    scene.lasts(rest, RETENTION, "remembered");
    let record = scene.record().await;
    let tried = (record.attempts, record.in_doubt);
    scene.holds(
        tried == (0, false),
        &format!("it was never tried: {tried:?}"),
    );
}

/// On nothing, and on what is done.
pub async fn what_makes_no_sense_changes_nothing<H: OperatorHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::ByState);
    for action in [Action::Release, Action::Forget] {
        let answer = scene.intervene(action).await;
        scene.is(answer, Intervened::Unfit, "there is no record");
    }
    let holder = scene.acquired().await;
    holder.is_attempt(1, false, "nothing was written");
    holder.complete("done").await.is_applied("the holder");
    let answer = scene.intervene(Action::Complete).await;
    scene.is(answer, Intervened::Unfit, "it is completed");
    let answer = scene.claimant().claim().await;
    answer.is_completed(b"done", "it is completed already");
    let audit = scene.audit().await;
    scene.holds(audit.is_empty(), &format!("nothing was done: {audit:?}"));
}

/// Whoever did not hear the answer asks again, also after others have come.
pub async fn an_intervention_may_be_repeated<H: OperatorHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::RepeatedByHand);
    for action in [Action::Release, Action::Complete, Action::Forget] {
        let before = scene.seen().await;
        let holder = match before {
            None => Some(scene.acquired().await),
            Some(_) => None,
        };
        let intervention = scene.intervention(action, scene.seen().await);
        for _ in 0..2 {
            let answer = scene.intervene_with(&intervention).await;
            scene.is(answer, Intervened::Applied, "nobody has come meanwhile");
        }
        let after = scene.seen().await;
        let answer = scene.intervene_with(&intervention).await;
        scene.is(answer, Intervened::Applied, "once more");
        scene.holds(after == scene.seen().await, "a repeat changes nothing");
        drop(holder);
    }
    let anew = scene.acquired().await;
    let forget = scene.intervention(Action::Forget, scene.seen().await);
    let answer = scene.intervene_with(&forget).await;
    scene.is(answer, Intervened::Applied, "the key is held");
    let holder = scene.acquired().await;
    let answer = scene.intervene_with(&forget).await;
    scene.is(answer, Intervened::Applied, "it was applied");
    anew.complete("late").await.is_fenced("it was forgotten");
    holder
        .complete("done")
        .await
        .is_applied("a repeat is harmless");
}

/// Who, when, what, and what was there before.
pub async fn interventions_are_noted_down<H: OperatorHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::NotedDown);
    let holder = scene.acquired().await;
    scene.applies(Action::Release).await;
    scene.advance(Duration::from_hours(1)).await;
    scene.applies(Action::Complete).await;
    scene.applies(Action::Forget).await;
    let audit = scene.audit().await;
    let told: Vec<_> = audit
        .iter()
        .map(|entry| (entry.action, entry.before.map(|seen| seen.state)))
        .collect();
    let expected = [
        (Action::Release, Some(KeyState::InProgress)),
        (Action::Complete, Some(KeyState::Failed)),
        (Action::Forget, Some(KeyState::Completed)),
    ];
    scene.holds(told == expected, &format!("{told:?}"));
    scene.holds(audit.iter().all(|entry| entry.by == BY), "by whom");
    let token = audit[0].before.map(|seen| seen.token);
    scene.holds(token == Some(holder.lease.token), "under which token");
    let gap = audit[1].at.duration_since(audit[0].at);
    let gap = gap.unwrap_or_default();
    scene.is_about(gap, Duration::from_hours(1), "when");
}
