//! Batches whose call fails, or is dropped.

use super::*;

/// A batch of four fails as soon as `3` is in it, and what is left alone runs by itself.
async fn is_halved_because_of_3(
    executor: &Executor<MemoryStore>,
    shop: &Shop,
    orders: std::ops::RangeInclusive<u32>,
) -> Vec<Ended> {
    let ended = handle_all::<Charge<8>>(executor, shop, orders).await;
    let mut calls = shop.calls();
    // Those that run by themselves run side by side.
    calls[3..].sort();
    assert_eq!(
        calls,
        [vec![1, 2, 3, 4], vec![3, 4], vec![1, 2], vec![3], vec![4]]
    );
    ended
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_fails_is_halved_and_only_the_run_alone_counts() {
    let executor = memory();
    let shop = Shop::with_bad(3, || async { Err(Failed::retry("the gateway is down")) });
    let mut ended = is_halved_because_of_3(&executor, &shop, 1..=4).await;
    let failed = ended.remove(2);
    assert_executed(&ended, [1, 2, 4]);
    assert_ended(&failed, "failed 1");
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_panics_is_halved() {
    let executor = memory();
    let shop = Shop::with_bad(3, || async { panic!("told to") });
    let mut ended = is_halved_because_of_3(&executor, &shop, 1..=4).await;
    let failed = ended.remove(2);
    assert_executed(&ended, [1, 2, 4]);
    assert_eq!(
        failed.error().as_deref(),
        Some("the handler panicked: told to")
    );
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_takes_too_long_is_called_message_by_message() {
    let executor = memory();
    let shop = Shop::with_bad(3, pending);
    let policy = Policy::builder().timeout(Duration::from_secs(5));
    let policy = policy.build().unwrap();
    let began = Instant::now();
    let handle = |order| handle_by::<Charge<8>>(&executor, &shop, order, &policy);
    let mut ended = join_all((1..=8).map(handle)).await;
    let failed = ended.remove(2);
    assert_executed(&ended, [1, 2, 4, 5, 6, 7, 8]);
    assert_eq!(failed.error().as_deref(), Some("timed out after 5s"));
    assert_eq!(began.elapsed(), Duration::from_secs(10), "side by side");
    assert_eq!(shop.calls().len(), 1 + 8);
}

/// It is not one message's failure then.
#[tokio::test(start_paused = true)]
async fn a_batch_both_of_whose_halves_fail_is_called_message_by_message() {
    let executor = memory();
    let shop = Shop::new(|_| async {
        sleep(Duration::from_secs(10)).await;
        Err(Failed::retry("the gateway is down"))
    });
    let began = Instant::now();
    let ended = handle_all::<Charge<64>>(&executor, &shop, 1..=64).await;
    for ended in ended {
        assert_ended(&ended, "failed 1");
    }
    assert_eq!(
        began.elapsed(),
        Duration::from_secs(40),
        "side by side in the end"
    );
    let calls = shop.calls();
    assert_eq!(calls.len(), 3 + 64);
    assert_eq!(
        [calls[0].len(), calls[1].len(), calls[2].len()],
        [64, 32, 32]
    );
}

/// Whoever has led it that far has ended, and another one goes on.
#[tokio::test(start_paused = true)]
async fn a_message_whose_half_succeeds_waits_for_no_further_call() {
    let executor = memory();
    let shop = Shop::new(|batch| async move {
        sleep(Duration::from_secs(10)).await;
        if batch.iter().any(|order| **order == 8) {
            return Err(Failed::retry("the gateway is down"));
        }
        numbers(batch).await
    });
    let began = Instant::now();
    let handle = async |order| {
        let ended = handle::<Charge<8>>(&executor, &shop, order).await;
        (ended.kind(), began.elapsed().as_secs())
    };
    let ended = join_all((1..=8).map(handle)).await;
    let executed = |seconds| (ExecutionKind::Executed, seconds);
    assert_eq!(ended[..4], [executed(30); 4]);
    assert_eq!(ended[4..6], [executed(50); 2]);
    assert_eq!(ended[6..], [executed(60), (ExecutionKind::Failed, 60)]);
    let calls = shop.calls();
    assert_eq!(calls[1..3], [[5, 6, 7, 8], [1, 2, 3, 4]]);
    assert_eq!(calls[3..5], [[7, 8], [5, 6]]);
}

/// Nobody leads what it was to lead; each runs by itself, and nobody waits for ever.
#[tokio::test(start_paused = true)]
async fn what_is_left_of_a_batch_is_called_though_who_was_to_lead_it_is_dropped() {
    let executor = memory();
    let shop = Shop::new(|batch| async move {
        sleep(Duration::from_secs(10)).await;
        if batch.iter().any(|order| **order == 8) {
            return Err(Failed::retry("the gateway is down"));
        }
        numbers(batch).await
    });
    let handle = async |order: u32| {
        let handled = handle::<Charge<8>>(&executor, &shop, order);
        // From the third call on, 5 is to lead.
        let patience = Duration::from_secs(if order == 5 { 25 } else { 1000 });
        timeout(patience, handled).await.ok()
    };
    let ended = join_all((1..=8).map(handle)).await;
    let kinds: Vec<_> = ended
        .iter()
        .map(|it| it.as_ref().map(Execution::kind))
        .collect();
    let mut expected = [Some(ExecutionKind::Executed); 8];
    (expected[4], expected[7]) = (None, Some(ExecutionKind::Failed));
    assert_eq!(kinds, expected);
}

#[tokio::test(start_paused = true)]
async fn outputs_that_are_not_as_many_as_the_messages_are_a_failure() {
    let executor = memory();
    let shop = Shop::new(|_| async { Ok(vec![1, 2, 3]) });
    let ended = handle_all::<Charge<8>>(&executor, &shop, 1..=2).await;
    for ended in ended {
        assert_eq!(
            ended.error().as_deref(),
            Some(
                "the handler panicked: it returned 3 outputs for 1 messages that it has not failed"
            )
        );
        assert_eq!(ended.attempt(), Some(1));
    }
    assert_eq!(shop.calls()[0], [1, 2]);
}

/// Whether each order was told that its effects may have happened, in the order of the calls.
fn noting_doubts(
    noted: &Arc<Mutex<Vec<(u32, bool)>>>,
    act: impl Fn(&Batch<u32>) -> Result<(), Failed> + Send + Sync + 'static,
) -> Shop {
    let noted = Arc::clone(noted);
    Shop::new(move |batch| {
        let doubts = batch.iter().map(|it| (**it, it.attempt().is_in_doubt()));
        noted.lock().unwrap().extend(doubts);
        let ended = act(&batch);
        async move {
            ended?;
            numbers(batch).await
        }
    })
}

/// It may have done its work in the call that failed.
#[tokio::test(start_paused = true)]
async fn who_is_called_again_after_its_batch_has_failed_is_told_of_the_doubt() {
    let (executor, doubts) = (memory(), Arc::default());
    let shop = noting_doubts(&doubts, |batch| {
        if batch.iter().any(|order| **order == 4) {
            return Err(Failed::retry("the gateway is down"));
        }
        Ok(())
    });
    let ended = handle_all::<Charge<8>>(&executor, &shop, 1..=4).await;
    assert_executed(&ended[..3], 1..=3);
    let mut doubts = doubts.lock().unwrap();
    assert_eq!(doubts[..4], [1, 2, 3, 4].map(|it| (it, false)));
    doubts[8..].sort_unstable();
    assert_eq!(doubts[4..], [3, 4, 1, 2, 3, 4].map(|it| (it, true)));
}

/// Takes the key of the order away from whoever has it.
async fn take_away(store: &MemoryStore, order: u32) {
    use crate::store::Look as _;
    use crate::store::operator::{Intervened, Intervention, OperatorStore as _};
    let key = Key::new("orders", order).unwrap();
    let known = store.look(&key).await.unwrap();
    let seen = known.map(|known| known.record.seen());
    let complete =
        Intervention::complete(key, seen, "operator@ops-1", Outcome::new("7"), LEASE * 100);
    let intervened = store.intervene(&complete).await.unwrap();
    assert_eq!(intervened, Intervened::Applied);
}

/// The handler returns only when it is called with one order. Each is noted with its doubt.
fn hanging(noted: &Arc<Mutex<Vec<(u32, bool)>>>) -> Shop {
    let noted = Arc::clone(noted);
    Shop::new(move |batch| {
        let noted = Arc::clone(&noted);
        async move {
            if batch.len() > 1 {
                pending::<()>().await;
            }
            let doubt = (*batch[0], batch[0].attempt().is_in_doubt());
            noted.lock().unwrap().push(doubt);
            numbers(batch).await
        }
    })
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_loses_a_lease_is_dropped_and_the_others_run_by_themselves_in_doubt() {
    let (executor, doubts) = (memory(), Arc::default());
    let shop = hanging(&doubts);
    let away = async {
        sleep(Duration::from_secs(1)).await;
        take_away(executor.store(), 2).await;
    };
    let (mut ended, ()) = tokio::join!(handle_all::<Charge<8>>(&executor, &shop, 1..=3), away);
    let lost = ended.remove(1);
    assert_executed(&ended, [1, 3]);
    assert_eq!(lost.kind(), ExecutionKind::LeaseLost);
    let mut doubts = mem::take(&mut *doubts.lock().unwrap());
    doubts.sort_unstable();
    assert_eq!(doubts, [(1, true), (3, true)]);
}

/// The others need not wait for as long as the store says nothing of one key.
#[tokio::test(start_paused = true)]
async fn a_batch_is_dropped_if_one_lease_is_not_confirmed_and_only_that_message_waits() {
    let ((executor, store), doubts) = (executor(), Arc::default());
    let shop = hanging(&doubts);
    store.extend_silently(Key::new("orders", 2_u64).unwrap());
    let heal = async {
        sleep(LEASE * 3).await;
        let mut done = doubts.lock().unwrap().clone();
        done.sort_unstable();
        assert_eq!(done, [(1, true), (3, true)]);
        store.heal();
    };
    let (ended, ()) = tokio::join!(handle_all::<Charge<8>>(&executor, &shop, 1..=3), heal);
    assert_executed(&ended, 1..=3);
    assert_eq!(doubts.lock().unwrap()[2], (2, true));
}

/// While one lease may be over the handler is not polled, and so the others are in no doubt, and no call is counted.
#[tokio::test(start_paused = true)]
async fn a_call_that_ends_before_it_began_leaves_no_doubt_and_is_not_counted() {
    type Waiting = Charge<8, 1000, { LEASE.as_secs() * 2000 }>;
    let ((executor, store), doubts) = (executor(), Arc::default());
    let shop = hanging(&doubts);
    // Its lease is over when they have waited for each other.
    store.extend_silently(Key::new("orders", 2_u64).unwrap());
    let heal = async {
        sleep(LEASE * 6).await;
        store.heal();
    };
    let (ended, ()) = tokio::join!(handle_all::<Waiting>(&executor, &shop, 1..=3), heal);
    assert_executed(&ended, 1..=3);
    let mut doubts = mem::take(&mut *doubts.lock().unwrap());
    doubts.sort_unstable();
    assert_eq!(doubts, [(1, false), (2, false), (3, false)]);
    let mut calls = shop.calls();
    calls.sort();
    assert_eq!(calls, [[1], [2], [3]]);
}

/// Nobody is helped by a call that is dropped.
#[tokio::test(start_paused = true)]
async fn a_batch_rests_while_no_lease_is_confirmed_and_goes_on() {
    let (executor, store) = executor();
    let shop = Shop::slow(LEASE.as_secs() * 2);
    let outage = async {
        sleep(LEASE / 2).await;
        store.always(Call::Extend, Fault::Unreached);
        sleep(LEASE * 5).await;
        assert_eq!(shop.calls(), [[1, 2, 3]]);
        store.heal();
    };
    // They do not all beat at the same time.
    let (ended, ()) = tokio::join!(
        all_late::<Charge<8, 1000, 10>>(&executor, &shop, 1..=3),
        outage
    );
    assert_executed(&ended, 1..=3);
    assert!(shop.calls().is_empty());
}

/// A batch that fails when the executor is closed is not called again.
#[tokio::test(start_paused = true)]
async fn what_failed_in_a_batch_is_not_called_again_by_a_closed_executor() {
    let executor = memory();
    let closing = executor.clone();
    let shop = Shop::new(move |_| {
        closing.close();
        async { Err(Failed::retry("the gateway is down")) }
    });
    let ended = handle_all::<Charge<8>>(&executor, &shop, 1..=3).await;
    for ended in ended {
        assert_eq!(ended.kind(), ExecutionKind::Abandoned);
    }
    assert_eq!(shop.calls(), [[1, 2, 3]]);
    // It was called, and that counts.
    let other = Executor::new(executor.store().clone());
    let works = Shop::new(numbers);
    for ended in handle_all::<Charge<8>>(&other, &works, 1..=3).await {
        assert_ended(&ended, "executed 2");
    }
}

#[tokio::test(start_paused = true)]
async fn those_whose_leader_is_dropped_run_by_themselves_in_doubt() {
    type Waiting = Charge<8, 1000, 10>;
    let executor = memory();
    let shop = Shop::new(|batch| async move {
        sleep(Duration::from_secs(10)).await;
        let doubts = batch.iter().map(|it| u32::from(it.attempt().is_in_doubt()));
        Ok(doubts.collect())
    });
    let dropped = late_and_dropped::<Waiting>(&executor, &shop, 1);
    let others = all_late::<Waiting>(&executor, &shop, 2..=3);
    let ((), ended) = tokio::join!(dropped, others);
    assert_executed(&ended, [1, 1]);
    let mut calls = shop.calls();
    calls.sort();
    assert_eq!(calls, [vec![1, 2, 3], vec![2], vec![3]]);
}

/// Calls that hang, or rest because the store does not confirm their leases, must not be all that are called.
#[tokio::test(start_paused = true)]
async fn two_calls_that_hang_hold_up_others_for_half_a_lease() {
    type Alone = Charge<8>;
    let executor = memory();
    let shop = Shop::new(|batch| async move {
        if batch.iter().any(|order| **order <= 2) {
            pending::<()>().await;
        }
        numbers(batch).await
    });
    let began = Instant::now();
    let hang = all_late::<Alone>(&executor, &shop, 1..=2);
    let others = all_late::<Alone>(&executor, &shop, 3..=4);
    let ended = tokio::select! {
        _ = hang => panic!("they hang"),
        ended = others => ended,
    };
    assert_executed(&ended, 3..=4);
    assert_eq!(shop.calls(), [vec![1], vec![2], vec![3, 4]]);
    let (waited, patience) = (began.elapsed(), Policy::DEFAULT.lease() / 2);
    assert!(
        waited >= patience && waited < patience + Duration::from_secs(1),
        "{waited:?}"
    );
}

/// Also where the first call has failed at once, and only a half hangs.
#[tokio::test(start_paused = true)]
async fn after_a_call_that_took_too_long_each_message_is_called_by_itself() {
    let executor = memory();
    let shop = Shop::new(|batch| async move {
        let has = |order| batch.len() > 1 && batch.iter().any(|it| **it == order);
        if has(1) {
            return Err(Failed::retry("the gateway is down"));
        }
        if has(4) || has(8) {
            pending::<()>().await;
        }
        numbers(batch).await
    });
    let policy = Policy::builder().timeout(Duration::from_secs(5));
    let policy = policy.build().unwrap();
    let began = Instant::now();
    let handle = |order| handle_by::<Charge<8>>(&executor, &shop, order, &policy);
    let ended = join_all((1..=8).map(handle)).await;
    assert_executed(&ended, 1..=8);
    assert_eq!(began.elapsed(), Duration::from_secs(5));
    let calls = shop.calls();
    assert_eq!(calls[..2], [vec![1, 2, 3, 4, 5, 6, 7, 8], vec![5, 6, 7, 8]]);
    assert_eq!(calls.len(), 2 + 8, "{calls:?}");
}

/// Nobody has taken their leases, and an alert on lost ones would say so. They are left to run out, so that the next
/// attempt knows of the doubt.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_when_the_executor_is_closed_is_no_lost_lease() {
    type Waiting = Charge<8, 1000, 10>;
    let executor = memory();
    let shop = Shop::new(|_| pending());
    let dropped = async {
        let late = late_and_dropped::<Waiting>(&executor, &shop, 1);
        let close = async {
            sleep(Duration::from_millis(500)).await;
            executor.close();
        };
        tokio::join!(late, close);
    };
    let others = all_late::<Waiting>(&executor, &shop, 2..=3);
    let ((), ended) = tokio::join!(dropped, others);
    for ended in ended {
        assert_eq!(ended.kind(), ExecutionKind::Abandoned);
    }
    assert_eq!(shop.calls(), [[1, 2, 3]]);
    let key = Key::new("orders", 2).unwrap();
    let claim = ClaimRequest::new(key, &Policy::DEFAULT);
    let held = executor.store().claim(&claim).await.unwrap();
    assert!(matches!(held, Claim::Held { .. }), "{held:?}");
}
