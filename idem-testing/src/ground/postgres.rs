//! A PostgreSQL store in a schema of its own, on a server that runs already.

use std::{sync::Arc, thread, time::Duration};

use idem_core::{
    sqlx::{
        self, AssertSqlSafe, ConnectOptions as _, Connection as _, PgConnection, PgPool,
        postgres::{PgConnectOptions, PgPoolOptions},
    },
    store::{TransactionalStore, outbox::SharedOutbox},
    stores::PostgresStore,
};

use super::{
    super::clock::StandingStill,
    Ground,
    database::{Database, LONGEST_ACQUIRE},
    sealed,
};
use crate::{FaultyStore, unique_name};

/// A [`PostgresStore`] in a schema of its own, which is dropped with the last harness on it.
#[derive(Debug, Clone)]
pub struct OnPostgres {
    store: FaultyStore<PostgresStore>,
    schema: Arc<Schema>,
    tables: Arc<str>,
}

#[derive(Debug)]
struct Schema {
    name: String,
    server: PgConnectOptions,
}

const TABLE: &str = "idem_records";
/// On the host's clock.
const LONGEST_OPENING: Duration = Duration::from_secs(30);
/// On the host's clock: how long a handler may wait for the server before the paused clock goes on, for it may wait for
/// that.
const LONGEST_STATEMENT: Duration = Duration::from_secs(2);

impl OnPostgres {
    /// In a new schema of this database, with these tables of the application's.
    ///
    /// # Panics
    /// If the server cannot be reached, or does not understand the statements.
    pub(in super::super) async fn new(server: PgConnectOptions, tables: Arc<str>) -> Self {
        let schema = Arc::new(Schema {
            name: format!("idem_testing_{}", unique_name()),
            server,
        });
        schema.run(&format!("CREATE SCHEMA {}", schema.name)).await;
        schema.run(&tables).await;
        Self {
            store: open(&schema, TABLE).await,
            schema,
            tables,
        }
    }

    /// A connection of the test's own, which sees what is committed.
    ///
    /// # Panics
    /// If the server cannot be reached.
    pub async fn database(&self) -> Database<PgConnection> {
        Database::opened(self.schema.connect()).await
    }

    /// How the application connects to this database, where unqualified names are those of the harness's schema: for a
    /// pool with options of its own, made without waiting (`connect_lazy_with`).
    ///
    /// With the last harness on the schema these connections end, too. They are known by their `application_name`.
    pub fn connect_options(&self) -> PgConnectOptions {
        let Schema { name, .. } = &*self.schema;
        self.schema.options().application_name(name)
    }

    /// A pool for the application's state, of 4 connections to this database. It connects when it is used first.
    ///
    /// It is for handlers: tokio's paused clock stands still while they wait for it, and goes on while a test does. A
    /// test reads by [`database`](Self::database).
    pub fn pool(&self) -> PgPool {
        PgPoolOptions::new()
            .max_connections(CONNECTIONS)
            .acquire_timeout(LONGEST_ACQUIRE)
            .connect_lazy_with(self.connect_options())
    }
}

impl sealed::Ground for OnPostgres {}

impl Ground for OnPostgres {
    type Store = PostgresStore;

    fn store(&self) -> &FaultyStore<PostgresStore> {
        &self.store
    }

    async fn fresh(&self) -> Self {
        let fresh = Self::new(self.schema.server.clone(), Arc::clone(&self.tables)).await;
        fresh.with_patience(self.store.patience())
    }

    async fn forgetful(&self) -> Self {
        let another_table = format!("idem_{}", unique_name());
        Self {
            store: open(&self.schema, &another_table).await,
            ..self.clone()
        }
        .with_patience(self.store.patience())
    }

    fn with_patience(self, patience: Option<Duration>) -> Self {
        let store = self.store.with_patience(patience);
        Self { store, ..self }
    }

    fn outbox(&self) -> Option<SharedOutbox> {
        TransactionalStore::<PgConnection>::outbox(&self.store)
    }
}

async fn open(schema: &Schema, table: &str) -> FaultyStore<PostgresStore> {
    let _still = StandingStill::for_at_most(LONGEST_OPENING);
    let builder = PostgresStore::builder_with(schema.options())
        .schema(&schema.name)
        .table(table)
        .connections(CONNECTIONS)
        .groups(GROUPS);
    match builder.build().await {
        Ok(store) => FaultyStore::with_own_clock(store, PostgresStore::advance)
            .with_patience(Some(LONGEST_STATEMENT)),
        Err(error) => panic!("the PostgreSQL store cannot be opened: {error}"),
    }
}

/// Two workers at once, and what a test leaves open.
const CONNECTIONS: u32 = 4;
/// So that messages that are delivered together meet in one.
const GROUPS: u32 = 1;

impl Schema {
    /// Unqualified names are this schema's.
    fn options(&self) -> PgConnectOptions {
        let path = format!("{},public", self.name);
        self.server.clone().options([("search_path", path)])
    }

    async fn connect(&self) -> PgConnection {
        let _still = StandingStill::for_at_most(LONGEST_OPENING);
        match self.options().connect().await {
            Ok(connection) => connection,
            Err(error) => panic!("PostgreSQL cannot be reached: {error}"),
        }
    }

    async fn run(&self, statements: &str) {
        let mut connection = self.connect().await;
        let _still = StandingStill::for_at_most(LONGEST_OPENING);
        let statements = sqlx::raw_sql(AssertSqlSafe(statements.to_owned()));
        if let Err(error) = statements.execute(&mut connection).await {
            panic!("PostgreSQL does not take the statements: {error}");
        }
    }

    async fn drop(name: String, server: PgConnectOptions) -> Result<(), sqlx::Error> {
        let mut connection = server.connect().await?;
        // A pool of the application's may have a transaction open, which nobody ends while this thread is waited for.
        let statement = format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
             WHERE application_name = '{name}' AND usename = current_user; \
             SET lock_timeout = '5s'; DROP SCHEMA {name} CASCADE"
        );
        sqlx::raw_sql(AssertSqlSafe(statement))
            .execute(&mut connection)
            .await?;
        connection.close().await
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        let (name, server) = (self.name.clone(), self.server.clone());
        // The test's own runtime may have ended.
        let dropping = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = { runtime }.enable_all().build()?;
            let dropped = runtime.block_on(Self::drop(name, server));
            dropped.map_err(std::io::Error::other)
        });
        // What cannot be dropped is a schema of a test's database all the same.
        let _ = dropping.join();
    }
}
