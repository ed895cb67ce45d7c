//! Stores whose disk is full: they answer, and take no more writes until there is room.

use std::{fs::File, io::Write as _, sync::Arc};

use idem_amqp::{
    Worker,
    executor::ExecutionKind as Kind,
    worker::{Health, ProblemKind},
};
use idem_servers::Postgres;
use idem_tests::{
    bed::Bed,
    cell::charge_in_postgres,
    journal::eventually,
    ledger::Ledger,
    process::{Mode, Process, Settings},
    running::{Running, assert_balance},
    script::Script,
    servers::off_thread,
    store_at::StoreAt,
};

use crate::fail_open::{failing_open, reports};

const LEDGER_WORKER: &str = env!("CARGO_BIN_EXE_ledger-worker");

/// More than what is left of the pages that tables and indexes have when the disk is full.
const ORDERS: usize = 400;

fn orders() -> Vec<String> {
    (0..ORDERS).map(|number| format!("o-{number}")).collect()
}

/// A `PostgreSQL` with a small disk, and a store in it.
struct OnDisk {
    server: Arc<Postgres>,
    store: StoreAt,
    bed: Bed,
    /// Whether the server may crash with claims of atomic handlers that are not on its disk. Such an attempt has lost
    /// its lease, and commits nothing; its message comes again.
    forgets_claims: bool,
}

impl OnDisk {
    /// The store's tables are on the disk.
    async fn start() -> Self {
        let server = Arc::new(off_thread(Postgres::start_beside_a_disk).await);
        Self {
            store: StoreAt::postgres_on_disk(&server).await,
            server,
            bed: Bed::new().await,
            forgets_claims: false,
        }
    }

    /// The server's log of transactions is on the disk.
    async fn start_with_the_log() -> Self {
        let server = Arc::new(off_thread(Postgres::start_with_its_log_on_a_disk).await);
        Self {
            store: StoreAt::postgres_on(&server).await,
            server,
            bed: Bed::new().await,
            forgets_claims: false,
        }
    }

    async fn fill(&self) {
        let server = Arc::clone(&self.server);
        off_thread(move || server.fill_disk()).await;
    }

    async fn empty(&self) {
        let server = Arc::clone(&self.server);
        off_thread(move || server.empty_disk()).await;
    }

    /// An order is charged, then the disk is full, then all come.
    async fn fill_and_send_all(&self, worker: &Running) {
        self.bed.order("first").await;
        worker.ended(Kind::Executed, 1).await;
        self.fill().await;
        for id in orders() {
            self.bed.order(&id).await;
        }
    }

    /// Some wait, and say why; when there is room they are charged, and all are known.
    async fn end_as_if_it_had_been_away(self, worker: Running) {
        let waits = |health: &Health| {
            let problems = health.problems();
            problems
                .iter()
                .any(|problem| problem.kind == ProblemKind::StoreUnavailable)
        };
        worker.until("messages wait for the store", waits).await;
        let told = worker.health().to_string();
        self.empty().await;
        worker.ended(Kind::Executed, ORDERS + 1).await;
        for id in orders() {
            self.bed.order(&id).await;
        }
        worker.ended(Kind::Duplicate, ORDERS).await;
        let all = ORDERS as u64;
        let balance = worker.stop().await;
        let [executed, copies] = [(Kind::Executed, all + 1), (Kind::Duplicate, all)];
        match balance.of(Kind::LeaseLost) {
            0 => assert_balance(&balance, [executed, copies]),
            lost => {
                assert!(self.forgets_claims, "{balance}");
                assert_balance(&balance, [executed, copies, (Kind::LeaseLost, lost)]);
            }
        }
        assert!(told.contains("store"), "{told}");
        self.bed.assert_nothing_stuck().await;
    }
}

/// The disk of PostgreSQL is full.
///
/// - does: lets messages wait whose records find no room, and goes on by itself when there is room; dead-letters
///   nothing
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn while_the_disk_of_postgres_is_full_messages_wait() {
    charge_over_a_full_disk(OnDisk::start().await).await;
}

async fn charge_over_a_full_disk(disk: OnDisk) {
    let script = Script::succeeding();
    let store = disk.store.open_postgres().await;
    let worker = disk.bed.charging(store, &script);
    disk.fill_and_send_all(&worker).await;
    disk.end_as_if_it_had_been_away(worker).await;
    script.assert_effects(["first".to_owned()].into_iter().chain(orders()));
}

/// Shares the promise of `full_disk::while_the_disk_of_postgres_is_full_messages_wait`.
#[tokio::test]
async fn while_the_disk_of_postgres_is_full_messages_of_atomic_handlers_wait() {
    charge_atomically_over_a_full_disk(OnDisk::start().await).await;
}

async fn charge_atomically_over_a_full_disk(disk: OnDisk) {
    let (ledger, _server) = (Ledger::of(&disk.store).await, Arc::clone(&disk.server));
    let worker = Worker::builder(disk.store.open_postgres().await).state(Script::succeeding());
    let worker = disk
        .bed
        .start(worker.consume::<charge_in_postgres>(disk.bed.queue()));
    disk.fill_and_send_all(&worker).await;
    disk.end_as_if_it_had_been_away(worker).await;
    let charges = ledger.charges_per_order().await;
    assert_eq!(charges.len(), ORDERS + 1);
    assert!(charges.values().all(|times| *times == 1), "{charges:?}");
}

/// The disk with PostgreSQL's log of transactions is full: PostgreSQL ends itself, and is started again when there is
/// room.
///
/// - does: lets messages wait, and goes on by itself when PostgreSQL is back; dead-letters nothing
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn while_the_disk_of_postgres_log_is_full_messages_wait() {
    charge_over_a_full_disk(OnDisk::start_with_the_log().await).await;
}

/// Shares the promise of `full_disk::while_the_disk_of_postgres_log_is_full_messages_wait`.
#[tokio::test]
async fn while_the_disk_of_postgres_log_is_full_messages_of_atomic_handlers_wait() {
    let disk = OnDisk {
        forgets_claims: true,
        ..OnDisk::start_with_the_log().await
    };
    charge_atomically_over_a_full_disk(disk).await;
}

/// The disk of PostgreSQL is full, and the handler fails open.
///
/// - does: runs its messages, acknowledges them, tells PostgreSQL when there is room
/// - leased: once, if nobody else runs it
#[tokio::test]
async fn while_the_disk_of_postgres_is_full_a_handler_that_fails_open_runs() {
    let disk = OnDisk::start().await;
    let script = Script::succeeding();
    let store = disk.store.open_postgres().await;
    let worker = failing_open(&disk.bed, store.clone(), &script);
    let worker = disk.bed.start(worker);
    disk.fill_and_send_all(&worker).await;
    let settled = &worker.settled;
    settled.count("all are charged", ORDERS + 1).await;
    disk.bed.until_settled().await;

    disk.empty().await;
    let balance = worker.stop().await;
    let (protected, unprotected) = (balance.of(Kind::Executed), balance.of(Kind::Unprotected));
    assert_eq!(protected + unprotected, ORDERS as u64 + 1, "{balance}");
    assert!(unprotected > 0, "the disk was not full");
    assert_eq!(reports(&balance), (unprotected, 0, 0));
    let other = disk.bed.charging(store, &script);
    for id in orders() {
        disk.bed.order(&id).await;
    }
    other.ended(Kind::Duplicate, ORDERS).await;
    assert_balance(&other.stop().await, [(Kind::Duplicate, ORDERS as u64)]);
    script.assert_effects(["first".to_owned()].into_iter().chain(orders()));
    disk.bed.assert_nothing_stuck().await;
}

/// The disk with the SQLite file is full.
///
/// - does: lets messages wait, and goes on by itself when there is room; dead-letters nothing
/// - leased: once
#[tokio::test]
async fn while_the_disk_of_sqlite_is_full_messages_wait() {
    let bed = Bed::new().await;
    let folder = tempfile::tempdir().unwrap();
    let ledger = Ledger::of(&StoreAt::sqlite(&folder.path().join("idem.db"))).await;
    let settings =
        Settings::new(bed.url(), bed.name(), &ledger).with(|settings| settings.mode = Mode::Leased);
    // With room for the log, which grows to 4 MiB.
    let size = 16 * 1024 * 1024;
    let worker = Process::start_beside_a_disk(folder.path(), size, LEDGER_WORKER, &settings);
    bed.order("first").await;
    worker.ended("executed", 1).await;
    let ballast = worker.from_here(&folder.path().join("ballast"));
    let too_much = vec![0; 2 * 16 * 1024 * 1024];
    let full = File::create(&ballast).unwrap().write_all(&too_much);
    assert!(full.is_err(), "the disk takes more than it has room for");
    for id in orders() {
        bed.order(&id).await;
    }
    eventually("messages wait for the store", async || {
        let log = worker.log.entries();
        let says = |line: &String| line.contains("database or disk is full");
        if log.iter().any(says) {
            Ok(())
        } else {
            Err(log.len())
        }
    })
    .await;
    std::fs::remove_file(&ballast).unwrap();
    worker.ended("executed", ORDERS + 1).await;
    for id in orders() {
        bed.order(&id).await;
    }
    worker.ended("duplicate", ORDERS).await;
    let ends = [("executed", ORDERS + 1), ("duplicate", ORDERS)];
    let ends = ends.map(|(kind, times)| (kind.to_owned(), times as u64));
    assert_eq!(worker.stop().await, ends);
    let charges = ledger.charges_per_order().await;
    assert_eq!(charges.len(), ORDERS + 1);
    assert!(charges.values().all(|times| *times == 1), "{charges:?}");
    bed.assert_nothing_stuck().await;
}
