//! One transaction of the writer: every call that was waiting, one commit.
//!
//! `writer` calls [`commit`] with all calls that have come, and tells their callers afterwards. What must stay true:
//!
//! - The calls are carried out one after the other, each seeing what those before it have left.
//! - Nobody hears an answer before the commit.
//! - A record that cannot be read or written fails only the calls about it.

use std::error::Error;

use sqlx::SqliteConnection;

use super::{call::Call, clock::Clock, fault::Fault, sql::Sql};
use crate::{
    message::{Key, Position},
    store::{
        Claim, ClaimRequest, StoreError,
        rules::record::{self, Record, Step},
    },
};

mod records;
use records::Records;

/// Carries the calls out and commits, and says whether a record was written. On an error nothing of them has happened,
/// unless it was the commit's own: then nobody knows.
///
/// # Cancel safety
/// Not to be dropped half way: the connection would be left with an open transaction. Only the
/// writer's task awaits it, to the end.
pub(super) async fn commit(
    connection: &mut SqliteConnection,
    sql: &Sql,
    clock: &Clock,
    calls: &mut [Call],
) -> Result<bool, Fault> {
    // Takes the write lock at once. A deferred transaction that reads first gets "busy" at its
    // first write, whatever the time-out, if another connection has written.
    sqlx::query("BEGIN IMMEDIATE")
        .execute(&mut *connection)
        .await?;
    let mut batch = Batch {
        connection,
        sql,
        // Read under the write lock, so that time and order agree over all processes. Before the
        // lock was there, it could be earlier than what another process has just written.
        now: clock.now(),
        records: Records::default(),
        has_written: false,
        floor: None,
    };
    let result = batch.execute(calls).await;
    let end = if result.is_ok() { "COMMIT" } else { "ROLLBACK" };
    let ended = sqlx::query(end).execute(&mut *batch.connection).await;
    // What went wrong first is told, whatever became of the rollback.
    result?;
    if let Err(error) = ended {
        // A commit that found the file busy leaves its transaction open, and the next `BEGIN` would
        // fail.
        let _ = sqlx::query("ROLLBACK")
            .execute(&mut *batch.connection)
            .await;
        return Err(error.into());
    }
    Ok(batch.has_written)
}

/// An open transaction, and what is known in it.
pub(super) struct Batch<'a> {
    pub(super) connection: &'a mut SqliteConnection,
    pub(super) sql: &'a Sql,
    /// The time of all calls of the batch, in microseconds of the store's clock.
    pub(super) now: i64,
    /// Records that were read ahead, or changed and not written yet.
    records: Records,
    /// Whether a record was written.
    has_written: bool,
    /// The highest token that was ever purged, once it has been read.
    floor: Option<i64>,
}

impl Batch<'_> {
    /// Carries all calls out, in the order in which they came. An error concerns all of them.
    async fn execute(&mut self, calls: &mut [Call]) -> Result<(), Fault> {
        let concern_one_each =
            |one: &Call, next: &Call| one.record().is_some() && next.record().is_some();
        // Calls about one record each share a read and a write. Any other call sees and changes
        // more than a record (a session, a purge), so it stands alone, and finds all that came
        // before it written.
        for calls in calls.chunk_by_mut(concern_one_each) {
            self.read_ahead(calls.iter().filter_map(Call::record))
                .await?;
            self.execute_each(calls).await?;
            // The answers about a record that the database did not take do not count: nothing of it
            // was written. The others of the batch stay.
            for refused in self.write_behind().await? {
                let concerned = |call: &&mut Call| call.record() == Some(&refused.key);
                let concerned = calls.iter_mut().filter(concerned);
                concerned.for_each(|call| call.fail(refused.error()));
            }
        }
        Ok(())
    }

    /// Carries calls out whose records were read ahead. Each answer is held until the commit.
    async fn execute_each(&mut self, calls: &mut [Call]) -> Result<(), Fault> {
        for call in calls {
            match call {
                // The caller has gone. Nobody would work under the lease, and the key would wait
                // for its end.
                Call::Claim { reply, .. } if reply.is_unwanted() => {}
                Call::Claim { request, reply, .. } => {
                    let answer = self.claim(request).await;
                    reply.hold(alone(answer)?);
                }
                Call::Write {
                    key,
                    token,
                    change,
                    reply,
                } => {
                    let now = self.now;
                    let step = |record: Option<&Record>| change.step(record, *token, now);
                    let answer = self.update(key, step).await;
                    reply.hold(alone(answer)?);
                }
                Call::Purge { batch, reply } => reply.hold(Ok(self.purge(*batch).await?)),
                Call::Session(call) => self.execute_session(call).await?,
                Call::Operator(call) => self.execute_operator(call).await?,
                Call::Outbox(call) => self.execute_outbox(call).await?,
                Call::Stream(call) => self.execute_stream(call).await?,
            }
        }
        Ok(())
    }

    /// Notes that something was written that is no record.
    pub(super) fn note_written(&mut self) {
        self.has_written = true;
    }

    /// Claims, by the rules of the message's position.
    async fn claim(&mut self, request: &ClaimRequest) -> Result<Claim, CallError> {
        match &request.position {
            Position::None => self.claim_key(request).await,
            Position::Session(place) => self.claim_place(request, place).await,
            Position::Sequence(place) => self.claim_numbered(request, place).await,
        }
    }

    /// Decides about a key by the ordinary rules, whatever its position.
    pub(super) async fn claim_key(&mut self, request: &ClaimRequest) -> Result<Claim, CallError> {
        let record = self.load(&request.key).await?;
        let floor = match record {
            // The record's own token is greater than any of this key that was purged.
            Some(_) => 0,
            // The key may have had a record that was purged. A token that is not greater than its
            // last one would let a worker from then write under the new lease.
            None => self.floor().await?,
        };
        let step = record::claim(record.as_ref(), request, self.now, floor);
        self.save(&request.key, step).await
    }

    /// Reads a record, lets `step` decide about it, and saves what that comes to.
    async fn update<A>(
        &mut self,
        key: &Key,
        step: impl FnOnce(Option<&Record>) -> Step<A>,
    ) -> Result<A, CallError> {
        let record = self.load(key).await?;
        self.save(key, step(record.as_ref())).await
    }

    /// Removes at most so many records, sequences and exceptions whose time is over, and says how
    /// many.
    async fn purge(&mut self, batch: u32) -> Result<u32, Fault> {
        let tokens: Vec<i64> = sqlx::query_scalar(self.sql.purge.clone())
            .bind(self.now)
            .bind(batch)
            .fetch_all(&mut *self.connection)
            .await?;
        // In the same transaction: tokens must not be forgotten before the floor is above them.
        self.raise_floor(&tokens).await?;
        self.purge_audit(batch).await?;
        let removed = u32::try_from(tokens.len()).unwrap_or(batch).min(batch);
        Ok(removed + self.purge_sequences(batch - removed).await?)
    }

    /// Takes note of the tokens of records that are removed, so that no later claim gets one of
    /// them.
    pub(super) async fn raise_floor(&mut self, tokens: &[i64]) -> Result<(), sqlx::Error> {
        if let Some(highest) = tokens.iter().max() {
            // What was read before may be too low now.
            self.floor = None;
            sqlx::query(self.sql.raise_floor.clone())
                .bind(highest)
                .execute(&mut *self.connection)
                .await?;
        }
        Ok(())
    }

    /// The highest token that was ever purged; read once for a batch.
    pub(super) async fn floor(&mut self) -> Result<i64, CallError> {
        if let Some(floor) = self.floor {
            return Ok(floor);
        }
        let floor = sqlx::query_scalar(self.sql.floor.clone())
            .fetch_one(&mut *self.connection)
            .await?;
        Ok(*self.floor.insert(floor))
    }
}

/// Why a call was not carried out.
pub(super) enum CallError {
    /// It fails; its neighbours do not notice.
    One(StoreError),
    /// The whole batch fails.
    All(Fault),
}

impl CallError {
    /// What is recorded under this key cannot be read or written.
    pub(super) fn corrupt(
        key: &(impl ToString + ?Sized),
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        Self::One(corrupt(key, source))
    }
}

pub(super) fn corrupt(
    key: &(impl ToString + ?Sized),
    source: impl Into<Box<dyn Error + Send + Sync>>,
) -> StoreError {
    StoreError::Corrupt {
        key: key.to_string(),
        source: source.into(),
    }
}

impl From<sqlx::Error> for CallError {
    fn from(error: sqlx::Error) -> Self {
        Self::All(error.into())
    }
}

/// An answer for one caller, its own error included. `Err` is an error that concerns all callers
/// and ends the transaction.
pub(super) fn alone<T>(answer: Result<T, CallError>) -> Result<Result<T, StoreError>, Fault> {
    match answer {
        Ok(answer) => Ok(Ok(answer)),
        Err(CallError::One(error)) => Ok(Err(error)),
        Err(CallError::All(fault)) => Err(fault),
    }
}
