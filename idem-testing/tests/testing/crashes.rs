//! Workers that vanish, and what their successors find.

use std::time::Duration;

use idem_core::{Execution, executor::ExecutionKind as Kind};
use idem_testing::CrashPoint;
use tokio::{
    task::yield_now,
    time::{Instant, sleep},
};

use super::*;

const LEASE: Duration = Duration::from_secs(10);

#[tokio::test(start_paused = true)]
async fn each_crash_leaves_what_a_worker_leaves_that_vanishes_there() {
    use CrashPoint::{AfterClaim, AfterCompletion, BeforeClaim, BeforeCompletion};
    // The point, how often it has charged, how the next delivery ends, and the one after the lease.
    let table = [
        (BeforeClaim, 0, Kind::Executed, Kind::Duplicate, 1),
        (AfterClaim, 0, Kind::Conflict, Kind::Executed, 1),
        (BeforeCompletion, 1, Kind::Conflict, Kind::Executed, 2),
        (AfterCompletion, 1, Kind::Duplicate, Kind::Duplicate, 1),
    ];
    for (point, charges, next, later, charges_then) in table {
        let harness = charging();
        harness.crash(point, &order()).await;
        assert_eq!(harness.state().read().len(), charges, "{point}");
        let redelivered = order().redelivered();
        assert_eq!(harness.deliver(&redelivered).await.kind(), next, "{point}");
        sleep(LEASE).await;
        assert_eq!(harness.deliver(&redelivered).await.kind(), later, "{point}");
        assert_eq!(harness.state().read().len(), charges_then, "{point}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_successor_of_a_crash_waits_for_the_lease_and_makes_the_second_attempt() {
    let (harness, began) = (charging(), Instant::now());
    harness.crash(CrashPoint::BeforeCompletion, &order()).await;
    let again = harness.deliver_until_done(&order().redelivered()).await;
    assert!(
        matches!(
            again,
            Execution::Executed {
                output: 2,
                attempt: 2,
                ..
            }
        ),
        "{again:?}"
    );
    assert_eq!(began.elapsed(), LEASE);
}

#[idempotent(key = "order_id", in_doubt = "quarantine")]
async fn in_steps(_order: OrderPlaced, State(journal): State<Journal>) -> Result<(), Failed> {
    journal.write("one");
    yield_now().await;
    journal.write("two");
    sleep(Duration::from_mins(5)).await;
    journal.write("three");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_handler_ends_at_the_wait_that_its_worker_vanishes_at() {
    for (wait, done) in [(1, &["one"][..]), (2, &["one", "two"])] {
        let harness = Setup::new(Journal::default).handler::<in_steps>();
        harness.crash(CrashPoint::InHandler(wait), &order()).await;
        sleep(Duration::from_hours(1)).await;
        assert_eq!(harness.state().read(), done);
        let again = harness.deliver_until_done(&order().redelivered()).await;
        assert_eq!(again.kind(), Kind::InDoubt);
        assert_eq!(harness.state().read(), done);
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_that_does_not_happen_is_told() {
    let harness = Setup::new(Journal::default).handler::<in_steps>();
    let panic = panic_of(harness.crash(CrashPoint::InHandler(3), &order())).await;
    assert_eq!(
        panic,
        "the delivery ended as `executed` without coming as far as inside the handler, at wait 3: it did \
         not crash"
    );
    let panic = panic_of(harness.crash(CrashPoint::AfterClaim, &order())).await;
    assert!(panic.contains("ended as `duplicate`"), "{panic}");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_heard_of_a_worker_that_has_vanished() {
    let harness = charging();
    harness
        .store()
        .lose_next_answer(idem_testing::Call::Complete);
    harness.crash(CrashPoint::BeforeCompletion, &order()).await;
    // Its heart beats no more, and the completion is not repeated.
    sleep(LEASE).await;
    assert_eq!(harness.deliver(&order()).await.attempt(), Some(2));
}
