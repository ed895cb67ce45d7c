//! What an operator sees of the tables, and changes in them, on a connection that is opened for it.

use std::sync::Arc;

use sqlx::{PgConnection, postgres::PgRow};
use tokio::sync::Mutex;

use super::{
    Names, PostgresStore,
    fault::unavailable,
    length::micros,
    link::{Address, Link, Work},
    migration,
    sessions::lock_wait,
};
use crate::{
    message::Key,
    store::{
        Look, Looked, StoreError,
        operator::{
            AuditEntry, Cursor, Intervened, Intervention, KeyState, Listing, OperatorStore, Page,
            ScopeCounts,
        },
    },
    stores::rows::{operator as rows, time},
};

mod intervening;
mod statements;

use intervening::Intervening;
use statements::Statements;

/// What only operators need.
#[derive(Clone)]
pub(super) struct Operator {
    link: Arc<Mutex<Link>>,
    sql: Arc<Statements>,
}

impl Operator {
    pub(super) fn new(address: &Address, names: &Names) -> Self {
        Self {
            link: Arc::new(Mutex::new(Link::new(address.clone()))),
            sql: Arc::new(Statements::new(names, &lock_wait(address.response_timeout))),
        }
    }

    async fn carry_out<W: Work>(&self, work: &W) -> Result<W::Done, StoreError> {
        let done = self.link.lock().await.carry_out(work).await;
        done.map_err(unavailable)
    }
}

/// One after the other, on a connection of its own: in nobody's way.
impl Look for PostgresStore {
    async fn look(&self, key: &Key) -> Result<Option<Looked>, StoreError> {
        let skew = self.clock.skew();
        let statement = || {
            sqlx::query(self.operator.sql.show.clone())
                .bind(skew)
                .bind(key.to_string())
        };
        let rows = self.operator.link.lock().await.fetch(statement).await;
        let rows = rows.map_err(unavailable)?;
        let row = rows.first();
        row.map(|row| rows::looked(key, row, now(row).map_err(unavailable)?))
            .transpose()
    }
}

impl OperatorStore for PostgresStore {
    /// Lists in the order of the keys.
    async fn list(&self, listing: &Listing) -> Result<Page, StoreError> {
        let skew = self.clock.skew();
        let limit = listing.limit.max(1);
        let statement = || {
            let after = listing.after.as_ref().map_or("", Cursor::as_str);
            sqlx::query(self.operator.sql.list.clone())
                .bind(skew)
                .bind(after.to_owned())
                .bind(listing.state.map(KeyState::as_str))
                .bind(micros(listing.older_than))
                .bind(listing.prefix.clone())
                .bind(listing.last())
                .bind(i64::from(limit))
        };
        let rows = self.operator.link.lock().await.fetch(statement).await;
        let rows = rows.map_err(unavailable)?;
        rows::page(&rows, rows.len() < limit as usize, now).map_err(unavailable)
    }

    async fn audit(&self, key: &Key) -> Result<Vec<AuditEntry>, StoreError> {
        let sql = &self.operator.sql;
        let rows = self.operator.carry_out(&Reading { sql, key }).await?;
        rows::audit(key, &rows)
    }

    async fn counts(&self) -> Result<Vec<ScopeCounts>, StoreError> {
        let skew = self.clock.skew();
        let statement = || sqlx::query(self.operator.sql.counts.clone()).bind(skew);
        let rows = self.operator.link.lock().await.fetch(statement).await;
        let rows = rows.map_err(unavailable)?;
        let counts = rows.iter().map(rows::counts).collect::<Result<_, _>>();
        counts.map_err(unavailable)
    }

    async fn intervene(&self, intervention: &Intervention) -> Result<Intervened, StoreError> {
        self.prepare().await?;
        let work = Intervening {
            sql: &self.operator.sql,
            intervention,
            skew: self.clock.skew(),
        };
        let done = self.operator.link.lock().await.carry_out(&work).await;
        done.map_err(|fault| fault.about(&intervention.key))?
    }

    async fn prepare(&self) -> Result<(), StoreError> {
        let work = Preparing {
            sql: &self.operator.sql,
            names: &self.names,
        };
        self.operator.carry_out(&work).await?
    }
}

/// Creates the table of interventions unless it is there.
struct Preparing<'a> {
    sql: &'a Statements,
    names: &'a Names,
}

impl Work for Preparing<'_> {
    type Done = Result<(), StoreError>;

    async fn on(&self, connection: &mut PgConnection) -> Result<Self::Done, sqlx::Error> {
        if self.sql.has_audit(connection).await? {
            return Ok(Ok(()));
        }
        let completed = migration::complete(connection, self.names).await;
        Ok(completed.map_err(|error| StoreError::Refused(Box::new(error))))
    }
}

/// Reads what was noted down about a key.
struct Reading<'a> {
    sql: &'a Statements,
    key: &'a Key,
}

impl Work for Reading<'_> {
    type Done = Vec<PgRow>;

    async fn on(&self, connection: &mut PgConnection) -> Result<Self::Done, sqlx::Error> {
        if !self.sql.has_audit(connection).await? {
            return Ok(Vec::new());
        }
        let audit = sqlx::query(self.sql.audit.clone()).bind(self.key.as_str());
        audit.fetch_all(connection).await
    }
}

/// The server's time when it told of a record.
fn now(row: &PgRow) -> Result<i64, sqlx::Error> {
    time(row, "now")
}
