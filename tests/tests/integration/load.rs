//! Two workers that share a store, under load, while something goes wrong.

use std::{cell::Cell, collections::BTreeMap, time::Duration};

use futures_util::future::join;
use idem_tests::{
    bed::Bed,
    journal::eventually,
    ledger::Ledger,
    process::{Mode, Process, Settings},
    store_at::StoreAt,
};
use nix::sys::signal::Signal;
use tokio::time::sleep;

const LEDGER_WORKER: &str = env!("CARGO_BIN_EXE_ledger-worker");

/// How many orders are published at once.
const ORDERS: usize = 150;

/// How long after another order the next one is published, once these are.
const SLOWLY: Duration = Duration::from_millis(50);

/// Orders in copies, for two workers.
pub(crate) struct Load {
    bed: Bed,
    ledger: Ledger,
    settings: Settings,
}

/// How often each of so many orders was charged.
#[derive(Debug)]
pub(crate) struct Charges {
    per_order: BTreeMap<String, usize>,
    published: usize,
}

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
            // Longer than a busy machine may stall a process: nobody takes over from a worker that goes on.
            settings.lease_ms = 9000;
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
        let published = self
            .publish_during(trouble(&mut workers, &self.settings))
            .await;
        eventually("every order is charged", async || {
            match self.ledger.charges_per_order().await {
                charges if charges.len() == published => Ok(()),
                charges => Err(charges.len()),
            }
        })
        .await;
        self.bed.until_settled().await;
        for worker in workers {
            worker.stop().await;
        }
        self.bed.assert_nothing_stuck().await;
        Charges {
            per_order: self.ledger.charges_per_order().await,
            published,
        }
    }

    /// Publishes orders at once, and then goes on slowly until the trouble is over: a worker that starts late has
    /// something to do, too. Returns how many orders.
    async fn publish_during(&self, trouble: impl Future<Output = ()>) -> usize {
        // No copy makes up for the loss of an order that has none.
        let copies = |number: usize| std::iter::repeat_n(number, 1 + number % 3);
        let mut at_once: Vec<_> = (0..ORDERS).flat_map(copies).collect();
        fastrand::shuffle(&mut at_once);
        let over = Cell::new(false);
        let publishing = async {
            for number in at_once {
                self.bed.order(&format!("o-{number}")).await;
            }
            let mut published = ORDERS;
            while !over.get() {
                sleep(SLOWLY).await;
                self.bed.order(&format!("o-{published}")).await;
                published += 1;
            }
            published
        };
        let troubled = async {
            trouble.await;
            over.set(true);
        };
        join(publishing, troubled).await.0
    }
}

/// How many were charged more than once.
fn doubled(charges: &Charges) -> usize {
    charges
        .per_order
        .values()
        .filter(|times| **times > 1)
        .count()
}

#[track_caller]
pub(crate) fn assert_once_each(charges: &Charges) {
    assert_eq!(charges.per_order.len(), charges.published, "lost");
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
    assert_eq!(charges.per_order.len(), charges.published, "lost");
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
