//! Two workers that share a SQLite file, under load, one of them killed again and again.

use std::collections::BTreeMap;

use idem_tests::{
    bed::Bed,
    ledger::Ledger,
    process::{Mode, Process, Settings},
};
use nix::sys::signal::Signal;

const LEDGER_WORKER: &str = env!("CARGO_BIN_EXE_ledger-worker");

const ORDERS: usize = 150;

/// Orders in copies, shuffled; two workers, of which one is killed twice. Charges per order.
async fn charges_per_order(mode: Mode) -> BTreeMap<String, usize> {
    let bed = Bed::new().await;
    let ledger = Ledger::create().await;
    let settings = Settings::new(bed.url(), bed.name(), &ledger.path()).with(|settings| {
        settings.mode = mode;
        settings.work_ms = 20;
        settings.max_attempts = 20;
        settings.lease_ms = 2000;
    });
    let mut copies: Vec<_> = (0..ORDERS).flat_map(|number| [number; 3]).collect();
    fastrand::shuffle(&mut copies);
    let steady = Process::start(LEDGER_WORKER, &settings);
    let mut killed = Process::start(LEDGER_WORKER, &settings);
    let publishing = async {
        for number in copies {
            bed.order(&format!("o-{number}")).await;
        }
    };
    let killing = async {
        for _ in 0..2 {
            killed.ended("executed", 10).await;
            killed.signal(Signal::SIGKILL);
            killed.exit().await;
            killed = Process::start(LEDGER_WORKER, &settings);
        }
    };
    futures_util::future::join(publishing, killing).await;

    idem_tests::journal::eventually("every order is charged", async || {
        match distinct(&ledger).await {
            ORDERS => Ok(()),
            seen => Err(seen),
        }
    })
    .await;
    bed.until_settled().await;
    steady.stop().await;
    killed.stop().await;
    bed.assert_nothing_stuck().await;
    let mut charges = BTreeMap::new();
    for charge in ledger.charges().await {
        *charges.entry(charge.order_id).or_default() += 1;
    }
    charges
}

async fn distinct(ledger: &Ledger) -> usize {
    let charges = ledger.charges().await;
    let orders = charges.iter().map(|charge| &charge.order_id);
    orders.collect::<std::collections::HashSet<_>>().len()
}

#[tokio::test]
async fn two_atomic_workers_of_which_one_is_killed_charge_every_order_once() {
    let charges = charges_per_order(Mode::Atomic).await;
    let doubled: Vec<_> = charges.iter().filter(|(_, times)| **times > 1).collect();
    assert_eq!(charges.len(), ORDERS, "lost");
    assert!(doubled.is_empty(), "doubled: {doubled:?}");
}

#[tokio::test]
async fn two_leased_workers_of_which_one_is_killed_lose_no_order() {
    let charges = charges_per_order(Mode::Leased).await;
    assert_eq!(charges.len(), ORDERS, "lost");
    // Only what ran when a worker was killed may have been done twice: at most 8 at a time, twice.
    let doubled = charges.values().filter(|times| **times > 1).count();
    assert!(doubled <= 16, "{doubled} orders doubled");
}
