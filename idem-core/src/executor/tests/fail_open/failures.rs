//! Attempts that fail, or vanish, while the store is away.

use super::*;

async fn fail_open_once(executor: &Executor<Faulty>, max: u32) -> Execution<u32, Failed> {
    let policy = fail_open().to_builder().max_attempts(max).build().unwrap();
    fail(executor, &policy).await
}

#[tokio::test(start_paused = true)]
async fn attempts_without_the_store_are_counted_and_wait_for_the_backoff() {
    let (executor, _) = away();
    for number in 1..3 {
        let failed = fail_open_once(&executor, 3).await;
        assert!(
            matches!(failed, Execution::Failed { attempt, .. } if attempt == number),
            "{failed:?}"
        );
        let copy = run_open(&executor).await;
        assert_ended(&copy, "conflict");
        wait_for_retry(&failed).await;
    }
    let last = fail_open_once(&executor, 3).await;
    assert_ended(&last, "exhausted 3");
}

#[tokio::test(start_paused = true)]
async fn a_failed_attempt_is_followed_by_one_without_the_store_while_that_is_away() {
    let (executor, _) = away();
    wait_for_retry(&fail_open_once(&executor, 3).await).await;
    is_unprotected(&run_open(&executor).await, 2);
}

#[tokio::test(start_paused = true)]
async fn the_store_is_told_of_each_failed_attempt() {
    let (executor, store) = away();
    for _ in 0..2 {
        wait_for_retry(&fail_open_once(&executor, 9).await).await;
    }
    store.heal();
    a_while().await;
    let ended = run_open(&executor).await;
    assert_ended(&ended, "executed 3");
    assert_eq!(counts(&executor), (2, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_delay_counts_from_the_failure_and_not_from_the_report() {
    let (executor, store) = away();
    let asked = Duration::from_secs(77);
    let work = async |_: Attempt| Err::<(), _>(Failed::retry_after(asked, "busy"));
    executor.execute(key(), &fail_open(), work).await;
    sleep(Duration::from_mins(1)).await;
    store.heal();
    a_while().await;
    let copy = run_open(&executor).await;
    assert_eq!(executor.unprotected().told(), 1);
    let Execution::Conflict { remaining } = copy else {
        panic!("{copy:?}");
    };
    assert_eq!(remaining, Duration::from_secs(14));
}

/// Nobody is left to tell the store of its first attempt, and nothing else is to be told that would start another reporter.
#[tokio::test(start_paused = true)]
async fn a_key_whose_reporter_has_ended_runs_again() {
    let (executor, store) = away();
    let failed = fail_open_once(&executor, 9).await;
    store.always(Call::Claim, Fault::Panics);
    a_while().await;
    store.heal();
    wait_for_retry(&failed).await;
    // By this the store is known to be back.
    let another = Key::new("orders", "another").unwrap();
    let work = async |_: Attempt| Ok::<_, Failed>(());
    let ended = executor.execute(another, &fail_open(), work).await;
    assert_ended(&ended, "executed 1");
    assert_ended(&run_open(&executor).await, "conflict");
    a_while().await;
    assert_ended(&run_open(&executor).await, "executed 2");
}

#[tokio::test(start_paused = true)]
async fn the_next_attempt_waits_for_the_report_once_the_store_is_back() {
    let (executor, store) = away();
    wait_for_retry(&fail_open_once(&executor, 9).await).await;
    // The report waits, because another worker is at the key.
    let claim = ClaimRequest::new(key(), &Policy::DEFAULT);
    let theirs = store.elsewhere().claim(&claim).await;
    assert!(matches!(theirs, Ok(Claim::Acquired(_))), "{theirs:?}");
    store.heal();
    a_while().await;
    let copy = run_open(&executor).await;
    assert_ended(&copy, "conflict");
}

#[tokio::test(start_paused = true)]
async fn a_message_that_was_given_up_without_the_store_starts_over_when_it_is_sent_again() {
    let (executor, store) = away();
    let last = fail_open_once(&executor, 1).await;
    assert_ended(&last, "exhausted");
    store.heal();
    a_while().await;
    let replay = run_open(&executor).await;
    assert_ended(&replay, "executed 1");
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_vanished_without_the_store_leaves_its_key_in_doubt() {
    let (executor, store) = away();
    let policy = fail_open();
    let work = async |_: Attempt| pending::<Result<(), Failed>>().await;
    tokio::select! {
        _ = executor.execute(key(), &policy, work) => unreachable!("it never ends"),
        () = sleep(Duration::from_secs(1)) => {}
    }
    let copy = run_open(&executor).await;
    assert_ended(&copy, "conflict");
    store.heal();
    a_while().await;
    assert_eq!(executor.unprotected().told(), 1);
    sleep(LEASE).await;
    let work = async |attempt: Attempt| Ok::<_, Failed>(attempt.is_in_doubt());
    let next = executor.execute(key(), &policy, work).await;
    assert_output(&next, 2, &true);
}

#[tokio::test(start_paused = true)]
async fn what_follows_a_vanished_attempt_is_reported_instead() {
    let (executor, store) = away();
    let policy = fail_open();
    let work = async |_: Attempt| pending::<Result<(), Failed>>().await;
    tokio::select! {
        _ = executor.execute(key(), &policy, work) => unreachable!("it never ends"),
        () = sleep(Duration::from_secs(1)) => {}
    }
    sleep(LEASE).await;
    is_unprotected(&run_open(&executor).await, 2);
    assert_eq!(executor.unprotected().pending(), 1);
    store.heal();
    a_while().await;
    assert_eq!(counts(&executor), (1, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn failed_attempts_fill_the_local_memory_too() {
    let (executor, _) = away();
    let executor = executor.local_memory(8 * 1024);
    let policy = fail_open().to_builder().max_attempts(1000).build().unwrap();
    for number in 1..1000 {
        let error = "e".repeat(Release::MAX_ERROR_LEN);
        let work = async |_: Attempt| Err::<(), _>(Failed::retry(error));
        let ended = executor.execute(key(), &policy, work).await;
        if matches!(ended, Execution::StoreUnavailable { .. }) {
            assert!((3..9).contains(&number), "after {number} attempts");
            return;
        }
        wait_for_retry(&ended).await;
    }
    panic!("nothing was refused");
}
