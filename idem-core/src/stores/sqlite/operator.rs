//! What an operator sees of the file, on a connection of its own, and changes in it, through the
//! writer.

use sqlx::{Connection as _, SqliteConnection, sqlite::SqliteRow};

use super::{
    SqliteStore,
    call::{Call, OperatorCall},
    fault::unavailable,
    row,
    sql::operator as sql,
};
use crate::{
    message::Key,
    store::{
        Finding, Look, Looked, StoreError,
        finding::UNPURGED_AFTER,
        operator::{
            AuditEntry, Cursor, Intervened, Intervention, KeyState, Listing, OperatorStore, Page,
            ScopeCounts,
        },
        rules::record::micros,
    },
    stores::rows::operator as rows,
};

mod intervening;

impl Look for SqliteStore {
    async fn look(&self, key: &Key) -> Result<Option<Looked>, StoreError> {
        let mut connection = self.reader().await?;
        let row: Option<SqliteRow> = sqlx::query(self.sql.operator.show.clone())
            .bind(row::text(key))
            .fetch_optional(&mut connection)
            .await
            .map_err(unavailable)?;
        self.close(connection).await?;
        let now = self.clock.now();
        row.map(|row| rows::looked(key, &row, now)).transpose()
    }
}

impl OperatorStore for SqliteStore {
    /// Lists in the order of the keys.
    async fn list(&self, listing: &Listing) -> Result<Page, StoreError> {
        let mut connection = self.reader().await?;
        let now = self.clock.now();
        let after = listing.after.as_ref().map_or("", Cursor::as_str);
        let rows = sqlx::query(self.sql.operator.list.clone())
            .bind(after.to_owned())
            .bind(listing.state.map(KeyState::as_str))
            .bind(now.saturating_sub(micros(listing.older_than)))
            .bind(listing.prefix.clone())
            .bind(listing.last())
            .bind(listing.limit.max(1))
            .fetch_all(&mut connection)
            .await;
        let rows = rows.map_err(unavailable)?;
        self.close(connection).await?;
        let is_last = rows.len() < listing.limit.max(1) as usize;
        rows::page(&rows, is_last, |_| Ok(now)).map_err(unavailable)
    }

    async fn audit(&self, key: &Key) -> Result<Vec<AuditEntry>, StoreError> {
        let mut connection = self.reader().await?;
        let sql = &self.sql.operator;
        let rows = if has_audit(&mut connection, sql).await.map_err(unavailable)? {
            let audit = sqlx::query(sql.audit.clone()).bind(row::text(key));
            audit.fetch_all(&mut connection).await
        } else {
            Ok(Vec::new())
        };
        let rows = rows.map_err(unavailable)?;
        self.close(connection).await?;
        rows::audit(key, &rows)
    }

    async fn counts(&self) -> Result<Vec<ScopeCounts>, StoreError> {
        let mut connection = self.reader().await?;
        let rows = sqlx::query(self.sql.operator.counts.clone())
            .bind(self.clock.now())
            .fetch_all(&mut connection)
            .await
            .map_err(unavailable)?;
        self.close(connection).await?;
        let counts = rows.iter().map(rows::counts).collect::<Result<_, _>>();
        counts.map_err(unavailable)
    }

    async fn intervene(&self, intervention: &Intervention) -> Result<Intervened, StoreError> {
        let intervention = intervention.clone();
        self.writer
            .call(|reply| {
                Call::Operator(OperatorCall::Intervene {
                    intervention,
                    reply,
                })
            })
            .await
    }

    async fn prepare(&self) -> Result<(), StoreError> {
        self.writer
            .call(|reply| Call::Operator(OperatorCall::Prepare { reply }))
            .await
    }
}

impl SqliteStore {
    /// What there is to say if nobody purges the file.
    pub(super) async fn unpurged(&self) -> Result<Option<Finding>, StoreError> {
        let mut connection = self.reader().await?;
        let since: Option<i64> = sqlx::query_scalar(self.sql.operator.unpurged.clone())
            .bind(self.clock.now())
            .bind(micros(UNPURGED_AFTER))
            .fetch_optional(&mut connection)
            .await
            .map_err(unavailable)?;
        self.close(connection).await?;
        Ok(since.map(Finding::unpurged))
    }

    /// Readers are in nobody's way, however much they read.
    pub(super) async fn reader(&self) -> Result<SqliteConnection, StoreError> {
        self.pool.connect().await.map_err(unavailable)
    }

    /// Waits until what a reader has seen is on the disk: an operator decides by it, and others may have committed it a
    /// moment ago.
    pub(super) async fn close(&self, connection: SqliteConnection) -> Result<(), StoreError> {
        // Nothing was written.
        let _ = connection.close().await;
        self.log.synced().await.map_err(unavailable)
    }
}

async fn has_audit(
    connection: &mut SqliteConnection,
    sql: &sql::Statements,
) -> Result<bool, sqlx::Error> {
    let tables: i64 = sqlx::query_scalar(sql.has_audit.clone())
        .fetch_one(connection)
        .await?;
    Ok(tables > 0)
}
