use std::sync::atomic::{AtomicU32, Ordering};

use idem_servers::postgres;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use super::*;
use crate::{
    handler::Policy,
    message::Key,
    store::Owner,
    stores::tests::{self as alike, MINUTE, acquire, complete, request},
};

mod batching;
mod healing;
mod housekeeping;
mod locked;
mod notices;
mod operator;
mod options;
mod poolers;
mod races;
mod rights;
mod schema;
mod sending;
mod sequences;
mod sessions;
mod taking;

/// A database of its own for each test, gone with the server.
struct Database {
    url: String,
}

impl Database {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let server = postgres::shared().unwrap();
        let name = format!(
            "own_{}_{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        Self {
            url: server.create_database(&name).unwrap(),
        }
    }

    async fn store(&self) -> PostgresStore {
        PostgresStore::connect(&self.url).await.unwrap()
    }

    /// A connection that is none of the store's.
    async fn bystander(&self) -> PgConnection {
        PgConnection::connect(&self.url).await.unwrap()
    }

    async fn run(&self, sql: &str) {
        run(&mut self.bystander().await, sql).await;
    }

    async fn number(&self, sql: &'static str) -> i64 {
        let mut bystander = self.bystander().await;
        sqlx::query_scalar(sql)
            .fetch_one(&mut bystander)
            .await
            .unwrap()
    }

    /// Waits until this many sessions wait for a lock.
    async fn sessions_wait(&self, count: i64) {
        let mut bystander = self.bystander().await;
        let waiting = "SELECT count(*) FROM pg_stat_activity
                       WHERE datname = current_database() AND wait_event_type = 'Lock'";
        while sqlx::query_scalar::<_, i64>(waiting)
            .fetch_one(&mut bystander)
            .await
            .unwrap()
            < count
        {
            tokio::task::yield_now().await;
        }
    }
}

async fn run(connection: &mut PgConnection, sql: &str) {
    sqlx::raw_sql(AssertSqlSafe(sql))
        .execute(connection)
        .await
        .unwrap();
}

fn is_held(claim: &Result<Claim, StoreError>) -> bool {
    matches!(claim, Ok(Claim::Held { .. }))
}
