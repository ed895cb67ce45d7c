//! Messages that come back.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_failure_on_a_declared_queue_comes_back_by_the_ladder() {
    let harness = charging("orders");
    let failed = harness.deliver(&order(0)).await;
    let after = Duration::from_mins(5);
    assert_eq!(
        (failed.kind(), failed.settlement(), failed.error()),
        (Kind::Failed, Settlement::Retry { after }, Some("busy"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_failure_on_an_existing_queue_is_returned() {
    let harness = charging(Queue::existing("orders"));
    let failed = harness.deliver(&order(0)).await;
    let after = Duration::from_secs(77);
    assert_eq!(failed.settlement(), Settlement::Requeue { after });
}

#[tokio::test(start_paused = true)]
async fn a_failing_message_is_seen_through_to_its_dead_letter() {
    for queue in [Queue::quorum("orders"), Queue::existing("orders")] {
        let (harness, began) = (charging(queue), Instant::now());
        let last = harness.deliver_until_done(&order(0)).await;
        assert_eq!((last.kind(), last.attempt()), (Kind::Exhausted, Some(3)));
        assert_eq!(last.settlement(), Settlement::DeadLetter(Reason::Exhausted));
        assert!(began.elapsed() >= 2 * Duration::from_secs(77));
        let replay = harness.deliver(&order(0).replayed()).await;
        assert_eq!((replay.kind(), replay.attempt()), (Kind::Failed, Some(1)));
    }
}

#[idempotent(key = "order_id")]
async fn fail_always(_: OrderPlaced) -> Result<(), Failed> {
    Err(Failed::retry("the bank is down"))
}

/// As docs/lifecycle.md has it.
#[tokio::test(start_paused = true)]
async fn by_default_the_first_failure_waits_in_the_worker_and_the_next_ones_on_the_ladder() {
    let harness = Setup::new(|| ()).consume::<fail_always>("orders");
    let Settlement::Requeue { after } = harness.deliver(&order(1)).await.settlement() else {
        panic!("it waits elsewhere");
    };
    let shortest = Duration::from_millis(500);
    assert!(shortest <= after && after <= 2 * shortest, "{after:?}");
    for _ in 0..2 {
        sleep(Duration::from_secs(5)).await;
        let failed = harness.deliver(&order(1).redelivered()).await;
        let after = Duration::from_secs(5);
        assert_eq!(failed.settlement(), Settlement::Retry { after });
    }
}

/// Where the ladder's exchange returned it from, its publisher's is told.
#[idempotent(key = "order_id")]
async fn fail_once(
    _order: OrderPlaced,
    delivery: Delivery,
    attempt: Attempt,
) -> Result<(String, String), Failed> {
    if attempt.number() == 1 {
        return Err(Failed::retry("a hiccup"));
    }
    Ok((delivery.exchange().into(), delivery.routing_key().into()))
}

#[tokio::test(start_paused = true)]
async fn a_message_from_the_ladder_knows_where_it_was_published() {
    let harness = Setup::new(|| ()).consume::<fail_once>("orders");
    let message = order(1).exchange("shop", "placed");
    let done = harness.deliver_until_done(&message).await;
    assert_eq!((done.kind(), done.attempt()), (Kind::Executed, Some(2)));
    let origin: (String, String) = done.output();
    assert_eq!(origin, ("shop".to_owned(), "placed".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_queues_policy_takes_the_place_of_the_handlers_own() {
    let once = Policy::builder().max_attempts(1).build().unwrap();
    let harness = charging(Queue::quorum("orders").policy(once));
    let ended = harness.deliver(&order(0)).await;
    assert_eq!(
        ended.settlement(),
        Settlement::DeadLetter(Reason::Exhausted)
    );
}
