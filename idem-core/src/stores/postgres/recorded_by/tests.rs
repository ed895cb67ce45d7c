use std::{
    fmt,
    sync::atomic::{AtomicU32, Ordering},
};

use futures_util::future::BoxFuture;
use idem_servers::postgres;
use sqlx::Connection as _;

use super::*;
use crate::{
    executor::{Cause, Execution, Executor, Prepared},
    handler::{
        Attempt, Context, DecodeError, Failed, Failure, Handler, Operation, Policy, RecordedBy,
        RecordingConstraint, Rejection,
    },
    message::{Envelope, Key, KeyError},
    stores::PostgresStoreBuilder,
};

const SECOND: Duration = Duration::from_secs(1);

/// What a handler does with a connection.
type Act<E> = Arc<
    dyn for<'a> Fn(&'a mut PgConnection, Message, Attempt) -> BoxFuture<'a, Result<u32, E>>
        + Send
        + Sync,
>;

/// The parts of the key.
type Message = Vec<String>;

/// A handler of messages that are the parts of their key, divided by spaces.
macro_rules! handler {
    ($name:ident, $constraint:literal, $columns:literal, $error:ty, $cause:expr) => {
        struct $name;

        impl Operation for $name {
            type Message = Message;
            type Output = u32;
            type Error = $error;
            type Mode = RecordedBy<PgConnection>;
            const SCOPE: &'static str = "payments";
            const RECORDED_BY: Option<RecordingConstraint<Self>> = Some(RecordingConstraint::new(
                $constraint,
                $columns,
                |message: &Message, _| Ok(message.clone()),
                $cause,
            ));

            fn decode(envelope: &Envelope) -> Result<Message, DecodeError> {
                let body = std::str::from_utf8(envelope.body()).map_err(DecodeError::new)?;
                Ok(body.split(' ').map(str::to_owned).collect())
            }

            fn key(message: &Message, _: &Envelope) -> Result<Key, KeyError> {
                let key = Key::builder(Self::SCOPE);
                message
                    .iter()
                    .fold(key, |key, part| key.part("part", part))
                    .build()
            }
        }

        impl Handler<Act<$error>> for $name {
            fn call<'a>(
                message: Message,
                context: &'a Context<'a, Act<$error>>,
                lent: &'a mut PgConnection,
            ) -> Result<impl Future<Output = Result<u32, $error>> + Send + 'a, Rejection> {
                Ok((context.state)(lent, message, context.attempt))
            }
        }
    };
    ($name:ident, $constraint:literal, $columns:literal) => {
        handler!($name, $constraint, $columns, Failed, |error: &Failed| Some(
            error.error()
        ));
    };
}

handler!(Pay, "payments_order_id_key", 1);

mod columns;
mod constraints;
mod copies;
mod failures;
mod lost;
mod own_rows;
mod retries;
mod violations;

/// Three attempts, one second apart.
fn policy() -> Policy {
    Policy::builder()
        .lease(30 * SECOND)
        .backoff(crate::handler::Backoff::new(SECOND, SECOND))
        .max_attempts(3)
        .build()
        .unwrap()
}

fn act<E: 'static>(
    act: impl for<'a> Fn(&'a mut PgConnection, Message, Attempt) -> BoxFuture<'a, Result<u32, E>>
    + Send
    + Sync
    + 'static,
) -> Act<E> {
    Arc::new(act)
}

/// Pays the order, and does something else besides.
fn pay() -> Act<Failed> {
    act(|db, message, attempt| {
        Box::pin(async move {
            run(db, "INSERT INTO notes VALUES ('paid')").await?;
            insert(db, &message[0]).await?;
            Ok(attempt.number())
        })
    })
}

/// Does this after it has paid the order.
fn pay_and(sql: &'static str) -> Act<Failed> {
    act(move |db, message, attempt| {
        Box::pin(async move {
            insert(db, &message[0]).await?;
            run(db, sql).await?;
            Ok(attempt.number())
        })
    })
}

async fn insert(db: &mut PgConnection, order: &str) -> Result<(), sqlx::Error> {
    let insert = sqlx::query("INSERT INTO payments (order_id) VALUES ($1)");
    insert.bind(order.to_owned()).execute(db).await.map(drop)
}

async fn run(db: &mut PgConnection, sql: impl Into<String>) -> Result<(), sqlx::Error> {
    let sql = AssertSqlSafe(sql.into());
    sqlx::raw_sql(sql).execute(db).await.map(drop)
}

/// A store and the handlers' tables, in a schema of their own.
struct Till {
    url: String,
    executor: Executor<PostgresStore>,
}

const TABLES: &str = "
    CREATE TABLE payments (
        order_id text CONSTRAINT payments_order_id_key UNIQUE,
        amount int CHECK (amount > 0)
    );
    CREATE TABLE notes (text text)";

impl Till {
    async fn open() -> Self {
        Self::with(TABLES).await
    }

    async fn with(tables: &str) -> Self {
        Self::at(&postgres::shared().unwrap().url(), tables, |it| it).await
    }

    async fn at(
        url: &str,
        tables: &str,
        options: impl FnOnce(PostgresStoreBuilder) -> PostgresStoreBuilder,
    ) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let schema = format!(
            "till_{}_{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let url = format!("{url}?options[search_path]={schema}&application_name={schema}");
        let store = PostgresStore::builder(&url).schema(&schema);
        let store = options(store).build().await.unwrap();
        let till = Self {
            url,
            executor: Executor::new(store),
        };
        till.run(tables).await;
        till
    }

    /// Another process's.
    async fn another(&self) -> Self {
        let store = PostgresStore::connect(&self.url).await.unwrap();
        Self {
            url: self.url.clone(),
            executor: Executor::new(store),
        }
    }

    fn store(&self) -> &PostgresStore {
        self.executor.store()
    }

    /// A connection that is none of the store's.
    async fn bystander(&self) -> PgConnection {
        let url = self
            .url
            .replace("&application_name=", "&application_name=not_");
        PgConnection::connect(&url).await.unwrap()
    }

    async fn run(&self, sql: &str) {
        run(&mut self.bystander().await, sql).await.unwrap();
    }

    async fn count(&self, table: &str) -> i64 {
        let count = AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
        let mut bystander = self.bystander().await;
        let count = sqlx::query_scalar(count).fetch_one(&mut bystander);
        count.await.unwrap()
    }

    /// Waits until a session of this till waits for a lock.
    async fn somebody_waits(&self) {
        let (_, name) = self.url.rsplit_once('=').unwrap();
        let mut bystander = self.bystander().await;
        let waiting = "SELECT count(*) > 0 FROM pg_stat_activity
                       WHERE application_name = $1 AND wait_event_type = 'Lock'";
        while !sqlx::query_scalar::<_, bool>(waiting)
            .bind(name)
            .fetch_one(&mut bystander)
            .await
            .unwrap()
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// One delivery of a message.
    async fn handle<H, E>(&self, body: &str, act: &Act<E>) -> Execution<u32, E>
    where
        H: Handler<Act<E>, Output = u32, Error = E, Mode = RecordedBy<PgConnection>>,
        E: Failure,
    {
        self.handle_again(&mut message::<H>(body), act).await
    }

    async fn handle_again<H, E>(&self, message: &mut Prepared<H>, act: &Act<E>) -> Execution<u32, E>
    where
        H: Handler<Act<E>, Output = u32, Error = E, Mode = RecordedBy<PgConnection>>,
        E: Failure,
    {
        self.executor.handle(message, act).await
    }

    async fn pays(&self, body: &str) {
        let execution = self.handle::<Pay, _>(body, &pay()).await;
        assert_eq!(executed(execution), 1);
    }
}

fn message<H: Operation>(body: &str) -> Prepared<H> {
    let envelope = Envelope::new(body.to_owned());
    let Ok(message) = Prepared::new(envelope, &policy()) else {
        panic!("a message that can be read")
    };
    message
}

/// The attempt that was.
#[track_caller]
fn executed<E: fmt::Debug>(execution: Execution<u32, E>) -> u32 {
    match execution {
        Execution::Executed { attempt, .. } => attempt,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn is_duplicate<E: fmt::Debug>(execution: &Execution<u32, E>) {
    let is = matches!(execution, Execution::Duplicate { .. });
    assert!(is, "{execution:?}");
}

/// Which attempt it was that failed, and of what.
#[track_caller]
fn failed<E: Failure>(execution: &Execution<u32, E>) -> (u32, String) {
    match execution {
        Execution::Failed { cause, attempt, .. } => (*attempt, cause.to_string()),
        other => panic!("{other:?}"),
    }
}
