//! Records of yesterday, beside which the orders of today are consumed.

use bench_orders::{Place, id};
use idem_amqp::sqlx::{self, Connection as _, PgConnection};

use crate::Result;

/// What to fill.
#[derive(Clone, Debug, clap::Args)]
#[group(id = "fill")]
pub(crate) struct Fill {
    /// A new database in PostgreSQL
    #[arg(long)]
    store_url: String,
    /// How many keys are completed in it
    #[arg(long)]
    records: u64,
}

/// Fills the table of a store, with keys among which those of the orders have their places.
pub(crate) async fn fill(options: &Fill) -> Result<()> {
    bench_stores::fill(&options.store_url, "idem_records", options.records, "ord-").await
}

/// What to forget.
#[derive(Clone, Debug, clap::Args)]
#[group(id = "forget")]
pub(crate) struct Forget {
    #[command(flatten)]
    place: Place,
    /// The database in PostgreSQL
    #[arg(long)]
    store_url: String,
}

/// Removes the orders that were consumed from the table, and leaves it as autovacuum would.
pub(crate) async fn forget(options: &Forget) -> Result<()> {
    let mut orders = options.place.orders();
    orders.sort_unstable();
    orders.dedup();
    let key = |&order| format!("orders.charge:{}", id(order));
    let keys: Vec<_> = orders.iter().map(key).collect();
    let mut connection = PgConnection::connect(&options.store_url).await?;
    let removed = sqlx::query("DELETE FROM idem_records WHERE key = ANY($1)")
        .bind(&keys)
        .execute(&mut connection)
        .await?
        .rows_affected();
    if removed != keys.len() as u64 {
        return Err(format!("{removed} of {} orders had a record", keys.len()).into());
    }
    for statement in ["VACUUM ANALYZE idem_records", "CHECKPOINT"] {
        sqlx::raw_sql(statement).execute(&mut connection).await?;
    }
    Ok(())
}
