//! Interventions within a transaction of the writer, which alone writes: so each is one step.

use crate::{
    store::{
        operator::{AUDIT_LASTS, Intervened, Intervention},
        rules::record::{self, Ruling, Step},
    },
    stores::sqlite::{
        batch::{Batch, CallError, alone},
        call::OperatorCall,
        fault::Fault,
        row,
    },
};

impl Batch<'_> {
    pub(in crate::stores::sqlite) async fn execute_operator(
        &mut self,
        call: &mut OperatorCall,
    ) -> Result<(), Fault> {
        match call {
            OperatorCall::Intervene {
                intervention,
                reply,
            } => {
                let answer = self.intervene(intervention).await;
                reply.hold(alone(answer)?);
            }
            OperatorCall::Prepare { reply } => {
                self.prepare().await?;
                reply.hold(Ok(()));
            }
        }
        Ok(())
    }

    /// Creates what a file of an earlier version of the program lacks.
    async fn prepare(&mut self) -> Result<(), sqlx::Error> {
        if !super::has_audit(self.connection, &self.sql.operator).await? {
            sqlx::raw_sql(self.sql.schema.clone())
                .execute(&mut *self.connection)
                .await?;
        }
        Ok(())
    }

    /// Notes of what operators changed are not counted: they are no records.
    pub(in crate::stores::sqlite) async fn purge_audit(
        &mut self,
        batch: u32,
    ) -> Result<(), sqlx::Error> {
        if !super::has_audit(self.connection, &self.sql.operator).await? {
            return Ok(());
        }
        sqlx::query(self.sql.operator.purge.clone())
            .bind(self.now.saturating_sub(record::micros(AUDIT_LASTS)))
            .bind(batch)
            .execute(&mut *self.connection)
            .await?;
        Ok(())
    }

    async fn intervene(&mut self, intervention: &Intervention) -> Result<Intervened, CallError> {
        self.prepare().await?;
        if self.is_noted(intervention).await? {
            return Ok(Intervened::Applied);
        }
        let key = &intervention.key;
        let record = self.load(key).await?;
        let floor = self.floor().await?;
        match record::intervene(record.as_ref(), intervention, self.now, floor) {
            Ruling::Refused(answer) => return Ok(answer),
            Ruling::Removed => {
                sqlx::query(self.sql.operator.remove.clone())
                    .bind(row::text(key))
                    .execute(&mut *self.connection)
                    .await?;
                let token = record.map(|record| record.token);
                self.raise_floor(token.as_slice()).await?;
            }
            Ruling::Written(record) => {
                let step = Step {
                    answer: (),
                    write: Some(record),
                };
                self.save(key, step).await?;
            }
        }
        self.note(intervention).await?;
        Ok(Intervened::Applied)
    }

    async fn is_noted(&mut self, intervention: &Intervention) -> Result<bool, sqlx::Error> {
        let noted: i64 = sqlx::query_scalar(self.sql.operator.is_noted.clone())
            .bind(row::text(&intervention.key))
            .bind(intervention.owner.as_bytes().to_vec())
            .fetch_one(&mut *self.connection)
            .await?;
        Ok(noted > 0)
    }

    async fn note(&mut self, intervention: &Intervention) -> Result<(), sqlx::Error> {
        let seen = intervention.seen;
        sqlx::query(self.sql.operator.note.clone())
            .bind(row::text(&intervention.key))
            .bind(self.now)
            .bind(intervention.action.as_str())
            .bind(intervention.by.clone())
            .bind(seen.map(|seen| seen.state.as_str()))
            .bind(seen.map(|seen| seen.token.get()))
            .bind(intervention.owner.as_bytes().to_vec())
            .execute(&mut *self.connection)
            .await?;
        Ok(())
    }
}
