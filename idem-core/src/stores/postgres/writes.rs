//! A batch of writes under leases: extensions, completions, releases.

use std::time::Duration;

use super::{
    call::{Ask, KeyCall},
    length::micros,
    link::Statement,
    row::BatchRow,
    sql::Sql,
};
use crate::{
    message::Key,
    store::{
        Release, StoreError, Write,
        rules::record::{Change, Reason},
    },
    stores::batcher,
};

/// A write under a lease.
#[derive(Debug)]
pub(super) struct WriteCall {
    pub(super) key: Key,
    pub(super) token: i64,
    pub(super) change: Change,
}

impl batcher::Call for WriteCall {
    type Answer = Result<Write, StoreError>;

    fn bytes(&self) -> usize {
        let outcome = self.change.outcome().map_or(0, <[u8]>::len);
        self.key.as_str().len() + outcome
    }

    fn may_be_dropped(&self) -> bool {
        false
    }
}

impl KeyCall for WriteCall {
    type Reply = Write;
    const METRIC: &str = "writes";

    fn key(&self) -> &Key {
        &self.key
    }

    fn statement(batch: &[&Self], _: Ask, sql: &Sql, skew: i64) -> Statement {
        fn each<'a, T>(batch: &[&'a WriteCall], column: impl Fn(&'a WriteCall) -> T) -> Vec<T> {
            batch.iter().map(|call| column(call)).collect()
        }
        sqlx::query(sql.write.clone())
            .bind(skew)
            .bind(each(batch, |call| call.key.as_str()))
            .bind(each(batch, |call| call.token))
            .bind(each(batch, |call| call.change.kind()))
            .bind(each(batch, |call| micros(call.change.duration())))
            .bind(each(batch, |call| call.change.reason()))
            .bind(each(batch, |call| call.change.error()))
            .bind(each(batch, |call| call.change.outcome()))
    }

    fn read(&self, row: &BatchRow) -> Option<Write> {
        if row.written {
            return Some(Write::Applied);
        }
        let record = row.record.as_ref().ok()?.as_ref();
        let step = self.change.step(record, self.token, row.now);
        step.write.is_none().then_some(step.answer)
    }

    fn read_unwritten(&self, row: &BatchRow) -> Option<Write> {
        // The row tells of the record before the write.
        if row.written { None } else { self.read(row) }
    }
}

impl Change {
    fn kind(&self) -> &'static str {
        match self {
            Self::Extend { .. } => "extend",
            Self::Complete { .. } => "complete",
            Self::Release { .. } => "release",
        }
    }

    /// The time until the lease ends, that of the retention, or that until the next attempt is due.
    fn duration(&self) -> Duration {
        match self {
            Self::Extend { by } => *by,
            Self::Complete { retention, .. } => *retention,
            Self::Release {
                reason: Release::Failed { retry_after, .. },
            } => *retry_after,
            Self::Release { .. } => Duration::ZERO,
        }
    }

    fn reason(&self) -> Option<&'static str> {
        match self {
            Self::Release { reason } => Some(Reason::from(reason).as_str()),
            _ => None,
        }
    }

    fn error(&self) -> Option<String> {
        match self {
            Self::Release {
                reason: Release::Failed { error, .. } | Release::GaveUp { error },
            } => Some(text(error)),
            _ => None,
        }
    }

    fn outcome(&self) -> Option<&[u8]> {
        match self {
            Self::Complete { outcome, .. } => Some(outcome.as_bytes()),
            _ => None,
        }
    }
}

/// The error without the one character that the server's `text` cannot hold.
pub(super) fn text(error: &str) -> String {
    error.replace('\0', "\u{fffd}")
}
