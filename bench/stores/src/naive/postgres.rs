//! SELECT, INSERT, UPDATE on a pool of connections, each statement a transaction of its own.

use idem_core::sqlx::{self, PgPool, postgres::PgPoolOptions};

use super::{not_done, not_new};
use crate::{Result, contender::Contender};

const CONNECTIONS: u32 = 16;

#[derive(Debug)]
pub(crate) struct NaivePostgres(PgPool);

impl NaivePostgres {
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        let pool = PgPoolOptions::new()
            .min_connections(CONNECTIONS)
            .max_connections(CONNECTIONS)
            // As it is in most programs that are written for speed.
            .test_before_acquire(false)
            .connect(url)
            .await?;
        sqlx::raw_sql(
            "CREATE TABLE processed (
                key        text PRIMARY KEY,
                status     text NOT NULL,
                updated_at timestamptz NOT NULL DEFAULT now()
            )",
        )
        .execute(&pool)
        .await?;
        Ok(Self(pool))
    }

    async fn status(&self, name: &str) -> Result<Option<String>> {
        let select = sqlx::query_scalar("SELECT status FROM processed WHERE key = $1");
        Ok(select.bind(name).fetch_optional(&self.0).await?)
    }
}

impl Contender for NaivePostgres {
    async fn first(&self, name: &str) -> Result<()> {
        if self.status(name).await?.is_some() {
            return Err(not_new(name));
        }
        sqlx::query("INSERT INTO processed (key, status) VALUES ($1, 'processing')")
            .bind(name)
            .execute(&self.0)
            .await?;
        sqlx::query("UPDATE processed SET status = 'done', updated_at = now() WHERE key = $1")
            .bind(name)
            .execute(&self.0)
            .await?;
        Ok(())
    }

    async fn again(&self, name: &str) -> Result<()> {
        match self.status(name).await?.as_deref() {
            Some("done") => Ok(()),
            _ => Err(not_done(name)),
        }
    }
}
