//! Hosts that vanish: their links to broker and store fall silent, and nobody closes them.

use idem_servers::{postgres, redis};
use idem_tests::{
    bed::Bed,
    ledger::{Charge, Ledger},
    process::{Gate, Mode, Process, Settings},
    proxy::Proxy,
    servers::off_thread,
    store_at::StoreAt,
};

const LEDGER_WORKER: &str = env!("CARGO_BIN_EXE_ledger-worker");

/// A host vanishes in the middle of a handler, another one has a copy.
async fn charges_when_a_host_vanishes(store: StoreAt, port: u16, mode: Mode) -> Vec<Charge> {
    let bed = Bed::new().await;
    let ledger = Ledger::of(&store).await;
    let mut links = [
        Proxy::open(bed.broker().port()).await,
        Proxy::open(port).await,
    ];
    let [to_broker, to_store] = [0, 1].map(|link| links[link].port());
    let other = Settings::new(bed.url(), bed.name(), &ledger).with(|settings| {
        settings.mode = mode;
        settings.name = "other".into();
    });
    let vanishing = other.with(|settings| {
        settings.name = "vanished".into();
        settings.amqp_url = bed.url_by(to_broker, "?heartbeat=1");
        settings.store = store.by(to_store);
        settings.prefetch = 1;
        settings.gate = Some(Gate {
            file: ledger.file("gate"),
            blocking: false,
        });
    });
    let vanishing = Process::start(LEDGER_WORKER, &vanishing);
    bed.order("a").await;
    vanishing.started().await;
    for link in &mut links {
        link.close().await;
        link.freeze();
    }

    let other = Process::start(LEDGER_WORKER, &other);
    bed.order("a").await;
    other.ended("executed", 1).await;
    // The broker notices, too, and returns what the vanished one had.
    other.ended("duplicate", 1).await;
    drop(vanishing);
    other.stop().await;
    bed.assert_nothing_stuck().await;
    ledger.charges().await
}

/// A worker's host vanishes: its links fall silent, nobody closes them.
///
/// - does: gives the key to the first who asks after the end of the lease; the broker's heartbeat returns its messages
/// - atomic: once
/// - leased: in doubt
/// - settled by: `leases::the_next_worker_takes_over_as_soon_as_the_lease_of_a_vanished_one_has_run_out`
///   `leases::an_atomic_worker_that_vanished_is_followed_by_one_that_doubts_nothing`
#[tokio::test]
async fn a_vanished_host_frees_the_key_of_its_atomic_handler_on_postgres() {
    let port = off_thread(postgres::shared).await.port();
    let store = StoreAt::postgres().await;
    let charges = charges_when_a_host_vanishes(store, port, Mode::Atomic).await;
    assert_eq!(charges, [Charge::new("a", 2, "other")]);
}

/// Shares the promise of `vanished::a_vanished_host_frees_the_key_of_its_atomic_handler_on_postgres`.
#[tokio::test]
async fn a_vanished_host_frees_the_key_of_its_leased_handler_on_redis() {
    let port = off_thread(redis::shared).await.port();
    let store = StoreAt::redis().await;
    let charges = charges_when_a_host_vanishes(store, port, Mode::Leased).await;
    let both = [
        Charge::new("a", 1, "vanished"),
        Charge::new("a", 2, "other"),
    ];
    assert_eq!(charges, both);
}
