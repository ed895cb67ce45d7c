//! Workers that vanish, leases that are lost, a store that is away.

use idem_testing::amqp::Call;

use super::*;

#[tokio::test(start_paused = true)]
async fn each_crash_is_healed_by_a_redelivery() {
    use CrashPoint::{AfterClaim, AfterCompletion, BeforeClaim, BeforeCompletion, InHandler};
    let table = [
        (BeforeClaim, Kind::Executed, Some(1), 1),
        (AfterClaim, Kind::Executed, Some(2), 1),
        (InHandler(1), Kind::Executed, Some(2), 1),
        (BeforeCompletion, Kind::Executed, Some(2), 2),
        (AfterCompletion, Kind::Duplicate, None, 1),
    ];
    for (point, kind, attempt, charges) in table {
        let harness = charging("orders");
        harness.crash(point, &order(1250)).await;
        let again = harness.deliver(&order(1250).redelivered()).await;
        assert_eq!((again.kind(), again.attempt()), (kind, attempt), "{point}");
        assert_eq!(again.settlement(), Settlement::Ack, "{point}");
        assert_eq!(again.output::<i64>(), 1250, "{point}");
        assert_eq!(harness.state().read().len(), charges, "{point}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_that_does_not_happen_is_told() {
    let panic = panic_of(charging("orders").crash(CrashPoint::AfterCompletion, &order(-1))).await;
    assert_eq!(
        panic,
        "the delivery ended as `rejected` without coming as far as after the completion, before the ack or the answer: \
         it did not crash"
    );
}

#[tokio::test(start_paused = true)]
async fn a_delivery_is_held_while_the_store_is_away() {
    let (harness, began) = (charging("orders"), Instant::now());
    harness.store().fail_for(Duration::from_mins(10));
    let delivered = harness.deliver(&order(1250)).await;
    assert_eq!(
        (delivered.kind(), delivered.settlement()),
        (Kind::Executed, Settlement::Ack)
    );
    assert!(began.elapsed() >= Duration::from_mins(10));
    assert_eq!(harness.state().read(), ["o-17"]);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_lost_its_lease_acknowledges_nothing() {
    let harness = charging("orders");
    let [first, second] = harness.lose_lease(&order(1250)).await;
    assert_eq!(
        (first.kind(), second.kind()),
        (Kind::LeaseLost, Kind::Executed)
    );
    assert!(
        matches!(first.settlement(), Settlement::Requeue { .. }),
        "{first:?}"
    );
    assert!(first.outcome().is_none());
    assert_eq!(second.settlement(), Settlement::Ack);
    // Its handler waited: it was dropped there.
    assert_eq!(harness.state().read(), ["o-17"]);
}

#[tokio::test(start_paused = true)]
async fn an_output_is_known_though_the_answer_to_its_completion_was_lost() {
    let harness = charging("orders");
    harness.store().lose_next_answer(Call::Complete);
    let delivered = harness.deliver(&order(1250)).await;
    assert_eq!(delivered.output::<i64>(), 1250);
    assert_eq!(harness.state().read(), ["o-17"]);
}
