//! A store that fails, and leases that run out.

use std::time::Duration;

use idem_core::{Execution, Executor, Key, Policy, executor::ExecutionKind as Kind};
use idem_testing::{Call, FaultyStore};
use tokio::time::{Instant, sleep};

use super::*;

const MINUTE: Duration = Duration::from_mins(1);

#[tokio::test(start_paused = true)]
async fn while_the_store_is_away_nothing_runs() {
    let (harness, began) = (charging(), Instant::now());
    harness.store().fail_for(MINUTE);
    let ended = harness.deliver(&order()).await;
    assert_eq!(ended.kind(), Kind::StoreUnavailable);
    assert!(harness.state().read().is_empty());
    let ended = harness.deliver_until_done(&order()).await;
    assert_eq!(ended.kind(), Kind::Executed);
    assert!(began.elapsed() >= MINUTE);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_answer_is_waited_for() {
    let (harness, began) = (charging(), Instant::now());
    harness.store().freeze_for(MINUTE);
    let ended = harness.deliver(&order()).await;
    assert_eq!(ended.kind(), Kind::Executed);
    assert_eq!(began.elapsed(), MINUTE);
}

#[tokio::test(start_paused = true)]
async fn a_completion_whose_answer_is_lost_is_repeated_and_nothing_runs_again() {
    let harness = charging();
    harness.store().lose_next_answer(Call::Complete);
    harness.store().fail_next(Call::Complete);
    let ended = harness.deliver(&order()).await;
    assert_eq!((ended.kind(), ended.attempt()), (Kind::Executed, Some(1)));
    assert_eq!(harness.state().read(), ["o-17"]);
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_answer_is_lost_is_held_until_its_lease_has_run_out() {
    let harness = charging();
    harness.store().lose_next_answer(Call::Claim);
    let kinds = [
        harness.deliver(&order()).await.kind(),
        harness.deliver(&order()).await.kind(),
        harness.deliver_until_done(&order()).await.kind(),
    ];
    assert_eq!(
        kinds,
        [Kind::StoreUnavailable, Kind::Conflict, Kind::Executed]
    );
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_stood_still_when_its_handler_had_returned_has_lost_its_lease() {
    let harness = charging();
    let [first, second] = harness.lose_lease(&order()).await;
    assert!(
        matches!(first, Execution::LeaseLost { attempt: 1 }),
        "{first:?}"
    );
    assert!(
        matches!(second, Execution::Executed { attempt: 2, .. }),
        "{second:?}"
    );
    assert_eq!(harness.state().read(), ["o-17", "o-17"]);
}

#[idempotent(key = "order_id")]
async fn slowly(_order: OrderPlaced, State(journal): State<Journal>) -> Result<(), Failed> {
    sleep(MINUTE).await;
    journal.write("done");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_was_running_is_dropped_when_its_lease_is_lost() {
    let harness = Setup::new(Journal::default).handler::<slowly>();
    let [first, second] = harness.lose_lease(&order()).await;
    assert_eq!(
        [first.kind(), second.kind()],
        [Kind::LeaseLost, Kind::Executed]
    );
    assert_eq!(harness.state().read(), ["done"]);
    harness.deliver(&order()).await;
    let panic = panic_of(harness.lose_lease(&order())).await;
    assert!(panic.contains("there is no lease to lose"), "{panic}");
}

#[tokio::test(start_paused = true)]
async fn a_faulty_store_serves_an_executor_of_ones_own() {
    let store = FaultyStore::new(idem_core::MemoryStore::new());
    let executor = Executor::new(store.clone());
    store.fail_next(Call::Claim);
    let key = Key::new("orders", "o-17").unwrap();
    let run = async || {
        let work = async |_| Ok::<_, Failed>(());
        let ended = executor.execute(key.clone(), &Policy::DEFAULT, work).await;
        ended.kind()
    };
    let kinds = [run().await, run().await, run().await];
    assert_eq!(
        kinds,
        [Kind::StoreUnavailable, Kind::Executed, Kind::Duplicate]
    );
}
