//! Workers that die, as processes of their own killed with SIGKILL at a chosen point.

use std::sync::Arc;

use idem_servers::Redis as OwnRedis;
use idem_tests::{
    bed::Bed,
    cell::Further,
    ledger::{Charge, Ledger},
    on_further_stores,
    process::{Crash, Mode, Process, Settings},
    servers::off_thread,
    store_at::{
        InFront,
        Product::{self, Postgres, Redis, Sqlite},
        StoreAt,
    },
};

const LEDGER_WORKER: &str = env!("CARGO_BIN_EXE_ledger-worker");

/// A worker dies at this point of a message; another one comes. What was charged in the end?
async fn charges_after(
    store: Product,
    crash: Crash,
    mode: Mode,
    ends: &[(&str, u64)],
) -> Vec<Charge> {
    charges_in_after(Ledger::on(store).await, crash, mode, ends, async || ()).await
}

/// The same of workers with this ledger's store, and something happens between the two.
async fn charges_in_after(
    ledger: Ledger,
    crash: Crash,
    mode: Mode,
    ends: &[(&str, u64)],
    between: impl AsyncFnOnce(),
) -> Vec<Charge> {
    let bed = Bed::new().await;
    let settings = Settings::new(bed.url(), bed.name(), &ledger).with(|settings| {
        settings.mode = mode;
        settings.name = "second".into();
    });
    let dying = settings.with(|settings| {
        settings.name = "first".into();
        settings.crash = Some(crash);
    });
    let first = Process::start(LEDGER_WORKER, &dying);
    bed.order("a").await;
    first.died().await;
    between().await;

    let second = Process::start(LEDGER_WORKER, &settings);
    second.ended(ends[0].0, 1).await;
    let balance = second.stop().await;
    let ends: Vec<_> = ends
        .iter()
        .map(|(kind, count)| ((*kind).to_owned(), *count))
        .collect();
    assert_eq!(balance, ends);
    bed.assert_nothing_stuck().await;
    ledger.charges().await
}

fn charge(attempt: u32, worker: &str) -> Charge {
    Charge::new("a", attempt, worker)
}

/// A worker is killed after the claim, before the work.
///
/// - does: lets another worker take over when the lease has run out
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn an_atomic_worker_killed_after_its_claim_is_replaced() {
    let (crash, ends) = (Crash::AfterClaim(1), [("executed", 1)]);
    let charges = charges_after(Sqlite, crash, Mode::Atomic, &ends).await;
    assert_eq!(charges, [charge(2, "second")]);
}

/// Shares the promise of `crashes::an_atomic_worker_killed_after_its_claim_is_replaced`.
#[tokio::test]
async fn an_atomic_worker_on_postgres_killed_after_its_claim_is_replaced() {
    let (crash, ends) = (Crash::AfterClaim(1), [("executed", 1)]);
    let charges = charges_after(Postgres, crash, Mode::Atomic, &ends).await;
    assert_eq!(charges, [charge(2, "second")]);
}

/// A worker is killed after the work, before the completion.
///
/// - does: lets another worker take over when the lease has run out
/// - atomic: once
/// - leased: effect twice, in doubt
#[tokio::test]
async fn an_atomic_worker_killed_after_its_work_has_done_nothing() {
    let (crash, ends) = (Crash::BeforeCompletion(1), [("executed", 1)]);
    let charges = charges_after(Sqlite, crash, Mode::Atomic, &ends).await;
    assert_eq!(charges, [charge(2, "second")]);
}

/// Shares the promise of `crashes::an_atomic_worker_killed_after_its_work_has_done_nothing`.
#[tokio::test]
async fn an_atomic_worker_on_postgres_killed_after_its_work_has_done_nothing() {
    let (crash, ends) = (Crash::BeforeCompletion(1), [("executed", 1)]);
    let charges = charges_after(Postgres, crash, Mode::Atomic, &ends).await;
    assert_eq!(charges, [charge(2, "second")]);
}

/// A worker is killed after the completion, before the ack.
///
/// - does: acknowledges the redelivery
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn an_atomic_worker_killed_between_commit_and_ack_is_not_repeated() {
    let (crash, ends) = (Crash::AfterCompletion(1), [("duplicate", 1)]);
    let charges = charges_after(Sqlite, crash, Mode::Atomic, &ends).await;
    assert_eq!(charges, [charge(1, "first")]);
}

/// Shares the promise of `crashes::an_atomic_worker_killed_between_commit_and_ack_is_not_repeated`.
#[tokio::test]
async fn an_atomic_worker_on_postgres_killed_between_commit_and_ack_is_not_repeated() {
    let (crash, ends) = (Crash::AfterCompletion(1), [("duplicate", 1)]);
    let charges = charges_after(Postgres, crash, Mode::Atomic, &ends).await;
    assert_eq!(charges, [charge(1, "first")]);
}

/// Shares the promise of `crashes::an_atomic_worker_killed_after_its_claim_is_replaced`.
#[tokio::test]
async fn a_leased_worker_killed_after_its_claim_is_replaced() {
    let (crash, ends) = (Crash::AfterClaim(1), [("executed", 1)]);
    let charges = charges_after(Sqlite, crash, Mode::Leased, &ends).await;
    assert_eq!(charges, [charge(2, "second")]);
}

/// Shares the promise of `crashes::an_atomic_worker_killed_after_its_claim_is_replaced`.
#[tokio::test]
async fn a_leased_worker_on_postgres_killed_after_its_claim_is_replaced() {
    let (crash, ends) = (Crash::AfterClaim(1), [("executed", 1)]);
    let charges = charges_after(Postgres, crash, Mode::Leased, &ends).await;
    assert_eq!(charges, [charge(2, "second")]);
}

/// Shares the promise of `crashes::an_atomic_worker_killed_after_its_claim_is_replaced`.
#[tokio::test]
async fn a_leased_worker_on_redis_killed_after_its_claim_is_replaced() {
    let (crash, ends) = (Crash::AfterClaim(1), [("executed", 1)]);
    let charges = charges_after(Redis, crash, Mode::Leased, &ends).await;
    assert_eq!(charges, [charge(2, "second")]);
}

/// Shares the promise of `crashes::an_atomic_worker_killed_after_its_work_has_done_nothing`.
#[tokio::test]
async fn a_leased_worker_killed_after_its_work_has_its_work_done_again() {
    let (crash, ends) = (Crash::BeforeCompletion(1), [("executed", 1)]);
    let charges = charges_after(Sqlite, crash, Mode::Leased, &ends).await;
    assert_eq!(charges, [charge(1, "first"), charge(2, "second")]);
}

/// Shares the promise of `crashes::an_atomic_worker_killed_after_its_work_has_done_nothing`.
#[tokio::test]
async fn a_leased_worker_on_postgres_killed_after_its_work_has_its_work_done_again() {
    let (crash, ends) = (Crash::BeforeCompletion(1), [("executed", 1)]);
    let charges = charges_after(Postgres, crash, Mode::Leased, &ends).await;
    assert_eq!(charges, [charge(1, "first"), charge(2, "second")]);
}

/// Shares the promise of `crashes::an_atomic_worker_killed_after_its_work_has_done_nothing`.
#[tokio::test]
async fn a_leased_worker_on_redis_killed_after_its_work_has_its_work_done_again() {
    let (crash, ends) = (Crash::BeforeCompletion(1), [("executed", 1)]);
    let charges = charges_after(Redis, crash, Mode::Leased, &ends).await;
    assert_eq!(charges, [charge(1, "first"), charge(2, "second")]);
}

/// Shares the promise of `crashes::an_atomic_worker_killed_between_commit_and_ack_is_not_repeated`.
#[tokio::test]
async fn a_leased_worker_killed_between_completion_and_ack_is_not_repeated() {
    let (crash, ends) = (Crash::AfterCompletion(1), [("duplicate", 1)]);
    let charges = charges_after(Sqlite, crash, Mode::Leased, &ends).await;
    assert_eq!(charges, [charge(1, "first")]);
}

/// Shares the promise of `crashes::an_atomic_worker_killed_between_commit_and_ack_is_not_repeated`.
#[tokio::test]
async fn a_leased_worker_on_postgres_killed_between_completion_and_ack_is_not_repeated() {
    let (crash, ends) = (Crash::AfterCompletion(1), [("duplicate", 1)]);
    let charges = charges_after(Postgres, crash, Mode::Leased, &ends).await;
    assert_eq!(charges, [charge(1, "first")]);
}

/// Shares the promise of `crashes::an_atomic_worker_killed_between_commit_and_ack_is_not_repeated`.
#[tokio::test]
async fn a_leased_worker_on_redis_killed_between_completion_and_ack_is_not_repeated() {
    let (crash, ends) = (Crash::AfterCompletion(1), [("duplicate", 1)]);
    let charges = charges_after(Redis, crash, Mode::Leased, &ends).await;
    assert_eq!(charges, [charge(1, "first")]);
}

/// A message that kills every worker: after its attempts it is dead-lettered by one that survives.
async fn poison(store: Product, mode: Mode) -> usize {
    let bed = Bed::new().await;
    let ledger = Ledger::on(store).await;
    let settings = Settings::new(bed.url(), bed.name(), &ledger).with(|settings| {
        settings.mode = mode;
        settings.max_attempts = 3;
        settings.lease_ms = 600;
        settings.crash = Some(Crash::InHandler);
    });
    bed.order("poison").await;
    for _ in 0..3 {
        Process::start(LEDGER_WORKER, &settings).died().await;
    }
    let survivor = Process::start(LEDGER_WORKER, &settings);
    let letter = bed.dead_letter().await;
    assert_eq!(letter.reason(), "exhausted");
    assert_eq!(letter.attempt(), "3");
    assert!(
        letter.error().contains("without a word"),
        "{}",
        letter.error()
    );
    survivor.ended("exhausted", 1).await;
    assert_eq!(survivor.stop().await, [("exhausted".into(), 1)]);
    bed.assert_nothing_stuck().await;
    ledger.count().await
}

/// A message kills its worker in the handler, at every attempt.
///
/// - does: dead-letters it, `exhausted`, without running it again
/// - atomic: no write stays
/// - leased: effect once per attempt
#[tokio::test]
async fn a_message_that_kills_atomic_workers_is_dead_lettered_after_its_attempts() {
    assert_eq!(poison(Sqlite, Mode::Atomic).await, 0);
}

/// Shares the promise of `crashes::a_message_that_kills_atomic_workers_is_dead_lettered_after_its_attempts`.
#[tokio::test]
async fn a_message_that_kills_atomic_workers_on_postgres_is_dead_lettered_after_its_attempts() {
    assert_eq!(poison(Postgres, Mode::Atomic).await, 0);
}

/// Shares the promise of `crashes::a_message_that_kills_atomic_workers_is_dead_lettered_after_its_attempts`.
#[tokio::test]
async fn a_message_that_kills_leased_workers_is_dead_lettered_after_its_attempts() {
    assert_eq!(poison(Sqlite, Mode::Leased).await, 3);
}

/// Shares the promise of `crashes::a_message_that_kills_atomic_workers_is_dead_lettered_after_its_attempts`.
#[tokio::test]
async fn a_message_that_kills_leased_workers_on_postgres_is_dead_lettered_after_its_attempts() {
    assert_eq!(poison(Postgres, Mode::Leased).await, 3);
}

/// Shares the promise of `crashes::a_message_that_kills_atomic_workers_is_dead_lettered_after_its_attempts`.
#[tokio::test]
async fn a_message_that_kills_leased_workers_on_redis_is_dead_lettered_after_its_attempts() {
    assert_eq!(poison(Redis, Mode::Leased).await, 3);
}

async fn charges_on<C: Further>(crash: Crash, end: &str) -> Vec<Charge> {
    let ledger = Ledger::of(&C::at().await).await;
    charges_in_after(ledger, crash, C::MODE, &[(end, 1)], async || ()).await
}

/// Those of the second worker alone, or of both, because nobody knows what the first has done.
fn charged_again(mode: Mode) -> Vec<Charge> {
    match mode {
        Mode::Leased => vec![charge(1, "first"), charge(2, "second")],
        _ => vec![charge(2, "second")],
    }
}

/// Shares the promise of `crashes::an_atomic_worker_killed_after_its_claim_is_replaced`.
async fn a_worker_killed_after_its_claim_is_replaced<C: Further>() {
    let charges = charges_on::<C>(Crash::AfterClaim(1), "executed").await;
    assert_eq!(charges, [charge(2, "second")]);
}

/// Shares the promise of `crashes::an_atomic_worker_killed_after_its_work_has_done_nothing`.
async fn a_worker_killed_after_its_work_is_replaced<C: Further>() {
    let charges = charges_on::<C>(Crash::BeforeCompletion(1), "executed").await;
    assert_eq!(charges, charged_again(C::MODE));
}

/// Shares the promise of `crashes::an_atomic_worker_killed_between_commit_and_ack_is_not_repeated`.
async fn a_worker_killed_between_completion_and_ack_is_not_repeated<C: Further>() {
    let charges = charges_on::<C>(Crash::AfterCompletion(1), "duplicate").await;
    assert_eq!(charges, [charge(1, "first")]);
}

/// A worker dies at this point of a message, and the Redis in front of PostgreSQL dies with it.
async fn charges_after_both_died(crash: Crash, mode: Mode, end: &str) -> Vec<Charge> {
    let redis = Arc::new(off_thread(OwnRedis::start).await);
    let first = InFront::redis(&StoreAt::redis_on(&redis));
    let ledger = Ledger::of(&StoreAt::postgres().await.behind(first)).await;
    let dies = async || {
        let redis = Arc::clone(&redis);
        off_thread(move || redis.kill()).await;
    };
    charges_in_after(ledger, crash, mode, &[(end, 1)], dies).await
}

/// A worker is killed, and with it what stands in front of PostgreSQL.
///
/// - does: goes on as if the worker alone had been killed
/// - atomic: once
/// - leased: effect twice, in doubt, if the worker was killed between its work and the completion
#[tokio::test]
async fn a_worker_and_what_stands_in_front_of_postgres_die_and_the_next_worker_asks_postgres() {
    let after_work = Crash::BeforeCompletion(1);
    let charges = charges_after_both_died(after_work, Mode::Leased, "executed").await;
    assert_eq!(charges, charged_again(Mode::Leased));
    let completed = Crash::AfterCompletion(1);
    let charges = charges_after_both_died(completed, Mode::Leased, "duplicate").await;
    assert_eq!(charges, [charge(1, "first")]);
}

/// Shares the promise of
/// `crashes::a_worker_and_what_stands_in_front_of_postgres_die_and_the_next_worker_asks_postgres`.
#[tokio::test]
async fn an_atomic_worker_and_what_stands_in_front_of_postgres_die_and_the_next_worker_asks_postgres()
 {
    let after_work = Crash::BeforeCompletion(1);
    let charges = charges_after_both_died(after_work, Mode::Atomic, "executed").await;
    assert_eq!(charges, charged_again(Mode::Atomic));
    let completed = Crash::AfterCompletion(1);
    let charges = charges_after_both_died(completed, Mode::Atomic, "duplicate").await;
    assert_eq!(charges, [charge(1, "first")]);
}

on_further_stores! {
    a_worker_killed_after_its_claim_is_replaced,
    a_worker_killed_after_its_work_is_replaced,
    a_worker_killed_between_completion_and_ack_is_not_repeated,
}
