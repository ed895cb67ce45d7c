//! The business of atomic contestants: one row per order.

use bench_driver::consume::Contestant;
use bench_orders::{Options, Order};
use idem_amqp::Failed;
use idem_amqp::sqlx::{
    self, ConnectOptions as _, Connection as _, PgConnection, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};

use crate::Result;

const TABLE: &str = "CREATE TABLE charges (order_id text NOT NULL, amount_cents bigint NOT NULL)";
const COUNT: &str = "SELECT count(*), count(DISTINCT order_id) FROM charges";

/// The table of charges, looked at from outside.
#[derive(Debug)]
pub(crate) enum Charges {
    Postgres(PgConnection),
    Sqlite(SqliteConnection),
}

impl Charges {
    /// A new table, if the contestant is one that charges.
    pub(crate) async fn of(options: &Options) -> Result<Option<Self>> {
        let charges = match options.contestant {
            Contestant::HandwrittenPostgresAtomic
            | Contestant::HandwrittenPostgresOutbox
            | Contestant::IdemPostgresAtomic
            | Contestant::IdemPostgresAtomicOutbox
            | Contestant::IdemPostgresBatchOutbox
            | Contestant::IdemPostgresGrouped
            | Contestant::IdemPostgresBatch
            | Contestant::HandwrittenPostgresSetwise64
            | Contestant::HandwrittenPostgresSetwise
            | Contestant::HandwrittenPostgresSavepoints
            | Contestant::HandwrittenPostgresOffset
            | Contestant::IdemPostgresByMark => {
                let mut connection = PgConnection::connect(options.store_url()?).await?;
                sqlx::raw_sql(TABLE).execute(&mut connection).await?;
                Self::Postgres(connection)
            }
            Contestant::HandwrittenSqliteAtomic
            | Contestant::HandwrittenSqliteSavepoints
            | Contestant::IdemSqliteAtomic
            | Contestant::IdemSqliteAtomicOutbox
            | Contestant::IdemSqliteBatch
            | Contestant::IdemSqliteBatchOutbox => {
                let mut connection = sqlite(options.store_url()?).await?;
                sqlx::raw_sql(TABLE).execute(&mut connection).await?;
                Self::Sqlite(connection)
            }
            _ => return Ok(None),
        };
        Ok(Some(charges))
    }

    /// Makes sure that so many orders were charged, each once.
    pub(crate) async fn number(self, orders: usize) -> Result<()> {
        let (rows, distinct): (i64, i64) = match self {
            Self::Postgres(mut connection) => {
                sqlx::query_as(COUNT).fetch_one(&mut connection).await?
            }
            Self::Sqlite(mut connection) => {
                sqlx::query_as(COUNT).fetch_one(&mut connection).await?
            }
        };
        let orders = i64::try_from(orders)?;
        if (rows, distinct) != (orders, orders) {
            return Err(format!("{rows} charges of {distinct} orders instead of {orders}").into());
        }
        Ok(())
    }
}

/// A connection to a file, which a power loss takes nothing from.
pub(crate) async fn sqlite(url: &str) -> Result<SqliteConnection> {
    let options: SqliteConnectOptions = url.parse()?;
    let options = options
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full);
    Ok(options.connect().await?)
}

/// Charges an order.
pub(crate) async fn charge(db: &mut PgConnection, order: &Order) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO charges (order_id, amount_cents) VALUES ($1, $2)")
        .bind(&order.id)
        .bind(order.amount_cents)
        .execute(db)
        .await
        .map(drop)
}

/// Charges an order in a SQLite file.
pub(crate) async fn charge_in_file(
    db: &mut SqliteConnection,
    order: &Order,
) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO charges (order_id, amount_cents) VALUES (?, ?)")
        .bind(&order.id)
        .bind(order.amount_cents)
        .execute(db)
        .await
        .map(drop)
}

/// Charges orders with one statement.
pub(crate) async fn charge_all<'a>(
    db: &mut PgConnection,
    orders: impl Iterator<Item = &'a Order>,
) -> Result<(), sqlx::Error> {
    let (ids, cents): (Vec<_>, Vec<_>) =
        orders.map(|order| (&*order.id, order.amount_cents)).unzip();
    sqlx::query(
        "INSERT INTO charges (order_id, amount_cents) SELECT * FROM unnest($1::text[], $2::bigint[])",
    )
    .bind(ids)
    .bind(cents)
    .execute(db)
    .await
    .map(drop)
}

/// Charges orders in a SQLite file with one statement.
pub(crate) async fn charge_all_in_file<'a>(
    db: &mut SqliteConnection,
    orders: impl Iterator<Item = &'a Order>,
) -> Result<(), Failed> {
    let rows: Vec<_> = orders
        .map(|order| (&*order.id, order.amount_cents))
        .collect();
    sqlx::query(
        "INSERT INTO charges (order_id, amount_cents) SELECT value ->> 0, value ->> 1 FROM json_each(?)",
    )
    .bind(serde_json::to_string(&rows)?)
    .execute(db)
    .await?;
    Ok(())
}
