//! Handlers whose own table records, by a unique index, what was handled.
//!
//! A transaction has inserted the row itself if the row is there for the transaction and not for anybody else: it has
//! the write lock, so nobody else commits meanwhile.
//!
//! What must stay true:
//!
//! - The write lock is taken before the two looks.
//! - Nothing is committed without the row.
//! - A row is on the disk before anybody is told that it is there.

use std::{
    collections::HashMap,
    error::Error,
    sync::{Arc, PoisonError},
};

use sqlx::{
    AssertSqlSafe, Row as _, Sqlite, SqliteConnection, Transaction, error::DatabaseError,
    query::Query, sqlite::SqliteArguments,
};

use super::{
    SqliteStore,
    atomic::{self, OpenTransaction, roll_back},
    fault::unavailable,
    transaction_pool::TransactionPool,
};
use crate::{
    handler::RecordedRow,
    store::{Finished, Lease, RecordedByError, RecordedByStore, StoreError},
};

/// What is known of the indexes, and the connections that look for what is committed, and remove its claims.
#[derive(Clone)]
pub(super) struct RecordedTables {
    reader: Arc<tokio::sync::Mutex<Option<SqliteConnection>>>,
    remover: Arc<tokio::sync::Mutex<Option<SqliteConnection>>>,
    tables: Arc<std::sync::Mutex<HashMap<&'static str, Arc<Table>>>>,
}

/// A table of the handlers', and the columns of its unique index.
#[derive(Debug)]
struct Table {
    name: String,
    columns: Vec<Column>,
}

#[derive(Debug)]
struct Column {
    name: String,
    collation: String,
}

/// Why nothing is known of an index.
enum Unknown {
    Unfit(String),
    Store(sqlx::Error),
}

impl RecordedTables {
    /// Connects when first asked.
    pub(super) fn new() -> Self {
        Self {
            reader: Arc::default(),
            remover: Arc::default(),
            tables: Arc::default(),
        }
    }

    fn known(&self, constraint: &str) -> Option<Arc<Table>> {
        let tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        tables.get(constraint).cloned()
    }

    fn learn(&self, constraint: &'static str, table: &Arc<Table>) {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        tables.insert(constraint, Arc::clone(table));
    }

    /// Asks on a connection that is in no transaction.
    async fn outside<T>(
        &self,
        pool: &TransactionPool,
        ask: impl AsyncFnOnce(&mut SqliteConnection) -> Result<T, sqlx::Error>,
    ) -> Result<T, sqlx::Error> {
        on_kept(&self.reader, pool, ask).await
    }

    /// Removes the claim of a message whose row is there. Not by the connection that looks: whoever has the write lock
    /// waits for that one before it commits.
    async fn remove(
        &self,
        pool: &TransactionPool,
        remove: Query<'_, Sqlite, SqliteArguments>,
    ) -> Result<(), sqlx::Error> {
        let removed = on_kept(&self.remover, pool, async |connection| {
            remove.execute(connection).await
        });
        removed.await.map(drop)
    }
}

/// Asks on a connection that is kept for the next. If this is dropped half way, the next caller opens another.
async fn on_kept<T>(
    kept: &tokio::sync::Mutex<Option<SqliteConnection>>,
    pool: &TransactionPool,
    ask: impl AsyncFnOnce(&mut SqliteConnection) -> Result<T, sqlx::Error>,
) -> Result<T, sqlx::Error> {
    let mut kept = kept.lock().await;
    let mut connection = match kept.take() {
        Some(connection) => connection,
        None => pool.connect().await?,
    };
    let answer = ask(&mut connection).await?;
    *kept = Some(connection);
    Ok(answer)
}

impl Table {
    /// Whether it holds these values. Each is compared as its index compares it; numbers are compared as numbers.
    fn holds(&self) -> String {
        let conditions = self.columns.iter().enumerate().map(|(place, column)| {
            let (name, collation) = (quoted(&column.name), quoted(&column.collation));
            format!("{name} = ?{} COLLATE {collation}", place + 1)
        });
        let conditions: Vec<_> = conditions.collect();
        let table = quoted(&self.name);
        format!(
            "SELECT EXISTS (SELECT 1 FROM {table} WHERE {})",
            conditions.join(" AND ")
        )
    }

    async fn look(
        &self,
        entity: &RecordedRow,
        connection: &mut SqliteConnection,
    ) -> Result<bool, sqlx::Error> {
        // Quoted names and places are all that is put in.
        let look = sqlx::query_scalar::<_, bool>(AssertSqlSafe(self.holds()));
        let parts = entity.parts.iter();
        let look = parts.fold(look, |look, part| look.bind(part.clone()));
        look.fetch_one(connection).await
    }

    fn names(&self) -> String {
        let names: Vec<_> = self.columns.iter().map(|column| &*column.name).collect();
        names.join(", ")
    }

    /// What SQLite says of a violation. It names the columns, not the index.
    fn violation(&self) -> String {
        let columns = self.columns.iter();
        let columns: Vec<_> = columns
            .map(|column| format!("{}.{}", self.name, column.name))
            .collect();
        format!("UNIQUE constraint failed: {}", columns.join(", "))
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

impl SqliteStore {
    /// The index's table, asked for once.
    async fn recording_table(&self, entity: &RecordedRow) -> Result<Arc<Table>, StoreError> {
        let known = self.recorded_tables.known(entity.constraint);
        if let Some(table) = known.filter(|it| it.columns.len() == entity.parts.len()) {
            return Ok(table);
        }
        let examined = self.examine(entity.constraint, entity.parts.len()).await;
        examined.map_err(|unknown| match unknown.of(entity.constraint) {
            RecordedByError::Store { source, .. } => source,
            unfit => StoreError::Refused(Box::new(unfit)),
        })
    }

    async fn examine(&self, constraint: &'static str, parts: usize) -> Result<Arc<Table>, Unknown> {
        let describe = sqlx::query(include_str!("recorded_by/index.sql")).bind(constraint);
        let described = self
            .recorded_tables
            .outside(&self.pool, async |connection| {
                describe.fetch_optional(connection).await
            });
        let Some(row) = described.await? else {
            return Err(Unknown::Unfit(
                "the file has no index of this name: add it with `CREATE UNIQUE INDEX … ON … (…)`. A constraint of a \
                 table has the index that `PRAGMA index_list` names"
                    .into(),
            ));
        };
        let (name, columns): (String, String) = (row.try_get("table")?, row.try_get("columns")?);
        if !row.try_get::<bool, _>("is_unique")? {
            return Err(Unknown::Unfit("it is not unique".into()));
        }
        if row.try_get::<bool, _>("is_partial")? {
            return Err(Unknown::Unfit(
                "it is partial, so it lets copies of other rows pass: use one without `WHERE`"
                    .into(),
            ));
        }
        let columns: Vec<(Option<String>, String)> =
            serde_json::from_str(&columns).expect("SQLite writes JSON");
        let columns = columns.into_iter().map(|(name, collation)| {
            let name = name.ok_or_else(|| {
                let why =
                    "it is on an expression: use one on columns, which hold the parts of the key";
                Unknown::Unfit(why.into())
            })?;
            Ok(Column { name, collation })
        });
        let columns = columns.collect::<Result<_, Unknown>>()?;
        let table = Table { name, columns };
        if table.columns.len() != parts {
            return Err(Unknown::Unfit(format!(
                "its columns are {} ({}), and the handler's key has {parts}: name one part of the key for each column, \
                 in their order",
                table.columns.len(),
                table.names()
            )));
        }
        let table = Arc::new(table);
        self.recorded_tables.learn(constraint, &table);
        Ok(table)
    }

    /// Begins a transaction without a claim that is to leave this row.
    pub(super) async fn open_recorded(
        &self,
        entity: &RecordedRow,
    ) -> Result<OpenTransaction, StoreError> {
        self.recording_table(entity).await?;
        self.open_unclaimed().await
    }

    /// Commits, if the transaction leaves this row.
    pub(super) async fn finish_recorded(
        &self,
        mut lent: OpenTransaction,
        entity: &RecordedRow,
        lease: Option<&Lease>,
    ) -> Result<Finished, StoreError> {
        let table = match self.recording_table(entity).await {
            Ok(table) => table,
            Err(error) => {
                roll_back(lent).await;
                return Err(error);
            }
        };
        let objection = self.objection(lent.transaction(), &table, entity, lease);
        match objection.await {
            Ok(None) => self.commit_recorded(lent).await,
            Ok(Some(objection)) => {
                roll_back(lent).await;
                Ok(objection)
            }
            Err(error) => {
                roll_back(lent).await;
                atomic::not_committed(error)
            }
        }
    }

    /// What speaks against a commit.
    async fn objection(
        &self,
        transaction: &mut SqliteConnection,
        table: &Table,
        entity: &RecordedRow,
        lease: Option<&Lease>,
    ) -> Result<Option<Finished>, sqlx::Error> {
        sqlx::query(self.sql.end_recorded.clone())
            .bind(lease.map(|lease| lease.key.as_str().to_owned()))
            .bind(lease.map(|lease| lease.token.get()))
            .fetch_all(&mut *transaction)
            .await?;
        let constraint = entity.constraint;
        let (title, names) = (&table.name, table.names());
        if !table.look(entity, transaction).await? {
            let error = format!(
                "the handler returned `Ok` and left no row in `{title}` that has the message's key in the columns of \
                 `{constraint}` ({names}), so a copy of the message would run again: insert it, without `OR IGNORE`"
            );
            return Ok(Some(Finished::Refused { error }));
        }
        let was_there = self
            .recorded_tables
            .outside(&self.pool, async |connection| {
                table.look(entity, connection).await
            });
        if was_there.await? {
            let error = format!(
                "the handler returned `Ok`, and the row in `{title}` that has the message's key in the columns of \
                 `{constraint}` ({names}) was there before and is none that it has inserted, so what it did was rolled \
                 back: let the insert fail where the row is there, without `OR IGNORE`"
            );
            return Ok(Some(Finished::Violated { error }));
        }
        Ok(None)
    }

    async fn is_there(
        &self,
        entity: &RecordedRow,
        lease: Option<&Lease>,
    ) -> Result<bool, StoreError> {
        let table = self.recording_table(entity).await?;
        let remove = || {
            let lease = lease?;
            let remove = sqlx::query(self.sql.remove_recorded.clone());
            Some(
                remove
                    .bind(lease.key.as_str().to_owned())
                    .bind(lease.token.get()),
            )
        };
        let looked = self
            .recorded_tables
            .outside(&self.pool, async |connection| {
                table.look(entity, connection).await
            });
        let is_there = looked.await.map_err(unavailable)?;
        if is_there {
            if let Some(remove) = remove() {
                let removed = self.recorded_tables.remove(&self.pool, remove);
                removed.await.map_err(unavailable)?;
            }
            // Whoever has committed it may not have synced it yet, and a copy is acknowledged by this answer.
            let synced = self.log.synced().await;
            synced.map_err(unavailable)?;
        }
        Ok(is_there)
    }
}

impl Unknown {
    fn of(self, constraint: &str) -> RecordedByError {
        let constraint = constraint.to_owned();
        match self {
            Self::Unfit(reason) => RecordedByError::Unfit { constraint, reason },
            Self::Store(error) => RecordedByError::Store {
                constraint,
                source: unavailable(error),
            },
        }
    }
}

impl From<sqlx::Error> for Unknown {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error)
    }
}

/// Whether this error, or what caused it, is the violation of the table's index.
fn violates(error: &(dyn Error + 'static), table: &Table) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        let by_the_driver = || error.downcast_ref::<sqlx::Error>()?.as_database_error();
        // All that is left in the chain where an enum passes the driver's error on as its own.
        let boxed = || {
            error
                .downcast_ref::<Box<dyn DatabaseError>>()
                .map(|it| &**it)
        };
        if by_the_driver()
            .or_else(boxed)
            .is_some_and(|said| is_of(said, table))
        {
            return true;
        }
        next = error.source();
    }
    false
}

fn is_of(said: &dyn DatabaseError, table: &Table) -> bool {
    said.is_unique_violation() && said.message() == table.violation()
}

macro_rules! recorded_by {
    ($tx:ty) => {
        impl RecordedByStore<$tx> for SqliteStore {
            async fn check(
                &self,
                constraint: &'static str,
                columns: usize,
            ) -> Result<(), RecordedByError> {
                let examined = self.examine(constraint, columns).await;
                examined.map(drop).map_err(|unknown| unknown.of(constraint))
            }

            fn violates(&self, error: &(dyn Error + 'static), entity: &RecordedRow) -> bool {
                let table = self.recorded_tables.known(entity.constraint);
                table.is_some_and(|table| violates(error, &table))
            }

            async fn is_recorded(
                &self,
                entity: &RecordedRow,
                lease: Option<&Lease>,
            ) -> Result<bool, StoreError> {
                self.is_there(entity, lease).await
            }
        }
    };
}

recorded_by!(SqliteConnection);
recorded_by!(Transaction<'static, Sqlite>);

#[cfg(test)]
mod tests;
