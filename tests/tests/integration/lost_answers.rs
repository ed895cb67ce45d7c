//! Links to the store that are cut in the middle of a call: the server did it, and nobody heard.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::SeqCst},
};

use idem_amqp::{
    Worker,
    executor::{ExecutionKind as Kind, RunsOn},
    handler::Handler,
    prelude::*,
    store::Purge,
};
use idem_servers::{postgres, redis};
use idem_tests::{
    bed::Bed,
    interfered::{Call, Fate, Interfered},
    ledger::{Charge, Ledger},
    proxy::Proxy,
    script::{Script, charge, charge_on_postgres},
    servers::off_thread,
    store_at::StoreAt,
};

/// The answer to such a call is lost on its way through the proxy. Which attempts were there of the
/// message, and how did it end?
async fn attempts_although_lost<H, S>(lost: Call, store: S, proxy: Proxy) -> Vec<u32>
where
    H: Handler<Script>,
    H::Mode: RunsOn<Interfered<S>>,
    S: Purge + Clone,
{
    let bed = Bed::new().await;
    let (proxy, armed) = (Arc::new(proxy), Arc::new(AtomicBool::new(false)));
    let (losing, trigger) = (Arc::clone(&proxy), Arc::clone(&armed));
    let store = Interfered::new(store, move |call, _| {
        if call == lost && trigger.swap(false, SeqCst) {
            losing.lose_next_answer();
        }
        Fate::Pass
    });
    // The first order's first attempt fails, so that the server has been asked everything once.
    let script = Script::new(move |call| async move {
        let fails = call.id == "first" || lost == Call::Release;
        if fails && call.attempt == 1 {
            return Err(Failed::retry("the gateway timed out"));
        }
        Ok(())
    });
    let worker = Worker::builder(store).state(script.clone());
    let worker = bed.start(worker.consume::<H>(bed.queue()));
    bed.order("first").await;
    worker.ended(Kind::Executed, 1).await;
    armed.store(true, SeqCst);
    bed.order("a").await;
    worker.ended(Kind::Executed, 2).await;
    bed.order("a").await;
    worker.ended(Kind::Duplicate, 1).await;

    assert_eq!(proxy.lost_answers(), 1);
    let balance = worker.stop().await;
    assert_eq!(balance.of(Kind::Executed), 2, "{balance}");
    assert_eq!(balance.of(Kind::Duplicate), 1, "{balance}");
    script.assert_effects(["a", "first"]);
    bed.assert_nothing_stuck().await;
    let calls = script.calls.entries().into_iter();
    let of_the_second = calls.filter(|call| call.id == "a");
    of_the_second.map(|call| call.attempt).collect()
}

async fn leased_on_postgres(lost: Call) -> Vec<u32> {
    let proxy = Proxy::open(off_thread(postgres::shared).await.port()).await;
    let store = StoreAt::postgres().await.by(proxy.port());
    attempts_although_lost::<charge, _>(lost, store.open_postgres().await, proxy).await
}

async fn atomic_on_postgres(lost: Call) -> (Vec<u32>, Vec<Charge>) {
    let proxy = Proxy::open(off_thread(postgres::shared).await.port()).await;
    let at = StoreAt::postgres().await;
    let ledger = Ledger::of(&at).await;
    let store = at.by(proxy.port()).open_postgres().await;
    let attempts = attempts_although_lost::<charge_on_postgres, _>(lost, store, proxy).await;
    (attempts, ledger.charges().await)
}

async fn leased_on_redis(lost: Call) -> Vec<u32> {
    let proxy = Proxy::open(off_thread(redis::shared).await.port()).await;
    let store = StoreAt::redis().await.by(proxy.port());
    attempts_although_lost::<charge, _>(lost, store.open_redis().await, proxy).await
}

/// The first order was charged by its second attempt.
fn charges(attempt: u32) -> [Charge; 2] {
    [
        Charge::new("first", 2, "here"),
        Charge::new("a", attempt, "here"),
    ]
}

/// Shares the promise of `lost_answers::a_beginning_that_postgres_answers_to_a_broken_link_is_one_attempt`.
#[tokio::test]
async fn a_claim_that_postgres_answers_to_a_broken_link_is_the_same_claim_when_asked_again() {
    assert_eq!(leased_on_postgres(Call::Claim).await, [1]);
}

/// Shares the promise of `lost_answers::a_commit_that_postgres_answers_to_a_broken_link_is_found_out_and_not_repeated`.
#[tokio::test]
async fn a_completion_that_postgres_answers_to_a_broken_link_is_repeated_and_the_work_is_not() {
    assert_eq!(leased_on_postgres(Call::Complete).await, [1]);
}

/// Shares the promise of
/// `lost_answers::a_rollback_that_postgres_answers_to_a_broken_link_is_followed_by_the_next_attempt`.
#[tokio::test]
async fn a_release_that_postgres_answers_to_a_broken_link_is_followed_by_the_next_attempt() {
    assert_eq!(leased_on_postgres(Call::Release).await, [1, 2]);
}

/// The link breaks after a claim was done and before it was answered.
///
/// - does: asks again, as the same owner: the same claim
/// - atomic: one attempt
/// - leased: one attempt
#[tokio::test]
async fn a_beginning_that_postgres_answers_to_a_broken_link_is_one_attempt() {
    let (attempts, charged) = atomic_on_postgres(Call::Claim).await;
    assert_eq!((attempts, charged), (vec![1], charges(1).to_vec()));
}

/// The link breaks after a completion was done and before it was answered.
///
/// - does: atomic: finds out whether it has committed; leased: repeats the completion
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_commit_that_postgres_answers_to_a_broken_link_is_found_out_and_not_repeated() {
    let (attempts, charged) = atomic_on_postgres(Call::Complete).await;
    assert_eq!((attempts, charged), (vec![1], charges(1).to_vec()));
}

/// The link breaks after a failure was recorded and before that was answered.
///
/// - does: repeats the release
/// - atomic: the next attempt runs
/// - leased: the next attempt runs
#[tokio::test]
async fn a_rollback_that_postgres_answers_to_a_broken_link_is_followed_by_the_next_attempt() {
    let (attempts, charged) = atomic_on_postgres(Call::Release).await;
    assert_eq!((attempts, charged), (vec![1, 2], charges(2).to_vec()));
}

/// Shares the promise of `lost_answers::a_beginning_that_postgres_answers_to_a_broken_link_is_one_attempt`.
#[tokio::test]
async fn a_claim_that_redis_answers_to_a_broken_link_is_the_same_claim_when_asked_again() {
    assert_eq!(leased_on_redis(Call::Claim).await, [1]);
}

/// Shares the promise of `lost_answers::a_commit_that_postgres_answers_to_a_broken_link_is_found_out_and_not_repeated`.
#[tokio::test]
async fn a_completion_that_redis_answers_to_a_broken_link_is_repeated_and_the_work_is_not() {
    assert_eq!(leased_on_redis(Call::Complete).await, [1]);
}

/// Shares the promise of
/// `lost_answers::a_rollback_that_postgres_answers_to_a_broken_link_is_followed_by_the_next_attempt`.
#[tokio::test]
async fn a_release_that_redis_answers_to_a_broken_link_is_followed_by_the_next_attempt() {
    assert_eq!(leased_on_redis(Call::Release).await, [1, 2]);
}
