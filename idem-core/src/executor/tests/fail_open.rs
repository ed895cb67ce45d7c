//! Running without the store, and telling it afterwards.

use super::*;
use crate::{
    handler::{Outcome, StoreOutage},
    message::Fingerprint,
    stores::{Cached, MemoryStore},
};

mod failures;
mod outlasting;
mod races;
mod reports;

fn fail_open() -> Policy {
    let policy = Policy::builder().store_outage(StoreOutage::FailOpen);
    policy.build().unwrap()
}

fn away() -> (Executor<Faulty>, Faulty) {
    let (executor, store) = executor();
    store.go_away();
    (executor, store)
}

async fn run_open(executor: &Executor<Faulty>) -> Execution<u32, Failed> {
    let work = async |attempt: Attempt| Ok(attempt.number());
    executor.execute(key(), &fail_open(), work).await
}

#[track_caller]
fn is_unprotected<T: std::fmt::Debug>(ended: &Execution<T, Failed>, number: u32) {
    assert!(
        matches!(ended, Execution::Unprotected { attempt, .. } if *attempt == number),
        "{ended:?}"
    );
}

/// How many attempts the store was told of, how many of those it knew already, and how many it is still to be told of.
fn counts(executor: &Executor<Faulty>) -> (u64, u64, u64) {
    let reports = executor.unprotected();
    (reports.told(), reports.overtaken(), reports.pending())
}

async fn is_done_elsewhere(store: &Faulty) {
    let there = claim(&store.elsewhere()).await;
    assert!(matches!(there, Claim::Completed { .. }), "{there:?}");
}

/// Long enough for the store to be asked again.
async fn a_while() {
    sleep(Duration::from_secs(3)).await;
}

#[tokio::test(start_paused = true)]
async fn by_default_nothing_runs_without_the_store() {
    let (executor, _) = away();
    let ended = run(&executor).await;
    assert_ended(&ended, "store-unavailable");
}

#[tokio::test(start_paused = true)]
async fn work_runs_without_the_store_and_knows_it() {
    let (executor, _) = away();
    let work =
        async |attempt: Attempt| Ok::<_, Failed>((attempt.is_protected(), attempt.token().get()));
    let ended = executor.execute(key(), &fail_open(), work).await;
    let Execution::Unprotected {
        output, attempt, ..
    } = ended
    else {
        panic!("{ended:?}");
    };
    assert_eq!((output, attempt), ((false, 0), 1));
}

#[tokio::test(start_paused = true)]
async fn work_runs_protected_while_the_store_is_there() {
    let (executor, _) = executor();
    let work = async |attempt: Attempt| Ok::<_, Failed>(attempt.is_protected());
    let ended = executor.execute(key(), &fail_open(), work).await;
    assert!(
        matches!(ended, Execution::Executed { output: true, .. }),
        "{ended:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_copy_of_what_was_done_without_the_store_is_a_duplicate() {
    let (executor, _) = away();
    is_unprotected(&run_open(&executor).await, 1);
    let copy = run_open(&executor).await;
    assert!(
        matches!(&copy, Execution::Duplicate { outcome, .. } if outcome.as_bytes() == b"1"),
        "{copy:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_copy_of_what_runs_without_the_store_is_held_until_it_has_ended() {
    let (executor, _) = away();
    let work = async |_: Attempt| {
        sleep(2 * LEASE).await;
        Ok::<_, Failed>(())
    };
    let policy = fail_open();
    tokio::join!(
        async { is_unprotected(&executor.execute(key(), &policy, work).await, 1) },
        async {
            sleep(LEASE + LEASE / 2).await;
            let copy = run_open(&executor).await;
            assert_ended(&copy, "conflict");
            executor.in_flight.watch(&key()).ended().await;
            let copy = run_open(&executor).await;
            assert_ended(&copy, "duplicate");
        }
    );
}

#[tokio::test(start_paused = true)]
async fn other_content_under_a_key_that_was_done_without_the_store_is_key_reuse() {
    let (executor, _) = away();
    for (content, is_reuse) in [("a", false), ("b", true)] {
        let request = ClaimRequest::new(key(), &fail_open());
        let request = request.fingerprint(Fingerprint::of(content.as_bytes()));
        let work = async |_: Attempt| Ok::<_, Failed>(());
        let policy = fail_open();
        let ended = executor.execute_request(&request, &policy, work).await;
        assert_eq!(matches!(ended, Execution::KeyReused), is_reuse, "{ended:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_frozen_is_away() {
    let (executor, store) = executor();
    store.always(Call::Claim, Fault::Silent);
    let started = tokio::time::Instant::now();
    is_unprotected(&run_open(&executor).await, 1);
    assert_eq!(started.elapsed(), LEASE / 3);
}

#[tokio::test(start_paused = true)]
async fn a_record_that_cannot_be_read_is_never_run_past() {
    let (executor, store) = executor();
    store.always(Call::Claim, Fault::Corrupt);
    for policy in [fail_open(), Policy::DEFAULT] {
        let work = async |_: Attempt| Ok::<_, Failed>(());
        let ended = executor.execute(key(), &policy, work).await;
        assert_ended(&ended, "record-corrupt");
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_full_is_not_away() {
    let full = MemoryStore::builder().capacity(0).build();
    let work = async |_: Attempt| Ok::<_, Failed>(());
    let ended = Executor::new(full).execute(key(), &fail_open(), work).await;
    assert_ended(&ended, "store-unavailable");
}

#[tokio::test(start_paused = true)]
async fn when_the_local_memory_is_full_further_messages_wait_and_nothing_is_forgotten() {
    let (executor, store) = away();
    let executor = executor.local_memory(1000);
    is_unprotected(&run_open(&executor).await, 1);
    let other = Key::new("orders", "o-2").unwrap();
    let further = async || {
        let work = async |_: Attempt| Ok::<_, Failed>(());
        executor.execute(other.clone(), &fail_open(), work).await
    };
    let ended = further().await;
    assert_ended(&ended, "store-unavailable");
    let copy = run_open(&executor).await;
    assert_ended(&copy, "duplicate");
    store.heal();
    a_while().await;
    assert_ended(&further().await, "executed");
    store.go_away();
    let third = Key::new("orders", "o-3").unwrap();
    let work = async |_: Attempt| Ok::<_, Failed>(());
    let ended = executor.execute(third, &fail_open(), work).await;
    is_unprotected(&ended, 1);
}

#[tokio::test(start_paused = true)]
async fn a_closed_executor_starts_nothing_without_the_store_either() {
    let (executor, store) = away();
    executor.close();
    assert_ended(&run_open(&executor).await, "abandoned");
    assert_eq!(executor.unprotected(), UnprotectedStats::default());
    store.heal();
    let claim = ClaimRequest::new(key(), &Policy::DEFAULT);
    let claim = store.claim(&claim).await.unwrap();
    assert!(matches!(claim, Claim::Acquired(lease) if lease.attempt == 1));
}

#[tokio::test(start_paused = true)]
async fn a_frozen_store_keeps_only_the_first_message_waiting() {
    let (executor, store) = executor();
    store.always(Call::Claim, Fault::Silent);
    is_unprotected(&run_open(&executor).await, 1);
    let started = tokio::time::Instant::now();
    let other = Key::new("orders", "o-2").unwrap();
    let work = async |_: Attempt| Ok::<_, Failed>(());
    let ended = executor.execute(other, &fail_open(), work).await;
    is_unprotected(&ended, 1);
    assert!(started.elapsed() < Duration::from_secs(1));
    // It is asked all the same: its cache may know.
    store.heal();
    sleep(LEASE).await;
    let third = Key::new("orders", "o-3").unwrap();
    let ended = executor.execute(third, &fail_open(), work).await;
    assert_ended(&ended, "executed");
}

/// A cache in front of the store answers by itself, which does not mean that the store is back.
#[tokio::test(start_paused = true)]
async fn copies_that_a_cache_knows_let_nobody_wait_for_a_frozen_store_again() {
    let store = Faulty::default();
    let executor = Executor::new(Cached::new(store.clone()));
    let work = async |_: Attempt| Ok::<_, Failed>(());
    let handle = async |id: &str| {
        let key = Key::new("orders", id).unwrap();
        executor.execute(key, &fail_open(), work).await
    };
    assert_ended(&handle("o-1").await, "executed");
    store.always(Call::Claim, Fault::Silent);
    is_unprotected(&handle("o-2").await, 1);
    for id in ["o-3", "o-4", "o-5"] {
        assert_ended(&handle("o-1").await, "duplicate");
        let started = tokio::time::Instant::now();
        is_unprotected(&handle(id).await, 1);
        assert!(started.elapsed() < Duration::from_secs(1), "{id}");
    }
}
