//! A store's own table, filled with completed records.

use idem_core::{
    PostgresStore,
    sqlx::{self, AssertSqlSafe, Connection, PgConnection},
};

use crate::Result;

/// How many records are written at once. After that the log is cut off: it would else become as
/// long as the table.
const STEP: i64 = 1_000_000;

/// Creates the table as the store does and fills it with records of the scope `orders.charge`, named
/// by 16 random hexadecimal digits behind `prefix`. It is left as after long use: analysed, marked as
/// visible to all, and with nothing left to be written to disk.
///
/// # Errors
/// The server is not there or refuses something; the table is not new.
pub async fn fill(url: &str, table: &str, records: u64, prefix: &str) -> Result<()> {
    PostgresStore::builder(url).table(table).build().await?;
    let mut connection = PgConnection::connect(url).await?;
    // Indexes that are built afterwards are built much faster.
    execute(
        &mut connection,
        format!(
            "ALTER TABLE {table} DROP CONSTRAINT {table}_pkey; DROP INDEX {table}_purge_after;
             SET maintenance_work_mem = '512MB'"
        ),
    )
    .await?;
    let statement = include_str!("completed/fill.sql").replace("crowd", table);
    let records = i64::try_from(records)?;
    let mut written = 0;
    while written < records {
        let step = STEP.min(records - written);
        sqlx::query(AssertSqlSafe(statement.as_str()))
            .bind(written)
            .bind(step)
            .bind(prefix)
            .execute(&mut connection)
            .await?;
        execute(&mut connection, "CHECKPOINT".to_owned()).await?;
        written += step;
    }
    execute(
        &mut connection,
        format!(
            "ALTER TABLE {table} ADD PRIMARY KEY (key);
             CREATE INDEX {table}_purge_after ON {table} (purge_after)"
        ),
    )
    .await?;
    execute(&mut connection, format!("VACUUM ANALYZE {table}")).await?;
    execute(&mut connection, "CHECKPOINT".to_owned()).await
}

async fn execute(connection: &mut PgConnection, statements: String) -> Result<()> {
    sqlx::raw_sql(AssertSqlSafe(statements))
        .execute(connection)
        .await?;
    Ok(())
}
