//! Streams: one statement for each call, on a connection of their own.

use std::{sync::Arc, time::Duration};

use sqlx::{AssertSqlSafe, Row as _, SqlSafeStr as _, SqlStr, postgres::PgRow};
use tokio::sync::Mutex;

use super::{
    Names, PostgresStore,
    fault::{Fault, unavailable},
    length::micros,
    link::{Address, Link, Statement},
    sessions::lock_wait,
};
use crate::{
    handler::FencingToken,
    message::{Key, KeyError},
    store::{Owner, StoreError, StreamClaim, StreamLease, StreamState, StreamStore, Write},
    stores::{rows::number, server_clock::Clock},
};

/// The table, and a connection, which is opened when a stream is first claimed. Clones share both.
#[derive(Clone)]
pub(super) struct Streams {
    link: Arc<Mutex<Link>>,
    sql: Arc<Statements>,
    clock: Clock,
}

struct Statements {
    claim: SqlStr,
    extend: SqlStr,
    release: SqlStr,
    look: SqlStr,
    list: SqlStr,
    set: SqlStr,
}

impl Streams {
    pub(super) fn new(address: &Address, names: &Names, clock: &Clock) -> Self {
        // A row that somebody keeps locked is told of, and leaves no session waiting.
        let lock_wait = lock_wait(address.response_timeout);
        let sql = |file: &str| {
            let text = names.put_into(file);
            AssertSqlSafe(text.as_str().replace("{lock_timeout}", &lock_wait)).into_sql_str()
        };
        Self {
            link: Arc::new(Mutex::new(Link::new(address.clone()))),
            sql: Arc::new(Statements {
                claim: sql(include_str!("streams/claim.sql")),
                extend: sql(include_str!("streams/extend.sql")),
                release: sql(include_str!("streams/release.sql")),
                look: sql(include_str!("streams/look.sql")),
                list: sql(include_str!("streams/list.sql")),
                set: sql(include_str!("streams/set.sql")),
            }),
            clock: clock.clone(),
        }
    }

    /// A statement's first two parameters.
    fn about(&self, sql: &SqlStr, stream: &Key) -> Statement {
        sqlx::query(sql.clone())
            .bind(self.clock.skew())
            .bind(stream.as_str().to_owned())
    }

    async fn fetch(&self, statement: impl Fn() -> Statement) -> Result<Vec<PgRow>, StoreError> {
        let rows = self.link.lock().await.fetch(statement).await;
        rows.map_err(|fault| refused_or_unavailable(&fault))
    }

    async fn write(&self, statement: impl Fn() -> Statement) -> Result<Write, StoreError> {
        let rows = self.fetch(statement).await?;
        Ok(if rows.is_empty() {
            Write::Fenced
        } else {
            Write::Applied
        })
    }
}

impl StreamStore for PostgresStore {
    async fn claim_stream(
        &self,
        stream: &Key,
        owner: Owner,
        lease: Duration,
    ) -> Result<StreamClaim, StoreError> {
        let streams = &self.streams;
        let statement = || {
            streams
                .about(&streams.sql.claim, stream)
                .bind(owner.as_bytes().to_vec())
                .bind(micros(lease))
        };
        let rows = streams.fetch(statement).await?;
        let claim = rows.first().map(|row| read_claim(row, stream));
        // No row: somebody else has claimed it in this moment.
        let held = StreamClaim::Held {
            remaining: Duration::ZERO,
        };
        claim.unwrap_or(Ok(held)).map_err(unavailable)
    }

    async fn extend_stream(
        &self,
        lease: &StreamLease,
        mark: Option<u64>,
        by: Duration,
    ) -> Result<Write, StoreError> {
        let streams = &self.streams;
        let statement = || {
            streams
                .about(&streams.sql.extend, &lease.stream)
                .bind(lease.token.get())
                .bind(mark.map(number))
                .bind(micros(by))
        };
        streams.write(statement).await
    }

    async fn release_stream(
        &self,
        lease: &StreamLease,
        mark: Option<u64>,
    ) -> Result<Write, StoreError> {
        let streams = &self.streams;
        let statement = || {
            streams
                .about(&streams.sql.release, &lease.stream)
                .bind(lease.token.get())
                .bind(mark.map(number))
        };
        streams.write(statement).await
    }

    async fn look_at_stream(&self, stream: &Key) -> Result<Option<StreamState>, StoreError> {
        let streams = &self.streams;
        let rows = streams
            .fetch(|| streams.about(&streams.sql.look, stream))
            .await?;
        let state = rows.first().map(read_state);
        state.transpose().map_err(unavailable)
    }

    async fn list_streams(&self) -> Result<Vec<(Key, StreamState)>, StoreError> {
        let streams = &self.streams;
        let statement = || sqlx::query(streams.sql.list.clone()).bind(streams.clock.skew());
        let rows = streams.fetch(statement).await?;
        rows.iter()
            .map(|row| {
                let key: String = row.try_get("key").map_err(unavailable)?;
                let state = read_state(row).map_err(unavailable)?;
                let stream = key.parse().map_err(|error: KeyError| StoreError::Corrupt {
                    key: key.clone(),
                    source: error.into(),
                })?;
                Ok((stream, state))
            })
            .collect()
    }

    async fn set_mark(&self, stream: &Key, mark: Option<u64>) -> Result<(), StoreError> {
        let streams = &self.streams;
        let statement = || {
            streams
                .about(&streams.sql.set, stream)
                .bind(mark.map(number))
        };
        streams.fetch(statement).await.map(drop)
    }
}

fn read_claim(row: &PgRow, stream: &Key) -> Result<StreamClaim, sqlx::Error> {
    let Some(token) = row.try_get::<Option<i64>, _>("token")? else {
        let remaining = duration(row.try_get("remaining")?);
        return Ok(StreamClaim::Held { remaining });
    };
    Ok(StreamClaim::Acquired {
        lease: StreamLease::new(stream.clone(), FencingToken::new(token)),
        mark: offset(row)?,
    })
}

fn read_state(row: &PgRow) -> Result<StreamState, sqlx::Error> {
    let remaining = duration(row.try_get("remaining")?);
    Ok(StreamState::new(offset(row)?, remaining))
}

fn offset(row: &PgRow) -> Result<Option<u64>, sqlx::Error> {
    let mark: Option<i64> = row.try_get("mark")?;
    Ok(mark.and_then(|mark| u64::try_from(mark).ok()))
}

fn duration(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

/// Tables of an earlier version lack this one, and waiting does not help.
fn refused_or_unavailable(fault: &Fault) -> StoreError {
    if fault.is_missing_table() {
        let cure = "the store's tables lack the one of streams: let their owner run `idem migrate`";
        return StoreError::Refused(cure.into());
    }
    fault.unavailable()
}
