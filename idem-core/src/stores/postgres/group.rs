//! Groups: one transaction after the other for the messages of one handler.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use sqlx::{PgConnection, PgTransaction};

use super::{PostgresStore, claims::AnswerWhen, sql::Sql};
use crate::{
    store::{Claim, ClaimRequest, GroupStore, StoreError},
    telemetry::Batches,
};

mod lost;
mod mark;
mod queue;
mod runner;
mod shared_transaction;
mod slot;
mod statement;

use queue::Queue;
use runner::GroupRunner;
pub(super) use slot::Slot;
pub(super) use statement::{Steps, complete_all};

/// The queues for slots, one for each handler.
#[derive(Clone)]
pub(super) struct Groups {
    queues: Arc<Mutex<HashMap<&'static str, Arc<Queue>>>>,
    at_once: usize,
    /// A group that has been open for so long takes nobody else: its locks are held until it commits.
    takes_for: Duration,
    pub(super) steps: Arc<Steps>,
    batches: Batches,
}

impl Groups {
    /// Groups of which so many run at once; 0 if messages cannot share a transaction.
    pub(super) fn new(at_once: u32) -> Self {
        Self {
            queues: Arc::default(),
            at_once: at_once as usize,
            takes_for: Duration::from_secs(1),
            steps: Arc::new(Steps::new()),
            batches: Batches::of("postgres", "groups"),
        }
    }

    fn queue(&self, handler: &'static str) -> Arc<Queue> {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(queues.entry(handler).or_default())
    }
}

/// Whether messages can share a transaction without noticing. At other isolation levels they would
/// see what was committed when the first of them began, or have to be run at a lower level than was
/// asked for.
pub(super) async fn may_share(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    let level: String = sqlx::query_scalar("SHOW default_transaction_isolation")
        .fetch_one(connection)
        .await?;
    Ok(level == "read committed")
}

/// Ends an empty group, and rolls back: fails if the server objects.
pub(super) async fn check(
    connection: &mut PgConnection,
    sql: &Sql,
    begin: &str,
) -> Result<(), sqlx::Error> {
    let text = statement::rehearsal(begin, sql);
    sqlx::raw_sql(text).execute(connection).await.map(drop)
}

impl PostgresStore {
    /// Waits for a slot in a group of this handler.
    pub(super) async fn take_slot(
        &self,
        handler: &'static str,
        size: usize,
    ) -> Result<Slot, StoreError> {
        let queue = self.groups.queue(handler);
        let (slot, needed) = queue.join(self.groups.at_once);
        if let Some(runner) = needed {
            tokio::spawn(GroupRunner::run_all(self.clone(), runner, size));
        }
        slot.await.map_err(StoreError::unavailable)?
    }
}

macro_rules! share {
    ($tx:ty) => {
        impl GroupStore<$tx> for PostgresStore {
            fn groups(&self) -> usize {
                self.groups.at_once
            }

            async fn claim_for_group(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
                self.claim_answered_when(request, AnswerWhen::Committed)
                    .await
            }
        }
    };
}

share!(PgConnection);
share!(PgTransaction<'static>);

#[cfg(test)]
mod tests;
