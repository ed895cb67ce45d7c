//! What becomes of a message whose worker was killed in its handler.

use idem_tests::{
    bed::Bed,
    ledger::Ledger,
    process::{Crash, Event, Mode, Process, Settings},
    store_at::Product::{self, Postgres, Redis, Sqlite},
};

const LEDGER_WORKER: &str = env!("CARGO_BIN_EXE_ledger-worker");

/// A worker is killed in a handler; the next attempt is told.
async fn doubt(store: Product) {
    let bed = Bed::new().await;
    let ledger = Ledger::on(store).await;
    let settings =
        Settings::new(bed.url(), bed.name(), &ledger).with(|settings| settings.mode = Mode::Leased);
    let dying = settings.with(|settings| settings.crash = Some(Crash::InHandler));
    let first = Process::start(LEDGER_WORKER, &dying);
    bed.order("a").await;
    first.died().await;

    let second = Process::start(LEDGER_WORKER, &settings);
    second.ended("executed", 1).await;
    let in_doubt = |event: &Event| {
        matches!(
            event,
            Event::Started {
                in_doubt: true,
                attempt: 2,
                ..
            }
        )
    };
    second
        .said("the second attempt is in doubt", in_doubt)
        .await;
    second.stop().await;
    bed.assert_nothing_stuck().await;
}

/// A worker was killed in the middle of an attempt, policy `retry`.
///
/// - does: runs it again and tells the handler
/// - atomic: never in doubt
/// - leased: effect may be twice; the handler is told
#[tokio::test]
async fn the_attempt_after_a_killed_one_is_told_of_the_doubt() {
    doubt(Sqlite).await;
}

/// Shares the promise of `doubts::the_attempt_after_a_killed_one_is_told_of_the_doubt`.
#[tokio::test]
async fn the_attempt_on_postgres_after_a_killed_one_is_told_of_the_doubt() {
    doubt(Postgres).await;
}

/// Shares the promise of `doubts::the_attempt_after_a_killed_one_is_told_of_the_doubt`.
#[tokio::test]
async fn the_attempt_on_redis_after_a_killed_one_is_told_of_the_doubt() {
    doubt(Redis).await;
}

/// A worker is killed in a handler; a person has to decide.
async fn quarantine(store: Product) {
    let bed = Bed::new().await;
    let ledger = Ledger::on(store).await;
    let settings = Settings::new(bed.url(), bed.name(), &ledger).with(|settings| {
        settings.mode = Mode::Leased;
        settings.quarantine = true;
    });
    let dying = settings.with(|settings| settings.crash = Some(Crash::InHandler));
    let first = Process::start(LEDGER_WORKER, &dying);
    bed.order("a").await;
    first.died().await;

    let second = Process::start(LEDGER_WORKER, &settings);
    assert_eq!(bed.dead_letter().await.reason(), "in-doubt");
    second.ended("in-doubt", 1).await;
    assert_eq!(second.stop().await, [("in-doubt".into(), 1)]);
    assert_eq!(ledger.count().await, 1);
    bed.assert_nothing_stuck().await;
}

/// A worker process was killed in the middle of an attempt, policy `quarantine`.
///
/// - does: dead-letters it, `in-doubt`, without running
/// - atomic: never in doubt
/// - leased: effect at most once
#[tokio::test]
async fn a_message_in_doubt_after_a_kill_is_quarantined_if_its_policy_says_so() {
    quarantine(Sqlite).await;
}

/// Shares the promise of `doubts::a_message_in_doubt_after_a_kill_is_quarantined_if_its_policy_says_so`.
#[tokio::test]
async fn a_message_on_postgres_in_doubt_after_a_kill_is_quarantined_if_its_policy_says_so() {
    quarantine(Postgres).await;
}

/// Shares the promise of `doubts::a_message_in_doubt_after_a_kill_is_quarantined_if_its_policy_says_so`.
#[tokio::test]
async fn a_message_on_redis_in_doubt_after_a_kill_is_quarantined_if_its_policy_says_so() {
    quarantine(Redis).await;
}
