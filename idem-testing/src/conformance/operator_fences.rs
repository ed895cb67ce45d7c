//! Whoever held a key is fenced out, and two operators are kept apart.

use futures_util::FutureExt as _;
use idem_core::store::{
    Store,
    operator::{Action, Intervened, OperatorStore},
};

use super::{LEASE, OperatorHarness, Rule, Scene, holder::Holder, race::race, scene::reasons};

/// The next attempt is in doubt, as after a takeover.
pub async fn the_holder_of_a_released_key_is_fenced_out<H: OperatorHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::FencedOut);
    let claimant = scene.claimant();
    let holder = claimant.claim().await.is_acquired("a new key");
    scene.applies(Action::Release).await;
    fenced(&holder).await;
    let again = claimant.claim().await;
    again.is_held("the owner's lease was ended");
    let next = scene.acquired().await;
    next.is_attempt(2, true, "what the first one did is not known");
    scene.holds(next.token() > holder.token(), "the token grows");
    fenced(&holder).await;
    next.complete("done").await.is_applied("it is the holder");
}

/// As by a purge.
pub async fn the_holder_of_a_forgotten_key_is_fenced_out<H: OperatorHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::FencedOut);
    let holder = scene.acquired().await;
    scene.applies(Action::Forget).await;
    fenced(&holder).await;
    let next = scene.acquired().await;
    next.is_attempt(1, false, "nothing is remembered");
    scene.holds(next.token() > holder.token(), "the token grows");
    fenced(&holder).await;
}

/// Its outcome comes too late.
pub async fn the_holder_of_a_key_completed_by_hand_is_fenced_out<H: OperatorHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::FencedOut);
    let holder = scene.acquired().await;
    scene.applies(Action::Complete).await;
    fenced(&holder).await;
    let answer = scene.claimant().claim().await;
    answer.is_completed(b"by hand", "completed by hand");
}

/// The operator has decided on what is no more.
pub async fn what_was_seen_of_another_attempt_changes_nothing<H: OperatorHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Intervenes);
    let none = scene.seen().await;
    let first = scene.acquired().await;
    let seen = scene.seen().await;
    scene.advance(LEASE).await;
    let second = scene.acquired().await;
    for action in [Action::Release, Action::Forget, Action::Complete] {
        for seen in [none, seen] {
            let answer = scene.intervention(action, seen);
            let answer = scene.intervene_with(&answer).await;
            scene.is(answer, Intervened::Changed, "there was another claim");
        }
    }
    first.complete("late").await.is_fenced("it was taken over");
    second.complete("done").await.is_applied("it is the holder");
}

/// The token is the same, but the work is done meanwhile.
pub async fn what_was_seen_in_another_state_changes_nothing<H: OperatorHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Intervenes);
    let holder = scene.acquired().await;
    let seen = scene.seen().await;
    holder.complete("done").await.is_applied("the holder");
    for action in [Action::Release, Action::Forget, Action::Complete] {
        let late = scene.intervention(action, seen);
        let answer = scene.intervene_with(&late).await;
        scene.is(answer, Intervened::Changed, "it is completed");
    }
    let answer = scene.claimant().claim().await;
    answer.is_completed(b"done", "nothing was changed");
}

/// Operators who have all seen the same.
pub async fn of_interventions_that_race_one_takes_effect<H: OperatorHarness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Intervenes);
    for _ in 0..5 {
        let holder = scene.acquired().await;
        let seen = scene.seen().await;
        let actions = [Action::Release, Action::Complete, Action::Release];
        let all = actions.map(|action| {
            let (store, late) = (scene.store(), scene.intervention(action, seen));
            async move { Rule::Intervenes.answer(store.intervene(&late).await) }.boxed()
        });
        let answers = race(all.into()).await;
        let applied = answers.iter().filter(|it| **it == Intervened::Applied);
        scene.holds(applied.count() == 1, &format!("{answers:?}"));
        fenced(&holder).await;
        scene.applies(Action::Forget).await;
    }
}

async fn fenced<S: Store>(holder: &Holder<S>) {
    let why = "an operator has taken the key away";
    holder.extend(LEASE).await.is_fenced(why);
    holder.complete("late").await.is_fenced(why);
    for reason in reasons() {
        holder.release(&reason).await.is_fenced(why);
    }
}
