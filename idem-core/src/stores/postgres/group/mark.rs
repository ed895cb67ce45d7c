//! The mark of a group's transaction: a row that is there if the transaction was committed by somebody else.
//!
//! The server could be asked for the transaction by its number. But a server that takes over from another, or comes
//! back from a crash, gives out again the numbers that it has not heard of. It does not have the row either.
// docs/decisions/0032

use std::fmt::{self, Display};

use sqlx::{Row as _, postgres::PgRow};
use tokio::time::{Duration, Instant};

use super::slot::GroupMember;
use crate::{
    random,
    stores::postgres::{PostgresStore, fault::Fault, template::Template},
};

/// How long a transaction is waited for whose connection is lost: a server takes a while to notice.
const NOTICED_WITHIN: Duration = Duration::from_secs(10);

/// The mark of one group, and never of another.
#[derive(Debug, Clone, Copy)]
pub(in crate::stores::postgres) struct Mark(u128);

impl Mark {
    pub(super) fn new() -> Self {
        Self(u128::from_be_bytes(random::bytes()))
    }

    /// A statement about this mark, to be put between others.
    pub(super) fn put_into(self, template: &Template) -> String {
        format!(" {}", template.fill(&[("mark", &self)]))
    }
}

impl Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "group-{:032x}", self.0)
    }
}

/// What became of a group's transaction.
#[derive(Debug, Clone, Copy)]
pub(super) enum GroupEnd {
    /// All members are completed.
    Committed,
    /// A handler has committed the transaction by itself, without the completions.
    CommittedByHandler,
    /// A commit can no longer come. Whoever runs again has to claim first: after the commit of another worker, or if
    /// a record was removed meanwhile, this is told of a member that is completed.
    RolledBack,
}

/// Asks how the group with these members has ended; `None` if another server answers than the one before. The
/// transaction is over afterwards.
pub(super) async fn ask_end(
    store: &PostgresStore,
    mark: Mark,
    members: &[GroupMember],
) -> Result<Option<GroupEnd>, Fault> {
    fn each<'a, T>(members: &'a [GroupMember], column: impl Fn(&'a GroupMember) -> T) -> Vec<T> {
        members.iter().map(column).collect()
    }
    until_over(store, mark).await?;
    let ask = || {
        sqlx::query(store.sql.group_end.clone())
            .bind(mark.to_string())
            .bind(each(members, |it| it.lease.key.as_str().to_owned()))
            .bind(each(members, |it| it.lease.token.get()))
            .bind(each(members, |it| it.outcome.as_bytes().to_vec()))
    };
    let rows = store.heartbeats.lock().await.fetch(ask).await?;
    Ok(rows.first().map(read_end).transpose()?)
}

fn read_end(row: &PgRow) -> Result<GroupEnd, sqlx::Error> {
    let (by_handler, by_idem) = (row.try_get("by_handler")?, row.try_get("by_idem")?);
    Ok(match (by_handler, by_idem) {
        (true, _) => GroupEnd::CommittedByHandler,
        (false, true) => GroupEnd::Committed,
        (false, false) => GroupEnd::RolledBack,
    })
}

async fn until_over(store: &PostgresStore, mark: Mark) -> Result<(), Fault> {
    let deadline = Instant::now() + NOTICED_WITHIN;
    let settle = || sqlx::query(store.sql.settle.clone()).bind(mark.to_string());
    loop {
        match store.heartbeats.lock().await.fetch(settle).await {
            Ok(_) => return Ok(()),
            // The statement has waited for a while.
            Err(fault) if fault.is_locked() && Instant::now() < deadline => {}
            Err(fault) => return Err(fault),
        }
    }
}
