//! Workers that really run at the same time, on a thread each.

use std::{
    thread,
    time::{Duration, Instant},
};

use futures_util::{FutureExt as _, future::BoxFuture};
use idem_core::store::{Claim, Lease, Owner, Release, Store};

use super::{
    Harness, LEASE, Rule, Scene,
    claimant::Claimant,
    race::race,
    scene::{key, unique},
};

const CONTENDERS: usize = 12;
/// How long a crowd may take; it takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// One works, all others are held off.
pub async fn of_many_that_race_for_a_new_key_one_acquires_it<H: Harness>(harness: &H) {
    for _ in 0..10 {
        let scene = Scene::new(harness, Rule::OneStep);
        let lease = one_winner(&scene, contenders(&scene)).await;
        scene.holds((lease.attempt, lease.in_doubt) == (1, false), "it is new");
    }
}

/// Again and again the holder vanishes: one takes over each time, with a greater token.
pub async fn of_many_that_race_for_an_expired_lease_one_takes_over<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::OneStep);
    let mut last = scene.acquired().await.lease;
    for _ in 0..25 {
        scene.advance(LEASE).await;
        let lease = one_winner(&scene, contenders(&scene)).await;
        scene.holds(lease.token > last.token, "the token of a takeover grows");
        scene.holds(
            (lease.attempt, lease.in_doubt) == (last.attempt + 1, true),
            "each takeover is one attempt more",
        );
        last = lease;
    }
}

/// Two owners, hundreds of times: also what goes wrong once in a hundred times shows.
pub async fn of_two_that_race_for_an_expired_lease_one_takes_over<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::OneStep);
    let mut last = scene.acquired().await.lease.token;
    for _ in 0..300 {
        scene.advance(LEASE).await;
        let two = vec![scene.claimant(), scene.claimant()];
        let lease = one_winner(&scene, two).await;
        scene.holds(lease.token > last, "the token of a takeover grows");
        last = lease.token;
    }
}

/// The retry of a failed key is one worker's.
pub async fn of_many_that_race_for_a_failed_key_one_acquires_it<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::OneStep);
    for attempt in 1..=10 {
        let lease = one_winner(&scene, contenders(&scene)).await;
        scene.holds(lease.attempt == attempt, "one attempt more each time");
        scene.holder_of(lease).fails().await;
    }
}

/// A key whose record is forgotten but still there is new, for one.
pub async fn of_many_that_race_for_a_forgotten_key_one_acquires_it<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::OneStep);
    let mut last = 0;
    for _ in 0..10 {
        let lease = one_winner(&scene, contenders(&scene)).await;
        scene.holds(lease.attempt == 1, "the key was forgotten");
        scene.holds(lease.token.get() > last, "tokens grow all the same");
        last = lease.token.get();
        let holder = scene.holder_of(lease);
        let retention = Duration::from_secs(1);
        let written = holder.complete_for("done", retention).await;
        written.is_applied("it is the holder");
        scene.advance(retention).await;
    }
}

/// One owner asks many times at once, as after lost answers: one lease.
pub async fn an_owner_that_races_with_itself_gets_one_lease<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Repeats);
    let owner = scene.claimant().request.owner;
    let repeats = contenders(&scene).into_iter().map(|one| one.owner(owner));
    let leases = acquired(race(claims(repeats)).await);
    scene.holds(leases.len() == CONTENDERS, "all were the owner's claims");
    let first = &leases[0];
    scene.holds(leases.iter().all(|lease| lease == first), "one lease");
    scene.holds(first.attempt == 1, "it is one attempt, however often asked");
}

/// Either the completion came first, and all others see it, or one took over, and it is fenced.
pub async fn a_completion_that_races_with_a_takeover_counts_or_is_fenced<H: Harness>(harness: &H) {
    for _ in 0..10 {
        let scene = Scene::new(harness, Rule::Fencing);
        let late = scene.acquired().await;
        scene.advance(LEASE).await;
        let mut all =
            vec![async move { Said::Counted(late.complete("late").await.was_applied()) }.boxed()];
        let others = claims(contenders(&scene)).into_iter();
        all.extend(others.map(|claim| claim.map(Said::Claim).boxed()));
        let (mut counted, mut winners) = (false, 0);
        for said in race(all).await {
            match said {
                Said::Counted(applied) => counted = applied,
                Said::Claim(claim) => winners += acquired(vec![claim]).len(),
            }
        }
        scene.holds(
            winners == usize::from(!counted),
            &format!("the completion counted: {counted}, workers that took over: {winners}"),
        );
        let now = scene.claimant().claim().await;
        if counted {
            now.is_completed(b"late", "the completion counted");
        } else {
            now.is_held("one has taken over");
        }
    }
}

/// A heartbeat on its way does not undo the release.
pub async fn a_release_that_races_with_an_extension_is_not_undone<H: Harness>(harness: &H) {
    for round in 1..=10 {
        let scene = Scene::new(harness, Rule::Fencing);
        let holder = scene.acquired().await;
        let beats = (0..4).map(|_| scene.holder_of(holder.lease.clone()));
        let mut all: Vec<BoxFuture<'static, ()>> = beats
            .map(|beat| async move { drop(beat.extend(LEASE).await) }.boxed())
            .collect();
        let releasing = scene.holder_of(holder.lease.clone());
        all.push(async move { releasing.fails().await }.boxed());
        race(all).await;
        let next = scene.acquired().await;
        next.is_attempt(2, false, &format!("released in round {round}"));
    }
}

/// Completions of one lease that are sent twice, at the same time: both count as one.
pub async fn completions_that_race_leave_one_outcome<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::Fencing);
    let holder = scene.acquired().await;
    let sent = (0..CONTENDERS).map(|number| {
        let same = scene.holder_of(holder.lease.clone());
        async move { same.complete(number.to_string()).await.was_applied() }.boxed()
    });
    let applied = race(sent.collect()).await;
    scene.holds(
        applied.iter().all(|applied| *applied),
        "all repeat one write",
    );
    let outcome = || async { scene.claimant().claim_plainly().await };
    let told = [outcome().await, outcome().await].map(|claim| match claim {
        Claim::Completed { outcome, .. } => outcome,
        other => panic!("{}: completed, but answered {other:?}", Rule::CompletedWins),
    });
    scene.holds(told[0] == told[1], "one of the outcomes stays");
}

/// Many keys at once, several workers each: batching mixes nothing up.
pub async fn many_keys_at_once_go_to_one_worker_each<H: Harness>(harness: &H) {
    const KEYS: usize = 16;
    let scene = Scene::new(harness, Rule::OneStep);
    let keys: Vec<_> = (0..KEYS).map(|_| key(&unique())).collect();
    let claimants: Vec<_> = keys
        .iter()
        .flat_map(|key| (0..3).map(|_| scene.claimant_of(key.clone())))
        .collect();
    let mut leases = acquired(race(claims(claimants)).await);
    leases.sort_by(|a, b| a.key.cmp(&b.key));
    let mut expected = keys;
    expected.sort();
    scene.holds(
        leases.iter().map(|lease| &lease.key).eq(&expected),
        "every key is acquired by one of the three that asked for it",
    );
    for lease in leases {
        let (key, holder) = (lease.key.clone(), scene.holder_of(lease));
        let written = holder.complete(key.as_str()).await;
        written.is_applied("it is the holder");
        let answer = scene.claimant_of(key.clone()).claim().await;
        answer.is_completed(key.as_str().as_bytes(), "its own outcome");
    }
}

/// Failures, abandoned claims and completions of one key, all from its workers at once.
pub async fn a_crowd_gets_its_work_done_once<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::CompletedWins);
    let workers = contenders(&scene).into_iter().enumerate();
    let done = race(
        workers
            .map(|(number, worker)| work(number, worker).boxed())
            .collect(),
    );
    let done = done.await.into_iter().filter(|done| *done).count();
    scene.holds(done == 1, &format!("{done} workers completed the key"));
}

/// Tries until the key is completed, or gives up after some failures of its own; says whether this
/// worker completed it.
async fn work<S: Store>(number: usize, mut worker: Claimant<S>) -> bool {
    let start = Instant::now();
    let mut failures = 0;
    while failures < 20 {
        assert!(
            start.elapsed() < PATIENCE,
            "{}: the key is never completed",
            Rule::Exits
        );
        worker = worker.owner(Owner::new());
        let answer = worker.claim().await;
        match answer.lease() {
            Some(holder) if number.is_multiple_of(3) => {
                return holder.complete("done").await.was_applied();
            }
            Some(holder) => {
                let reason = [Release::failed("x"), Release::Abandoned];
                let _ = holder.release(&reason[number % 2]).await;
                failures += 1;
            }
            None if answer.says_completed() => return false,
            None => thread::yield_now(),
        }
    }
    false
}

/// What one of the contenders was told.
enum Said {
    Counted(bool),
    Claim(Claim),
}

fn contenders<H: Harness>(scene: &Scene<'_, H>) -> Vec<Claimant<H::Store>> {
    (0..CONTENDERS).map(|_| scene.claimant()).collect()
}

fn claims<S: Store>(
    claimants: impl IntoIterator<Item = Claimant<S>>,
) -> Vec<BoxFuture<'static, Claim>> {
    let claimants = claimants.into_iter();
    claimants.map(|one| one.claim_plainly().boxed()).collect()
}

/// Lets them race; checks that one acquired and that all others were held off.
async fn one_winner<H: Harness>(scene: &Scene<'_, H>, all: Vec<Claimant<H::Store>>) -> Lease {
    let count = all.len();
    let said = race(claims(all)).await;
    let held = said
        .iter()
        .filter(|claim| matches!(claim, Claim::Held { .. }));
    let held = held.count();
    let mut leases = acquired(said);
    scene.holds(
        (leases.len(), held) == (1, count - 1),
        &format!(
            "of {count} workers {} acquired, {held} were held off",
            leases.len()
        ),
    );
    leases.remove(0)
}

fn acquired(said: Vec<Claim>) -> Vec<Lease> {
    let said = said.into_iter();
    said.filter_map(|claim| match claim {
        Claim::Acquired(lease) => Some(lease),
        _ => None,
    })
    .collect()
}
