//! Workers that are paused (SIGSTOP) for longer than their lease, and then go on.

use std::fs;

use idem_tests::{
    bed::Bed,
    ledger::{Charge, Ledger},
    process::{Gate, Mode, Process, Settings},
    store_at::Product::{self, Postgres, Redis, Sqlite},
};
use nix::sys::signal::Signal;

const LEDGER_WORKER: &str = env!("CARGO_BIN_EXE_ledger-worker");

/// A worker is paused in its handler, another one takes over and charges, the first goes on.
async fn charges_with_a_zombie(store: Product, mode: Mode, blocking: bool) -> Vec<Charge> {
    let bed = Bed::new().await;
    let ledger = Ledger::on(store).await;
    let gate = ledger.file("gate");
    let settings = Settings::new(bed.url(), bed.name(), &ledger).with(|settings| {
        settings.mode = mode;
        settings.name = "other".into();
        settings.lease_ms = 500;
    });
    let zombie = settings.with(|settings| {
        settings.name = "zombie".into();
        // No room for the second copy, which is the other's.
        settings.prefetch = 1;
        settings.gate = Some(Gate {
            file: gate.clone(),
            blocking,
        });
    });
    let zombie = Process::start(LEDGER_WORKER, &zombie);
    bed.order("a").await;
    zombie.started().await;
    zombie.signal(Signal::SIGSTOP);

    let other = Process::start(LEDGER_WORKER, &settings);
    bed.order("a").await;
    other.ended("executed", 1).await;
    fs::write(&gate, "open").unwrap();
    zombie.signal(Signal::SIGCONT);
    zombie.ended("lease-lost", 1).await;

    let zombie = zombie.stop().await;
    assert_eq!(count(&zombie, "lease-lost"), 1, "{zombie:?}");
    assert_eq!(count(&zombie, "executed"), 0, "{zombie:?}");
    // Its copy was not acknowledged: it comes again, to either of them, as a duplicate.
    if count(&zombie, "duplicate") == 0 {
        other.ended("duplicate", 1).await;
    }
    let other = other.stop().await;
    assert_eq!(count(&other, "executed"), 1, "{other:?}");
    let duplicates = count(&zombie, "duplicate") + count(&other, "duplicate");
    assert_eq!(duplicates, 1, "{zombie:?} {other:?}");
    bed.assert_nothing_stuck().await;
    ledger.charges().await
}

fn count(balance: &[(String, u64)], kind: &str) -> u64 {
    let found = balance.iter().find(|(other, _)| other == kind);
    found.map_or(0, |(_, count)| *count)
}

fn charge(attempt: u32, worker: &str) -> Charge {
    Charge::new("a", attempt, worker)
}

/// A zombie wakes up in its handler.
///
/// - does: drops the handler's future before it runs on
/// - atomic: once
/// - leased: what it did before the pause stays
#[tokio::test]
async fn an_atomic_handler_that_wakes_up_too_late_is_dropped_before_it_writes() {
    let charges = charges_with_a_zombie(Sqlite, Mode::Atomic, false).await;
    assert_eq!(charges, [charge(2, "other")]);
}

/// Shares the promise of `zombies::an_atomic_handler_that_wakes_up_too_late_is_dropped_before_it_writes`.
#[tokio::test]
async fn an_atomic_handler_on_postgres_that_wakes_up_too_late_is_dropped_before_it_writes() {
    let charges = charges_with_a_zombie(Postgres, Mode::Atomic, false).await;
    assert_eq!(charges, [charge(2, "other")]);
}

/// A zombie's handler does not notice, and ends.
///
/// - does: refuses its completion
/// - atomic: its writes are rolled back
/// - leased: the other's completion stands
#[tokio::test]
async fn an_atomic_handler_that_does_not_notice_has_its_writes_rolled_back() {
    let charges = charges_with_a_zombie(Sqlite, Mode::Atomic, true).await;
    assert_eq!(charges, [charge(2, "other")]);
}

/// Shares the promise of `zombies::an_atomic_handler_that_does_not_notice_has_its_writes_rolled_back`.
#[tokio::test]
async fn an_atomic_handler_on_postgres_that_does_not_notice_has_its_writes_rolled_back() {
    let charges = charges_with_a_zombie(Postgres, Mode::Atomic, true).await;
    assert_eq!(charges, [charge(2, "other")]);
}

/// Shares the promise of `zombies::an_atomic_handler_that_wakes_up_too_late_is_dropped_before_it_writes`.
#[tokio::test]
async fn a_leased_handler_that_wakes_up_too_late_is_dropped() {
    // What it did before the pause stays done: that is the limit of a lease.
    let charges = charges_with_a_zombie(Sqlite, Mode::Leased, false).await;
    assert_eq!(charges, [charge(1, "zombie"), charge(2, "other")]);
}

/// Shares the promise of `zombies::an_atomic_handler_that_wakes_up_too_late_is_dropped_before_it_writes`.
#[tokio::test]
async fn a_leased_handler_on_postgres_that_wakes_up_too_late_is_dropped() {
    let charges = charges_with_a_zombie(Postgres, Mode::Leased, false).await;
    assert_eq!(charges, [charge(1, "zombie"), charge(2, "other")]);
}

/// Shares the promise of `zombies::an_atomic_handler_that_wakes_up_too_late_is_dropped_before_it_writes`.
#[tokio::test]
async fn a_leased_handler_on_redis_that_wakes_up_too_late_is_dropped() {
    let charges = charges_with_a_zombie(Redis, Mode::Leased, false).await;
    assert_eq!(charges, [charge(1, "zombie"), charge(2, "other")]);
}

/// Shares the promise of `zombies::an_atomic_handler_that_does_not_notice_has_its_writes_rolled_back`.
#[tokio::test]
async fn a_leased_handler_that_does_not_notice_cannot_complete() {
    let charges = charges_with_a_zombie(Sqlite, Mode::Leased, true).await;
    assert_eq!(charges, [charge(1, "zombie"), charge(2, "other")]);
}

/// Shares the promise of `zombies::an_atomic_handler_that_does_not_notice_has_its_writes_rolled_back`.
#[tokio::test]
async fn a_leased_handler_on_postgres_that_does_not_notice_cannot_complete() {
    let charges = charges_with_a_zombie(Postgres, Mode::Leased, true).await;
    assert_eq!(charges, [charge(1, "zombie"), charge(2, "other")]);
}

/// Shares the promise of `zombies::an_atomic_handler_that_does_not_notice_has_its_writes_rolled_back`.
#[tokio::test]
async fn a_leased_handler_on_redis_that_does_not_notice_cannot_complete() {
    let charges = charges_with_a_zombie(Redis, Mode::Leased, true).await;
    assert_eq!(charges, [charge(1, "zombie"), charge(2, "other")]);
}
