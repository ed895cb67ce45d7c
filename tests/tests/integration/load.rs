//! Two workers that share a store, under load, while something goes wrong.

use std::collections::BTreeMap;

use futures_util::future::join;
use idem_tests::{
    bed::Bed,
    journal::eventually,
    ledger::Ledger,
    process::{Mode, Process, Settings},
    store_at::StoreAt,
};
use nix::sys::signal::Signal;

const LEDGER_WORKER: &str = env!("CARGO_BIN_EXE_ledger-worker");

const ORDERS: usize = 150;

/// Orders in copies, for two workers.
pub(crate) struct Load {
    bed: Bed,
    ledger: Ledger,
    settings: Settings,
}

/// How often each order was charged.
pub(crate) type Charges = BTreeMap<String, usize>;

impl Load {
    /// For workers that share a SQLite file.
    pub(crate) async fn in_sqlite(mode: Mode) -> Self {
        Self::on(Ledger::create().await, mode).await
    }

    /// For workers that share this store.
    pub(crate) async fn of(store: &StoreAt, mode: Mode) -> Self {
        Self::on(Ledger::of(store).await, mode).await
    }

    async fn on(ledger: Ledger, mode: Mode) -> Self {
        let bed = Bed::new().await;
        let settings = Settings::new(bed.url(), bed.name(), &ledger).with(|settings| {
            settings.mode = mode;
            settings.work_ms = 20;
            settings.max_attempts = 20;
            settings.lease_ms = 2000;
        });
        Self {
            bed,
            ledger,
            settings,
        }
    }

    /// The same with this change of the workers' settings.
    pub(crate) fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        self.settings = self.settings.with(change);
        self
    }

    /// Publishes each order one to three times, shuffled, while two workers charge them and something goes
    /// wrong. In the end all is charged, and nothing is stuck or dead-lettered.
    pub(crate) async fn charges(
        self,
        trouble: impl AsyncFnOnce(&mut [Process; 2], &Settings),
    ) -> Charges {
        let start = || Process::start(LEDGER_WORKER, &self.settings);
        let mut workers = [start(), start()];
        join(self.publish(), trouble(&mut workers, &self.settings)).await;
        eventually("every order is charged", async || {
            match self.ledger.charges_per_order().await {
                charges if charges.len() == ORDERS => Ok(()),
                charges => Err(charges.len()),
            }
        })
        .await;
        self.bed.until_settled().await;
        for worker in workers {
            worker.stop().await;
        }
        self.bed.assert_nothing_stuck().await;
        self.ledger.charges_per_order().await
    }

    async fn publish(&self) {
        // No copy makes up for the loss of an order that has none.
        let copies = |number: usize| std::iter::repeat_n(number, 1 + number % 3);
        let mut copies: Vec<_> = (0..ORDERS).flat_map(copies).collect();
        fastrand::shuffle(&mut copies);
        for number in copies {
            self.bed.order(&format!("o-{number}")).await;
        }
    }
}

/// How many were charged more than once.
pub(crate) fn doubled(charges: &Charges) -> usize {
    charges.values().filter(|times| **times > 1).count()
}

#[track_caller]
pub(crate) fn assert_once_each(charges: &Charges) {
    assert_eq!(charges.len(), ORDERS, "lost");
    assert_eq!(doubled(charges), 0, "doubled: {charges:?}");
}

/// One of two workers is killed twice in the middle of its work, and replaced.
async fn charges_with_kills(load: Load) -> Charges {
    load.charges(async |[_, killed], settings| {
        for _ in 0..2 {
            killed.ended("executed", 10).await;
            killed.signal(Signal::SIGKILL);
            killed.exit().await;
            *killed = Process::start(LEDGER_WORKER, settings);
        }
    })
    .await
}

/// Only what ran when something went wrong may have been done twice: at most 8 at two workers.
#[track_caller]
pub(crate) fn assert_none_lost(charges: &Charges) {
    assert_eq!(charges.len(), ORDERS, "lost");
    assert!(doubled(charges) <= 16, "doubled: {charges:?}");
}

/// One of two workers is killed again and again, under load.
///
/// - does: goes on with the other worker; the messages of the killed one come to either
/// - atomic: once each
/// - leased: none lost
#[tokio::test]
async fn two_atomic_workers_of_which_one_is_killed_charge_every_order_once() {
    let load = Load::in_sqlite(Mode::Atomic).await;
    assert_once_each(&charges_with_kills(load).await);
}

/// Shares the promise of `load::two_atomic_workers_of_which_one_is_killed_charge_every_order_once`.
#[tokio::test]
async fn two_atomic_workers_on_postgres_of_which_one_is_killed_charge_every_order_once() {
    let load = Load::of(&StoreAt::postgres().await, Mode::Atomic).await;
    assert_once_each(&charges_with_kills(load).await);
}

/// Shares the promise of `load::two_atomic_workers_of_which_one_is_killed_charge_every_order_once`.
#[tokio::test]
async fn two_leased_workers_of_which_one_is_killed_lose_no_order() {
    let load = Load::in_sqlite(Mode::Leased).await;
    assert_none_lost(&charges_with_kills(load).await);
}

/// Shares the promise of `load::two_atomic_workers_of_which_one_is_killed_charge_every_order_once`.
#[tokio::test]
async fn two_leased_workers_on_postgres_of_which_one_is_killed_lose_no_order() {
    let load = Load::of(&StoreAt::postgres().await, Mode::Leased).await;
    assert_none_lost(&charges_with_kills(load).await);
}

/// Shares the promise of `load::two_atomic_workers_of_which_one_is_killed_charge_every_order_once`.
#[tokio::test]
async fn two_leased_workers_on_redis_of_which_one_is_killed_lose_no_order() {
    let load = Load::of(&StoreAt::redis().await, Mode::Leased).await;
    assert_none_lost(&charges_with_kills(load).await);
}
