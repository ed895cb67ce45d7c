//! Handlers whose own table records, by a unique constraint, what was handled.

use std::{
    collections::HashMap,
    error::Error,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use sqlx::{AssertSqlSafe, PgConnection, PgTransaction, Row as _};

use super::{
    PostgresStore,
    atomic::PooledTransaction,
    exchange::Nonce,
    fault::{Fault, unavailable},
    link::{Address, Link, Statement},
    template::Hex,
};
use crate::{
    handler::RecordedRow,
    store::{Finished, Lease, RecordedByError, RecordedByStore, StoreError},
};

mod commit_error;
mod table;
mod violation;

use table::Table;

/// What is known of the constraints, and the connection to ask about them and by them.
#[derive(Clone)]
pub(super) struct RecordedTables {
    link: Arc<tokio::sync::Mutex<Link>>,
    tables: Arc<Mutex<HashMap<&'static str, Arc<Table>>>>,
}

impl RecordedTables {
    /// Connects when first asked.
    pub(super) fn new(address: Address) -> Self {
        Self {
            link: Arc::new(tokio::sync::Mutex::new(Link::new(address))),
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

    /// What was learnt is no longer so.
    fn forget(&self, constraint: &str) {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        tables.remove(constraint);
    }

    async fn fetch(
        &self,
        statement: impl Fn() -> Statement,
    ) -> Result<Vec<sqlx::postgres::PgRow>, Fault> {
        self.link.lock().await.fetch(statement).await
    }
}

/// Why nothing is known of a constraint.
enum Unknown {
    Unfit(String),
    Unanswered(StoreError),
}

impl Unknown {
    fn of(self, constraint: &str) -> RecordedByError {
        let constraint = constraint.to_owned();
        match self {
            Self::Unfit(reason) => RecordedByError::Unfit { constraint, reason },
            Self::Unanswered(source) => RecordedByError::Store { constraint, source },
        }
    }
}

impl From<Fault> for Unknown {
    fn from(fault: Fault) -> Self {
        Self::Unanswered(fault.unavailable())
    }
}

impl PostgresStore {
    /// The constraint's table, asked for once.
    async fn table(&self, entity: &RecordedRow) -> Result<Arc<Table>, StoreError> {
        let known = self.recorded_tables.known(entity.constraint);
        if let Some(table) = known.filter(|it| it.columns.len() == entity.parts.len()) {
            return Ok(table);
        }
        // Once for a constraint, so that the future is small for all the others.
        let examined = Box::pin(self.examine(entity.constraint, entity.parts.len())).await;
        examined.map_err(|unknown| match unknown {
            Unknown::Unanswered(error) => error,
            unfit @ Unknown::Unfit(_) => StoreError::Refused(Box::new(unfit.of(entity.constraint))),
        })
    }

    /// Looks at the constraint, and tries what is done with it.
    async fn examine(&self, constraint: &'static str, parts: usize) -> Result<Arc<Table>, Unknown> {
        let table = self.describe(constraint).await?;
        let columns = table.columns.len();
        if columns != parts {
            return Err(Unknown::Unfit(format!(
                "its columns are {columns} ({}), and the handler's key has {parts}: name one part \
                 of the key for each column, in their order",
                table.names()
            )));
        }
        self.rehearse(&table).await?;
        let table = Arc::new(table);
        self.recorded_tables.learn(constraint, &table);
        Ok(table)
    }

    async fn describe(&self, constraint: &'static str) -> Result<Table, Unknown> {
        let describe = || sqlx::query(include_str!("recorded_by/table.sql")).bind(constraint);
        let rows = self.recorded_tables.fetch(describe).await?;
        match rows.first() {
            None => Err(self.missing(constraint).await?),
            Some(row) => table::read(row)
                .map_err(Fault::from)?
                .map_err(Unknown::Unfit),
        }
    }

    /// Why there is no such constraint.
    async fn missing(&self, constraint: &'static str) -> Result<Unknown, Fault> {
        let elsewhere = || sqlx::query(include_str!("recorded_by/elsewhere.sql")).bind(constraint);
        let rows = self.recorded_tables.fetch(elsewhere).await?;
        let schemas: String = match rows.first() {
            Some(row) => row.try_get(0)?,
            None => String::new(),
        };
        Ok(Unknown::Unfit(if schemas.is_empty() {
            "the search_path leads to no unique constraint of this name: write its name, without \
             a schema, as `\\d` shows it, or add it with `ALTER TABLE … ADD CONSTRAINT … UNIQUE (…)`"
                .into()
        } else {
            format!(
                "there is one in {schemas}, where the search_path does not lead: add the schema \
                 to the role's search_path, or to the store's URL with `?options[search_path]=…`"
            )
        }))
    }

    /// Looks for an entity that nobody has, and ends a transaction that was not begun: whatever
    /// this role may not do shows now.
    async fn rehearse(&self, table: &Table) -> Result<(), Unknown> {
        let nobodys = || {
            let values = vec![None; table.columns.len()];
            self.look_up(table, values, None)
        };
        let unusable = |fault: Fault| match &fault {
            Fault::Said(error) if error.as_database_error().is_some() => Unknown::Unfit(format!(
                "this role cannot look for rows of {}, or the store's tables lack something: {fault}",
                table.title()
            )),
            _ => Unknown::from(fault),
        };
        self.recorded_tables
            .fetch(nobodys)
            .await
            .map_err(unusable)?;
        let end = || sqlx::query(self.sql.recorded.clone());
        match self.recorded_tables.fetch(end).await {
            Err(fault) if !fault.is_own_end() => Err(unusable(fault)),
            _ => Ok(()),
        }
    }

    fn look_up(
        &self,
        table: &Table,
        values: Vec<Option<String>>,
        lease: Option<&Lease>,
    ) -> Statement {
        let places = (3..).map(|place| format!("${place}::text"));
        let text = self.sql.look_up.as_str();
        let text = text.replace("{found}", &table.found(places));
        let statement = sqlx::query(AssertSqlSafe(text))
            .bind(lease.map(|lease| lease.key.as_str().to_owned()))
            .bind(lease.map(|lease| lease.token.get()));
        values.into_iter().fold(statement, sqlx::query::Query::bind)
    }

    /// Begins a transaction without a claim that is to leave this entity.
    pub(super) async fn open_for(
        &self,
        entity: &RecordedRow,
        wait: Duration,
    ) -> Result<PooledTransaction, StoreError> {
        let table = self.table(entity).await?;
        let wait = table.lock_timeout.map_or(wait, |server| server.min(wait));
        self.open_unclaimed(wait).await
    }

    /// Commits, if the transaction leaves this entity.
    pub(super) async fn commit_for(
        &self,
        open: PooledTransaction,
        entity: &RecordedRow,
        lease: Option<&Lease>,
    ) -> Result<Finished, StoreError> {
        let table = self.table(entity).await?;
        let nonce = Nonce::new();
        let statements = self.commitment(&table, entity, lease, nonce);
        match self.end_own(open, statements, nonce).await? {
            Ok(()) => Ok(Finished::Committed),
            Err(error) => {
                // It may be about a table that is no longer as it was.
                self.recorded_tables.forget(entity.constraint);
                commit_error::read_commit_error(error, entity.constraint, &table)
            }
        }
    }

    /// The text of the commit. Nothing of a message is put into it but hexadecimal digits.
    fn commitment(
        &self,
        table: &Table,
        entity: &RecordedRow,
        lease: Option<&Lease>,
        nonce: Nonce,
    ) -> String {
        let values = entity.parts.iter().map(|part| {
            format!(
                "convert_from(decode('{}', 'hex'), 'UTF8')",
                Hex(part.as_bytes())
            )
        });
        let key = lease.map_or("", |lease| lease.key.as_str());
        let token = lease.map_or_else(|| "NULL".to_owned(), |lease| lease.token.to_string());
        self.sql.commit_entity.fill(&[
            ("writers", &table.writers(values)),
            ("key", &Hex(key.as_bytes())),
            ("token", &token),
            ("nonce", &nonce),
        ])
    }

    async fn is_there(
        &self,
        entity: &RecordedRow,
        lease: Option<&Lease>,
    ) -> Result<bool, StoreError> {
        let table = self.table(entity).await?;
        let statement = || {
            let values = entity.parts.iter().cloned().map(Some).collect();
            self.look_up(&table, values, lease)
        };
        match self.recorded_tables.fetch(statement).await {
            Ok(rows) => match rows.first() {
                Some(row) => row.try_get(0).map_err(unavailable),
                None => Ok(false),
            },
            // No value of the columns' types: no row can have it.
            Err(fault) if fault.is_about_the_value() => Ok(false),
            Err(fault) => {
                self.recorded_tables.forget(entity.constraint);
                Err(fault.unavailable())
            }
        }
    }
}

macro_rules! entities {
    ($tx:ty) => {
        impl RecordedByStore<$tx> for PostgresStore {
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
                violation::violates(error, entity.constraint, table.as_deref())
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

entities!(PgConnection);
entities!(PgTransaction<'static>);

#[cfg(test)]
mod tests;
