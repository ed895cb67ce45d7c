//! Attempts that begin or end in an outage and are longer than it, or the other way round.

use super::*;

async fn work_for(
    executor: &Executor<Faulty>,
    length: Duration,
    policy: Policy,
) -> Execution<u32, Failed> {
    let work = async |attempt: Attempt| {
        sleep(length).await;
        Ok(attempt.number())
    };
    executor.execute(key(), &policy, work).await
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_back_knows_of_work_that_still_runs_without_it() {
    let (executor, store) = away();
    let (ended, ()) = tokio::join!(work_for(&executor, 20 * LEASE, fail_open()), async {
        sleep(Duration::from_secs(1)).await;
        store.heal();
        sleep(Duration::from_secs(3)).await;
        for _ in 0..15 {
            let theirs = claim(&store.elsewhere()).await;
            assert!(matches!(theirs, Claim::Held { .. }), "{theirs:?}");
            sleep(LEASE).await;
        }
    });
    is_unprotected(&ended, 1);
    let left = executor.report(Duration::from_secs(5)).await;
    assert_eq!((left.told(), left.overtaken(), left.pending()), (1, 0, 0));
    let theirs = claim(&store.elsewhere()).await;
    assert!(matches!(theirs, Claim::Completed { .. }), "{theirs:?}");
}

#[tokio::test(start_paused = true)]
async fn work_without_the_store_goes_on_though_another_worker_has_done_it() {
    let (executor, store) = away();
    let (ended, ()) = tokio::join!(work_for(&executor, 2 * LEASE, fail_open()), async {
        let Claim::Acquired(lease) = claim(&store.elsewhere()).await else {
            panic!("the key is free");
        };
        let theirs = store.elsewhere();
        let outcome = Outcome::new("theirs");
        let _ = theirs.complete(&lease, &outcome, LEASE * 100).await;
        store.heal();
    });
    is_unprotected(&ended, 1);
    let left = executor.report(Duration::from_secs(5)).await;
    assert_eq!((left.told(), left.overtaken(), left.pending()), (1, 1, 0));
}

async fn ends_in_an_outage(fault: Fault) -> Executor<Faulty> {
    let (executor, store) = executor();
    let outage = async {
        sleep(Duration::from_secs(1)).await;
        for call in [Call::Claim, Call::Extend, Call::Complete, Call::Release] {
            store.always(call, fault);
        }
    };
    let started = tokio::time::Instant::now();
    let length = Duration::from_secs(2);
    let (ended, ()) = tokio::join!(work_for(&executor, length, fail_open()), outage);
    is_unprotected(&ended, 1);
    assert!(started.elapsed() <= length + LEASE / 3);
    let copy = run_open(&executor).await;
    assert_ended(&copy, "duplicate");
    assert_eq!(executor.unprotected().pending(), 1);
    sleep(Duration::from_mins(10)).await;
    store.heal();
    let left = executor.report(LEASE).await;
    assert_eq!((left.told(), left.overtaken(), left.pending()), (1, 0, 0));
    let theirs = claim(&store.elsewhere()).await;
    assert!(matches!(theirs, Claim::Completed { .. }), "{theirs:?}");
    executor
}

#[tokio::test(start_paused = true)]
async fn protected_work_that_ends_while_the_store_is_away_does_not_wait_for_it() {
    ends_in_an_outage(Fault::Unreached).await;
}

#[tokio::test(start_paused = true)]
async fn protected_work_that_ends_while_the_store_is_frozen_does_not_wait_for_it() {
    ends_in_an_outage(Fault::Silent).await;
}

#[tokio::test(start_paused = true)]
async fn a_completion_whose_answer_was_lost_is_told_once() {
    ends_in_an_outage(Fault::AnswerLost).await;
}

#[tokio::test(start_paused = true)]
async fn protected_work_that_fails_while_the_store_is_away_is_attempted_again_without_it() {
    let (executor, store) = executor();
    store.always(Call::Release, Fault::Unreached);
    let failed = fail(&executor, &fail_open()).await;
    store.go_away();
    wait_for_retry(&failed).await;
    is_unprotected(&run_open(&executor).await, 2);
    store.heal();
    let left = executor.report(Duration::from_secs(5)).await;
    assert_eq!((left.told(), left.overtaken(), left.pending()), (2, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn protected_work_that_fails_open_does_not_rest_while_the_store_is_away() {
    let (executor, store) = executor();
    let started = tokio::time::Instant::now();
    let length = 4 * LEASE;
    let (ended, ()) = tokio::join!(work_for(&executor, length, fail_open()), async {
        sleep(Duration::from_secs(1)).await;
        store.go_away();
    });
    is_unprotected(&ended, 1);
    assert!(started.elapsed() < length + Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn protected_work_that_was_taken_over_in_an_outage_completes_if_the_other_did_not() {
    let (executor, store) = executor();
    let (ended, lease) = tokio::join!(work_for(&executor, 2 * LEASE, fail_open()), async {
        store.go_away();
        sleep(LEASE + LEASE / 2).await;
        let Claim::Acquired(lease) = claim(&store.elsewhere()).await else {
            panic!("its lease has run out");
        };
        lease
    });
    is_unprotected(&ended, 1);
    store.heal();
    a_while().await;
    assert_eq!(executor.unprotected().pending(), 1);
    let failed = Release::retry_after(Duration::from_mins(5), "theirs failed");
    let failed = store.elsewhere().release(&lease, &failed).await;
    assert_eq!(failed.unwrap(), Write::Applied);
    let left = executor.report(Duration::from_secs(5)).await;
    assert_eq!((left.told(), left.overtaken(), left.pending()), (1, 0, 0));
    let theirs = claim(&store.elsewhere()).await;
    assert!(matches!(theirs, Claim::Completed { .. }), "{theirs:?}");
}

#[tokio::test(start_paused = true)]
async fn protected_work_waits_for_the_store_when_the_local_memory_is_full() {
    let (executor, store) = executor();
    let executor = executor.local_memory(10);
    store.always(Call::Complete, Fault::Unreached);
    let (ended, ()) = tokio::join!(run_open(&executor), async {
        sleep(Duration::from_mins(1)).await;
        store.heal();
    });
    assert_ended(&ended, "executed");
    assert_eq!(executor.unprotected(), UnprotectedStats::default());
}
