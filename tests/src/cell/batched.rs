//! Handlers of several orders at once, in each mode and on each store.

use idem_amqp::{
    MemoryStore, PostgresStore, RedisStore, SqliteStore,
    prelude::*,
    sqlx::{PgConnection, SqliteConnection},
};

use super::{Charging, On};
use crate::{
    ledger::{Charge, in_postgres, in_sqlite},
    script::{Order, Script},
};

/// Several keys are held by one call, in this process.
pub type LeasedBatchesOnMemory = On<MemoryStore, charge_batch>;
/// Several keys are held by one call, in a file.
pub type LeasedBatchesOnSqlite = On<SqliteStore, charge_batch>;
/// Several keys are held by one call, in a database.
pub type LeasedBatchesOnPostgres = On<PostgresStore, charge_batch>;
/// Several keys are held by one call, under a prefix in Redis.
pub type LeasedBatchesOnRedis = On<RedisStore, charge_batch>;
/// Several charges and their records commit together, in a file.
pub type AtomicBatchesOnSqlite = On<SqliteStore, charge_batch_in_sqlite>;
/// Several charges and their records commit together, in a database.
pub type AtomicBatchesOnPostgres = On<PostgresStore, charge_batch_in_postgres>;

impl Charging for charge_batch {
    const COMMITS: bool = false;
}

impl Charging for charge_batch_in_sqlite {
    const COMMITS: bool = true;
}

impl Charging for charge_batch_in_postgres {
    const COMMITS: bool = true;
}

// An order waits for others, so that those of a test come together however busy the machine is.

/// Charges orders as the script says. It returns their ids.
///
/// # Errors
/// If the script says so.
#[idempotent(key = "id", scope = "orders.charge", batch = 8, batch_wait = "300ms")]
pub async fn charge_batch(
    orders: Batch<Order>,
    State(script): State<Script>,
) -> Result<Vec<String>, Failed> {
    script.begin_batch(&orders).await;
    script.end_batch(&orders)
}

/// Charges orders in the store's SQLite file, with nothing open while the script waits.
///
/// # Errors
/// If the script says so, or SQLite does.
#[idempotent(key = "id", scope = "orders.charge", batch = 8, batch_wait = "300ms")]
pub async fn charge_batch_in_sqlite(
    orders: Batch<Order>,
    State(script): State<Script>,
    db: &mut SqliteConnection,
) -> Result<Vec<String>, Failed> {
    script.begin_batch(&orders).await;
    for charge in charges(&orders) {
        in_sqlite::write(db, &charge).await?;
    }
    script.end_batch(&orders)
}

/// Charges orders in the store's `PostgreSQL` database, with one statement.
///
/// # Errors
/// If the script says so, or `PostgreSQL` does.
#[idempotent(key = "id", scope = "orders.charge", batch = 8, batch_wait = "300ms")]
pub async fn charge_batch_in_postgres(
    orders: Batch<Order>,
    State(script): State<Script>,
    db: &mut PgConnection,
) -> Result<Vec<String>, Failed> {
    charge_together(&orders, &script, db).await
}

async fn charge_together(
    orders: &Batch<Order>,
    script: &Script,
    db: &mut PgConnection,
) -> Result<Vec<String>, Failed> {
    script.begin_batch(orders).await;
    in_postgres::write_all(db, &charges(orders)).await?;
    script.end_batch(orders)
}

/// Charges the orders of a stream in the store's `PostgreSQL` database: its mark alone says which are done.
///
/// # Errors
/// If the script says so, or `PostgreSQL` does.
#[idempotent(key = position(), scope = "orders.charge", batch = 8)]
pub async fn charge_by_mark_in_postgres(
    orders: Batch<Order>,
    State(script): State<Script>,
    db: &mut PgConnection,
) -> Result<(), Failed> {
    charge_together(&orders, &script, db).await?;
    Ok(())
}

/// The same for a handler that orders what it handles: one that fails keeps its place.
///
/// # Errors
/// If the script says so, or `PostgreSQL` does.
#[idempotent(
    key = position(),
    scope = "orders.charge",
    batch = 8,
    ordered_by = "amount_cents"
)]
pub async fn charge_by_mark_in_order(
    orders: Batch<Order>,
    State(script): State<Script>,
    db: &mut PgConnection,
) -> Result<(), Failed> {
    charge_together(&orders, &script, db).await?;
    Ok(())
}

/// [`charge_by_mark_in_postgres`] in the store's SQLite file.
///
/// # Errors
/// If the script says so, or SQLite does.
#[idempotent(key = position(), scope = "orders.charge", batch = 8)]
pub async fn charge_by_mark_in_sqlite(
    orders: Batch<Order>,
    State(script): State<Script>,
    db: &mut SqliteConnection,
) -> Result<(), Failed> {
    script.begin_batch(&orders).await;
    for charge in charges(&orders) {
        in_sqlite::write(db, &charge).await?;
    }
    script.end_batch(&orders)?;
    Ok(())
}

fn charges(orders: &Batch<Order>) -> Vec<Charge> {
    let accepted = orders.accepted();
    accepted
        .map(|order| Charge::new(&order.id, order.attempt().number(), "here"))
        .collect()
}

/// The tests of [`on_each_store!`](crate::on_each_store), with handlers of several orders at once.
#[macro_export]
macro_rules! batches_on_each_store {
    ($($name:ident,)+) => { $(
        mod $name {
            $crate::on_cells! { $name
                leased_on_memory LeasedBatchesOnMemory,
                leased_on_sqlite LeasedBatchesOnSqlite,
                leased_on_postgres LeasedBatchesOnPostgres,
                leased_on_redis LeasedBatchesOnRedis,
                atomic_on_sqlite AtomicBatchesOnSqlite,
                atomic_on_postgres AtomicBatchesOnPostgres,
            }
        }
    )+ };
}
