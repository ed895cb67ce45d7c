//! One step of a session, in a transaction that has its row locked.

use sqlx::{Connection as _, PgConnection, PgTransaction};

use super::statements::Statements;
use crate::{
    message::{SessionKey, SessionPlace},
    store::{
        Claim, ClaimRequest, StoreError, Touched,
        rules::session::{self, Placed, Session},
    },
    stores::postgres::{
        claims::{self, AnswerWhen},
        sql::Sql,
    },
    stores::rows::{self, number},
};

/// What a session is asked.
pub(super) trait Question: Send + Sync {
    type Answer: Send;

    fn put(
        &self,
        step: &mut Step<'_>,
    ) -> impl Future<Output = Result<Self::Answer, sqlx::Error>> + Send;
}

pub(super) struct Claiming<'a> {
    pub(super) request: &'a ClaimRequest,
    pub(super) place: &'a SessionPlace,
}

pub(super) struct Touching;

pub(super) struct Closing;

impl Question for Claiming<'_> {
    type Answer = Result<Claim, StoreError>;

    async fn put(&self, step: &mut Step<'_>) -> Result<Self::Answer, sqlx::Error> {
        match session::place(step.session.as_ref(), self.place, step.now) {
            Placed::Outside(why, written) => {
                step.save(written).await?;
                Ok(Ok(why.into()))
            }
            // First the claim, which may wait for a worker who writes: the answers are then
            // removed without waiting, so that no two transactions ever wait for each other.
            Placed::Inside(written) => {
                let claimed = step.claim_key(self.request).await?;
                if claimed.is_ok() {
                    step.save(Some(written)).await?;
                }
                Ok(claimed)
            }
        }
    }
}

impl Question for Touching {
    type Answer = Touched;

    async fn put(&self, step: &mut Step<'_>) -> Result<Touched, sqlx::Error> {
        let touched = session::touch(step.session.as_ref(), step.now);
        step.save(touched).await?;
        Ok(match touched {
            Some(_) => Touched::Living,
            None => Touched::Expired,
        })
    }
}

impl Question for Closing {
    type Answer = ();

    async fn put(&self, step: &mut Step<'_>) -> Result<(), sqlx::Error> {
        step.save(session::close(step.session.as_ref(), step.now))
            .await
    }
}

/// A transaction that has a session's row locked. Dropped without a commit, it is rolled back.
pub(super) struct Step<'c> {
    transaction: PgTransaction<'c>,
    statements: &'c Statements,
    sql: &'c Sql,
    key: &'c SessionKey,
    session: Option<Session>,
    now: i64,
    skew: i64,
}

impl<'c> Step<'c> {
    /// Locks the session, if there is one.
    pub(super) async fn begin(
        connection: &'c mut PgConnection,
        statements: &'c Statements,
        sql: &'c Sql,
        key: &'c SessionKey,
        skew: i64,
    ) -> Result<Self, sqlx::Error> {
        let mut transaction = connection.begin_with(statements.begin.clone()).await?;
        let row = sqlx::query(statements.lock.clone())
            .bind(key.as_str())
            .bind(skew)
            .fetch_optional(&mut *transaction)
            .await?;
        let (session, now) = match row {
            Some(row) => (Some(rows::session(&row)?), rows::time(&row, "now")?),
            None => (None, 0),
        };
        Ok(Self {
            transaction,
            statements,
            sql,
            key,
            session,
            now,
            skew,
        })
    }

    pub(super) async fn commit(self) -> Result<(), sqlx::Error> {
        self.transaction.commit().await
    }

    /// The ordinary statement, as a batch of one.
    async fn claim_key(
        &mut self,
        request: &ClaimRequest,
    ) -> Result<Result<Claim, StoreError>, sqlx::Error> {
        let asked = (request, AnswerWhen::Durable);
        claims::claim_alone(&mut self.transaction, asked, self.sql, self.skew).await
    }

    /// Removes the answers that the mark has passed, too. `None` leaves the session as it is.
    async fn save(&mut self, written: Option<Session>) -> Result<(), sqlx::Error> {
        let (Some(known), Some(session)) = (&self.session, written) else {
            return Ok(());
        };
        let (answers, until) = (known.passed_by(&session), known.keeps_until(&session));
        sqlx::query(self.statements.save.clone())
            .bind(self.key.as_str())
            .bind(number(session.mark))
            .bind(session.ends_at)
            .bind(number(answers.start))
            .bind(number(answers.end))
            .execute(&mut *self.transaction)
            .await?;
        match until {
            Some(until) => self.keep(&session, until).await,
            None => Ok(()),
        }
    }

    async fn keep(&mut self, session: &Session, until: i64) -> Result<(), sqlx::Error> {
        let numbers = session.answers();
        sqlx::query(self.statements.keep.clone())
            .bind(self.key.as_str())
            .bind(number(numbers.start))
            .bind(number(numbers.end))
            .bind(until)
            .bind(self.now)
            .execute(&mut *self.transaction)
            .await
            .map(drop)
    }
}
