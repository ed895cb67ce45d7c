//! The mark of a group's transaction: a row that is there if the transaction was committed by somebody else.
//!
//! The server could be asked for the transaction by its number. But a server that takes over from another, or comes
//! back from a crash, gives out again the numbers that it has not heard of. It does not have the row either.

use std::fmt::{self, Display};

use sqlx::Row as _;
use tokio::time::{Duration, Instant};

use super::seat::Member;
use crate::stores::postgres::{PostgresStore, fault::Fault, template::Template};

/// For so long a transaction is waited for whose connection is lost: a server takes a while to notice.
const NOTICED_WITHIN: Duration = Duration::from_secs(10);

/// One group's, and never another's.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark(u128);

impl Mark {
    pub(super) fn new() -> Self {
        Self(uuid::Uuid::new_v4().as_u128())
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

/// Whether a group's transaction was committed, by a handler or by idem; `None` if another server has answered than
/// the one before. The transaction is over afterwards.
pub(super) async fn is_committed(
    store: &PostgresStore,
    mark: Mark,
    member: &Member,
) -> Result<Option<bool>, Fault> {
    until_over(store, mark).await?;
    let fate = || {
        sqlx::query(store.sql.fate.clone())
            .bind(mark.to_string())
            .bind(member.lease.key.as_str().to_owned())
            .bind(member.lease.token.get())
    };
    let rows = store.heartbeats.lock().await.fetch(fate).await?;
    let told = rows.first().map(|row| row.try_get(0));
    Ok(told.transpose()?)
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
