//! A transaction for the claims of several sequences, and what is sent in it.
//!
//! `Batch` calls these in its order. What must stay true:
//!
//! - Rows of sequences are locked before anything is read or written about them.
//! - Each statement sees what was committed before it (`READ COMMITTED`), so what is read under the lock is what the
//!   last owner of the lock has left.

use std::{collections::HashMap, ops::Range};

use sqlx::{Connection as _, PgConnection, PgTransaction, Row, postgres::PgRow};

use super::{Numbered, statements, tools::Tools};
use crate::{
    store::{
        StoreError,
        rules::sequence::{self, Below, Looked, Sequence, Standing},
    },
    stores::postgres::{
        call::{Ask, KeyCall as _},
        claims::ClaimCall,
    },
    stores::rows::{self, number, time, unsigned},
};

/// What is known of a sequence, or why its row cannot be read.
pub(super) type Known = Result<Option<Sequence>, sqlx::Error>;

/// A claim whose number is below the mark of its sequence, and the sequence as it was for this
/// claim.
pub(super) type Asked<'a> = (&'a Numbered, Sequence);

/// The open transaction.
///
/// # Cancel safety
/// Dropped without a commit, it is rolled back: nothing of it has happened.
pub(super) struct Step<'c> {
    transaction: PgTransaction<'c>,
    /// The statements to send in it.
    tools: &'c Tools,
    /// What tests add to the server's clock, in microseconds; read once, so that one transaction
    /// has one clock.
    skew: i64,
}

impl<'c> Step<'c> {
    /// Begins the transaction.
    pub(super) async fn begin(
        connection: &'c mut PgConnection,
        tools: &'c Tools,
    ) -> Result<Self, sqlx::Error> {
        let begin = tools.statements.begin_step.clone();
        Ok(Self {
            transaction: connection.begin_with(begin).await?,
            tools,
            skew: tools.clock.skew(),
        })
    }

    /// Commits. An error means that nobody knows whether it was committed.
    pub(super) async fn commit(self) -> Result<(), sqlx::Error> {
        self.transaction.commit().await
    }

    /// Locks these sequences until the transaction ends. Says what there is of each, expired or
    /// not, and what time it is once all of them are locked, in microseconds.
    pub(super) async fn lock(
        &mut self,
        sequences: &[&str],
    ) -> Result<(HashMap<String, Known>, i64), sqlx::Error> {
        let rows: Vec<PgRow> = statements::lock(&self.tools.statements.lock, sequences, self.skew)
            .fetch_all(&mut *self.transaction)
            .await?;
        let mut known = HashMap::with_capacity(rows.len());
        // The latest of the rows: the clock is read as each is locked, and a lock may have been
        // waited for. An earlier time could be before what the last owner of a lock has written.
        let mut now = i64::MIN;
        for row in &rows {
            now = now.max(time(row, "now")?);
            // Each sequence has a row in the answer; one that does not exist has no key in it. A
            // row that cannot be read is an error of its own sequence only.
            let key: Option<&str> = row.try_get("key")?;
            known.insert(
                row.try_get("sequence")?,
                key.map(|_| rows::sequence(row)).transpose(),
            );
        }
        Ok((known, now))
    }

    /// Begins sequences of which there were no rows. Returns those that somebody else has begun
    /// meanwhile: their rows are not locked here, and nothing may be decided about them.
    pub(super) async fn begins<'a>(
        &mut self,
        sequences: &[(&'a str, &Sequence)],
    ) -> Result<Vec<&'a str>, sqlx::Error> {
        if sequences.is_empty() {
            return Ok(Vec::new());
        }
        // A row that another transaction has inserted and not committed is waited for. If that
        // commits, this statement inserts none and returns none.
        let rows: Vec<PgRow> = statements::begin(&self.tools.statements.begin, sequences)
            .fetch_all(&mut *self.transaction)
            .await?;
        let begun: Vec<&str> = rows
            .iter()
            .map(|row| row.try_get("key"))
            .collect::<Result<_, _>>()?;
        let others = sequences.iter().map(|(key, _)| *key);
        Ok(others.filter(|key| !begun.contains(key)).collect())
    }

    /// Begins a sequence in the locked row of one that has expired, and removes the exceptions of
    /// that one.
    pub(super) async fn begins_anew(
        &mut self,
        key: &str,
        sequence: &Sequence,
    ) -> Result<(), sqlx::Error> {
        sqlx::query(self.tools.statements.begin_anew.clone())
            .bind(key)
            // The mark begins there, too.
            .bind(number(sequence.joined))
            .bind(i64::from(sequence.window))
            .bind(sequence.look_by)
            .bind(sequence.expires_at)
            .execute(&mut *self.transaction)
            .await
            .map(drop)
    }

    /// How these numbers of a sequence stand, in their order. A number without a record is missing.
    pub(super) async fn standings(
        &mut self,
        key: &str,
        numbers: Range<u64>,
        now: i64,
    ) -> Result<Vec<Standing>, sqlx::Error> {
        let mut standings: Vec<_> = numbers.clone().map(|_| Standing::Missing).collect();
        if numbers.is_empty() {
            return Ok(standings);
        }
        let rows: Vec<PgRow> = sqlx::query(self.tools.statements.standings.clone())
            .bind(key)
            .bind(number(numbers.start))
            .bind(number(numbers.end))
            .fetch_all(&mut *self.transaction)
            .await?;
        for row in &rows {
            // The answer has rows of the numbers with records only.
            let at = unsigned(row, "number")? - numbers.start;
            let at = usize::try_from(at).unwrap_or(usize::MAX);
            if let Some(kept) = standings.get_mut(at) {
                *kept = rows::standing(row, now);
            }
        }
        Ok(standings)
    }

    /// What is decided about each of these, in their order; or why the record of one cannot be
    /// read.
    pub(super) async fn below(
        &mut self,
        asked: &[Asked<'_>],
    ) -> Result<Vec<Result<Below, StoreError>>, sqlx::Error> {
        if asked.is_empty() {
            return Ok(Vec::new());
        }
        // One statement for all: a row for each, by its place in this list.
        let places: Vec<_> = asked
            .iter()
            .map(|(claim, _)| (claim.place.sequence.as_str(), claim.place.number))
            .collect();
        let rows: Vec<PgRow> = statements::below(&self.tools.statements.below, &places, self.skew)
            .fetch_all(&mut *self.transaction)
            .await?;
        let mut rows: Vec<(i64, &PgRow)> = rows
            .iter()
            .map(|row| Ok((row.try_get("at")?, row)))
            .collect::<Result<_, sqlx::Error>>()?;
        // SQL promises no order of rows. If two were mixed up, a claim would hear of another's
        // number.
        rows.sort_unstable_by_key(|(at, _)| *at);
        let decided = asked.iter().zip(&rows);
        decided.map(|(asked, (_, row))| below(asked, row)).collect()
    }

    /// The ordinary statement, for all of these, no key twice. A row for each key, but for those
    /// that another transaction has just taken.
    pub(super) async fn claim(&mut self, calls: &[&ClaimCall]) -> Result<Vec<PgRow>, sqlx::Error> {
        if calls.is_empty() {
            return Ok(Vec::new());
        }
        // `Again` asks with the statement that also acquires a key that has a record already. The
        // shorter one would leave such a key to a second try, which here is another transaction.
        ClaimCall::statement(calls, Ask::Again, &self.tools.sql, self.skew)
            .fetch_all(&mut *self.transaction)
            .await
    }

    /// Writes what a look has come to: the sequence, the records that go, the exceptions, and how
    /// long records are kept.
    ///
    /// It comes after the claims, which may wait for a worker who writes. The records are removed
    /// without waiting, so that no two transactions ever wait for each other. One that is skipped
    /// is completed, and forgotten when its retention ends.
    pub(super) async fn save(
        &mut self,
        key: &str,
        sequence: &Sequence,
        looked: &Looked,
        now: i64,
    ) -> Result<(), sqlx::Error> {
        // One round trip. That mark, exceptions and records change together, the transaction sees
        // to.
        sqlx::query(self.tools.statements.save.clone())
            .bind(key)
            .bind(number(sequence.mark))
            .bind(i64::from(sequence.window))
            .bind(sequence.ahead_since)
            .bind(sequence.ahead_at)
            .bind(sequence.look_by)
            .bind(sequence.expires_at)
            .bind(numbers(&looked.removed))
            .bind(numbers(&looked.exceptions))
            .execute(&mut *self.transaction)
            .await?;
        // Each eighth of the retention only: to write a window of records costs.
        let Some(kept) = &looked.kept else {
            return Ok(());
        };
        sqlx::query(self.tools.statements.keep.clone())
            .bind(key)
            .bind(number(kept.start))
            .bind(number(kept.end))
            .bind(sequence.expires_at)
            .bind(now)
            .execute(&mut *self.transaction)
            .await
            .map(drop)
    }
}

/// What is decided about one claim, from its row; or why its record cannot be read.
fn below(
    (claim, sequence): &Asked<'_>,
    row: &PgRow,
) -> Result<Result<Below, StoreError>, sqlx::Error> {
    // The time of this row, not of the lock: it says whether the record is forgotten now, when it
    // is read.
    let now = time(row, "now")?;
    let is_exception = row.try_get("is_exception")?;
    let key: Option<&str> = row.try_get("key")?;
    let request = &claim.call.request;
    let record = key.map(|_| rows::record(row)).transpose();
    Ok(match record {
        Ok(record) => Ok(sequence::below(
            sequence,
            is_exception,
            record.as_ref(),
            request,
            now,
        )),
        Err(source) => Err(StoreError::Corrupt {
            key: request.key.to_string(),
            source,
        }),
    })
}

/// Numbers as a statement takes them.
fn numbers(list: &[u64]) -> Vec<i64> {
    list.iter().copied().map(number).collect()
}
