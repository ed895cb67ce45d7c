//! Sequences within a transaction of the writer, which alone writes: so nothing changes between the steps of a claim.
//!
//! `batch` comes here with a claim of a numbered message, and with a purge. What each step decides is in
//! `store::rules::sequence`; this file reads what the rules ask for, and writes what they say. What must stay true:
//!
//! - Mark, exceptions and records change together, which the batch's one commit sees to.
//! - Tokens of removed records are not given out again.

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
    /// A claim of a numbered message. It stands alone among the calls of its batch, so all that was written before it
    /// is in the tables.
    pub(super) async fn claim_numbered(
        &mut self,
        request: &ClaimRequest,
        place: &SequencePlace,
    ) -> Result<Claim, CallError> {
        let key = &place.sequence;
        // 1. The sequence, as its last claim has left it.
        let known = self.load_sequence(key).await?;
        // 2. Whether there is one, and how far its mark can move.
        let sequence = match sequence::enter(known.as_ref(), request, place, self.now) {
            Entered::Ahead(why) => return Ok(why.into()),
            Entered::Unknown => return self.claim_key(request).await,
            Entered::Begun(sequence) => {
                self.save_sequence(key, &sequence).await?;
                // Those of one that has expired: they would make numbers of this one late.
                self.remove_exceptions(key).await?;
                sequence
            }
            Entered::Known(sequence, None) => sequence,
            Entered::Known(sequence, Some(numbers)) => {
                self.look(&sequence, numbers, request, place).await?
            }
        };
        // 3. Where the number stands by now.
        match sequence.place(place) {
            Placed::Ahead(why) => Ok(why.into()),
            Placed::Ordinary => self.claim_key(request).await,
            Placed::Below => self.claim_below(&sequence, request, place).await,
        }
    }

    /// Moves the mark as far as these numbers let it, and writes what has come of it.
    async fn look(
        &mut self,
        sequence: &Sequence,
        numbers: Range<u64>,
        request: &ClaimRequest,
        place: &SequencePlace,
    ) -> Result<Sequence, CallError> {
        let (key, now) = (&place.sequence, self.now);
        // Most often it is the first of them that stands in the way of the others. Then the rest, up to a thousand
        // records, is not read.
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

    /// Decides about a number below the mark: by its record, and by whether it is an exception.
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
            // A replay, or one that is to be tried again, or quarantined: the ordinary rules decide.
            Below::Claim => self.claim_key(request).await,
        }
    }

    /// The sequence, expired or not: the rules look at its end. A row that cannot be read fails this claim alone.
    async fn load_sequence(&mut self, key: &SequenceKey) -> Result<Option<Sequence>, CallError> {
        let row: Option<SqliteRow> = sqlx::query(self.sql.sequences.load.clone())
            .bind(key.to_string())
            .fetch_optional(&mut *self.connection)
            .await?;
        row.map(|row| rows::sequence(&row))
            .transpose()
            .map_err(|source| CallError::corrupt(key, source))
    }

    /// Writes all of the sequence's row, a new one too.
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

    /// Writes what a look has come to: the sequence, and then what has changed beside it.
    async fn save_looked(&mut self, key: &SequenceKey, looked: &Looked) -> Result<(), CallError> {
        self.save_sequence(key, &looked.sequence).await?;
        if !looked.removed.is_empty() {
            // The mark says from now on that these are done.
            let tokens: Vec<i64> = sqlx::query_scalar(self.sql.sequences.remove_records.clone())
                .bind(key.to_string())
                .bind(list(&looked.removed))
                .fetch_all(&mut *self.connection)
                .await?;
            // The sequence may be forgotten one day and its numbers claimed anew. Such a claim must get a higher token
            // than whoever worked on the number before.
            self.raise_floor(&tokens).await?;
        }
        if !looked.exceptions.is_empty() {
            // Without these the mark would say of them, too, that they are done.
            sqlx::query(self.sql.sequences.add_exceptions.clone())
                .bind(key.to_string())
                .bind(list(&looked.exceptions))
                .execute(&mut *self.connection)
                .await?;
        }
        // Each eighth of the retention only: to write a window of records costs.
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

    /// How these numbers stand, in their order. A number without a record is missing, so only those with one have a
    /// row.
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
            let at = rows::unsigned(row, "number")? - numbers.start;
            let at = usize::try_from(at).unwrap_or(usize::MAX);
            if let Some(kept) = standings.get_mut(at) {
                *kept = rows::standing(row, self.now);
            }
        }
        Ok(standings)
    }

    /// Whether the number is below the mark and not done.
    async fn is_exception(&mut self, place: &SequencePlace) -> Result<bool, CallError> {
        let is_exception = sqlx::query_scalar(self.sql.sequences.is_exception.clone())
            .bind(place.sequence.to_string())
            .bind(number(place.number))
            .fetch_one(&mut *self.connection)
            .await?;
        Ok(is_exception)
    }

    /// Forgets what an earlier sequence of this name has left.
    async fn remove_exceptions(&mut self, key: &SequenceKey) -> Result<(), CallError> {
        sqlx::query(self.sql.sequences.remove_exceptions.clone())
            .bind(key.to_string())
            .execute(&mut *self.connection)
            .await?;
        Ok(())
    }

    /// Removes at most so many sequences and exceptions that have expired, and says how many.
    pub(super) async fn purge_sequences(&mut self, batch: u32) -> Result<u32, Fault> {
        // What may still be removed: a purge holds the write lock only for so much.
        let mut left = batch;
        // First the sequences are settled: from here on they begin at their mark, so that no number below it is taken
        // for done while its exception may be gone. Only then the exceptions, and last the sequences that have none
        // left.
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
            // The second statement has what the first has left of the batch.
            left -= u32::try_from(removed.rows_affected())
                .unwrap_or(left)
                .min(left);
        }
        Ok(batch - left)
    }
}

/// The numbers as a statement takes them: a JSON text.
fn list(numbers: &[u64]) -> String {
    let numbers: Vec<_> = numbers.iter().map(u64::to_string).collect();
    format!("[{}]", numbers.join(","))
}
