//! What is shown of one key.

use std::time::Duration;

use idem_core::{
    handler::{Outcome, Policy},
    message::{Fingerprint, Key, SessionKey},
    store::{
        ClaimRequest, Release, Store as _,
        operator::{Condition, FailedReason, Listing, OperatorStore},
    },
};

use super::{Harness, LEASE, RETENTION, Rule, Scene, scene::unique};

/// Who holds it, since when, and for how long.
pub async fn a_key_in_progress_is_shown_with_its_lease<H>(harness: &H)
where
    H: Harness<Store: OperatorStore>,
{
    let scene = Scene::new(harness, Rule::Listed);
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
pub async fn a_completed_key_is_shown_with_its_outcome<H>(harness: &H)
where
    H: Harness<Store: OperatorStore>,
{
    let scene = Scene::new(harness, Rule::Listed);
    let outcome = vec![0, 255, b'\n', 7];
    let holder = scene.acquired().await;
    holder.complete(outcome.clone()).await.is_applied("holder");
    let shown = scene.shown(scene.key()).await;
    scene.holds(shown.outcome == Some(Outcome::new(outcome)), "the bytes");
    let record = scene.record().await;
    let completed = Condition::Completed { outcome_bytes: 4 };
    scene.holds(record.condition == completed, "how large it is");
    scene.lasts(record.remembered_for, RETENTION, "the retention");
    scene.holds(record.attempts == 1, "the attempts");
    scene.advance(RETENTION).await;
    if let Some(record) = scene.shown(scene.key()).await.record {
        let rest = record.remembered_for;
        scene.holds(
            rest.is_zero(),
            &format!("it is over, and {rest:?} are left"),
        );
    }
}

/// The words of the last failure, and when there is another attempt.
pub async fn a_failed_key_is_shown_with_its_error_and_its_retry<H>(harness: &H)
where
    H: Harness<Store: OperatorStore>,
{
    let scene = Scene::new(harness, Rule::Listed);
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
    scene.holds(
        scene.shown(scene.key()).await.outcome.is_none(),
        "no outcome",
    );
}

/// A person has to look at it.
pub async fn a_quarantined_key_is_shown_as_such<H>(harness: &H)
where
    H: Harness<Store: OperatorStore>,
{
    let scene = Scene::new(harness, Rule::Listed);
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

/// A number behind the key is no other key.
pub async fn a_key_of_a_session_is_shown_and_listed<H>(harness: &H)
where
    H: Harness<Store: OperatorStore>,
{
    let scene = Scene::new(harness, Rule::Listed);
    let session = SessionKey::new("shown", &unique()).expect("it is short");
    let key: Key = session.request(17);
    let request = ClaimRequest::new(key.clone(), &Policy::DEFAULT);
    let claimed = scene.rule().answer(scene.store().claim(&request).await);
    let shown = scene.shown(&key).await.record;
    scene.holds(shown.is_some(), &format!("{claimed:?}"));
    let listing = Listing::all().prefix(session.as_str());
    let listed = scene.listed(listing).await;
    let keys: Vec<_> = listed.into_iter().map(|record| record.key).collect();
    scene.holds(keys == [key], &format!("{keys:?}"));
}

/// Nothing is made by looking.
pub async fn what_nobody_has_claimed_is_not_shown<H>(harness: &H)
where
    H: Harness<Store: OperatorStore>,
{
    let scene = Scene::new(harness, Rule::Listed);
    for _ in 0..2 {
        let shown = scene.shown(scene.key()).await;
        let nothing = shown.record.is_none() && shown.outcome.is_none() && shown.audit.is_empty();
        scene.holds(nothing, &format!("{shown:?}"));
    }
    scene.acquired().await.is_attempt(1, false, "a new key");
}
