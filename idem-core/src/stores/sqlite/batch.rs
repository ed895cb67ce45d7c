//! One transaction of the writer: every call that was waiting, one commit.

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

/// Carries the calls out and commits; on an error nothing of them has happened, unless it was the
/// commit's own.
pub(super) async fn commit(
    connection: &mut SqliteConnection,
    sql: &Sql,
    clock: &Clock,
    calls: &mut [Call],
) -> Result<(), Fault> {
    sqlx::query("BEGIN IMMEDIATE")
        .execute(&mut *connection)
        .await?;
    let mut batch = Batch {
        connection,
        sql,
        // Read under the write lock, so that time and order agree over all processes.
        now: clock.now(),
        records: Records::default(),
        floor: None,
    };
    let result = batch.carry_out(calls).await;
    let end = if result.is_ok() { "COMMIT" } else { "ROLLBACK" };
    let ended = sqlx::query(end).execute(&mut *batch.connection).await;
    result?;
    if let Err(error) = ended {
        // A commit that found the file busy leaves its transaction open.
        let _ = sqlx::query("ROLLBACK").execute(batch.connection).await;
        return Err(error.into());
    }
    Ok(())
}

pub(super) struct Batch<'a> {
    pub(super) connection: &'a mut SqliteConnection,
    pub(super) sql: &'a Sql,
    pub(super) now: i64,
    records: Records,
    /// The highest token that was purged, once it has been read.
    floor: Option<i64>,
}

impl Batch<'_> {
    async fn carry_out(&mut self, calls: &mut [Call]) -> Result<(), Fault> {
        let concern_one_each =
            |one: &Call, next: &Call| one.record().is_some() && next.record().is_some();
        // The others see and change more than a record.
        for calls in calls.chunk_by_mut(concern_one_each) {
            self.read_ahead(calls.iter().filter_map(Call::record))
                .await?;
            self.carry_out_each(calls).await?;
            for refused in self.write_behind().await? {
                let concerned = |call: &&mut Call| call.record() == Some(&refused.key);
                let concerned = calls.iter_mut().filter(concerned);
                concerned.for_each(|call| call.fail(refused.error()));
            }
        }
        Ok(())
    }

    async fn carry_out_each(&mut self, calls: &mut [Call]) -> Result<(), Fault> {
        for call in calls {
            match call {
                // Nobody would work under it, and the key would wait for its lease to end.
                Call::Claim { reply, .. } if reply.is_unwanted() => {}
                Call::Claim { request, reply } => {
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
                Call::Session(call) => self.carry_out_session(call).await?,
                Call::Operator(call) => self.carry_out_operator(call).await?,
            }
        }
        Ok(())
    }

    async fn claim(&mut self, request: &ClaimRequest) -> Result<Claim, CallError> {
        match &request.position {
            Position::None => self.claim_key(request).await,
            Position::Session(place) => self.claim_place(request, place).await,
            Position::Sequence(place) => self.claim_numbered(request, place).await,
        }
    }

    /// Decides about a key, wherever it stands.
    pub(super) async fn claim_key(&mut self, request: &ClaimRequest) -> Result<Claim, CallError> {
        let record = self.load(&request.key).await?;
        let floor = match record {
            // Its own token is greater than any that was purged before.
            Some(_) => 0,
            None => self.floor().await?,
        };
        let step = record::claim(record.as_ref(), request, self.now, floor);
        self.save(&request.key, step).await
    }

    async fn update<A>(
        &mut self,
        key: &Key,
        step: impl FnOnce(Option<&Record>) -> Step<A>,
    ) -> Result<A, CallError> {
        let record = self.load(key).await?;
        self.save(key, step(record.as_ref())).await
    }

    async fn purge(&mut self, batch: u32) -> Result<u32, Fault> {
        let tokens: Vec<i64> = sqlx::query_scalar(self.sql.purge.clone())
            .bind(self.now)
            .bind(batch)
            .fetch_all(&mut *self.connection)
            .await?;
        self.raise_floor(&tokens).await?;
        let removed = u32::try_from(tokens.len()).unwrap_or(batch).min(batch);
        Ok(removed + self.purge_sequences(batch - removed).await?)
    }

    /// Takes note of the tokens of records that are gone.
    pub(super) async fn raise_floor(&mut self, tokens: &[i64]) -> Result<(), sqlx::Error> {
        if let Some(highest) = tokens.iter().max() {
            self.floor = None;
            sqlx::query(self.sql.raise_floor.clone())
                .bind(highest)
                .execute(&mut *self.connection)
                .await?;
        }
        Ok(())
    }

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

impl From<sqlx::Error> for CallError {
    fn from(error: sqlx::Error) -> Self {
        Self::All(error.into())
    }
}

/// An answer, the caller's own error included; `Err` for what concerns all callers.
pub(super) fn alone<T>(answer: Result<T, CallError>) -> Result<Result<T, StoreError>, Fault> {
    match answer {
        Ok(answer) => Ok(Ok(answer)),
        Err(CallError::One(error)) => Ok(Err(error)),
        Err(CallError::All(fault)) => Err(fault),
    }
}
