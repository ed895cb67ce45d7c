//! Leased handlers, on the memory store.

use std::time::Duration;

use axum::{Router, routing::post};
use idem_core::Policy;
use idem_http::IdempotencyLayer;
use idem_testing::http::{Call, CrashPoint, Harness, Setup, assert_idempotent};
use tokio::time::{Instant, sleep};

use super::*;

fn bank() -> Harness<Bank> {
    Setup::new(Bank::default).service(|store, bank| {
        let once = IdempotencyLayer::new(store).unscoped();
        let charges = Router::new().route("/charges", post(charge));
        charges.layer(once).with_state(bank.clone())
    })
}

#[tokio::test(start_paused = true)]
async fn a_handler_whose_other_side_knows_the_work_passes() {
    assert_idempotent(&bank(), &order("k-1", "o-17"), async |run| {
        run.state().charges()
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_copy_is_answered_with_the_response_of_the_first() {
    let (bank, order) = (bank(), order("k-1", "o-17"));
    let [first, copy] = [bank.send(&order).await, bank.send(&order).await];
    assert_eq!((first.is_replay(), copy.is_replay()), (false, true));
    assert_eq!((first.status(), first.json()), (copy.status(), copy.json()));
    assert_eq!(copy.json(), json!({ "charged": "o-17" }));
}

#[tokio::test(start_paused = true)]
async fn another_order_under_the_key_is_refused() {
    let bank = bank();
    bank.send(&order("k-1", "o-17")).await;
    let refused = bank.send(&order("k-1", "o-18")).await;
    assert_eq!(refused.status(), StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(refused.problem().as_deref(), Some("key-reused"));
    assert_eq!(bank.state().charges().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_a_process_had_begun_that_was_killed_does_not_go_on() {
    let (bank, order, began) = (bank(), order("k-1", "o-17"), Instant::now());
    bank.crash(CrashPoint::InHandler(1), &order).await;
    sleep(Duration::from_secs(5)).await;
    assert!(bank.state().charges().is_empty());
    let told = bank.send(&order).await;
    assert_eq!(told.problem().as_deref(), Some("in-progress"));
    let answer = bank.send_until_done(&order).await;
    assert_eq!(
        (answer.status(), answer.is_replay()),
        (StatusCode::CREATED, false)
    );
    // The lease of the first is over.
    assert!(began.elapsed() >= Duration::from_secs(30));
}

#[tokio::test(start_paused = true)]
async fn what_a_client_has_begun_that_went_away_goes_on() {
    let (bank, order) = (bank(), order("k-1", "o-17"));
    bank.leave(1, &order).await;
    assert!(bank.state().charges().is_empty());
    assert!(bank.send_until_done(&order).await.is_replay());
    assert_eq!(bank.state().charges().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn nothing_runs_while_the_store_is_away() {
    let (bank, order) = (bank(), order("k-1", "o-17"));
    bank.store().fail_for(Duration::from_mins(1));
    let told = bank.send(&order).await;
    assert_eq!(told.problem().as_deref(), Some("store-unavailable"));
    assert!(bank.state().charges().is_empty());
    assert_eq!(
        bank.send_until_done(&order).await.status(),
        StatusCode::CREATED
    );
}

#[tokio::test(start_paused = true)]
async fn a_completion_whose_answer_is_lost_is_not_run_again() {
    let (bank, order) = (bank(), order("k-1", "o-17"));
    bank.store().lose_next_answer(Call::Complete);
    assert!(!bank.send_until_done(&order).await.is_replay());
    assert!(bank.send(&order).await.is_replay());
}

/// Charges again whenever it runs.
async fn journal(State(journal): State<Journal>, Json(order): Json<Order>) -> StatusCode {
    journal.write(order.id);
    StatusCode::CREATED
}

fn journaling(policy: Policy) -> Harness<Journal> {
    Setup::new(Journal::default).service(move |store, state: &Journal| {
        let once = IdempotencyLayer::new(store).unscoped().policy(policy);
        let charges = Router::new().route("/charges", post(journal));
        charges.layer(once).with_state(state.clone())
    })
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_does_it_again_after_a_crash_is_noticed_at_the_very_point() {
    let harness = journaling(Policy::DEFAULT);
    let order = order("k-1", "o-17");
    let passes = assert_idempotent(&harness, &order, async |run| run.state().read());
    let expected = "`POST /charges` is not idempotent: in 1 of 13 situations\n\
        \n\
        crash after the handler, before the completion: the effect is doubled\n  \
        after one delivery: [\"o-17\"]\n  \
        here:               [\"o-17\", \"o-17\"]\n  \
        ended as:           `executed`\n\
        \n\
        After a crash a leased handler runs again.";
    let panic = panic_of(passes).await;
    assert!(panic.starts_with(expected), "{panic}");
}

#[tokio::test(start_paused = true)]
async fn a_handler_whose_doubts_are_left_to_a_person_passes() {
    let quarantine = Policy::builder().in_doubt(idem_core::handler::InDoubt::Quarantine);
    let harness = journaling(quarantine.build().unwrap());
    let order = order("k-1", "o-17");
    assert_idempotent(&harness, &order, async |run| run.state().read()).await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_that_does_not_come_is_told() {
    let (bank, order) = (bank(), order("k-1", "o-17"));
    let crash = bank.crash(CrashPoint::InHandler(9), &order);
    let panic = panic_of(crash).await;
    let expected =
        "the delivery ended as `executed` without coming as far as inside the handler, at wait 9";
    assert!(panic.starts_with(expected), "{panic}");
}
