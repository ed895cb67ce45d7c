//! Sessions within a transaction of the writer, which alone writes: so each step is one.

use std::ops::Range;

use sqlx::{Row, sqlite::SqliteRow};

use super::{
    SqliteStore,
    batch::{Batch, CallError, alone},
    call::{Call, Reply, SessionCall},
    fault::Fault,
};
use crate::{
    message::{SessionKey, SessionPlace},
    store::{
        Claim, ClaimRequest, OpenSession, Opened, SessionStore, StoreError, Touched,
        rules::session::{self, Placed, Session},
    },
    stores::rows::{self, number},
};

impl SessionStore for SqliteStore {
    async fn open(&self, request: &OpenSession) -> Result<Opened, StoreError> {
        let request = request.clone();
        self.ask(|reply| SessionCall::Open { request, reply }).await
    }

    async fn touch(&self, session: &SessionKey) -> Result<Touched, StoreError> {
        let session = session.clone();
        self.ask(|reply| SessionCall::Touch { session, reply })
            .await
    }

    async fn close(&self, session: &SessionKey) -> Result<(), StoreError> {
        let session = session.clone();
        self.ask(|reply| SessionCall::Close { session, reply })
            .await
    }

    async fn expire(&self, batch: u32) -> Result<u32, StoreError> {
        self.ask(|reply| SessionCall::Expire { batch, reply }).await
    }
}

impl SqliteStore {
    async fn ask<T>(&self, call: impl FnOnce(Reply<T>) -> SessionCall) -> Result<T, StoreError> {
        self.writer.call(|reply| Call::Session(call(reply))).await
    }
}

impl Batch<'_> {
    pub(super) async fn execute_session(&mut self, call: &mut SessionCall) -> Result<(), Fault> {
        match call {
            SessionCall::Open { request, reply } => {
                let answer = self.open(request).await;
                reply.hold(alone(answer)?);
            }
            SessionCall::Touch { session, reply } => {
                let answer = self.touch(session).await;
                reply.hold(alone(answer)?);
            }
            SessionCall::Close { session, reply } => {
                let answer = self.close(session).await;
                reply.hold(alone(answer)?);
            }
            SessionCall::Expire { batch, reply } => {
                let answer = self.expire(*batch).await;
                reply.hold(alone(answer)?);
            }
        }
        Ok(())
    }

    /// A claim of a session's request.
    pub(super) async fn claim_place(
        &mut self,
        request: &ClaimRequest,
        place: &SessionPlace,
    ) -> Result<Claim, CallError> {
        let key = &place.session;
        let known = self.load_session(key).await?;
        match session::place(known.as_ref(), place, self.now) {
            Placed::Outside(why, written) => {
                self.save_session(key, known, written).await?;
                Ok(why.into())
            }
            Placed::Inside(written) => {
                self.save_session(key, known, Some(written)).await?;
                self.claim_key(request).await
            }
        }
    }

    async fn open(&mut self, request: &OpenSession) -> Result<Opened, CallError> {
        let known = self.load_session(&request.session).await?;
        let opened = session::open(known.as_ref(), request, self.now);
        self.save_session(&request.session, known, opened).await?;
        Ok(match opened {
            Some(_) => Opened::New,
            None => Opened::Known,
        })
    }

    async fn touch(&mut self, key: &SessionKey) -> Result<Touched, CallError> {
        let known = self.load_session(key).await?;
        let touched = session::touch(known.as_ref(), self.now);
        self.save_session(key, known, touched).await?;
        Ok(match touched {
            Some(_) => Touched::Living,
            None => Touched::Expired,
        })
    }

    async fn close(&mut self, key: &SessionKey) -> Result<(), CallError> {
        let known = self.load_session(key).await?;
        let closed = session::close(known.as_ref(), self.now);
        self.save_session(key, known, closed).await
    }

    async fn expire(&mut self, batch: u32) -> Result<u32, CallError> {
        let removed: Vec<SqliteRow> = sqlx::query(self.sql.expire.clone())
            .bind(self.now)
            .bind(batch)
            .fetch_all(&mut *self.connection)
            .await?;
        for row in &removed {
            let key: String = row.try_get("key")?;
            let session = rows::session(row).map_err(|source| CallError::corrupt(&key, source))?;
            self.remove_answers(key, session.answers()).await?;
        }
        Ok(u32::try_from(removed.len()).unwrap_or(batch))
    }

    async fn load_session(&mut self, key: &SessionKey) -> Result<Option<Session>, CallError> {
        let row: Option<SqliteRow> = sqlx::query(self.sql.load_session.clone())
            .bind(key.to_string())
            .fetch_optional(&mut *self.connection)
            .await?;
        row.map(|row| rows::session(&row))
            .transpose()
            .map_err(|source| CallError::corrupt(key, source))
    }

    /// Removes the answers that the mark has passed, too. `None` leaves the session as it is.
    async fn save_session(
        &mut self,
        key: &SessionKey,
        known: Option<Session>,
        written: Option<Session>,
    ) -> Result<(), CallError> {
        let Some(written) = written else {
            return Ok(());
        };
        sqlx::query(self.sql.save_session.clone())
            .bind(key.to_string())
            .bind(number(written.mark))
            .bind(written.window)
            .bind(written.life)
            .bind(written.ends_at)
            .bind(written.remove_at())
            .execute(&mut *self.connection)
            .await?;
        let Some(known) = known else { return Ok(()) };
        self.remove_answers(key.to_string(), known.passed_by(&written))
            .await?;
        if let Some(until) = known.keeps_until(&written) {
            self.keep_records(key, written.answers(), until).await?;
        }
        Ok(())
    }

    async fn keep_records(
        &mut self,
        key: &SessionKey,
        numbers: Range<u64>,
        until: i64,
    ) -> Result<(), CallError> {
        sqlx::query(self.sql.keep_records.clone())
            .bind(key.to_string())
            .bind(number(numbers.start))
            .bind(number(numbers.end))
            .bind(until)
            .bind(self.now)
            .execute(&mut *self.connection)
            .await?;
        Ok(())
    }

    async fn remove_answers(&mut self, key: String, numbers: Range<u64>) -> Result<(), CallError> {
        if numbers.is_empty() {
            return Ok(());
        }
        let tokens: Vec<i64> = sqlx::query_scalar(self.sql.remove_answers.clone())
            .bind(key)
            .bind(number(numbers.start))
            .bind(number(numbers.end))
            .fetch_all(&mut *self.connection)
            .await?;
        Ok(self.raise_floor(&tokens).await?)
    }
}
