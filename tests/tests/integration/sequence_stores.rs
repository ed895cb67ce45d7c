//! Numbered messages on the stores that outlive their process, by leased and by atomic handlers.

use std::collections::BTreeMap;

use idem_amqp::{
    PostgresStore, RedisStore, SqliteStore, Worker, prelude::*, sqlx::PgConnection,
    sqlx::SqliteConnection,
};
use idem_tests::{
    ledger::{Charge, Ledger, in_postgres, in_sqlite},
    readings::Reading,
    script::{Order, Script},
    store_at::StoreAt,
};
use tempfile::TempDir;

use crate::sequences::{
    copies_far_below, delay, delayed_number, rejected_number, skipped_number, with_a_long_rung,
};

/// A store in a file that goes away with what is returned beside it.
async fn sqlite() -> (SqliteStore, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let store = StoreAt::sqlite(&folder.path().join("sequences.db"));
    (store.open_sqlite().await, folder)
}

async fn postgres() -> PostgresStore {
    StoreAt::postgres().await.open_postgres().await
}

async fn redis() -> RedisStore {
    StoreAt::redis().await.open_redis().await
}

/// Shares the promise of `sequences::a_number_that_is_delayed_while_thousands_pass_is_neither_lost_nor_doubled`.
#[tokio::test]
async fn a_number_that_is_delayed_while_thousands_pass_is_neither_lost_nor_doubled_on_sqlite() {
    let (store, _folder) = sqlite().await;
    delayed_number(store).await;
}

/// Shares the promise of `sequences::a_copy_far_below_the_mark_is_acknowledged_without_running`.
#[tokio::test]
async fn a_copy_far_below_the_mark_is_acknowledged_without_running_on_sqlite() {
    let (store, _folder) = sqlite().await;
    copies_far_below(store).await;
}

/// Shares the promise of `sequences::a_number_that_was_passed_is_dead_lettered_as_late_and_a_replay_of_it_executes`.
#[tokio::test]
async fn a_number_that_was_passed_is_late_and_a_replay_of_it_executes_on_sqlite() {
    let (store, _folder) = sqlite().await;
    skipped_number(store).await;
}

/// Shares the promise of `sequences::a_number_that_was_rejected_stops_no_later_one_and_a_copy_of_it_is_late`.
#[tokio::test]
async fn a_number_that_was_rejected_stops_no_later_one_and_a_copy_of_it_is_late_on_sqlite() {
    let (store, _folder) = sqlite().await;
    rejected_number(store).await;
}

/// Shares the promise of `sequences::a_number_that_is_delayed_while_thousands_pass_is_neither_lost_nor_doubled`.
#[tokio::test]
async fn a_number_that_is_delayed_while_thousands_pass_is_neither_lost_nor_doubled_on_postgres() {
    delayed_number(postgres().await).await;
}

/// Shares the promise of `sequences::a_copy_far_below_the_mark_is_acknowledged_without_running`.
#[tokio::test]
async fn a_copy_far_below_the_mark_is_acknowledged_without_running_on_postgres() {
    copies_far_below(postgres().await).await;
}

/// Shares the promise of `sequences::a_number_that_was_passed_is_dead_lettered_as_late_and_a_replay_of_it_executes`.
#[tokio::test]
async fn a_number_that_was_passed_is_late_and_a_replay_of_it_executes_on_postgres() {
    skipped_number(postgres().await).await;
}

/// Shares the promise of `sequences::a_number_that_was_rejected_stops_no_later_one_and_a_copy_of_it_is_late`.
#[tokio::test]
async fn a_number_that_was_rejected_stops_no_later_one_and_a_copy_of_it_is_late_on_postgres() {
    rejected_number(postgres().await).await;
}

/// Shares the promise of `sequences::a_number_that_is_delayed_while_thousands_pass_is_neither_lost_nor_doubled`.
#[tokio::test]
async fn a_number_that_is_delayed_while_thousands_pass_is_neither_lost_nor_doubled_on_redis() {
    delayed_number(redis().await).await;
}

/// Shares the promise of `sequences::a_copy_far_below_the_mark_is_acknowledged_without_running`.
#[tokio::test]
async fn a_copy_far_below_the_mark_is_acknowledged_without_running_on_redis() {
    copies_far_below(redis().await).await;
}

/// Shares the promise of `sequences::a_number_that_was_passed_is_dead_lettered_as_late_and_a_replay_of_it_executes`.
#[tokio::test]
async fn a_number_that_was_passed_is_late_and_a_replay_of_it_executes_on_redis() {
    skipped_number(redis().await).await;
}

/// Shares the promise of `sequences::a_number_that_was_rejected_stops_no_later_one_and_a_copy_of_it_is_late`.
#[tokio::test]
async fn a_number_that_was_rejected_stops_no_later_one_and_a_copy_of_it_is_late_on_redis() {
    rejected_number(redis().await).await;
}

/// In the transaction in which the number is completed.
#[idempotent(
    key = sequence(producer = "device", epoch = "boot", number = "seq", window = 200),
    scope = "readings.store"
)]
async fn store_in_sqlite(
    reading: Reading,
    State(script): State<Script>,
    attempt: Attempt,
    delivery: Delivery,
    db: &mut SqliteConnection,
) -> Result<(), Failed> {
    let charge = Charge::new(&reading.id(), attempt.number(), "here");
    in_sqlite::write(db, &charge).await?;
    script
        .play(Order::new(&charge.order_id), attempt, delivery)
        .await
}

/// In the transaction in which the number is completed.
#[idempotent(
    key = sequence(producer = "device", epoch = "boot", number = "seq", window = 200),
    scope = "readings.store"
)]
async fn store_in_postgres(
    reading: Reading,
    State(script): State<Script>,
    attempt: Attempt,
    delivery: Delivery,
    db: &mut PgConnection,
) -> Result<(), Failed> {
    let charge = Charge::new(&reading.id(), attempt.number(), "here");
    in_postgres::write(db, &charge).await?;
    script
        .play(Order::new(&charge.order_id), attempt, delivery)
        .await
}

fn once_each(ids: Vec<String>) -> BTreeMap<String, usize> {
    ids.into_iter().map(|id| (id, 1)).collect()
}

/// An atomic handler fails under a number, after it has written, while thousands pass.
///
/// - does: commits the writes and the completion of each number together
/// - atomic: once each
#[tokio::test]
async fn what_is_written_under_a_delayed_number_commits_once_on_sqlite() {
    let ledger = Ledger::create().await;
    let store = ledger.store().open_sqlite().await;
    let ids = delay(|bed, script| {
        let worker = Worker::builder(store.clone()).state(script.clone());
        bed.start(worker.consume::<store_in_sqlite>(with_a_long_rung(bed.queue())))
    });
    assert_eq!(once_each(ids.await), ledger.charges_per_order().await);
}

/// Shares the promise of `sequence_stores::what_is_written_under_a_delayed_number_commits_once_on_sqlite`.
#[tokio::test]
async fn what_is_written_under_a_delayed_number_commits_once_on_postgres() {
    let at = StoreAt::postgres().await;
    let ledger = Ledger::of(&at).await;
    let store = at.open_postgres().await;
    let ids = delay(|bed, script| {
        let worker = Worker::builder(store.clone()).state(script.clone());
        bed.start(worker.consume::<store_in_postgres>(with_a_long_rung(bed.queue())))
    });
    assert_eq!(once_each(ids.await), ledger.charges_per_order().await);
}
