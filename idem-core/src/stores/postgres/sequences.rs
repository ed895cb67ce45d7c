//! Sequences: numbered messages that wait at the same time share a transaction, under the locks of
//! their sequences.

use std::{sync::Arc, time::Duration};

use sqlx::{PgConnection, Row as _};

use super::{
    PostgresStore,
    claims::{Answered, ClaimCall},
    clock::Clock,
    migration::MigrateError,
    names::Names,
    sessions::{self, Sessions},
    sql::Sql,
};
use crate::{
    message::SequencePlace,
    store::{Claim, ClaimRequest, SequenceStore, StoreError},
    stores::batcher::{Batcher, Call, Waiting},
};

mod batch;
mod claim_task;
mod rows;
mod sequence_batch;
mod statements;
mod step;
mod tools;

use statements::Statements;
use tools::Tools;

/// A claim that is answered, or an error of its own.
type Claimed = Result<Claim, StoreError>;

/// The claim of a numbered message.
struct Numbered {
    call: ClaimCall,
    place: SequencePlace,
}

impl Call for Numbered {
    type Answer = Claimed;

    fn bytes(&self) -> usize {
        self.call.bytes()
    }

    fn may_be_dropped(&self) -> bool {
        true
    }
}

/// Sends what is asked about sequences, over the connections of the sessions.
#[derive(Clone)]
pub(super) struct Sequences {
    tasks: Arc<[Batcher<Waiting<Numbered>>]>,
    statements: Arc<Statements>,
}

impl Sequences {
    pub(super) fn spawn(
        sessions: &Sessions,
        names: &Names,
        response_timeout: Duration,
        (sql, clock): (&Arc<Sql>, &Clock),
    ) -> Self {
        let statements = Arc::new(Statements::new(names, response_timeout));
        let links = sessions.links();
        let task = |place| {
            let tools = Tools {
                statements: Arc::clone(&statements),
                sql: Arc::clone(sql),
                clock: clock.clone(),
            };
            claim_task::spawn(Arc::clone(&links), place, tools)
        };
        Self {
            tasks: (0..links.len()).map(task).collect(),
            statements: Arc::clone(&statements),
        }
    }

    /// Fails unless the tables answer as this version's do, and this role may use them.
    pub(super) async fn check(
        &self,
        connection: &mut PgConnection,
        names: &Names,
    ) -> Result<(), MigrateError> {
        let checked = self.statements.check(connection).await;
        checked.map_err(|error| MigrateError::Unusable(names.to_string(), error))
    }
}

impl PostgresStore {
    /// Looks at the sequence and claims the key, in one transaction.
    pub(super) async fn claim_numbered(
        &self,
        request: &ClaimRequest,
        place: &SequencePlace,
        answered: Answered,
    ) -> Result<Claim, StoreError> {
        let task = &self.sequences.tasks[sessions::place(place.sequence.as_str())];
        let claim = Numbered {
            call: ClaimCall {
                request: request.clone(),
                answered,
            },
            place: place.clone(),
        };
        task.call(claim).await?
    }

    /// Removes at most so many sequences and exceptions that have expired, and says how many.
    pub(super) async fn purge_sequences(&self, batch: u32) -> Result<u32, StoreError> {
        let mut left = batch;
        let statements = &self.sequences.statements;
        for sql in [&statements.purge_exceptions, &statements.purge] {
            let statement = || {
                sqlx::query(sql.clone())
                    .bind(self.clock.skew())
                    .bind(i64::from(left))
            };
            let rows = self.purging.lock().await.fetch(statement).await;
            let rows = rows.map_err(|fault| fault.unavailable())?;
            let removed: i64 = rows
                .iter()
                .map(|row| row.try_get::<i64, _>(0))
                .sum::<Result<_, _>>()
                .map_err(StoreError::unavailable)?;
            left -= u32::try_from(removed).unwrap_or(left).min(left);
        }
        Ok(batch - left)
    }
}

impl SequenceStore for PostgresStore {}
