//! Telling the store.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_copy_before_the_report_is_a_duplicate_though_the_store_is_back() {
    let (executor, store) = away();
    run_open(&executor).await;
    a_while().await;
    store.heal();
    for policy in [fail_open(), Policy::DEFAULT] {
        let work = async |_: Attempt| Ok::<_, Failed>(());
        let copy = executor.execute(key(), &policy, work).await;
        assert_ended(&copy, "duplicate");
    }
    assert_eq!(counts(&executor), (0, 0, 1), "it is not told yet");
}

#[tokio::test(start_paused = true)]
async fn a_copy_after_the_report_is_a_duplicate_everywhere() {
    let (executor, store) = away();
    run_open(&executor).await;
    store.heal();
    a_while().await;
    assert_eq!(counts(&executor), (1, 0, 0));
    let there = claim(&store.elsewhere()).await;
    assert!(
        matches!(&there, Claim::Completed { outcome, .. } if outcome.as_bytes() == b"1"),
        "{there:?}"
    );
    assert_ended(&run_open(&executor).await, "duplicate");
    assert!(!executor.local.remembers(&key()), "the store knows it now");
}

#[tokio::test(start_paused = true)]
async fn a_report_whose_answers_are_lost_is_one_report() {
    let (executor, store) = away();
    run_open(&executor).await;
    store.heal();
    store.script(Call::Claim, [Fault::AnswerLost, Fault::Silent]);
    store.script(Call::Complete, [Fault::AnswerLost, Fault::Unreached]);
    let report = executor.report(Duration::from_mins(1)).await;
    assert_eq!(
        (report.told(), report.overtaken(), report.pending()),
        (1, 0, 0)
    );
    is_done_elsewhere(&store).await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_was_recorded_but_not_answered_is_had_back_by_the_report() {
    let (executor, store) = executor();
    store.script(Call::Claim, [Fault::AnswerLost]);
    is_unprotected(&run_open(&executor).await, 1);
    executor.report(Duration::from_secs(1)).await;
    assert_eq!(counts(&executor), (1, 0, 0));
    is_done_elsewhere(&store).await;
}

#[tokio::test(start_paused = true)]
async fn a_report_that_finds_another_workers_completion_lets_it_stand_and_is_counted() {
    let (executor, store) = away();
    run_open(&executor).await;
    let lease = acquire(&store.elsewhere()).await;
    let outcome = Outcome::new("theirs");
    let theirs = store.elsewhere().complete(&lease, &outcome, LEASE).await;
    assert_eq!(theirs.unwrap(), Write::Applied);
    store.heal();
    a_while().await;
    assert_eq!(counts(&executor), (1, 1, 0));
    let there = claim(&store.elsewhere()).await;
    assert!(matches!(there, Claim::Completed { outcome, .. } if outcome.as_bytes() == b"theirs"));
}

#[tokio::test(start_paused = true)]
async fn a_report_that_finds_another_worker_at_the_key_waits_for_it_and_completes_if_that_fails() {
    let (executor, store) = away();
    run_open(&executor).await;
    let lease = acquire(&store.elsewhere()).await;
    store.heal();
    a_while().await;
    assert_eq!(counts(&executor), (0, 0, 1));
    assert_ended(&run_open(&executor).await, "duplicate");
    let failed = Release::failed("theirs failed");
    let failed = store.elsewhere().release(&lease, &failed).await;
    assert_eq!(failed.unwrap(), Write::Applied);
    a_while().await;
    assert_eq!(counts(&executor), (1, 0, 0));
    is_done_elsewhere(&store).await;
}

#[tokio::test(start_paused = true)]
async fn many_reports_are_told_without_a_crowd_at_a_store_that_is_away() {
    let (executor, store) = away();
    for number in 0..1000 {
        let key = Key::new("orders", number).unwrap();
        let work = async |_: Attempt| Ok::<_, Failed>(());
        is_unprotected(&executor.execute(key, &fail_open(), work).await, 1);
    }
    let claims = store.count(Call::Claim);
    sleep(Duration::from_mins(1)).await;
    let knocks = store.count(Call::Claim) - claims;
    assert!((30..150).contains(&knocks), "{knocks}");
    store.heal();
    a_while().await;
    assert_eq!(counts(&executor), (1000, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn waiting_for_the_reports_ends_with_its_patience() {
    let (executor, store) = away();
    run_open(&executor).await;
    let started = tokio::time::Instant::now();
    let left = executor.report(Duration::from_secs(7)).await;
    assert_eq!(
        (left.pending(), started.elapsed()),
        (1, Duration::from_secs(7))
    );
    store.heal();
    let left = executor.report(Duration::from_secs(7)).await;
    assert_eq!(left.pending(), 0);
    assert!(started.elapsed() < Duration::from_secs(9));
}

#[tokio::test(start_paused = true)]
async fn a_second_outage_is_reported_like_the_first() {
    let (executor, store) = away();
    for number in 1..=3 {
        let key = Key::new("orders", number).unwrap();
        let work = async |_: Attempt| Ok::<_, Failed>(());
        is_unprotected(&executor.execute(key, &fail_open(), work).await, 1);
        store.heal();
        a_while().await;
        assert_eq!(counts(&executor), (number, 0, 0));
        store.go_away();
    }
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_cannot_acquire_any_more_reports_as_another() {
    let (executor, store) = away();
    let request = ClaimRequest::new(key(), &fail_open());
    // Its claim was recorded and given back without this call knowing.
    let Ok(Claim::Acquired(lease)) = store.elsewhere().claim(&request).await else {
        panic!("the key is free");
    };
    let given_back = store.elsewhere().release(&lease, &Release::Abandoned).await;
    assert_eq!(given_back.unwrap(), Write::Applied);
    let work = async |_: Attempt| Ok::<_, Failed>(());
    let ended = executor.execute_request(&request, &fail_open(), work).await;
    is_unprotected(&ended, 1);
    store.heal();
    executor.report(Duration::from_secs(5)).await;
    is_done_elsewhere(&store).await;
}

#[tokio::test(start_paused = true)]
async fn a_completion_does_not_wait_for_the_delay_of_a_failure() {
    let (executor, store) = away();
    let lease = acquire(&store.elsewhere()).await;
    let failed = Release::retry_after(Duration::from_mins(5), "theirs failed");
    let failed = store.elsewhere().release(&lease, &failed).await;
    assert_eq!(failed.unwrap(), Write::Applied);
    run_open(&executor).await;
    store.heal();
    a_while().await;
    assert_eq!(counts(&executor), (1, 0, 0));
    is_done_elsewhere(&store).await;
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_full_at_the_report_is_not_away() {
    let (executor, store) = away();
    let failed = fail(&executor, &fail_open()).await;
    store.heal();
    store.always(Call::Claim, Fault::Full);
    wait_for_retry(&failed).await;
    a_while().await;
    let copy = run_open(&executor).await;
    assert_ended(&copy, "conflict");
    assert_eq!(counts(&executor), (0, 0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_report_of_an_unreadable_record_is_sent_seldom_and_not_waited_for_at_the_end() {
    let (executor, store) = away();
    run_open(&executor).await;
    store.heal();
    store.always(Call::Claim, Fault::Corrupt);
    a_while().await;
    let claims = store.count(Call::Claim);
    sleep(Duration::from_mins(10)).await;
    let knocks = store.count(Call::Claim) - claims;
    assert!((8..30).contains(&knocks), "{knocks}");
    let started = tokio::time::Instant::now();
    let left = executor.report(Duration::from_mins(1)).await;
    assert_eq!((left.pending(), started.elapsed()), (1, Duration::ZERO));
    store.heal();
    sleep(Duration::from_mins(1)).await;
    assert_eq!(counts(&executor), (1, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn reports_that_cannot_be_told_yet_are_not_in_the_way_of_others() {
    let (executor, store) = away();
    for number in 0..500 {
        let key = Key::new("orders", number).unwrap();
        let theirs = ClaimRequest::new(key.clone(), &Policy::DEFAULT).replay(true);
        let _ = store.elsewhere().claim(&theirs).await;
        let work = async |_: Attempt| Ok::<_, Failed>(());
        is_unprotected(&executor.execute(key, &fail_open(), work).await, 1);
    }
    store.heal();
    a_while().await;
    store.script(Call::Claim, [Fault::Unreached]);
    is_unprotected(&run_open(&executor).await, 1);
    a_while().await;
    assert_eq!(counts(&executor), (1, 0, 500));
}

#[tokio::test(start_paused = true)]
async fn a_reporter_that_has_ended_is_replaced_when_somebody_waits_for_the_reports() {
    let (executor, store) = away();
    run_open(&executor).await;
    store.always(Call::Claim, Fault::Panics);
    a_while().await;
    store.heal();
    let left = executor.report(Duration::from_secs(5)).await;
    assert_eq!(left.pending(), 0);
}

/// The reporter ends with its runtime, between the store's write and its answer.
#[test]
fn a_report_whose_reporter_ended_on_the_way_does_not_find_its_own_completion_as_anothers() {
    let (executor, store) = away();
    let runtime = || {
        let builder = &mut tokio::runtime::Builder::new_current_thread();
        builder.enable_time().start_paused(true).build().unwrap()
    };
    runtime().block_on(async {
        run_open(&executor).await;
        store.heal();
        store.script(Call::Complete, [Fault::AnswerLate]);
        a_while().await;
        is_done_elsewhere(&store).await;
        assert_eq!(counts(&executor), (0, 0, 1));
    });
    runtime().block_on(executor.report(Duration::from_mins(1)));
    assert_eq!(counts(&executor), (1, 0, 0));
}
