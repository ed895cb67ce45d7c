//! One intervention: a transaction in which the record is locked.

use sqlx::{Connection as _, Executor as _, PgConnection};

use super::statements::Statements;
use crate::{
    store::{
        StoreError,
        operator::{Intervened, Intervention},
        rules::record::{self, Record, Ruling, State},
    },
    stores::{
        postgres::{link::Work, writes},
        rows,
    },
};

pub(super) struct Intervening<'a> {
    pub(super) sql: &'a Statements,
    pub(super) intervention: &'a Intervention,
    pub(super) skew: i64,
}

impl Work for Intervening<'_> {
    type Done = Result<Intervened, StoreError>;

    async fn on(&self, connection: &mut PgConnection) -> Result<Self::Done, sqlx::Error> {
        let mut transaction = connection.begin_with(self.sql.begin.clone()).await?;
        let done = self.intervene(&mut transaction).await?;
        if matches!(done, Ok(Intervened::Applied)) {
            transaction.commit().await?;
        } else {
            transaction.rollback().await?;
        }
        Ok(done)
    }
}

impl Intervening<'_> {
    async fn intervene(
        &self,
        connection: &mut PgConnection,
    ) -> Result<Result<Intervened, StoreError>, sqlx::Error> {
        let known = match self.lock(connection).await? {
            Ok(known) => known,
            Err(unreadable) => return Ok(Err(unreadable)),
        };
        // Under the lock, or two tries of one intervention could both find nothing.
        if self.is_noted(connection).await? {
            return Ok(Ok(Intervened::Applied));
        }
        // The time and the token are the server's, in the statement that writes.
        let (now, floor) = (0, 0);
        match record::intervene(known.as_ref(), self.intervention, now, floor) {
            Ruling::Refused(answer) => return Ok(Ok(answer)),
            Ruling::Removed => self.remove(connection).await?,
            Ruling::Written(record) => {
                if !self.write(connection, record, known.is_some()).await? {
                    // By another, or by an earlier try of this one.
                    let earlier = self.is_noted(connection).await?;
                    return Ok(Ok(if earlier {
                        Intervened::Applied
                    } else {
                        Intervened::Changed
                    }));
                }
            }
        }
        self.note(connection).await?;
        Ok(Ok(Intervened::Applied))
    }

    async fn lock(
        &self,
        connection: &mut PgConnection,
    ) -> Result<Result<Option<Record>, StoreError>, sqlx::Error> {
        let row = sqlx::query(self.sql.lock.clone())
            .bind(self.key())
            .fetch_optional(connection)
            .await?;
        let known = row.map(|row| rows::record_in_full(&row)).transpose();
        Ok(known.map_err(|source| StoreError::Corrupt {
            key: self.key().to_owned(),
            source,
        }))
    }

    async fn is_noted(&self, connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
        sqlx::query_scalar(self.sql.is_noted.clone())
            .bind(self.key())
            .bind(self.intervention.owner.as_bytes().as_slice())
            .fetch_one(connection)
            .await
    }

    async fn remove(&self, connection: &mut PgConnection) -> Result<(), sqlx::Error> {
        let remove = sqlx::query(self.sql.remove.clone()).bind(self.key());
        connection.execute(remove).await.map(drop)
    }

    /// Whether it was written: a key without a record may have got one meanwhile.
    async fn write(
        &self,
        connection: &mut PgConnection,
        record: Record,
        known: bool,
    ) -> Result<bool, sqlx::Error> {
        let (state, reason, error, outcome) = match record.state {
            State::InProgress { .. } => ("in_progress", None, None, None),
            State::Completed { outcome } => ("completed", None, None, Some(outcome)),
            State::Failed { reason, error, .. } => ("failed", Some(reason), error, None),
        };
        let fingerprint = record.fingerprint.map(|it| it.as_bytes().to_vec());
        let written = sqlx::query(self.sql.write.clone())
            .bind(self.skew)
            .bind(self.key())
            .bind(state)
            .bind(reason.map(record::Reason::as_str))
            .bind(error.map(|error| writes::text(&error)))
            .bind(i32::try_from(record.attempts).unwrap_or(i32::MAX))
            .bind(record.in_doubt)
            .bind(
                record
                    .retention
                    .min(crate::stores::postgres::length::LONGEST),
            )
            .bind(record.owner.as_bytes().to_vec())
            .bind(fingerprint)
            .bind(outcome.map(|outcome| outcome.as_bytes().to_vec()))
            .bind(known)
            .execute(connection)
            .await?;
        Ok(written.rows_affected() == 1)
    }

    async fn note(&self, connection: &mut PgConnection) -> Result<(), sqlx::Error> {
        let Intervention {
            action,
            seen,
            owner,
            by,
            ..
        } = self.intervention;
        let note = sqlx::query(self.sql.note.clone())
            .bind(self.skew)
            .bind(self.key())
            .bind(action.as_str())
            .bind(writes::text(by))
            .bind(seen.map(|seen| seen.state.as_str()))
            .bind(seen.map(|seen| seen.token.get()))
            .bind(owner.as_bytes().as_slice());
        connection.execute(note).await.map(drop)
    }

    fn key(&self) -> &str {
        self.intervention.key.as_str()
    }
}
