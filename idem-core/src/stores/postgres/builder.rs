//! Opens the store: where to, tables, connections.

use std::{fmt, sync::Arc, time::Duration};

use sqlx::{PgConnection, postgres::PgConnectOptions};
use tokio::{sync::Mutex, time};

use super::{
    Clock, Groups, Migrate, Operator, Outbox, PostgresStore, RecordedTables, Sql, TransactionPool,
    batch_task, check,
    fault::Fault,
    group,
    link::{Address, Link},
    location::Location,
    migration,
    names::{DEFAULT_TABLE, Names},
    pooler,
    sequences::Sequences,
    sessions::Sessions,
    settings,
    streams::Streams,
};
use crate::store::ConnectError;

/// A [`PostgresStore`] in the making.
///
/// | | default | |
/// |---|---|---|
/// | schema | the first of the role's `search_path` | |
/// | table | `idem_records` | also the beginning of its index's, sequence's, function's and further tables' names |
/// | migrate | [`Migrate::AtStart`] | whether missing tables are created |
/// | response timeout | 10 s | how long the server may take to answer a statement |
/// | transaction timeout | 10 min | how long an atomic handler may run |
/// | connections | 16 | how many atomic handlers run at the same time; the store's own are not among them |
/// | groups | 4 | how many transactions the messages of one grouped handler share at the same time, on as many of the connections |
///
/// ```no_run
/// # async fn example() -> Result<(), idem_core::store::ConnectError> {
/// use std::time::Duration;
/// use idem_core::{PostgresStore, stores::Migrate};
///
/// let store = PostgresStore::builder("postgres://shop@db.internal/shop")
///     .schema("idem")
///     .migrate(Migrate::Never)
///     .connections(32)
///     .transaction_timeout(Duration::from_mins(2))
///     .build()
///     .await?;
/// # drop(store);
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use]
pub struct PostgresStoreBuilder {
    location: Location,
    schema: Option<String>,
    table: String,
    migrate: Migrate,
    response_timeout: Duration,
    connections: u32,
    groups: u32,
    transaction_timeout: Duration,
    idle_in_transaction_timeout: Option<Duration>,
}

impl PostgresStoreBuilder {
    pub(super) fn of_url(url: &str) -> Self {
        Self::new(Location::Url(url.to_owned()))
    }

    pub(super) fn of_options(options: PgConnectOptions) -> Self {
        Self::new(Location::Options(Box::new(options)))
    }

    fn new(location: Location) -> Self {
        Self {
            location,
            schema: None,
            table: DEFAULT_TABLE.to_owned(),
            migrate: Migrate::AtStart,
            response_timeout: Duration::from_secs(10),
            connections: 16,
            groups: 4,
            transaction_timeout: Duration::from_mins(10),
            idle_in_transaction_timeout: None,
        }
    }

    /// The schema of the table: 1 to 63 ASCII letters, digits and `_`; upper and lower case are
    /// different.
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = Some(schema.into());
        self
    }

    /// The name of the table: 1 to 48 ASCII letters, digits and `_`; upper and lower case are
    /// different.
    pub fn table(mut self, table: impl Into<String>) -> Self {
        self.table = table.into();
        self
    }

    /// Whether missing tables are created.
    pub fn migrate(mut self, migrate: Migrate) -> Self {
        self.migrate = migrate;
        self
    }

    /// How long the server may take to answer before the connection is given up. Choose it shorter
    /// than the leases. The server does not notice: it goes on with the statement, and one of its
    /// processes with it. So a new connection is opened once at once, and then after pauses that
    /// double from this timeout up to 5 min, in which all calls are
    /// [`StoreError::Unavailable`](crate::StoreError::Unavailable).
    ///
    /// Claims and writes wait for a row that another session has locked for a tenth of this.
    pub fn response_timeout(mut self, response_timeout: Duration) -> Self {
        self.response_timeout = response_timeout;
        self
    }

    /// How many atomic handlers run at the same time, at least 1. Of those that wait, up to three times
    /// as many have claimed their key, and keep its lease: claims share a statement, and no connection
    /// waits for one. The others wait before they claim, and so does what was delivered before, or is at its
    /// last attempt.
    pub fn connections(mut self, connections: u32) -> Self {
        self.connections = connections.max(1);
        self
    }

    /// How many groups of one handler are open at the same time, at least 1 and at most as many as
    /// there are connections. Fewer are fuller, and commit less often; more of them wait for the
    /// disk and for each other's locks at the same time. Up to as many messages that are alone run
    /// in transactions of their own, which is the sooner end for a few.
    pub fn groups(mut self, groups: u32) -> Self {
        self.groups = groups.max(1);
        self
    }

    /// How long an atomic handler may run. When that is over it is dropped, its transaction is
    /// rolled back, and the attempt has failed. Without a limit, a statement whose answer is lost
    /// on a link that has fallen silent would be waited for until the worker is restarted.
    pub fn transaction_timeout(mut self, timeout: Duration) -> Self {
        self.transaction_timeout = timeout;
        self
    }

    /// How long an atomic handler may send no statement before the server ends its transaction,
    /// rounded to milliseconds. A handler that waits for another service sends none. Unless set
    /// here it is the [transaction timeout](Self::transaction_timeout), or what the server is set
    /// to where that is shorter.
    pub fn idle_in_transaction_timeout(mut self, timeout: Duration) -> Self {
        self.idle_in_transaction_timeout = Some(timeout);
        self
    }

    /// Connects, and creates the tables if they are not there.
    ///
    /// # Errors
    /// If the URL cannot be read, a name cannot be one, the server cannot be reached, a pooler
    /// forgets prepared statements, the database's encoding is not UTF8, or the tables are not
    /// there, not usable by this role, or of another version than this program's.
    ///
    /// # Cancel safety
    /// A dropped call may have created the tables, and leaves no connection. Build the store again.
    pub async fn build(self) -> Result<PostgresStore, ConnectError> {
        let names = Names::new(self.schema.as_deref(), &self.table)?;
        let address = Address {
            options: self.location.clone().into_options()?,
            response_timeout: self.response_timeout,
        };
        let unreached = |fault| Unreached::by(&address.options, fault);
        let mut connection = address.connect().await.map_err(unreached)?;
        self.within_timeout(migration::check_encoding(&mut connection))
            .await?;
        let names = migration::locate(&mut connection, &names);
        let names = self.within_timeout(names).await?;
        self.within_timeout(migration::migrate(&mut connection, &names, self.migrate))
            .await?;
        let mut second = address.connect().await.map_err(unreached)?;
        let kept = pooler::keeps_statements(&mut connection, &mut second);
        if !address.within_timeout(kept).await.map_err(refused)? {
            return Err(ConnectError::ForgetfulPooler);
        }
        let process = pooler::server_process(&mut connection, &mut second);
        let process = address.within_timeout(process).await.map_err(refused)?;
        if process == pooler::ServerProcess::Shared {
            tracing::warn!(
                "a pooler lends each transaction another session, so nothing keeps an atomic handler from writing \
                 after its transaction has ended: see `Poolers` in docs/stores/postgres.md"
            );
        }
        let sql = Arc::new(Sql::new(&names, self.response_timeout, process));
        self.within_timeout(check::statements(&mut connection, &names, &sql))
            .await?;
        let sessions = Sessions::new(&address, &names);
        let usable = sessions.check(&mut connection, &names);
        self.within_timeout(usable).await?;
        let clock = Clock::default();
        let timeout = self.response_timeout;
        let sequences = Sequences::spawn(&sessions, &names, timeout, (&sql, &clock));
        let usable = sequences.check(&mut connection, &names);
        self.within_timeout(usable).await?;
        let share = address.within_timeout(group::may_share(&mut connection));
        let share = share.await.map_err(refused)?;
        let idle = address.within_timeout(self.idle_limit(&mut connection));
        let idle = idle.await.map_err(refused)?;
        let kept_alive = address.with_keepalives().await;
        let begin = settings::begin(idle, kept_alive.is_some(), process);
        self.within_timeout(check::endings(&mut connection, &names, &sql, &begin))
            .await?;

        Ok(PostgresStore {
            claims: batch_task::spawn(
                Link::on(connection, address.clone()),
                Arc::clone(&sql),
                clock.clone(),
            ),
            writes: batch_task::spawn(
                Link::on(second, address.clone()),
                Arc::clone(&sql),
                clock.clone(),
            ),
            purging: Arc::new(Mutex::new(Link::new(address.clone()))),
            purged: Arc::default(),
            heartbeats: Arc::new(Mutex::new(Link::new(address.clone()))),
            recorded_tables: RecordedTables::new(address.clone()),
            pool: TransactionPool::new(
                kept_alive.unwrap_or_else(|| address.clone()),
                self.connections,
                begin,
                process,
            ),
            groups: Groups::new(if share {
                self.groups.min(self.connections)
            } else {
                0
            }),
            sessions,
            sequences,
            operator: Operator::new(&address, &names),
            outbox: Outbox::new(&address, &names, &clock),
            streams: Streams::new(&address, &names, &clock),
            transaction_timeout: self.transaction_timeout,
            address,
            names,
            sql,
            clock,
        })
    }

    async fn within_timeout<T, E: Into<ConnectError>>(
        &self,
        step: impl Future<Output = Result<T, E>>,
    ) -> Result<T, ConnectError> {
        match time::timeout(self.response_timeout, step).await {
            Ok(done) => done.map_err(Into::into),
            Err(_) => Err(refused(Fault::Silent(self.response_timeout))),
        }
    }

    /// What a transaction has to set; nothing where the server is stricter.
    async fn idle_limit(
        &self,
        connection: &mut PgConnection,
    ) -> Result<Option<Duration>, sqlx::Error> {
        if self.idle_in_transaction_timeout.is_some() {
            return Ok(self.idle_in_transaction_timeout);
        }
        let of_server: i64 = sqlx::query_scalar(
            "SELECT setting::bigint FROM pg_settings
             WHERE name = 'idle_in_transaction_session_timeout'",
        )
        .fetch_one(connection)
        .await?;
        let ours = self.transaction_timeout;
        let is_stricter =
            u128::try_from(of_server).is_ok_and(|millis| (1..=ours.as_millis()).contains(&millis));
        Ok((!is_stricter).then_some(ours))
    }
}

/// Leaves out the URL, which may hold a password.
impl fmt::Debug for PostgresStoreBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStoreBuilder")
            .field("schema", &self.schema)
            .field("table", &self.table)
            .field("migrate", &self.migrate)
            .field("response_timeout", &self.response_timeout)
            .field("connections", &self.connections)
            .field("groups", &self.groups)
            .finish_non_exhaustive()
    }
}

/// The server that could not be connected to.
#[derive(Debug, thiserror::Error)]
#[error("PostgreSQL at {place}")]
struct Unreached {
    place: String,
    #[source]
    fault: Fault,
}

impl Unreached {
    fn by(options: &PgConnectOptions, fault: Fault) -> ConnectError {
        let place = match options.get_socket() {
            Some(socket) => socket.display().to_string(),
            None => format!("{}:{}", options.get_host(), options.get_port()),
        };
        ConnectError::Unavailable(Box::new(Self { place, fault }))
    }
}

fn refused(fault: Fault) -> ConnectError {
    match &fault {
        Fault::Said(error) if pooler::forgets(error) => ConnectError::ForgetfulPooler,
        _ => ConnectError::Unavailable(Box::new(fault)),
    }
}
