//! Who is lent a transaction, and what everybody else is told.

use std::time::Duration;

use futures_util::FutureExt as _;
use idem_core::store::{Claim, Finished, Release};

use super::{
    Rule, Scene, TransactionalHarness,
    open::{Open, begin},
    race::race,
    scene::{key, unique},
};

/// A duplicate that opens a transaction gets none.
pub async fn a_duplicate_of_a_commit_opens_nothing<H: TransactionalHarness>(harness: &H) {
    let (scene, effect) = (Scene::new(harness, Rule::CompletedWins), unique());
    let mut open = Open::<H>::of(&scene.claimant()).await;
    open.write_effect(&effect).await;
    open.commits().await;
    for _ in 0..2 {
        match begin::<H>(&scene.claimant()).await {
            Err(Claim::Completed { outcome, .. }) => {
                scene.holds(outcome.as_bytes() == b"done", "the outcome is remembered");
            }
            other => scene.did_not_expect(other, "Completed"),
        }
    }
    scene.has_effects(&effect, 1, "it ran once").await;
}

/// The attempt is recorded although its transaction is rolled back.
pub async fn a_failed_transaction_is_an_attempt<H: TransactionalHarness>(harness: &H) {
    let (scene, effect) = (Scene::new(harness, Rule::AttemptsSurvive), unique());
    for attempt in 1..=4 {
        let mut open = Open::<H>::of(&scene.claimant()).await;
        let told = (open.lease.attempt, open.lease.in_doubt);
        scene.holds(
            told == (attempt, false),
            &format!("expected attempt {attempt}, not in doubt, the store told {told:?}"),
        );
        open.write_effect(&effect).await;
        open.rolls_back(&Release::failed("no")).await;
    }
    scene.has_effects(&effect, 0, "all were rolled back").await;
}

/// Attempts of leased and of atomic claims count together, under growing tokens.
pub async fn a_failed_transaction_counts_for_leased_claims_too<H: TransactionalHarness>(
    harness: &H,
) {
    let scene = Scene::new(harness, Rule::AttemptsSurvive);
    let open = Open::<H>::of(&scene.claimant()).await;
    let first = open.lease.token;
    open.rolls_back(&Release::failed("no")).await;
    let leased = scene.acquired().await;
    leased.is_attempt(2, false, "the transaction was the first");
    scene.holds(leased.lease.token > first, "tokens grow");
    leased.fails().await;
    let open = Open::<H>::of(&scene.claimant()).await;
    scene.holds(open.lease.attempt == 3, "two have failed");
    scene.holds(open.lease.token > leased.lease.token, "tokens grow");
    open.rolls_back(&Release::failed("no")).await;
}

/// The delay of a failure holds off transactions and leases alike.
pub async fn a_failed_transaction_holds_its_key_until_the_retry_is_due<H: TransactionalHarness>(
    harness: &H,
) {
    let scene = Scene::new(harness, Rule::AttemptsSurvive);
    let delay = Duration::from_mins(10);
    let open = Open::<H>::of(&scene.claimant()).await;
    open.rolls_back(&Release::retry_after(delay, "no")).await;
    match begin::<H>(&scene.claimant()).await {
        Err(Claim::Held { remaining }) => scene.lasts(remaining, delay, "the whole delay"),
        other => scene.did_not_expect(other, "Held"),
    }
    scene.claimant().claim().await.is_held("it is too early");
    scene.advance(delay).await;
    let open = Open::<H>::of(&scene.claimant()).await;
    scene.holds(open.lease.attempt == 2, "one has failed");
    open.commits().await;
}

/// A handler that was never polled did not try, in a transaction or not.
pub async fn an_abandoned_transaction_is_no_attempt<H: TransactionalHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::AttemptsSurvive);
    for _ in 0..3 {
        let open = Open::<H>::of(&scene.claimant()).await;
        scene.holds(open.lease.attempt == 1, "nobody has tried yet");
        open.rolls_back(&Release::Abandoned).await;
    }
}

/// Giving up restarts the count and drops the content.
pub async fn a_transaction_that_was_given_up_starts_over<H: TransactionalHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::AttemptsSurvive);
    let open = Open::<H>::of(&scene.claimant().content("ten euro")).await;
    open.rolls_back(&Release::failed("no")).await;
    let open = Open::<H>::of(&scene.claimant().content("ten euro")).await;
    scene.holds(open.lease.attempt == 2, "one has failed");
    open.rolls_back(&Release::gave_up("a typing error")).await;
    let open = Open::<H>::of(&scene.claimant().content("ten euros")).await;
    scene.holds(open.lease.attempt == 1, "given up: it starts over");
    open.commits().await;
}

/// While the transaction is open everybody else waits, however they ask.
pub async fn a_duplicate_while_a_transaction_is_open_is_held<H: TransactionalHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Isolation);
    let open = Open::<H>::of(&scene.claimant()).await;
    scene
        .claimant()
        .claim()
        .await
        .is_held("a worker has the key");
    match begin::<H>(&scene.claimant()).await {
        Err(Claim::Held { .. }) => {}
        other => scene.did_not_expect(other, "Held"),
    }
    open.commits().await;
}

/// Other content on a completed key opens nothing.
pub async fn other_content_opens_no_transaction<H: TransactionalHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::KeyReused);
    let open = Open::<H>::of(&scene.claimant().content("ten euros")).await;
    open.commits().await;
    match begin::<H>(&scene.claimant().content("a million")).await {
        Err(Claim::KeyReused) => {}
        other => scene.did_not_expect(other, "KeyReused"),
    }
}

/// A quarantined key opens nothing but for a replay.
pub async fn a_quarantined_key_opens_no_transaction<H: TransactionalHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Exits);
    let holder = scene.acquired().await;
    let written = holder.release(&Release::Quarantined).await;
    written.is_applied("it is the holder");
    match begin::<H>(&scene.claimant()).await {
        Err(Claim::Quarantined) => {}
        other => scene.did_not_expect(other, "Quarantined"),
    }
    let open = Open::<H>::of(&scene.claimant().replay()).await;
    scene.holds(open.lease.attempt == 1, "a replay starts over");
    open.commits().await;
}

/// The answer to `begin` was lost: the same owner asks again, and it is the same attempt.
pub async fn an_owner_may_begin_again<H: TransactionalHarness>(harness: &H) {
    let (scene, effect) = (Scene::new(harness, Rule::Repeats), unique());
    let owner = scene.claimant();
    drop(Open::<H>::of(&owner).await);
    let mut open = Open::<H>::of(&owner).await;
    scene.holds(open.lease.attempt == 1, "it is one attempt");
    open.write_effect(&effect).await;
    open.commits().await;
    scene.has_effects(&effect, 1, "it was committed").await;
}

/// Transactions of different keys do not get into each other's way.
pub async fn transactions_of_different_keys_are_independent<H: TransactionalHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Atomic);
    let effect = [unique(), unique()];
    let mut one = Open::<H>::of(&scene.claimant()).await;
    let mut other = Open::<H>::of(&scene.claimant_of(key(&unique()))).await;
    one.write_effect(&effect[0]).await;
    one.rolls_back(&Release::failed("no")).await;
    other.write_effect(&effect[1]).await;
    other.commits().await;
    scene.has_effects(&effect[0], 0, "it was rolled back").await;
    scene.has_effects(&effect[1], 1, "it was committed").await;
}

/// Of many transactions that begin at once on one key, one opens; its effect is there once.
pub async fn of_many_transactions_that_race_one_opens<H: TransactionalHarness>(harness: &H) {
    for round in 0..5 {
        let (scene, effect) = (Scene::new(harness, Rule::Atomic), unique());
        let all = (0..8).map(|_| {
            let claimant = scene.claimant();
            async move { begin::<H>(&claimant).await.ok() }.boxed()
        });
        let mut open: Vec<_> = race(all.collect()).await.into_iter().flatten().collect();
        let found = open.len();
        scene.holds(found == 1, &format!("{found} opened in round {round}"));
        let mut winner = open.remove(0);
        winner.write_effect(&effect).await;
        winner.commits().await;
        scene.has_effects(&effect, 1, "one worked").await;
    }
}

/// Many keys, a transaction each, all at once: every effect is there once.
pub async fn many_transactions_at_once_all_commit<H: TransactionalHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Atomic);
    let names: Vec<_> = (0..8).map(|_| unique()).collect();
    let all = names.iter().map(|name| {
        let (claimant, name) = (scene.claimant_of(key(name)), name.clone());
        async move {
            let mut open = Open::<H>::of(&claimant).await;
            open.write_effect(&name).await;
            open.commit("done").await
        }
        .boxed()
    });
    let commits = race(all.collect()).await;
    let committed = commits.iter().all(|commit| *commit == Finished::Committed);
    scene.holds(committed, &format!("the store answered {commits:?}"));
    for name in &names {
        scene.has_effects(name, 1, "each has committed").await;
    }
}
