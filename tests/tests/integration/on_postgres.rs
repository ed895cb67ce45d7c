//! What is promised of any store, on `PostgreSQL`: a database, and a queue, for each test.

use idem_amqp::PostgresStore;
use idem_tests::store_at::StoreAt;

use crate::{bad_input, dead_letters, duplicates, failures};

async fn store() -> PostgresStore {
    StoreAt::postgres().await.open_postgres().await
}

#[tokio::test]
async fn a_copy_that_comes_later_is_acknowledged_without_running() {
    duplicates::later_copies(store().await).await;
}

#[tokio::test]
async fn many_copies_in_any_order_are_executed_once_each() {
    duplicates::many_copies(store().await).await;
}

#[tokio::test]
async fn a_copy_that_comes_after_the_retention_runs_again() {
    duplicates::copy_after_the_retention(store().await).await;
}

#[tokio::test]
async fn a_copy_at_another_worker_is_held_until_the_first_has_ended() {
    duplicates::copy_at_another_worker(store().await).await;
}

#[tokio::test]
async fn a_failed_message_is_delivered_again_and_its_handler_runs_again() {
    failures::redelivery(store().await).await;
}

#[tokio::test]
async fn attempts_are_counted_over_redeliveries() {
    failures::attempts(store().await).await;
}

#[tokio::test]
async fn a_message_whose_attempts_are_used_up_is_dead_lettered() {
    failures::exhaustion(store().await).await;
}

#[tokio::test]
async fn copies_of_a_failed_message_wait_for_its_next_attempt_and_use_none_up() {
    failures::copies_of_a_failed_message(store().await).await;
}

#[tokio::test]
async fn a_key_used_again_for_other_content_is_dead_lettered() {
    bad_input::key_reuse(store().await).await;
}

#[tokio::test]
async fn a_rejected_message_runs_when_its_dead_letter_is_sent_again() {
    dead_letters::replay_of_a_rejected_message(store().await).await;
}

#[tokio::test]
async fn an_exhausted_message_has_all_its_attempts_when_its_dead_letter_is_sent_again() {
    dead_letters::replay_of_an_exhausted_message(store().await).await;
}

#[tokio::test]
async fn a_quarantined_message_runs_only_when_its_dead_letter_is_sent_again() {
    dead_letters::replay_of_a_quarantined_message(store().await).await;
}
