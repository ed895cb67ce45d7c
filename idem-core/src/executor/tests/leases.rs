//! The heartbeat: leases kept, lost, and unknown.

use super::*;

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
    assert_ended(&ran, "executed 1");
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
    assert_ended(&ended, "executed");
}

/// A task that is woken by a thread that then blocks is not taken over by another thread.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_blocks_one_of_the_runtimes_own_threads_keeps_its_lease() {
    let (executor, store) = executor();
    let policy = Policy::builder().lease(Policy::MIN_LEASE).build().unwrap();
    let work = async move |_: Attempt| {
        std::thread::sleep(4 * Policy::MIN_LEASE);
        let claim = store.claim(&ClaimRequest::new(key(), &policy)).await;
        assert!(matches!(claim, Ok(Claim::Held { .. })), "{claim:?}");
        Ok::<_, Failed>(())
    };
    let run = async move { executor.execute(key(), &policy, work).await };
    let ended = tokio::spawn(run).await.unwrap();
    assert_ended(&ended, "executed");
}

/// Runs for so long, under a lease of this length.
async fn last(executor: &Executor<Faulty>, part: &str, lease: Duration, time: Duration) {
    let policy = Policy::builder().lease(lease).build().unwrap();
    let work = async |_: Attempt| {
        sleep(time).await;
        Ok::<_, Failed>(())
    };
    let key = Key::new("orders", part).unwrap();
    let ended = executor.execute(key, &policy, work).await;
    assert_ended(&ended, "executed");
}

#[tokio::test(start_paused = true)]
async fn a_heart_beats_three_times_in_its_lease_and_not_beyond_its_work() {
    let (executor, store) = executor();
    let beats = async |time| {
        let before = store.count(Call::Extend);
        last(&executor, &format!("{time:?}"), LEASE, time).await;
        sleep(LEASE).await;
        store.count(Call::Extend) - before
    };
    assert_eq!(beats(LEASE / 4).await, 0);
    assert_eq!(beats(LEASE / 2).await, 1);
    assert_eq!(beats(LEASE * 9 / 10).await, 2);
}

#[tokio::test(start_paused = true)]
async fn a_short_lease_is_kept_beside_a_long_one_that_came_first() {
    let (executor, store) = executor();
    let short = async {
        sleep(Duration::from_millis(1)).await;
        last(&executor, "short", Policy::MIN_LEASE, LEASE / 4).await;
        store.count(Call::Extend)
    };
    let (beats, ()) = tokio::join!(short, last(&executor, "long", LEASE, LEASE / 4));
    // Timers are as fine as milliseconds.
    let most = (LEASE / 4).as_millis() / (Policy::MIN_LEASE / 3).as_millis();
    assert!((most * 9 / 10..=most).contains(&beats.into()), "{beats}");
}

#[tokio::test(start_paused = true)]
async fn a_heart_that_panics_is_a_lost_lease() {
    let (executor, store) = executor();
    store.always(Call::Extend, Fault::Panics);
    let (ended, dropped) = run_for_ever(&executor).await;
    assert!(matches!(ended, Execution::LeaseLost { attempt: 1 }) && dropped);
}

#[test]
fn a_lease_is_kept_by_the_runtime_that_runs_the_work_though_another_has_ended() {
    let (executor, store) = executor();
    for beats in 1..=3 {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(last(&executor, &beats.to_string(), LEASE, LEASE / 2));
        assert_eq!(store.count(Call::Extend), beats);
    }
}

/// A task is moved about as a whole before it runs.
#[test]
fn an_execution_has_room_for_its_work_once() {
    let (executor, _) = executor();
    let policy = Policy::DEFAULT;
    let large = async |_: Attempt| {
        let room = [1_u8; 8192];
        sleep(LEASE).await;
        Ok::<_, Failed>(room.iter().map(|one| u32::from(*one)).sum::<u32>())
    };
    let small = async |attempt: Attempt| Ok::<_, Failed>(attempt.number());
    let more = size_of_val(&executor.execute(key(), &policy, large))
        - size_of_val(&executor.execute(key(), &policy, small));
    assert!(more < 2 * 8192, "{more}");
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
    assert_ended(&ended, "executed");
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
    assert_ended(&ended, "executed 1");
    assert!(during <= 30, "polled {during} times, beyond its lease");
}

#[tokio::test(start_paused = true)]
async fn work_rests_while_the_store_is_frozen_longer_than_the_lease_and_then_goes_on() {
    let (ended, during) = outlast(Fault::Silent).await;
    assert_ended(&ended, "executed 1");
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
async fn a_late_zombie_can_neither_complete_nor_release() {
    let (executor, store) = executor();
    let zombie = acquire(&store).await;
    sleep(LEASE).await;
    run(&executor).await;
    let outcome = crate::handler::Outcome::default();
    let late = store.complete(&zombie, &outcome, LEASE).await.unwrap();
    assert_eq!(late, Write::Fenced);
    let late = store
        .release(&zombie, &Release::failed("late"))
        .await
        .unwrap();
    assert_eq!(late, Write::Fenced);
}

/// A heartbeat does not fit into it: the key would be free for another worker while this one runs.
#[tokio::test(start_paused = true)]
async fn a_request_with_a_lease_below_the_shortest_is_refused_before_the_store_is_asked() {
    let (executor, store) = executor();
    let ask = async |lease| {
        let mut request = ClaimRequest::new(key(), &Policy::DEFAULT);
        request.lease = lease;
        let work = async |attempt: Attempt| Ok::<_, Failed>(attempt.number());
        executor
            .execute_request(&request, &Policy::DEFAULT, work)
            .await
    };
    for short in [Duration::ZERO, Duration::from_millis(99)] {
        let ended = ask(short).await;
        let Execution::StoreUnavailable {
            error: StoreError::Refused(why),
        } = ended
        else {
            panic!("{ended:?}");
        };
        assert!(why.to_string().contains("at least 100ms"), "{why}");
        assert_eq!(store.count(Call::Claim), 0);
    }
    let ended = ask(Policy::MIN_LEASE).await;
    assert_ended(&ended, "executed");
}
