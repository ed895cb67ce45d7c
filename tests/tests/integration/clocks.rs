//! Workers whose clocks are five minutes apart, and whose leases are ten seconds long.

use std::time::{Duration, SystemTime};

use futures_util::future::join;
use idem_tests::{
    bed::Bed,
    ledger::{Charge, Ledger},
    process::{Clock, Event, Mode, Process, Settings},
    store_at::Product::{self, Postgres, Redis},
};

const LEDGER_WORKER: &str = env!("CARGO_BIN_EXE_ledger-worker");

/// Which of two workers has a clock that is ahead.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ahead {
    Working,
    Waiting,
}

/// One worker is at a message for longer than its lease, the other one waits with a copy.
async fn charges(store: Product, mode: Mode, ahead: Ahead) -> Vec<Charge> {
    let bed = Bed::new().await;
    let ledger = Ledger::on(store).await;
    let settings = Settings::new(bed.url(), bed.name(), &ledger).with(|settings| {
        settings.mode = mode;
        // Longer than a busy machine may stall a process: nobody takes over from a worker that goes on.
        settings.lease_ms = 10_000;
        settings.work_ms = 12_000;
        // No room for the second copy.
        settings.prefetch = 1;
    });
    let clock = Clock::ahead("+5m").await;
    let start = |name: &str, is_ahead: bool| {
        let settings = settings.with(|settings| settings.name = name.into());
        if is_ahead {
            Process::start_with(&clock, LEDGER_WORKER, &settings)
        } else {
            Process::start(LEDGER_WORKER, &settings)
        }
    };
    let working = start("working", ahead == Ahead::Working);
    bed.order("a").await;
    working.started().await;
    assert_eq!(clock_is_ahead(&working), ahead == Ahead::Working);
    let waiting = start("waiting", ahead == Ahead::Waiting);
    bed.order("a").await;

    working.ended("executed", 1).await;
    bed.until_settled().await;
    for worker in [working, waiting] {
        let balance = worker.stop().await;
        let kinds = balance.iter().map(|(kind, _)| kind.as_str());
        let expected = ["executed", "duplicate", "conflict"];
        assert!(
            kinds.clone().all(|kind| expected.contains(&kind)),
            "{balance:?}"
        );
    }
    bed.assert_nothing_stuck().await;
    ledger.charges().await
}

fn clock_is_ahead(worker: &Process) -> bool {
    let soon = SystemTime::now() + Duration::from_mins(4);
    let events = worker.events.entries();
    events
        .iter()
        .any(|event| matches!(event, Event::Started { at, .. } if *at > soon))
}

async fn assert_nobody_takes_over(store: Product, mode: Mode) {
    let both = join(
        Box::pin(charges(store, mode, Ahead::Working)),
        Box::pin(charges(store, mode, Ahead::Waiting)),
    );
    let once = vec![Charge::new("a", 1, "working")];
    assert_eq!(both.await, (once.clone(), once));
}

/// Two workers of a PostgreSQL or a Redis have clocks that are five minutes apart, leases are ten seconds long.
///
/// - does: goes by the store's clock alone: nobody takes a living worker's key over
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_clock_that_is_ahead_takes_nothing_over_from_atomic_workers_on_postgres() {
    assert_nobody_takes_over(Postgres, Mode::Atomic).await;
}

/// Shares the promise of `clocks::a_clock_that_is_ahead_takes_nothing_over_from_atomic_workers_on_postgres`.
#[tokio::test]
async fn a_clock_that_is_ahead_takes_nothing_over_from_leased_workers_on_postgres() {
    assert_nobody_takes_over(Postgres, Mode::Leased).await;
}

/// Shares the promise of `clocks::a_clock_that_is_ahead_takes_nothing_over_from_atomic_workers_on_postgres`.
#[tokio::test]
async fn a_clock_that_is_ahead_takes_nothing_over_from_workers_on_redis() {
    assert_nobody_takes_over(Redis, Mode::Leased).await;
}
