//! Sequences within a transaction of the writer, which alone writes: so each step is one.

use std::ops::Range;

use sqlx::sqlite::SqliteRow;

use super::{
    SqliteStore,
    batch::{Batch, CallError},
    fault::Fault,
};
use crate::{
    message::{SequenceKey, SequencePlace},
    store::{
        Claim, ClaimRequest, SequenceStore,
        rules::sequence::{self, Below, Entered, Looked, Placed, Sequence, Standing},
    },
    stores::rows::{self, number},
};

impl SequenceStore for SqliteStore {}

impl Batch<'_> {
    /// A claim of a numbered message.
    pub(super) async fn claim_numbered(
        &mut self,
        request: &ClaimRequest,
        place: &SequencePlace,
    ) -> Result<Claim, CallError> {
        let key = &place.sequence;
        let known = self.load_sequence(key).await?;
        let sequence = match sequence::enter(known.as_ref(), request, place, self.now) {
            Entered::Ahead(why) => return Ok(why.into()),
            Entered::Unknown => return self.claim_key(request).await,
            Entered::Begun(sequence) => {
                self.save_sequence(key, &sequence).await?;
                self.remove_exceptions(key).await?;
                sequence
            }
            Entered::Known(sequence, None) => sequence,
            Entered::Known(sequence, Some(numbers)) => {
                self.look(&sequence, numbers, request, place).await?
            }
        };
        match sequence.place(place) {
            Placed::Ahead(why) => Ok(why.into()),
            Placed::Ordinary => self.claim_key(request).await,
            Placed::Below => self.claim_below(&sequence, request, place).await,
        }
    }

    /// Moves the mark as far as these numbers let it.
    async fn look(
        &mut self,
        sequence: &Sequence,
        numbers: Range<u64>,
        request: &ClaimRequest,
        place: &SequencePlace,
    ) -> Result<Sequence, CallError> {
        let (key, now) = (&place.sequence, self.now);
        // Most often it is the first of them that stands in the way of the others.
        let first = numbers.start..numbers.end.min(numbers.start + 1);
        let mut standings = self.standings(key, first).await?;
        let stuck = |first| sequence::stands_still(sequence, first, request, place, now);
        if !standings.first().copied().is_some_and(stuck) {
            standings = self.standings(key, numbers).await?;
        }
        let looked = sequence::look(sequence, &standings, request, place, now);
        self.save_looked(key, &looked).await?;
        Ok(looked.sequence)
    }

    async fn claim_below(
        &mut self,
        sequence: &Sequence,
        request: &ClaimRequest,
        place: &SequencePlace,
    ) -> Result<Claim, CallError> {
        let is_exception = self.is_exception(place).await?;
        let record = self.load(&request.key).await?;
        let record = record.as_ref();
        match sequence::below(sequence, is_exception, record, request, self.now) {
            Below::Answered(answer) => Ok(answer),
            Below::Claim => self.claim_key(request).await,
        }
    }

    async fn load_sequence(&mut self, key: &SequenceKey) -> Result<Option<Sequence>, CallError> {
        let row: Option<SqliteRow> = sqlx::query(self.sql.sequences.load.clone())
            .bind(key.to_string())
            .fetch_optional(&mut *self.connection)
            .await?;
        row.map(|row| rows::sequence(&row))
            .transpose()
            .map_err(|source| CallError::corrupt(key, source))
    }

    async fn save_sequence(
        &mut self,
        key: &SequenceKey,
        sequence: &Sequence,
    ) -> Result<(), CallError> {
        sqlx::query(self.sql.sequences.save.clone())
            .bind(key.to_string())
            .bind(number(sequence.joined))
            .bind(number(sequence.mark))
            .bind(sequence.window)
            .bind(sequence.ahead_since)
            .bind(sequence.ahead_at)
            .bind(sequence.look_by)
            .bind(sequence.expires_at)
            .execute(&mut *self.connection)
            .await?;
        Ok(())
    }

    async fn save_looked(&mut self, key: &SequenceKey, looked: &Looked) -> Result<(), CallError> {
        self.save_sequence(key, &looked.sequence).await?;
        if !looked.removed.is_empty() {
            let tokens: Vec<i64> = sqlx::query_scalar(self.sql.sequences.remove_records.clone())
                .bind(key.to_string())
                .bind(list(&looked.removed))
                .fetch_all(&mut *self.connection)
                .await?;
            self.raise_floor(&tokens).await?;
        }
        if !looked.exceptions.is_empty() {
            sqlx::query(self.sql.sequences.add_exceptions.clone())
                .bind(key.to_string())
                .bind(list(&looked.exceptions))
                .execute(&mut *self.connection)
                .await?;
        }
        if let Some(kept) = &looked.kept {
            sqlx::query(self.sql.sequences.keep.clone())
                .bind(key.to_string())
                .bind(number(kept.start))
                .bind(number(kept.end))
                .bind(looked.sequence.expires_at)
                .bind(self.now)
                .execute(&mut *self.connection)
                .await?;
        }
        Ok(())
    }

    async fn standings(
        &mut self,
        key: &SequenceKey,
        numbers: Range<u64>,
    ) -> Result<Vec<Standing>, CallError> {
        if numbers.is_empty() {
            return Ok(Vec::new());
        }
        let rows: Vec<SqliteRow> = sqlx::query(self.sql.sequences.standings.clone())
            .bind(key.to_string())
            .bind(number(numbers.start))
            .bind(number(numbers.end))
            .fetch_all(&mut *self.connection)
            .await?;
        let mut standings: Vec<_> = numbers.clone().map(|_| Standing::Missing).collect();
        for row in &rows {
            let at = rows::unsigned(row, "number");
            let standing = at.and_then(|at| Ok((at, rows::standing(row, self.now)?)));
            let (at, standing) = standing.map_err(|source| CallError::corrupt(key, source))?;
            let at = usize::try_from(at - numbers.start).unwrap_or(usize::MAX);
            if let Some(kept) = standings.get_mut(at) {
                *kept = standing;
            }
        }
        Ok(standings)
    }

    async fn is_exception(&mut self, place: &SequencePlace) -> Result<bool, CallError> {
        let is_exception = sqlx::query_scalar(self.sql.sequences.is_exception.clone())
            .bind(place.sequence.to_string())
            .bind(number(place.number))
            .fetch_one(&mut *self.connection)
            .await?;
        Ok(is_exception)
    }

    async fn remove_exceptions(&mut self, key: &SequenceKey) -> Result<(), CallError> {
        sqlx::query(self.sql.sequences.remove_exceptions.clone())
            .bind(key.to_string())
            .execute(&mut *self.connection)
            .await?;
        Ok(())
    }

    /// Removes at most so many sequences and exceptions that have expired, and says how many.
    pub(super) async fn purge_sequences(&mut self, batch: u32) -> Result<u32, Fault> {
        let mut left = batch;
        sqlx::query(self.sql.sequences.settle.clone())
            .bind(self.now)
            .bind(batch)
            .execute(&mut *self.connection)
            .await?;
        for statement in [
            &self.sql.sequences.purge_exceptions,
            &self.sql.sequences.purge,
        ] {
            let removed = sqlx::query(statement.clone())
                .bind(self.now)
                .bind(left)
                .execute(&mut *self.connection)
                .await?;
            left -= u32::try_from(removed.rows_affected())
                .unwrap_or(left)
                .min(left);
        }
        Ok(batch - left)
    }
}

/// As a statement takes them.
fn list(numbers: &[u64]) -> String {
    let numbers: Vec<_> = numbers.iter().map(u64::to_string).collect();
    format!("[{}]", numbers.join(","))
}
