//! Calls to the store whose answer was lost.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_completion_that_was_lost_is_repeated_and_the_work_is_not() {
    let (executor, store) = executor();
    store.script(Call::Complete, [Fault::Unreached, Fault::Unreached]);
    assert_ended(&run(&executor).await, "executed 1");
    assert_ended(&run(&executor).await, "duplicate");
}

#[tokio::test(start_paused = true)]
async fn a_completion_that_was_applied_but_not_answered_is_an_execution() {
    let (executor, store) = executor();
    store.script(Call::Complete, [Fault::AnswerLost]);
    assert_ended(&run(&executor).await, "executed 1");
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
    assert_ended(&run(&executor).await, "duplicate");
}

#[tokio::test(start_paused = true)]
async fn a_completion_whose_caller_goes_away_before_its_first_answer_is_repeated() {
    for fault in [Fault::Silent, Fault::Late] {
        let (executor, store) = executor();
        store.script(Call::Complete, [fault]);
        tokio::select! {
            ended = run(&executor) => panic!("{ended:?}"),
            () = sleep(Duration::from_secs(1)) => {}
        }
        sleep(Duration::from_secs(2)).await;
        let copy = run(&executor).await;
        assert_ended(&copy, "duplicate");
    }
}

#[tokio::test(start_paused = true)]
async fn a_completion_after_a_takeover_is_no_success() {
    let (executor, store) = executor();
    store.script(Call::Complete, [Fault::Fenced]);
    assert_ended(&run(&executor).await, "lease-lost 1");
}

#[tokio::test(start_paused = true)]
async fn a_release_that_was_lost_is_repeated_so_that_nothing_is_in_doubt() {
    let (executor, store) = executor();
    store.script(Call::Release, [Fault::Unreached, Fault::AnswerLost]);
    wait_for_retry(&fail(&executor, &Policy::DEFAULT).await).await;
    let lease = acquire(&store).await;
    assert!(!lease.in_doubt);
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
    assert_ended(&unknown, "store-unavailable");
    let again = executor
        .execute_request(&request, &Policy::DEFAULT, work)
        .await;
    assert_ended(&again, "executed 1");
}

/// A person has to mend the record: until then no try is better than the one before.
#[tokio::test(start_paused = true)]
async fn a_write_that_a_corrupt_record_refuses_is_repeated_seldom_until_it_is_mended() {
    for call in [Call::Complete, Call::Release] {
        let (executor, store) = executor();
        store.always(call, Fault::Corrupt);
        let mut ended = Box::pin(async {
            match call {
                Call::Complete => run(&executor).await,
                _ => fail(&executor, &Policy::DEFAULT).await,
            }
        });
        tokio::select! {
            ended = &mut ended => panic!("{ended:?}"),
            () = sleep(Duration::from_mins(10)) => {}
        }
        let tries = store.count(call);
        assert!((5..30).contains(&tries), "{tries}");
        store.heal();
        let ended = ended.await;
        assert!(ended.attempt() == Some(1), "{ended:?}");
    }
}
