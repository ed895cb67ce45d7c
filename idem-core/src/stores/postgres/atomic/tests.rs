use std::{future::Future, sync::Arc};

use idem_servers::postgres;
use sqlx::{Connection as _, Executor as _};

use super::*;
use crate::{
    handler::Outcome,
    store::{Completion, Finish, Owner, Release, Store as _, TransactionalStore},
    stores::{
        postgres::transactions::OpenTransaction,
        tests::{MINUTE, Told, request},
    },
};

mod ahead;
mod connections;
mod endings;
mod flushing;
mod function;
mod isolation;
mod lost;
mod marks;
mod pooler;
pub(in crate::stores::postgres) mod proxy;
#[allow(
    clippy::duplicate_mod,
    reason = "the same of every store that lends a transaction"
)]
#[path = "../../tests/replies.rs"]
mod replies;
mod round_trips;
mod stray;
mod unread;
mod values;

type Lent = PgConnection;

/// A store in a schema of its own, with tables for the handlers.
struct Shop {
    url: String,
    schema: String,
    store: PostgresStore,
}

impl Shop {
    async fn open() -> Self {
        Self::with(|builder| builder).await
    }

    async fn with(
        options: impl FnOnce(crate::stores::PostgresStoreBuilder) -> crate::stores::PostgresStoreBuilder,
    ) -> Self {
        let server = postgres::shared().expect("PostgreSQL can be started");
        Self::at(&server.url(), options).await
    }

    /// Reaches the shared server by this URL.
    async fn at(
        url: &str,
        options: impl FnOnce(crate::stores::PostgresStoreBuilder) -> crate::stores::PostgresStoreBuilder,
    ) -> Self {
        let schema = unique();
        let url = format!("{url}?options[search_path]={schema}&application_name={schema}");
        let builder = PostgresStore::builder(&url).schema(&schema);
        let store = options(builder).build().await.unwrap();
        let shop = Self { url, schema, store };
        let tables = "CREATE TABLE charges (id text);
            CREATE TABLE parents (id text PRIMARY KEY);
            CREATE TABLE children (
                parent text REFERENCES parents (id) DEFERRABLE INITIALLY DEFERRED,
                name text UNIQUE DEFERRABLE INITIALLY DEFERRED
            )";
        let mut bystander = shop.bystander().await;
        execute(&mut bystander, tables).await.unwrap();
        shop
    }

    /// A connection that is none of the store's.
    async fn bystander(&self) -> PgConnection {
        let url = self
            .url
            .replace("&application_name=", "&application_name=not_");
        PgConnection::connect(&url).await.unwrap()
    }

    async fn begin(&self, id: &str) -> (Lease, OpenTransaction) {
        self.begin_request(&request(id)).await
    }

    async fn begin_request(&self, request: &ClaimRequest) -> (Lease, OpenTransaction) {
        match begin(&self.store, request).await {
            Ok(Begun::Acquired(lease, open)) => (lease, open),
            other => panic!("{other:?}"),
        }
    }

    async fn commit(&self, open: OpenTransaction, lease: &Lease) -> Result<Finished, StoreError> {
        let outcome = Outcome::new("done");
        let complete = complete(lease, &outcome, 10 * MINUTE);
        TransactionalStore::<Lent>::finish(&self.store, open, complete).await
    }

    async fn commits(&self, open: OpenTransaction, lease: &Lease) {
        let commit = self.commit(open, lease).await;
        assert!(matches!(commit, Ok(Finished::Committed)), "{commit:?}");
    }

    async fn rolls_back(&self, open: OpenTransaction, lease: &Lease) {
        let ended = TransactionalStore::<Lent>::finish(&self.store, open, Finish::RollBack).await;
        assert_eq!(ended.unwrap(), Finished::RolledBack);
        let write = self.store.release(lease, &Release::failed("no")).await;
        assert_eq!(write.unwrap(), Write::Applied);
    }

    async fn is_completed(&self, id: &str) -> bool {
        let claim = self.store.claim(&request(id)).await.unwrap();
        matches!(claim, Claim::Completed { .. })
    }

    async fn charges(&self) -> i64 {
        sqlx::query_scalar("SELECT count(*) FROM charges")
            .fetch_one(&mut self.bystander().await)
            .await
            .unwrap()
    }

    /// Waits until the server has ended every transaction of the store, also one whose last statements
    /// it has yet to read.
    async fn nothing_is_locked(&self) {
        let open = "SELECT count(*) FROM pg_stat_activity
            WHERE application_name = $1 AND state <> 'idle'";
        let mut bystander = self.bystander().await;
        let ended = async {
            while sqlx::query_scalar::<_, i64>(open)
                .bind(&self.schema)
                .fetch_one(&mut bystander)
                .await
                .unwrap()
                > 0
            {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let ended = tokio::time::timeout(Duration::from_secs(10), ended).await;
        ended.expect("within 10 s the store's transactions have ended");
        let lock = "SET lock_timeout = '10s'; BEGIN; LOCK TABLE charges; ROLLBACK";
        execute(&mut bystander, lock).await.unwrap();
    }
}

async fn begin(
    store: &PostgresStore,
    request: &ClaimRequest,
) -> Result<Begun<OpenTransaction>, StoreError> {
    TransactionalStore::<Lent>::begin(store, request).await
}

fn unique() -> String {
    format!("atomic_{:x}", u128::from_be_bytes(*Owner::new().as_bytes()))
}

fn lend(open: &mut OpenTransaction) -> &mut Lent {
    PostgresStore::lend(open)
}

async fn charge(connection: &mut PgConnection) {
    sqlx::query("INSERT INTO charges VALUES ('o-1')")
        .execute(connection)
        .await
        .unwrap();
}

async fn execute(connection: &mut PgConnection, sql: impl Into<String>) -> Result<(), sqlx::Error> {
    let sql = sqlx::AssertSqlSafe(sql.into());
    connection.execute(sqlx::raw_sql(sql)).await.map(drop)
}

/// The process that serves a connection.
async fn pid(connection: &mut PgConnection) -> i32 {
    sqlx::query_scalar("SELECT pg_backend_pid()")
        .fetch_one(connection)
        .await
        .unwrap()
}

/// Completes a claim with its transaction.
fn complete<'a>(lease: &'a Lease, outcome: &'a Outcome, retention: Duration) -> Finish<'a> {
    Finish::Complete(Completion::new(lease, outcome, retention))
}

fn refusal(commit: Result<Finished, StoreError>) -> String {
    match commit {
        Ok(Finished::Refused { error }) => error,
        other => panic!("{other:?}"),
    }
}
