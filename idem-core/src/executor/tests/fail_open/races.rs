//! Copies of which one asks the store and one does not.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_copy_whose_claim_is_answered_late_does_not_run_beside_one_without_the_store() {
    let (executor, store) = executor();
    store.script(Call::Claim, [Fault::Late, Fault::Unreached]);
    let policy = fail_open();
    let work = async |_: Attempt| {
        sleep(Duration::from_secs(20)).await;
        Ok::<_, Failed>(())
    };
    let (late, first) = tokio::join!(run_open(&executor), executor.execute(key(), &policy, work));
    assert_ended(&late, "conflict");
    is_unprotected(&first, 1);
    executor.report(Duration::from_secs(5)).await;
    let copy = run_open(&executor).await;
    assert_ended(&copy, "duplicate");
}

#[tokio::test(start_paused = true)]
async fn a_copy_whose_claim_is_not_answered_does_not_run_beside_a_protected_one() {
    let (executor, store) = executor();
    store.script(Call::Claim, [Fault::Silent]);
    let policy = fail_open();
    let work = async |_: Attempt| {
        sleep(LEASE).await;
        Ok::<_, Failed>(())
    };
    let (unanswered, first) =
        tokio::join!(run_open(&executor), executor.execute(key(), &policy, work));
    assert_ended(&unanswered, "conflict");
    assert_ended(&first, "executed");
    assert_eq!(executor.unprotected(), UnprotectedStats::default());
}

#[tokio::test(start_paused = true)]
async fn finished_work_whose_completion_is_unknown_is_not_run_again_without_the_store() {
    let (executor, store) = executor();
    store.always(Call::Complete, Fault::Unreached);
    tokio::select! {
        ended = run(&executor) => panic!("{ended:?}"),
        () = sleep(Duration::from_secs(1)) => {}
    }
    // Its caller has gone, with the broker's channel perhaps; the message comes again.
    store.go_away();
    let copy = run_open(&executor).await;
    assert_ended(&copy, "conflict");
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_steps_back_leaves_the_end_of_what_it_stepped_back_from_to_be_heard() {
    let (executor, store) = executor();
    // The third claim is the report's: the late one is to acquire before it.
    let faults = [Fault::Late, Fault::Unreached, Fault::Silent];
    store.script(Call::Claim, faults);
    let policy = fail_open();
    let work = async |_: Attempt| {
        sleep(Duration::from_secs(20)).await;
        Ok::<_, Failed>(())
    };
    let started = tokio::time::Instant::now();
    let (late, ..) = tokio::join!(
        run_open(&executor),
        executor.execute(key(), &policy, work),
        async {
            sleep(Duration::from_secs(6)).await;
            executor.in_flight.watch(&key()).ended().await;
            assert_eq!(started.elapsed(), Duration::from_secs(20));
        }
    );
    assert_eq!(store.count(Call::Release), 1, "it steps back");
    assert_ended(&late, "conflict");
}

/// The reporter, on another thread, must not tell the store of an attempt that steps back: its claim would be left
/// there to run out, and the next attempt would be in doubt.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_reported_of_an_attempt_that_a_closed_executor_does_not_start() {
    let (executor, store) = executor();
    let policy = fail_open()
        .to_builder()
        .lease(Policy::MIN_LEASE)
        .build()
        .unwrap();
    // Attempts that run keep the reporter at work.
    let running: Vec<_> = (0..300)
        .map(|number| {
            let executor = executor.clone();
            let key = Key::new("orders", format!("running-{number}")).unwrap();
            store.always(Call::Claim, Fault::Unreached);
            tokio::spawn(async move {
                let work = async |_: Attempt| pending::<Result<(), Failed>>().await;
                executor.execute(key, &policy, work).await
            })
        })
        .collect();
    while executor.in_flight.progress("orders").keys < 300 {
        tokio::task::yield_now().await;
    }
    store.heal();
    while store.count(Call::Extend) < 300 {
        sleep(Duration::from_millis(1)).await;
    }
    executor.close();
    let before = store.count(Call::Claim);
    for number in 0..10_000 {
        let key = Key::new("orders", number).unwrap();
        store.script(Call::Claim, [Fault::Unreached]);
        let work = async |_: Attempt| Ok::<_, Failed>(());
        let ended = executor.execute(key, &policy, work).await;
        assert_ended(&ended, "abandoned");
    }
    assert_eq!(
        store.count(Call::Claim) - before,
        10_000,
        "none by the reporter"
    );
    running.iter().for_each(tokio::task::JoinHandle::abort);
}
