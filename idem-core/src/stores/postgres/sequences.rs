//! Sequences: the claims of numbered messages, over the connections that the sessions use.
//!
//! The store's `claim` sends them here. Those that wait at the same time share a transaction, under
//! the locks of their sequences' rows: `claim_task` takes them off the queue, `batch` is the
//! transaction, `sequence_batch` decides for one sequence, `step` sends the statements.
//!
//! What must stay true:
//!
//! - The answers are those of the claims carried out one after the other.
//! - Mark, exceptions and records change together or not at all.
//! - No two transactions wait for each other.

use std::{sync::Arc, time::Duration};

use sqlx::{PgConnection, SqlStr};

use super::{
    PostgresStore,
    claims::{AnswerWhen, ClaimCall},
    migration::MigrateError,
    names::Names,
    sessions::{self, Sessions},
    sql::Sql,
};
use crate::{
    message::SequencePlace,
    store::{Claim, ClaimRequest, SequenceStore, StoreError},
    stores::{
        batcher::{Batcher, Call, Waiting},
        server_clock::Clock,
    },
};

mod batch;
mod claim_task;
mod sequence_batch;
mod statements;
mod step;
mod tools;

use statements::Statements;
use tools::Tools;

/// What a caller hears: the answer to its claim, or an error that concerns no other claim.
type Claimed = Result<Claim, StoreError>;

/// The claim of a numbered message, on its way to the server.
struct Numbered {
    /// What the ordinary rules are asked about the message's key.
    call: ClaimCall,
    /// Where the message stands in its sequence.
    place: SequencePlace,
}

impl Call for Numbered {
    type Answer = Claimed;

    /// About as many bytes as the claim sends, for the limits of a batch.
    fn bytes(&self) -> usize {
        self.call.bytes()
    }

    /// If the caller has gone, nobody would work under the lease, and the key would be held until
    /// it ends.
    fn may_be_dropped(&self) -> bool {
        true
    }
}

/// Takes claims of numbered messages, and hands each to the task of its sequence.
#[derive(Clone)]
pub(super) struct Sequences {
    /// One for each connection of the sessions. They end when the last clone of the store is
    /// dropped.
    tasks: Arc<[Batcher<Waiting<Numbered>>]>,
    /// Shared by all tasks.
    statements: Arc<Statements>,
}

impl Sequences {
    /// Starts the tasks. `response_timeout` is how long the server may take for one transaction.
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

    /// Fails unless the tables answer as this version's do, and this role may use them. Asked when
    /// the store connects, so that a lacking grant is no surprise at the first message.
    pub(super) async fn check(
        &self,
        connection: &mut PgConnection,
        names: &Names,
    ) -> Result<(), MigrateError> {
        let checked = self.statements.check(connection).await;
        checked.map_err(|error| MigrateError::unusable(names, error))
    }

    /// What removes what has expired: exceptions first, and then only sequences that have none left. A sequence without
    /// its exceptions would call numbers done that are not, so the first statement also has an expired sequence begin
    /// at its mark.
    pub(super) fn purges(&self) -> [&SqlStr; 2] {
        [&self.statements.purge_exceptions, &self.statements.purge]
    }
}

impl PostgresStore {
    /// Looks at the sequence and claims the key, in one transaction.
    ///
    /// # Cancel safety
    /// Dropped before its transaction begins, the claim is left out of it. Dropped later, it may be
    /// carried out: its lease is then nobody's, and runs out.
    pub(super) async fn claim_numbered(
        &self,
        request: &ClaimRequest,
        place: &SequencePlace,
        answered: AnswerWhen,
    ) -> Result<Claim, StoreError> {
        // All claims of a sequence go to one task. Two tasks would each keep a connection waiting
        // for the lock of its row.
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
}

impl SequenceStore for PostgresStore {}
