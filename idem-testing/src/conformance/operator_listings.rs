//! What a listing tells of, and how keys are counted.

use std::{collections::BTreeSet, time::Duration};

use idem_core::{
    handler::Policy,
    message::{Key, SessionKey},
    store::{
        Claim, ClaimRequest, Release, Store as _,
        operator::{KeyState, Listing, OperatorStore, ScopeCounts},
    },
};

use super::{Harness, LEASE, OperatorHarness, Rule, Scene, holder::Holder, scene::unique};

/// Pages that are smaller than the whole add up to it.
pub async fn every_key_is_listed_page_by_page<H: OperatorHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Listed);
    let scope = scope();
    let mut expected = BTreeSet::new();
    for number in 0..23 {
        let holder = claimed(&scene, &scope, &format!("{number} {{é}}*[?]%")).await;
        expected.insert(holder.lease.key.clone());
        match number % 3 {
            0 => holder.fails().await,
            1 => holder.complete("done").await.is_applied("the holder"),
            _ => {}
        }
    }
    let all = Listing::all().prefix(format!("{scope}:"));
    for limit in [4, 23, 100] {
        let listed = scene.listed(all.clone().limit(limit)).await;
        let keys: BTreeSet<_> = listed.iter().map(|record| record.key.clone()).collect();
        scene.holds(keys == expected, &format!("in pages of {limit}: {keys:?}"));
    }
}

/// Each key is in one of three states.
pub async fn keys_are_listed_by_their_state<H: OperatorHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Listed);
    let scope = scope();
    let held = claimed(&scene, &scope, "held").await;
    let done = claimed(&scene, &scope, "done").await;
    done.complete("done").await.is_applied("the holder");
    let failed = claimed(&scene, &scope, "failed").await;
    failed.fails().await;
    let expected = [
        (KeyState::InProgress, &held),
        (KeyState::Completed, &done),
        (KeyState::Failed, &failed),
    ];
    for (state, holder) in expected {
        let listing = Listing::all().prefix(format!("{scope}:")).state(state);
        let listed = scene.listed(listing).await;
        let keys: Vec<_> = listed.iter().map(|record| &record.key).collect();
        scene.holds(keys == [&holder.lease.key], &format!("{state}: {keys:?}"));
    }
}

/// What was touched a moment ago is not old.
pub async fn keys_are_listed_by_their_age<H: OperatorHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Listed);
    let (scope, hour) = (scope(), Duration::from_hours(1));
    let old = claimed(&scene, &scope, "old").await;
    old.fails().await;
    scene.advance(2 * hour).await;
    let young = claimed(&scene, &scope, "young").await;
    young.fails().await;
    let all = Listing::all().prefix(format!("{scope}:"));
    let listed = scene.listed(all.clone().older_than(hour)).await;
    let keys: Vec<_> = listed.iter().map(|record| &record.key).collect();
    scene.holds(keys == [&old.lease.key], &format!("of an hour: {keys:?}"));
    scene.is_about(listed[0].age, 2 * hour, "its age");
    let none = scene.listed(all.older_than(3 * hour)).await;
    scene.holds(none.is_empty(), &format!("of three hours: {none:?}"));
}

/// No character of a name means anything to the store.
pub async fn keys_are_listed_by_the_head_of_their_names<H: OperatorHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Listed);
    let scope = scope();
    for part in ["a_1", "ab1", "a*1", "a?1", "[a]1", "a{1", "a\\1", "A_1"] {
        let _held = claimed(&scene, &scope, part).await;
    }
    for head in ["a_", "a*", "a?", "[a]", "a{", "a\\", "A"] {
        let listing = Listing::all().prefix(format!("{scope}:{head}"));
        let listed = scene.listed(listing).await;
        let keys: Vec<_> = listed.iter().map(|record| record.key.as_str()).collect();
        let expected = format!("{scope}:{head}");
        let fine = keys.len() == 1 && keys[0].starts_with(&expected);
        scene.holds(fine, &format!("`{expected}`: {keys:?}"));
    }
}

/// Overdue leases, quarantined keys and forgotten ones are told apart.
pub async fn keys_are_counted_by_scope_and_state<H: OperatorHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Listed);
    let scope = scope();
    let overdue = claimed(&scene, &scope, "overdue").await;
    scene.advance(LEASE).await;
    let _held = claimed(&scene, &scope, "held").await;
    for part in ["one", "two", "three"] {
        let done = claimed(&scene, &scope, part).await;
        done.complete("done").await.is_applied("the holder");
    }
    for part in ["failed", "failed too"] {
        claimed(&scene, &scope, part).await.fails().await;
    }
    let doubtful = claimed(&scene, &scope, "doubtful").await;
    let released = doubtful.release(&Release::Quarantined).await;
    released.is_applied("the holder");
    let counts = scene.rule().answer(scene.store().counts().await);
    let told = counts.into_iter().find(|counts| counts.scope == scope);
    let mut expected = ScopeCounts::new(scope);
    expected.in_progress = 2;
    expected.overdue = 1;
    expected.completed = 3;
    expected.failed = 3;
    expected.quarantined = 1;
    scene.holds(told.as_ref() == Some(&expected), &format!("{told:?}"));
    overdue
        .complete("late")
        .await
        .is_applied("nobody took over");
}

/// A scope that no other case has.
fn scope() -> String {
    format!("listed.{}", unique())
}

async fn claimed<H: Harness>(scene: &Scene<'_, H>, scope: &str, part: &str) -> Holder<H::Store> {
    let key = Key::new(scope, part).expect("it is short");
    let answer = scene.claimant_of(key).claim().await;
    answer.is_acquired("a new key")
}

/// A number behind the key is no other key.
pub async fn a_key_of_a_session_is_listed<H: OperatorHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Listed);
    let session = SessionKey::new("shown", &unique()).expect("it is short");
    let key: Key = session.request(17);
    let request = ClaimRequest::new(key.clone(), &Policy::DEFAULT);
    let claimed = scene.rule().answer(scene.store().claim(&request).await);
    scene.holds(
        matches!(claimed, Claim::Acquired(_)),
        &format!("{claimed:?}"),
    );
    let listing = Listing::all().prefix(session.as_str());
    let listed = scene.listed(listing).await;
    let keys: Vec<_> = listed.into_iter().map(|record| record.key).collect();
    scene.holds(keys == [key], &format!("{keys:?}"));
}
