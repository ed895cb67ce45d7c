//! What is promised on any store and in either mode, on each: a body of a test is generic in its [`Cell`], and
//! [`on_each_store!`](crate::on_each_store) makes a test of it for each store and mode that there is.
//!
//! `docs/proofs.md` names such a test without its cell; its column `runs on` is written from the macro's name.
// docs/decisions/0030

use std::{fmt, marker::PhantomData};

use idem_amqp::{
    MemoryStore, PostgresStore, RedisStore, SqliteStore, Worker, WorkerBuilder,
    executor::RunsOn,
    handler::Handler,
    prelude::*,
    sqlx::{PgConnection, SqliteConnection},
    store::Purge,
};

use crate::{
    bed::Bed,
    interfered::{Call, Fate, Interfered},
    ledger::{Charge, Ledger, in_postgres, in_sqlite},
    running::Running,
    script::{Order, Script, charge},
    store_at::{Product, StoreAt},
};

mod batched;
mod further;

pub use batched::{
    AtomicBatchesOnPostgres, AtomicBatchesOnSqlite, LeasedBatchesOnMemory, LeasedBatchesOnPostgres,
    LeasedBatchesOnRedis, LeasedBatchesOnSqlite, charge_batch, charge_batch_in_postgres,
    charge_batch_in_sqlite, charge_by_mark_in_order, charge_by_mark_in_postgres,
    charge_by_mark_in_sqlite,
};
pub use further::{
    AtomicBehindACache, AtomicBehindRedis, Further, LeasedBehindACacheOnPostgres,
    LeasedBehindACacheOnRedis, LeasedBehindRedis, LeasedOnRedisCluster,
};

/// A store of the test's own, and the mode of the handler on it.
pub trait Cell: Sized {
    /// What the store is.
    type Store: Purge + Clone + fmt::Debug;
    /// A handler of orders, which do what the script says.
    type Charge: Handler<Script, Mode: RunsOn<Interfered<Self::Store>>>;

    /// An empty store.
    fn open() -> impl Future<Output = Self>;

    /// The store.
    fn store(&self) -> Self::Store;

    /// The orders that were charged, as the mode counts them: by calls that returned `Ok`, or by what was committed.
    fn charged(&self, script: &Script) -> impl Future<Output = Vec<String>>;

    /// Between its calls the test comes.
    fn interfered(
        &self,
        plan: impl Fn(Call, u64) -> Fate + Send + Sync + 'static,
    ) -> Interfered<Self::Store> {
        Interfered::new(self.store(), plan)
    }

    /// A worker on the store, without a queue.
    fn worker(&self, script: &Script) -> WorkerBuilder<Interfered<Self::Store>, Script> {
        let store = self.interfered(|_, _| Fate::Pass);
        Worker::builder(store).state(script.clone())
    }

    /// Starts a worker on the bed's queue.
    fn charging(&self, bed: &Bed, script: &Script) -> Running {
        let store = self.interfered(|_, _| Fate::Pass);
        Self::charging_by(bed, store, script)
    }

    /// The same, with a store between whose calls the test comes.
    fn charging_by(bed: &Bed, store: Interfered<Self::Store>, script: &Script) -> Running {
        let worker = Worker::builder(store).state(script.clone());
        bed.start(worker.consume::<Self::Charge>(bed.queue()))
    }

    /// No order lost, none doubled: exactly these were charged, once each.
    fn assert_effects<I: AsRef<str>>(
        &self,
        script: &Script,
        ids: impl IntoIterator<Item = I>,
    ) -> impl Future<Output = ()> {
        let mut expected: Vec<_> = ids.into_iter().map(|id| id.as_ref().to_owned()).collect();
        expected.sort();
        async move {
            let mut charged = self.charged(script).await;
            charged.sort();
            assert_eq!(charged, expected, "effects, and the orders expected");
        }
    }
}

/// A store, and a handler in one of the two modes.
#[derive(Debug)]
pub struct On<S: Opened, H> {
    store: S::Store,
    ledger: Option<Ledger>,
    handler: PhantomData<fn(H)>,
}

/// At most one at a time holds the key, in this process.
pub type LeasedOnMemory = On<MemoryStore, charge>;
/// At most one at a time holds the key, in a file.
pub type LeasedOnSqlite = On<SqliteStore, charge>;
/// At most one at a time holds the key, in a database.
pub type LeasedOnPostgres = On<PostgresStore, charge>;
/// At most one at a time holds the key, under a prefix in Redis.
pub type LeasedOnRedis = On<RedisStore, charge>;
/// Charge and record commit together, in a file.
pub type AtomicOnSqlite = On<SqliteStore, charge_in_sqlite>;
/// Charge and record commit together, in a database.
pub type AtomicOnPostgres = On<PostgresStore, charge_in_postgres>;

impl<S, H> Cell for On<S, H>
where
    S: Opened,
    H: Charging + Handler<Script, Mode: RunsOn<Interfered<S::Store>>>,
{
    type Store = S::Store;
    type Charge = H;

    async fn open() -> Self {
        let (store, ledger) = S::open().await;
        Self {
            store,
            ledger,
            handler: PhantomData,
        }
    }

    fn store(&self) -> S::Store {
        self.store.clone()
    }

    async fn charged(&self, script: &Script) -> Vec<String> {
        if H::COMMITS {
            let ledger = self.ledger.as_ref().expect("its store has a ledger");
            let charges = ledger.charges().await;
            return charges.into_iter().map(|charge| charge.order_id).collect();
        }
        let effects = script.effects.entries();
        effects.into_iter().map(|call| call.id).collect()
    }
}

/// A store that a test opens for itself alone.
pub trait Opened {
    /// What it is.
    type Store: Purge + Clone + fmt::Debug;

    /// An empty one, and where atomic handlers write on it, if they can.
    fn open() -> impl Future<Output = (Self::Store, Option<Ledger>)>;
}

impl Opened for MemoryStore {
    type Store = Self;

    async fn open() -> (Self, Option<Ledger>) {
        (Self::new(), None)
    }
}

impl Opened for SqliteStore {
    type Store = Self;

    async fn open() -> (Self, Option<Ledger>) {
        let ledger = Ledger::on(Product::Sqlite).await;
        (ledger.store().open_sqlite().await, Some(ledger))
    }
}

impl Opened for PostgresStore {
    type Store = Self;

    async fn open() -> (Self, Option<Ledger>) {
        let ledger = Ledger::on(Product::Postgres).await;
        (ledger.store().open_postgres().await, Some(ledger))
    }
}

impl Opened for RedisStore {
    type Store = Self;

    async fn open() -> (Self, Option<Ledger>) {
        (StoreAt::redis().await.open_redis().await, None)
    }
}

/// A handler of orders, and whether what it does commits in the store.
pub trait Charging {
    /// Whether it does.
    const COMMITS: bool;
}

impl Charging for charge {
    const COMMITS: bool = false;
}

impl Charging for charge_in_sqlite {
    const COMMITS: bool = true;
}

impl Charging for charge_in_postgres {
    const COMMITS: bool = true;
}

/// Charges an order in the store's SQLite file: first of all, so that what fails has written. A slow order is charged
/// last, because nobody else can write while the script waits, not even the heartbeat.
///
/// # Errors
/// If the script says so, or SQLite does.
#[idempotent(key = "id", scope = "orders.charge")]
pub async fn charge_in_sqlite(
    order: Order,
    State(script): State<Script>,
    attempt: Attempt,
    delivery: Delivery,
    db: &mut SqliteConnection,
) -> Result<(), Failed> {
    let charge = Charge::new(&order.id, attempt.number(), "here");
    if order.is_slow() {
        script.play(order, attempt, delivery).await?;
        in_sqlite::write(db, &charge).await?;
        return Ok(());
    }
    in_sqlite::write(db, &charge).await?;
    script.play(order, attempt, delivery).await
}

/// The same in the store's `PostgreSQL` database.
///
/// # Errors
/// If the script says so, or `PostgreSQL` does.
#[idempotent(key = "id", scope = "orders.charge")]
pub async fn charge_in_postgres(
    order: Order,
    State(script): State<Script>,
    attempt: Attempt,
    delivery: Delivery,
    db: &mut PgConnection,
) -> Result<(), Failed> {
    let charge = Charge::new(&order.id, attempt.number(), "here");
    if order.is_slow() {
        script.play(order, attempt, delivery).await?;
        in_postgres::write(db, &charge).await?;
        return Ok(());
    }
    in_postgres::write(db, &charge).await?;
    script.play(order, attempt, delivery).await
}

/// Makes six tests of each function `async fn name<C: Cell>()`: leased on each store, atomic on those that can.
/// They are called `name::leased_on_redis` and the like.
#[macro_export]
macro_rules! on_each_store {
    ($($name:ident,)+) => { $(
        mod $name {
            $crate::on_cells! { $name
                leased_on_memory LeasedOnMemory,
                leased_on_sqlite LeasedOnSqlite,
                leased_on_postgres LeasedOnPostgres,
                leased_on_redis LeasedOnRedis,
                atomic_on_sqlite AtomicOnSqlite,
                atomic_on_postgres AtomicOnPostgres,
            }
        }
    )+ };
}

/// The same of leased handlers alone, where nothing is promised of atomic ones.
#[macro_export]
macro_rules! leased_on_each_store {
    ($($name:ident,)+) => { $(
        mod $name {
            $crate::on_cells! { $name
                leased_on_memory LeasedOnMemory,
                leased_on_sqlite LeasedOnSqlite,
                leased_on_postgres LeasedOnPostgres,
                leased_on_redis LeasedOnRedis,
            }
        }
    )+ };
}

/// The same of atomic handlers alone.
#[macro_export]
macro_rules! atomic_on_each_store {
    ($($name:ident,)+) => { $(
        mod $name {
            $crate::on_cells! { $name
                atomic_on_sqlite AtomicOnSqlite,
                atomic_on_postgres AtomicOnPostgres,
            }
        }
    )+ };
}

/// One test for each cell.
#[doc(hidden)]
#[macro_export]
macro_rules! on_cells {
    ($body:ident $($test:ident $cell:ident,)+) => {
        use super::$body as body;

        $crate::on_cells! { $($test $cell,)+ }
    };
    ($($test:ident $cell:ident,)+) => { $(
        #[tokio::test]
        async fn $test() {
            body::<$crate::cell::$cell>().await;
        }
    )+ };
}
