//! The executor's promises, on paused time and a store that fails on command.

use std::{
    fmt::Debug,
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use tokio::{
    sync::{Notify, oneshot},
    time::{advance, sleep},
};

use super::*;
use crate::{
    executor::Cause,
    handler::{Answer, Attempt, Failed, InDoubt, Refusal},
    store::{Claim, ClaimRequest, Lease, Release, StoreError, Write},
};

mod ahead;
mod batches;
mod busy;
mod charge;
mod copies;
mod doubles;
mod doubt;
mod fail_open;
mod faulty;
mod groups;
mod handlers;
mod leases;
mod lost_answers;
mod lost_commits;
#[cfg(feature = "postgres")]
mod modes;
mod no_answers;
mod observed;
mod panics;
mod positions;
mod replies;
mod sequences;
mod sessions;
mod stretches;
mod timeouts;
mod unclaimed;

use faulty::{Call, Fault, Faulty};

const LEASE: Duration = Policy::DEFAULT.lease();

fn executor() -> (Executor<Faulty>, Faulty) {
    let store = Faulty::default();
    (Executor::new(store.clone()), store)
}

fn key() -> Key {
    Key::new("orders", "o-1").unwrap()
}

async fn run(executor: &Executor<Faulty>) -> Execution<u32, Failed> {
    let work = async |attempt: Attempt| Ok(attempt.number());
    executor.execute(key(), &Policy::DEFAULT, work).await
}

async fn fail(executor: &Executor<Faulty>, policy: &Policy) -> Execution<u32, Failed> {
    let work = async |_: Attempt| Err(Failed::retry("the gateway is down"));
    executor.execute(key(), policy, work).await
}

/// How a message ended: the label of its kind, with the number of its attempt if one is expected ("failed 2", 0 if
/// nothing ran).
#[track_caller]
fn assert_ended<T, E>(ended: &Execution<T, E>, expected: &str)
where
    Execution<T, E>: Debug,
{
    let mut told = ended.kind().label().to_owned();
    if expected.contains(' ') {
        let attempt = ended.attempt().unwrap_or_default();
        told = format!("{told} {attempt}");
    }
    assert_eq!(told, expected, "{ended:?}");
}

/// It ran, as this attempt, with this output.
#[track_caller]
fn assert_output<T: Debug + PartialEq>(ended: &Execution<T, Failed>, attempt: u32, output: &T) {
    assert_ended(ended, &format!("executed {attempt}"));
    let is_output = matches!(ended, Execution::Executed { output: found, .. } if found == output);
    assert!(is_output, "{ended:?}");
}

/// What another owner that asks for the key is told.
async fn claim(store: &impl Store) -> Claim {
    let request = ClaimRequest::new(key(), &Policy::DEFAULT);
    store.claim(&request).await.unwrap()
}

/// Another owner gets the key.
async fn acquire(store: &impl Store) -> Lease {
    match claim(store).await {
        Claim::Acquired(lease) => lease,
        other => panic!("the key is free: {other:?}"),
    }
}

/// Until the next attempt is due.
async fn wait_for_retry<T: Debug>(failed: &Execution<T, Failed>) {
    let Execution::Failed { retry_after, .. } = failed else {
        panic!("{failed:?}");
    };
    sleep(*retry_after).await;
}

fn attempts(max: u32) -> Policy {
    Policy::builder().max_attempts(max).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_failed_runs_again() {
    let (executor, _) = executor();
    let failed = fail(&executor, &Policy::DEFAULT).await;
    assert_ended(&failed, "failed 1");
    wait_for_retry(&failed).await;
    let again = run(&executor).await;
    assert_output(&again, 2, &2);
}

#[tokio::test(start_paused = true)]
async fn what_its_handler_finds_done_is_a_duplicate_and_so_are_its_copies() {
    let (executor, _) = executor();
    let found_done = async |_: Attempt| Err::<u32, _>(Failed::done_before());
    let found = executor.execute(key(), &attempts(1), found_done).await;
    for ended in [found, run(&executor).await] {
        let Execution::Duplicate { outcome, .. } = ended else {
            panic!("{ended:?}");
        };
        let Answer::Forgotten(refusal) = outcome.answer() else {
            panic!("{outcome:?}");
        };
        assert_eq!(refusal.code(), Refusal::DONE_BEFORE);
    }
}

#[tokio::test(start_paused = true)]
async fn a_completed_key_is_replayed_and_not_run() {
    let (executor, _) = executor();
    run(&executor).await;
    let Execution::Duplicate { outcome, remaining } = run(&executor).await else {
        panic!("a duplicate");
    };
    assert_eq!(outcome.as_bytes(), b"1");
    assert_eq!(remaining, Policy::DEFAULT.retention());
}

#[tokio::test(start_paused = true)]
async fn a_failure_waits_as_long_as_it_asks() {
    let (executor, _) = executor();
    let asked = Duration::from_secs(77);
    let work = async |_: Attempt| Err::<(), _>(Failed::retry_after(asked, "busy"));
    let failed = executor.execute(key(), &Policy::DEFAULT, work).await;
    assert!(matches!(failed, Execution::Failed { retry_after, .. } if retry_after == asked));
}

#[tokio::test(start_paused = true)]
async fn a_failure_waits_no_longer_than_its_key_is_remembered() {
    let (executor, _) = executor();
    let work = async |_: Attempt| Err::<(), _>(Failed::retry_after(Duration::MAX, "never"));
    let failed = executor.execute(key(), &Policy::DEFAULT, work).await;
    let longest = Policy::DEFAULT.retention();
    assert!(matches!(failed, Execution::Failed { retry_after, .. } if retry_after == longest));
}

#[tokio::test(start_paused = true)]
async fn copies_of_a_failing_message_do_not_burn_its_attempts() {
    let (executor, _) = executor();
    let asked = Duration::from_secs(77);
    let fail = async || {
        let work = async |_: Attempt| Err::<(), _>(Failed::retry_after(asked, "busy"));
        executor.execute(key(), &attempts(3), work).await
    };
    for number in 1..3 {
        let failed = fail().await;
        assert!(
            matches!(failed, Execution::Failed { attempt, .. } if attempt == number),
            "{failed:?}"
        );
        for _ in 0..11 {
            let copy = fail().await;
            assert!(
                matches!(copy, Execution::Conflict { remaining } if remaining == asked),
                "{copy:?}"
            );
        }
        sleep(asked).await;
    }
    let last = fail().await;
    assert_ended(&last, "exhausted 3");
}

#[tokio::test(start_paused = true)]
async fn used_up_attempts_give_the_key_up_so_that_a_replay_starts_over() {
    let (executor, _) = executor();
    wait_for_retry(&fail(&executor, &attempts(2)).await).await;
    let last = fail(&executor, &attempts(2)).await;
    assert_ended(&last, "exhausted 2");
    let replay = run(&executor).await;
    assert_ended(&replay, "executed 1");
}

#[tokio::test(start_paused = true)]
async fn a_rejection_is_for_good() {
    let (executor, _) = executor();
    let work = async |_: Attempt| Err::<(), _>(Failed::rejected("no such customer"));
    let rejected = executor.execute(key(), &Policy::DEFAULT, work).await;
    assert_eq!(rejected.error().as_deref(), Some("no such customer"));
    assert_ended(&rejected, "rejected 1");
}

/// Runs a handler that never ends, and tells whether its future was dropped.
async fn run_for_ever(executor: &Executor<Faulty>) -> (Execution<(), Failed>, bool) {
    let (alive, mut dropped) = oneshot::channel::<()>();
    let work = async move |_: Attempt| {
        let _alive = alive;
        pending::<Result<(), Failed>>().await
    };
    let ended = executor.execute(key(), &Policy::DEFAULT, work).await;
    (ended, dropped.try_recv().is_err())
}

#[tokio::test(start_paused = true)]
async fn a_dropped_execution_is_healed_by_its_lease() {
    let (executor, store) = executor();
    tokio::select! {
        _ = run_for_ever(&executor) => unreachable!("it never ends"),
        () = sleep(Duration::from_secs(1)) => {}
    }
    assert_ended(&run(&executor).await, "conflict");
    sleep(LEASE).await;
    let lease = acquire(&store).await;
    assert!(lease.in_doubt && lease.attempt == 2);
}

#[tokio::test(start_paused = true)]
async fn a_closed_executor_starts_nothing_and_counts_no_attempt() {
    let (executor, store) = executor();
    executor.close();
    assert_ended(&run(&executor).await, "abandoned");
    let lease = acquire(&store).await;
    assert!(lease.attempt == 1);
}

#[tokio::test(start_paused = true)]
async fn a_conflict_at_home_is_told_when_its_holder_ends() {
    let (executor, _) = executor();
    let work = async |_: Attempt| {
        sleep(Duration::from_secs(5)).await;
        Ok::<_, Failed>(())
    };
    let policy = Policy::DEFAULT;
    let started = tokio::time::Instant::now();
    tokio::join!(executor.execute(key(), &policy, work), async {
        assert_ended(&run(&executor).await, "conflict");
        executor.in_flight.watch(&key()).ended().await;
        assert_eq!(started.elapsed(), Duration::from_secs(5));
        assert_ended(&run(&executor).await, "duplicate");
    });
}
