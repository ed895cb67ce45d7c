//! The executor's promises, on paused time and a store that fails on command.

use std::{
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
use crate::{Attempt, Cause, Claim, ClaimRequest, Failed, InDoubt, Release, Write};

mod faulty;
mod handlers;

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

/// Until the next attempt is due.
async fn wait_for_retry<T: std::fmt::Debug>(failed: &Execution<T, Failed>) {
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
    assert!(
        matches!(failed, Execution::Failed { attempt: 1, .. }),
        "{failed:?}"
    );
    wait_for_retry(&failed).await;
    let again = run(&executor).await;
    assert!(
        matches!(
            again,
            Execution::Executed {
                output: 2,
                attempt: 2
            }
        ),
        "{again:?}"
    );
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
    assert!(
        matches!(last, Execution::Exhausted { attempt: 3, .. }),
        "{last:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn used_up_attempts_give_the_key_up_so_that_a_replay_starts_over() {
    let (executor, _) = executor();
    wait_for_retry(&fail(&executor, &attempts(2)).await).await;
    let last = fail(&executor, &attempts(2)).await;
    assert!(
        matches!(last, Execution::Exhausted { attempt: 2, .. }),
        "{last:?}"
    );
    let replay = run(&executor).await;
    assert!(
        matches!(replay, Execution::Executed { attempt: 1, .. }),
        "{replay:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_rejection_is_for_good() {
    let (executor, _) = executor();
    let work = async |_: Attempt| Err::<(), _>(Failed::rejected("no such customer"));
    let rejected = executor.execute(key(), &Policy::DEFAULT, work).await;
    assert_eq!(rejected.error().as_deref(), Some("no such customer"));
    assert!(matches!(rejected, Execution::Rejected { attempt: 1, .. }));
}

/// Serialises and describes itself with a panic.
#[derive(Debug)]
struct Bomb;

impl Serialize for Bomb {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        panic!("boom")
    }
}

impl std::fmt::Display for Bomb {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        panic!("boom")
    }
}

impl Failure for Bomb {}

#[tokio::test(start_paused = true)]
async fn an_output_that_cannot_be_serialised_is_no_reason_to_repeat_the_work() {
    let (executor, _) = executor();
    let work = async |_: Attempt| Ok::<_, Failed>(Bomb);
    let ended = executor.execute(key(), &Policy::DEFAULT, work).await;
    assert!(matches!(ended, Execution::Executed { .. }));
    assert!(matches!(run(&executor).await, Execution::Duplicate { .. }));
}

#[tokio::test(start_paused = true)]
async fn an_error_that_panics_when_asked_is_a_failed_attempt() {
    let (executor, _) = executor();
    let work = async |_: Attempt| Err::<(), _>(Bomb);
    let failed = executor.execute(key(), &Policy::DEFAULT, work).await;
    assert!(matches!(
        failed,
        Execution::Failed {
            cause: Cause::Panicked(_),
            ..
        }
    ));
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_a_failed_attempt() {
    let (executor, _) = executor();
    let work = async |_: Attempt| -> Result<(), Failed> { panic!("boom") };
    let failed = executor.execute(key(), &Policy::DEFAULT, work).await;
    wait_for_retry(&failed).await;
    let Execution::Failed { cause, .. } = failed else {
        panic!("{failed:?}");
    };
    assert!(matches!(cause, Cause::Panicked(message) if message == "boom"));
    assert!(matches!(
        run(&executor).await,
        Execution::Executed { attempt: 2, .. }
    ));
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_keeps_a_lease_for_as_long_as_the_handler_runs() {
    let (executor, store) = executor();
    let long = async |_: Attempt| {
        sleep(10 * LEASE).await;
        Ok::<_, Failed>(())
    };
    let policy = Policy::DEFAULT;
    let (ran, held) = tokio::join!(executor.execute(key(), &policy, long), async {
        sleep(5 * LEASE).await;
        store.claim(&ClaimRequest::new(key(), &policy)).await
    });
    assert!(
        matches!(ran, Execution::Executed { attempt: 1, .. }),
        "{ran:?}"
    );
    assert!(matches!(held, Ok(Claim::Held { .. })), "{held:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_blocks_its_thread_keeps_its_lease() {
    let (executor, store) = executor();
    let policy = Policy::builder().lease(Policy::MIN_LEASE).build().unwrap();
    let work = async |_: Attempt| {
        std::thread::sleep(4 * Policy::MIN_LEASE);
        let claim = store.claim(&ClaimRequest::new(key(), &policy)).await;
        assert!(matches!(claim, Ok(Claim::Held { .. })), "{claim:?}");
        Ok::<_, Failed>(())
    };
    let ended = executor.execute(key(), &policy, work).await;
    assert!(matches!(ended, Execution::Executed { .. }), "{ended:?}");
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
async fn a_lost_lease_drops_the_handlers_future() {
    let (executor, store) = executor();
    store.script(Call::Extend, [Fault::Fenced]);
    let (ended, dropped) = run_for_ever(&executor).await;
    assert!(matches!(ended, Execution::LeaseLost { attempt: 1 }) && dropped);
}

#[tokio::test(start_paused = true)]
async fn a_store_hiccup_shorter_than_the_lease_changes_nothing() {
    let (executor, store) = executor();
    store.script(
        Call::Extend,
        [Fault::Unreached, Fault::Unreached, Fault::Unreached],
    );
    let work = async |_: Attempt| {
        sleep(3 * LEASE).await;
        Ok::<_, Failed>(())
    };
    let ended = executor.execute(key(), &Policy::DEFAULT, work).await;
    assert!(matches!(ended, Execution::Executed { .. }), "{ended:?}");
}

/// Counts how often it is polled, about once a second, for as long as it is told.
fn work_for(seconds: u32, polled: &Arc<AtomicU32>) -> impl Future<Output = Result<(), Failed>> {
    let polled = Arc::clone(polled);
    async move {
        for _ in 0..seconds {
            polled.fetch_add(1, SeqCst);
            sleep(Duration::from_secs(1)).await;
        }
        Ok(())
    }
}

async fn outlast(fault: Fault) -> (Execution<(), Failed>, u32) {
    let (executor, store) = executor();
    store.always(Call::Extend, fault);
    let polled = Arc::new(AtomicU32::new(0));
    let policy = Policy::DEFAULT;
    let work = executor.execute(key(), &policy, |_| work_for(60, &polled));
    let (ended, during) = tokio::join!(work, async {
        sleep(4 * LEASE).await;
        let during = polled.load(SeqCst);
        store.heal();
        during
    });
    (ended, during)
}

#[tokio::test(start_paused = true)]
async fn work_rests_while_the_store_is_away_longer_than_the_lease_and_then_goes_on() {
    let (ended, during) = outlast(Fault::Unreached).await;
    assert!(
        matches!(ended, Execution::Executed { attempt: 1, .. }),
        "{ended:?}"
    );
    assert!(during <= 30, "polled {during} times, beyond its lease");
}

#[tokio::test(start_paused = true)]
async fn work_rests_while_the_store_is_frozen_longer_than_the_lease_and_then_goes_on() {
    let (ended, during) = outlast(Fault::Silent).await;
    assert!(
        matches!(ended, Execution::Executed { attempt: 1, .. }),
        "{ended:?}"
    );
    assert!(during <= 30, "polled {during} times, beyond its lease");
}

#[tokio::test(start_paused = true)]
async fn work_that_rested_is_dropped_if_another_worker_took_over_meanwhile() {
    let (executor, store) = executor();
    store.always(Call::Extend, Fault::Unreached);
    let (ended, ()) = tokio::join!(run_for_ever(&executor), async {
        sleep(2 * LEASE).await;
        let other = store
            .claim(&ClaimRequest::new(key(), &Policy::DEFAULT))
            .await;
        assert!(matches!(other, Ok(Claim::Acquired(_))), "{other:?}");
        store.heal();
    });
    assert!(
        matches!(ended, (Execution::LeaseLost { attempt: 1 }, true)),
        "{ended:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_process_that_was_paused_beyond_its_lease_asks_before_it_goes_on() {
    let (executor, store) = executor();
    store.always(Call::Extend, Fault::Silent);
    let polled = Arc::new(AtomicU32::new(0));
    let wake = Arc::new(Notify::new());
    let (count, woken) = (Arc::clone(&polled), Arc::clone(&wake));
    let work = async move |_: Attempt| loop {
        count.fetch_add(1, SeqCst);
        woken.notified().await;
        if false {
            return Ok::<(), Failed>(());
        }
    };
    let task = tokio::spawn(async move { executor.execute(key(), &Policy::DEFAULT, work).await });
    while polled.load(SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    // As after SIGCONT: the clock has jumped, and the work's own event is ready.
    wake.notify_one();
    advance(2 * LEASE).await;
    sleep(2 * LEASE).await;
    assert_eq!(
        polled.load(SeqCst),
        1,
        "the work went on under a lease that nobody confirmed"
    );
    store.heal();
    sleep(LEASE).await;
    assert_eq!(
        polled.load(SeqCst),
        2,
        "the work goes on under a lease that is confirmed"
    );
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn a_dropped_execution_is_healed_by_its_lease() {
    let (executor, store) = executor();
    tokio::select! {
        _ = run_for_ever(&executor) => unreachable!("it never ends"),
        () = sleep(Duration::from_secs(1)) => {}
    }
    assert!(matches!(run(&executor).await, Execution::Conflict { .. }));
    sleep(LEASE).await;
    let claim = store
        .claim(&ClaimRequest::new(key(), &Policy::DEFAULT))
        .await;
    let Ok(Claim::Acquired(lease)) = claim else {
        panic!("{claim:?}");
    };
    assert!(lease.in_doubt && lease.attempt == 2);
}

#[tokio::test(start_paused = true)]
async fn a_completion_that_was_lost_is_repeated_and_the_work_is_not() {
    let (executor, store) = executor();
    store.script(Call::Complete, [Fault::Unreached, Fault::Unreached]);
    assert!(matches!(
        run(&executor).await,
        Execution::Executed { attempt: 1, .. }
    ));
    assert!(matches!(run(&executor).await, Execution::Duplicate { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_completion_that_was_applied_but_not_answered_is_an_execution() {
    let (executor, store) = executor();
    store.script(Call::Complete, [Fault::AnswerLost]);
    assert!(matches!(
        run(&executor).await,
        Execution::Executed { attempt: 1, .. }
    ));
}

#[tokio::test(start_paused = true)]
async fn a_completion_is_repeated_past_the_lease_and_without_its_caller() {
    let (executor, store) = executor();
    store.always(Call::Complete, Fault::Unreached);
    tokio::select! {
        ended = run(&executor) => panic!("{ended:?}"),
        () = sleep(3 * LEASE) => {}
    }
    store.heal();
    sleep(Duration::from_secs(2)).await;
    assert!(matches!(run(&executor).await, Execution::Duplicate { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_completion_after_a_takeover_is_no_success() {
    let (executor, store) = executor();
    store.script(Call::Complete, [Fault::Fenced]);
    assert!(matches!(
        run(&executor).await,
        Execution::LeaseLost { attempt: 1 }
    ));
}

#[tokio::test(start_paused = true)]
async fn a_release_that_was_lost_is_repeated_so_that_nothing_is_in_doubt() {
    let (executor, store) = executor();
    store.script(Call::Release, [Fault::Unreached, Fault::AnswerLost]);
    wait_for_retry(&fail(&executor, &Policy::DEFAULT).await).await;
    let claim = store
        .claim(&ClaimRequest::new(key(), &Policy::DEFAULT))
        .await;
    assert!(matches!(claim, Ok(Claim::Acquired(lease)) if !lease.in_doubt));
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_answer_was_lost_is_had_back_with_the_same_request() {
    let (executor, store) = executor();
    let request = ClaimRequest::new(key(), &Policy::DEFAULT);
    store.script(Call::Claim, [Fault::AnswerLost]);
    let work = async |attempt: Attempt| Ok::<_, Failed>(attempt.number());
    let unknown = executor
        .execute_request(&request, &Policy::DEFAULT, work)
        .await;
    assert!(
        matches!(unknown, Execution::StoreUnavailable { .. }),
        "{unknown:?}"
    );
    let again = executor
        .execute_request(&request, &Policy::DEFAULT, work)
        .await;
    assert!(
        matches!(again, Execution::Executed { attempt: 1, .. }),
        "{again:?}"
    );
}

/// A worker claims and dies without a word.
async fn vanish(store: &Faulty) {
    let claim = store
        .claim(&ClaimRequest::new(key(), &Policy::DEFAULT))
        .await;
    assert!(matches!(claim, Ok(Claim::Acquired(_))), "{claim:?}");
    sleep(LEASE).await;
}

#[tokio::test(start_paused = true)]
async fn an_attempt_in_doubt_runs_again_by_default_and_knows_it() {
    let (executor, store) = executor();
    vanish(&store).await;
    let work = async |attempt: Attempt| Ok::<_, Failed>(attempt.is_in_doubt());
    let ended = executor.execute(key(), &Policy::DEFAULT, work).await;
    assert!(
        matches!(
            ended,
            Execution::Executed {
                output: true,
                attempt: 2
            }
        ),
        "{ended:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_attempt_in_doubt_is_quarantined_if_the_policy_says_so_until_a_replay() {
    let (executor, store) = executor();
    let policy = Policy::builder()
        .in_doubt(InDoubt::Quarantine)
        .build()
        .unwrap();
    vanish(&store).await;
    for _ in 0..2 {
        let work = async |_: Attempt| Ok::<_, Failed>(());
        let ended = executor.execute(key(), &policy, work).await;
        assert!(matches!(ended, Execution::InDoubt), "{ended:?}");
    }
    let replay = ClaimRequest::new(key(), &policy).replay(true);
    let work = async |_: Attempt| Ok::<_, Failed>(());
    let ended = executor.execute_request(&replay, &policy, work).await;
    assert!(
        matches!(ended, Execution::Executed { attempt: 1, .. }),
        "{ended:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_message_that_kills_its_workers_is_given_up_without_running() {
    let (executor, store) = executor();
    for _ in 0..3 {
        vanish(&store).await;
    }
    let work = async |_: Attempt| -> Result<(), Failed> { panic!("must not run") };
    let ended = executor.execute(key(), &attempts(3), work).await;
    assert!(
        matches!(
            ended,
            Execution::Exhausted {
                cause: Cause::Vanished,
                attempt: 3
            }
        ),
        "{ended:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_closed_executor_starts_nothing_and_counts_no_attempt() {
    let (executor, store) = executor();
    executor.close();
    assert!(matches!(run(&executor).await, Execution::Abandoned));
    let claim = store
        .claim(&ClaimRequest::new(key(), &Policy::DEFAULT))
        .await;
    assert!(matches!(claim, Ok(Claim::Acquired(lease)) if lease.attempt == 1));
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
        assert!(matches!(run(&executor).await, Execution::Conflict { .. }));
        executor.holder_ended(&key()).await;
        assert_eq!(started.elapsed(), Duration::from_secs(5));
        assert!(matches!(run(&executor).await, Execution::Duplicate { .. }));
    });
}

#[tokio::test(start_paused = true)]
async fn a_late_zombie_can_neither_complete_nor_release() {
    let (executor, store) = executor();
    let request = ClaimRequest::new(key(), &Policy::DEFAULT);
    let Ok(Claim::Acquired(zombie)) = store.claim(&request).await else {
        panic!("acquired");
    };
    sleep(LEASE).await;
    run(&executor).await;
    let outcome = crate::Outcome::default();
    let late = store.complete(&zombie, &outcome, LEASE).await.unwrap();
    assert_eq!(late, Write::Fenced);
    let late = store
        .release(&zombie, &Release::failed("late"))
        .await
        .unwrap();
    assert_eq!(late, Write::Fenced);
}
