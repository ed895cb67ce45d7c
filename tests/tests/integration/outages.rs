//! A store that is away, or whose answers are lost.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use idem_amqp::{Failed, Worker, executor::ExecutionKind as Kind};
use idem_tests::{
    bed::{Bed, QUICK},
    cell::Cell,
    interfered::{Call, Fate, Interfered},
    journal::{Journal, eventually},
    leased_on_each_store, on_each_store,
    running::assert_balance,
    script::Script,
};

async fn until_claims<S>(store: &Interfered<S>, claims: u64) {
    eventually("claims of a store that is away", async || {
        match store.count(Call::Claim) {
            enough if enough >= claims => Ok(()),
            seen => Err(seen),
        }
    })
    .await;
}

/// The store is away.
///
/// - does: runs nothing, settles nothing, asks the store ever more rarely, goes on by itself
/// - atomic: once
/// - leased: once
async fn while_the_store_is_away_nothing_runs_and_nothing_is_settled<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let (store, away) = Interfered::switched(cell.store());
    away.store(true, SeqCst);
    let script = Script::succeeding();
    let worker = C::charging_by(&bed, store.clone(), &script);
    let begun = tokio::time::Instant::now();
    for id in ["a", "b", "c"] {
        bed.order(id).await;
    }
    until_claims(&store, 12).await;
    // The waits of each message double from 100 ms on, or more.
    let elapsed = begun.elapsed().as_millis() / 100;
    let most = 3 * (2 + u64::from((elapsed + 1).ilog2()));
    let claims = store.count(Call::Claim);
    assert!(claims <= most, "a hot loop: {claims} claims");
    assert!(worker.settled.entries().is_empty());
    assert!(script.calls.entries().is_empty());

    away.store(false, SeqCst);
    worker.ended(Kind::Executed, 3).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, 3)]);
    cell.assert_effects(&script, ["a", "b", "c"]).await;
    bed.assert_nothing_stuck().await;
}

/// The worker is stopped while the store is away.
///
/// - does: returns its messages
/// - atomic: nothing lost
/// - leased: nothing lost
async fn a_worker_stopped_while_the_store_is_away_returns_its_messages<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let (store, away) = Interfered::switched(cell.store());
    away.store(true, SeqCst);
    let script = Script::succeeding();
    let worker = C::charging_by(&bed, store.clone(), &script);
    bed.order("a").await;
    until_claims(&store, 2).await;
    assert_balance(&worker.stop().await, [(Kind::StoreUnavailable, 1)]);
    bed.until_waiting(1).await;

    away.store(false, SeqCst);
    let worker = C::charging_by(&bed, store, &script);
    worker.ended(Kind::Executed, 1).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, 1)]);
    cell.assert_effects(&script, ["a"]).await;
    bed.assert_nothing_stuck().await;
}

/// The answer to a claim is lost.
///
/// - does: asks again, as the same owner: the same claim
/// - atomic: one attempt
/// - leased: one attempt
async fn a_claim_whose_answer_was_lost_is_the_same_claim_when_asked_again<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let store = cell.interfered(|call, number| match (call, number) {
        (Call::Claim, 1) => Fate::LoseAnswer,
        _ => Fate::Pass,
    });
    let script = Script::succeeding();
    let worker = C::charging_by(&bed, store.clone(), &script);
    bed.order("a").await;

    worker.ended(Kind::Executed, 1).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, 1)]);
    assert_eq!(script.attempts(), [1]);
    assert_eq!(store.count(Call::Claim), 2);
    cell.assert_effects(&script, ["a"]).await;
    bed.assert_nothing_stuck().await;
}

/// The handler's work is done; then this happens to the first completions.
async fn completion_after<C: Cell>(trouble: Fate) {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let store = cell.interfered(move |call, number| match call {
        Call::Complete if number <= 3 => trouble,
        _ => Fate::Pass,
    });
    let script = Script::succeeding();
    let worker = C::charging_by(&bed, store.clone(), &script);
    bed.order("a").await;
    worker.ended(Kind::Executed, 1).await;
    bed.order("a").await;
    worker.ended(Kind::Duplicate, 1).await;

    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 1), (Kind::Duplicate, 1)]);
    assert_eq!(script.attempts(), [1]);
    assert_eq!(store.count(Call::Complete), 4);
    cell.assert_effects(&script, ["a"]).await;
    bed.assert_nothing_stuck().await;
}

/// Shares the promise of `atomic::a_commit_that_did_not_reach_the_store_is_no_attempt`.
async fn a_completion_that_did_not_reach_the_store_is_repeated_and_the_work_is_not<C: Cell>() {
    completion_after::<C>(Fate::Refuse).await;
}

/// Shares the promise of `atomic::a_commit_whose_answer_was_lost_is_found_out_and_not_repeated`.
async fn a_completion_whose_answer_was_lost_is_repeated_and_the_work_is_not<C: Cell>() {
    completion_after::<C>(Fate::LoseAnswer).await;
}

/// The store is away for longer than the lease after the work was done.
///
/// - does: repeats the completion until the store answers
/// - atomic: rolled back or found out
/// - leased: once, if nobody took over
async fn work_done_is_completed_even_long_after_its_lease_ran_out<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let (store, away) = Interfered::switched(cell.store());
    let switch = Arc::clone(&away);
    let at_first = AtomicBool::new(true);
    let script = Script::new(move |_| {
        // The store goes away after the claim, while the handler works. An atomic one works again when it is back.
        if at_first.swap(false, SeqCst) {
            switch.store(true, SeqCst);
        }
        async { Ok(()) }
    });
    let policy = QUICK.to_builder().lease(Duration::from_millis(100)).build();
    let queue = bed.queue().policy(policy.unwrap());
    let worker = Worker::builder(store).state(script.clone());
    let worker = bed.start(worker.consume::<C::Charge>(queue));
    bed.order("a").await;
    script.effects.count("the work is done", 1).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(
        worker.settled.entries().is_empty(),
        "settled without a completion"
    );

    away.store(false, SeqCst);
    worker.ended(Kind::Executed, 1).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, 1)]);
    cell.assert_effects(&script, ["a"]).await;
    bed.assert_nothing_stuck().await;
}

/// The answer to a release is lost.
///
/// - does: repeats the release
/// - atomic: the next attempt runs
/// - leased: the next attempt runs
async fn a_failed_attempt_whose_release_was_lost_is_followed_by_the_next_attempt<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let store = cell.interfered(|call, number| match (call, number) {
        (Call::Release, 1) => Fate::LoseAnswer,
        (Call::Release, 2) => Fate::Refuse,
        _ => Fate::Pass,
    });
    let script = Script::new(async |call| {
        if call.attempt == 1 {
            return Err(Failed::retry("the gateway timed out"));
        }
        Ok(())
    });
    let worker = C::charging_by(&bed, store, &script);
    bed.order("a").await;

    worker.ended(Kind::Executed, 1).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Failed, 1), (Kind::Executed, 1)]);
    assert_eq!(script.attempts(), [1, 2]);
    cell.assert_effects(&script, ["a"]).await;
    bed.assert_nothing_stuck().await;
}

/// The store is away for less than the lease while a handler runs.
///
/// - does: tries the heartbeat again; the handler is not disturbed
/// - atomic: once
/// - leased: once
async fn a_store_that_hiccups_for_less_than_the_lease_does_not_stop_a_handler<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let (store, away) = Interfered::switched(cell.store());
    let hiccup = Arc::clone(&away);
    let script = Script::new(move |_| {
        let hiccup = Arc::clone(&hiccup);
        async move {
            hiccup.store(true, SeqCst);
            tokio::time::sleep(Duration::from_millis(700)).await;
            hiccup.store(false, SeqCst);
            // Long enough for the lease to run out, had the heartbeat given up.
            tokio::time::sleep(Duration::from_secs(2)).await;
            Ok(())
        }
    });
    let policy = QUICK
        .to_builder()
        .lease(Duration::from_millis(1500))
        .build();
    let queue = bed.queue().policy(policy.unwrap());
    let worker = Worker::builder(store.clone()).state(script.clone());
    let worker = bed.start(worker.consume::<C::Charge>(queue));
    bed.order("slow").await;

    worker.ended(Kind::Executed, 1).await;
    assert!(store.count(Call::Extend) >= 4, "the heartbeat went on");
    assert_balance(&worker.stop().await, [(Kind::Executed, 1)]);
    cell.assert_effects(&script, ["slow"]).await;
    bed.assert_nothing_stuck().await;
}

/// The store is away for longer than the lease while a handler runs.
///
/// - does: pauses the work until the store answers, and lets it go on if nobody has taken over
/// - atomic: goes on; its commit decides
/// - leased: once
/// - settled by: `outages::work_done_is_completed_even_long_after_its_lease_ran_out`
async fn work_rests_while_the_store_is_away_for_longer_than_the_lease_and_then_goes_on<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let (store, away) = Interfered::switched(cell.store());
    let steps = Journal::default();
    let stepping = steps.clone();
    let script = Script::new(move |_| {
        let steps = stepping.clone();
        async move {
            for step in 0..20 {
                tokio::time::sleep(Duration::from_millis(50)).await;
                steps.write(step);
            }
            Ok(())
        }
    });
    let policy = QUICK.to_builder().lease(Duration::from_millis(300)).build();
    let queue = bed.queue().policy(policy.unwrap());
    let worker = Worker::builder(store).state(script.clone());
    let worker = bed.start(worker.consume::<C::Charge>(queue));
    bed.order("a").await;
    steps.count("the handler is at work", 2).await;
    away.store(true, SeqCst);
    tokio::time::sleep(Duration::from_millis(600)).await;
    let before = steps.entries().len();
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(
        steps.entries().len(),
        before,
        "it went on without its lease"
    );
    assert!(before < 20, "it was done before the lease ran out");
    away.store(false, SeqCst);

    worker.ended(Kind::Executed, 1).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, 1)]);
    assert_eq!(script.attempts(), [1]);
    cell.assert_effects(&script, ["a"]).await;
    bed.assert_nothing_stuck().await;
}

/// A worker is cut off from the store, and another takes over.
///
/// - does: drops the handler's future, acknowledges nothing
/// - atomic: once
/// - leased: once; what the first did before stays
/// - settled by: `zombies::an_atomic_handler_that_wakes_up_too_late_is_dropped_before_it_writes`
///   `zombies::an_atomic_handler_on_postgres_that_wakes_up_too_late_is_dropped_before_it_writes`
async fn a_handler_that_loses_its_lease_is_dropped_and_its_message_is_not_acknowledged<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let (cut_off, away) = Interfered::switched(cell.store());
    let policy = QUICK.to_builder().lease(Duration::from_millis(300)).build();
    let queue = bed.queue().prefetch(1).policy(policy.unwrap());
    let hanging = Script::hanging();
    let loser = Worker::builder(cut_off).state(hanging.clone());
    let loser = bed.start(loser.consume::<C::Charge>(queue.clone()));
    bed.order("a").await;
    hanging.calls.count("the handler runs", 1).await;

    // The loser is cut off from the store; another worker sees the lease run out.
    away.store(true, SeqCst);
    let script = Script::succeeding();
    let winner = cell.worker(&script);
    let winner = bed.start(winner.consume::<C::Charge>(queue));
    bed.order("a").await;
    winner.ended(Kind::Executed, 1).await;
    away.store(false, SeqCst);
    hanging
        .dropped
        .count("the loser's future is dropped", 1)
        .await;
    loser.ended(Kind::LeaseLost, 1).await;

    // The copy that was not acknowledged comes back, to either of them.
    let balance = loser.stop().await;
    assert_eq!(balance.of(Kind::Executed), 0, "{balance}");
    if balance.of(Kind::Duplicate) == 0 {
        winner.ended(Kind::Duplicate, 1).await;
    }
    let winner = winner.stop().await;
    assert_eq!(winner.of(Kind::Executed), 1, "{winner}");
    assert_eq!(balance.of(Kind::Duplicate) + winner.of(Kind::Duplicate), 1);
    assert_eq!(script.attempts(), [2]);
    cell.assert_effects(&script, ["a"]).await;
    bed.assert_nothing_stuck().await;
}

on_each_store! {
    while_the_store_is_away_nothing_runs_and_nothing_is_settled,
    a_worker_stopped_while_the_store_is_away_returns_its_messages,
    a_claim_whose_answer_was_lost_is_the_same_claim_when_asked_again,
    a_failed_attempt_whose_release_was_lost_is_followed_by_the_next_attempt,
    a_store_that_hiccups_for_less_than_the_lease_does_not_stop_a_handler,
    work_done_is_completed_even_long_after_its_lease_ran_out,
}

leased_on_each_store! {
    work_rests_while_the_store_is_away_for_longer_than_the_lease_and_then_goes_on,
    a_handler_that_loses_its_lease_is_dropped_and_its_message_is_not_acknowledged,
    a_completion_that_did_not_reach_the_store_is_repeated_and_the_work_is_not,
    a_completion_whose_answer_was_lost_is_repeated_and_the_work_is_not,
}
