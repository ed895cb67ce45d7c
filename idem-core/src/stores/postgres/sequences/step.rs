//! A transaction for the claims of several sequences, and what is sent in it.

use std::{collections::HashMap, ops::Range};

use sqlx::{Connection as _, PgConnection, PgTransaction, Row, postgres::PgRow};

use super::{
    Numbered,
    rows::{number, numbers, read, read_standing, unsigned},
    statements,
    tools::Tools,
};
use crate::{
    store::{
        StoreError,
        rules::sequence::{self, Below, Looked, Sequence, Standing},
    },
    stores::postgres::{
        call::{Ask, KeyCall as _},
        claims::ClaimCall,
        instant::Instant,
        row,
    },
};

/// What is known of a sequence, or why its row cannot be read.
pub(super) type Known = Result<Option<Sequence>, sqlx::Error>;

/// A claim whose number is below the mark of its sequence, as it is now.
pub(super) type Asked<'a> = (&'a Numbered, Sequence);

/// Dropped without a commit, it is rolled back.
pub(super) struct Step<'c> {
    transaction: PgTransaction<'c>,
    tools: &'c Tools,
    skew: i64,
}

impl<'c> Step<'c> {
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

    pub(super) async fn commit(self) -> Result<(), sqlx::Error> {
        self.transaction.commit().await
    }

    /// Locks these sequences, and says what there is of each, expired or not; and what time it is then.
    pub(super) async fn lock(
        &mut self,
        sequences: &[&str],
    ) -> Result<(HashMap<String, Known>, i64), sqlx::Error> {
        let rows: Vec<PgRow> = statements::lock(&self.tools.statements.lock, sequences, self.skew)
            .fetch_all(&mut *self.transaction)
            .await?;
        let mut known = HashMap::with_capacity(rows.len());
        let mut now = i64::MIN;
        for row in &rows {
            now = now.max(row.try_get::<Instant, _>("now")?.0);
            let key: Option<&str> = row.try_get("key")?;
            known.insert(row.try_get("sequence")?, key.map(|_| read(row)).transpose());
        }
        Ok((known, now))
    }

    /// Begins sequences of which there are no rows; says of which there are some now, of others.
    pub(super) async fn begins<'a>(
        &mut self,
        sequences: &[(&'a str, &Sequence)],
    ) -> Result<Vec<&'a str>, sqlx::Error> {
        if sequences.is_empty() {
            return Ok(Vec::new());
        }
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

    /// In the place of one that has expired.
    pub(super) async fn begins_anew(
        &mut self,
        key: &str,
        sequence: &Sequence,
    ) -> Result<(), sqlx::Error> {
        sqlx::query(self.tools.statements.begin_anew.clone())
            .bind(key)
            .bind(number(sequence.joined))
            .bind(i64::from(sequence.window))
            .bind(sequence.look_by)
            .bind(sequence.expires_at)
            .execute(&mut *self.transaction)
            .await
            .map(drop)
    }

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
            let at = unsigned(row, "number")? - numbers.start;
            let at = usize::try_from(at).unwrap_or(usize::MAX);
            if let Some(kept) = standings.get_mut(at) {
                *kept = read_standing(row, now)?;
            }
        }
        Ok(standings)
    }

    /// What is decided about each of these, in their order.
    pub(super) async fn below(
        &mut self,
        asked: &[Asked<'_>],
    ) -> Result<Vec<Result<Below, StoreError>>, sqlx::Error> {
        if asked.is_empty() {
            return Ok(Vec::new());
        }
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
        rows.sort_unstable_by_key(|(at, _)| *at);
        let decided = asked.iter().zip(&rows);
        decided.map(|(asked, (_, row))| below(asked, row)).collect()
    }

    /// The ordinary statement, for all of these, no key twice.
    pub(super) async fn claim(&mut self, calls: &[&ClaimCall]) -> Result<Vec<PgRow>, sqlx::Error> {
        if calls.is_empty() {
            return Ok(Vec::new());
        }
        ClaimCall::statement(calls, Ask::Again, &self.tools.sql, self.skew)
            .fetch_all(&mut *self.transaction)
            .await
    }

    /// Comes after the claims, which may wait for a worker who writes: the records are removed without
    /// waiting, so that no two transactions ever wait for each other.
    pub(super) async fn save(
        &mut self,
        key: &str,
        sequence: &Sequence,
        looked: &Looked,
        now: i64,
    ) -> Result<(), sqlx::Error> {
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

fn below(
    (claim, sequence): &Asked<'_>,
    row: &PgRow,
) -> Result<Result<Below, StoreError>, sqlx::Error> {
    let now = row.try_get::<Instant, _>("now")?.0;
    let is_exception = row.try_get("is_exception")?;
    let key: Option<&str> = row.try_get("key")?;
    let request = &claim.call.request;
    let record = key.map(|_| row::read(row)).transpose();
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
