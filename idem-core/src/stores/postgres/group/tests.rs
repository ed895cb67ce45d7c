use std::{
    collections::VecDeque,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use idem_servers::postgres;
use sqlx::{Connection as _, Executor as _};
use tokio::{
    sync::{Notify, Semaphore},
    task::JoinSet,
};

use super::*;
use crate::{
    executor::{Execution, Executor, Prepared},
    futures::BoxFuture,
    handler::{
        Attempt, Context, DecodeError, Failed, Grouped, Handler, Operation, Outbox, Outcome,
        Policy, RecordedRow, Rejection,
    },
    message::{Envelope, Key, KeyError},
    store::{
        Completion, Finish, Finished, Lease, Open, Owner, Store as _, TransactionalStore, Write,
    },
    stores::{PostgresStoreBuilder, tests::Told},
};

mod endings;
mod fail_over;
mod failures;
mod links;
mod locks;
mod lost_leases;
mod others;
mod unread;

const MINUTE: Duration = Duration::from_mins(1);

/// What a handler does with its connection and its message.
#[derive(Clone)]
struct Act(Arc<Acts>);

type Acts = dyn for<'a> Fn(&'a mut PgConnection, String, Attempt) -> BoxFuture<'a, Result<u32, Failed>>
    + Send
    + Sync;

type Ended = Execution<u32, Failed>;

/// Its messages are the names of orders.
struct Charge;

impl Operation for Charge {
    type Message = String;
    type Output = u32;
    type Error = Failed;
    type Mode = Grouped<PgConnection, 8>;
    const SCOPE: &'static str = "orders";
    const PUBLISHES: bool = true;

    fn decode(envelope: &Envelope) -> Result<String, DecodeError> {
        String::from_utf8(envelope.body().to_vec()).map_err(DecodeError::new)
    }

    fn key(order: &String, _: &Envelope) -> Result<Key, KeyError> {
        Key::new(Self::SCOPE, order.as_str())
    }
}

impl Handler<Act> for Charge {
    fn call<'a>(
        order: String,
        context: &'a Context<'a, Act>,
        db: &'a mut PgConnection,
    ) -> Result<impl Future<Output = Result<u32, Failed>> + Send + 'a, Rejection> {
        let acted = (context.state.0)(db, order.clone(), context.attempt);
        let outbox = context.outbox.clone().expect("it publishes");
        Ok(async move {
            let number = acted.await?;
            outbox.publish(Told(order))?;
            Ok(number)
        })
    }
}

fn act(
    act: impl for<'a> Fn(&'a mut PgConnection, String, Attempt) -> BoxFuture<'a, Result<u32, Failed>>
    + Send
    + Sync
    + 'static,
) -> Act {
    Act(Arc::new(act))
}

/// Charges the order, and does something else besides.
fn charge_and(
    then: impl for<'a> Fn(&'a mut PgConnection, String) -> BoxFuture<'a, Result<(), Failed>>
    + Send
    + Sync
    + 'static,
) -> Act {
    let then = Arc::new(then);
    act(move |db, order, attempt| {
        let then = Arc::clone(&then);
        Box::pin(async move {
            charge(db, &order).await?;
            then(db, order).await?;
            Ok(attempt.number())
        })
    })
}

fn charge_only() -> Act {
    charge_and(|_, _| Box::pin(async { Ok(()) }))
}

async fn charge(db: &mut PgConnection, order: &str) -> Result<(), sqlx::Error> {
    let charge = sqlx::query("INSERT INTO charges (id) VALUES ($1)");
    charge.bind(order).execute(db).await.map(drop)
}

async fn run(db: &mut PgConnection, sql: impl Into<String>) -> Result<(), sqlx::Error> {
    let sql = sqlx::AssertSqlSafe(sql.into());
    db.execute(sqlx::raw_sql(sql)).await.map(drop)
}

/// True once.
struct Once(AtomicBool);

impl Once {
    fn new() -> Arc<Self> {
        Arc::new(Self(AtomicBool::new(true)))
    }

    fn is_now(&self) -> bool {
        self.0.swap(false, Ordering::SeqCst)
    }
}

/// A store in a schema of its own, with a table of charges that tells which transaction made them.
struct Shop {
    url: String,
    store: PostgresStore,
    executor: Executor<PostgresStore>,
    /// Whether a message that finds the store away is handled again, as a worker does.
    asks_again: bool,
}

impl Shop {
    /// One group at a time.
    async fn open() -> Self {
        Self::with(|builder| builder.groups(1)).await
    }

    async fn with(options: impl FnOnce(PostgresStoreBuilder) -> PostgresStoreBuilder) -> Self {
        let server = postgres::shared().expect("PostgreSQL can be started");
        Self::at(&server.url(), options).await
    }

    async fn at(
        url: &str,
        options: impl FnOnce(PostgresStoreBuilder) -> PostgresStoreBuilder,
    ) -> Self {
        let schema = format!("group_{:x}", u128::from_be_bytes(*Owner::new().as_bytes()));
        let url = format!("{url}?options[search_path]={schema}");
        let builder = PostgresStore::builder(&url).schema(&schema);
        let mut store = options(builder).build().await.unwrap();
        // Servers start, stop and take over while a group is open.
        store.groups.takes_for = MINUTE;
        let executor = Executor::new(store.clone());
        let shop = Self {
            url,
            store,
            executor,
            asks_again: false,
        };
        let tables =
            "CREATE TABLE charges (id text, transaction xid8 DEFAULT pg_current_xact_id());
            CREATE TABLE stock (item text PRIMARY KEY, sold integer NOT NULL DEFAULT 0);
            CREATE TABLE receipts (
                name text UNIQUE DEFERRABLE INITIALLY DEFERRED
            )";
        run(&mut shop.bystander().await, tables).await.unwrap();
        shop
    }

    async fn bystander(&self) -> PgConnection {
        PgConnection::connect(&self.url).await.unwrap()
    }

    async fn handle(&self, order: &str, act: &Act) -> Ended {
        self.handle_envelope(Envelope::new(order.to_owned()), act)
            .await
    }

    async fn handle_envelope(&self, envelope: Envelope, act: &Act) -> Ended {
        let policy = Policy::builder().lease(MINUTE).build().unwrap();
        let mut message = Prepared::<Charge>::new(envelope, &policy).unwrap();
        loop {
            let ended = self.executor.handle(&mut message, act).await;
            if !self.asks_again || !matches!(ended, Execution::StoreUnavailable { .. }) {
                return ended;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Handles them in this order in one group: whoever is first waits until the others wait.
    async fn handle_together(&self, orders: &[&str], act: &Act) -> Vec<Ended> {
        let _others = self.others().await;
        let act = self.first_waits_for(orders.len() - 1, act);
        let mut all = VecDeque::new();
        for (before, order) in orders.iter().enumerate() {
            let mut handled = Box::pin(self.handle(order, &act));
            // One after the other, so that their order is known.
            tokio::select! {
                biased;
                ended = &mut handled => panic!("{order} waits for its group: {ended:?}"),
                () = self.have_come(before) => {}
            }
            all.push_back(handled);
        }
        futures_util::future::join_all(all).await
    }

    /// Others at work, so that no message is alone until this is dropped.
    async fn others(&self) -> JoinSet<Ended> {
        let (works, at_work) = (self.store.groups.at_once, Arc::new(Semaphore::new(0)));
        let mut others = JoinSet::new();
        for other in (0..works).map(|_| Owner::new()) {
            let (executor, at_work) = (self.executor.clone(), Arc::clone(&at_work));
            let working = act(move |_, _, _| {
                at_work.add_permits(1);
                Box::pin(std::future::pending())
            });
            others.spawn(async move {
                let envelope = Envelope::new(format!("{:x?}", other.as_bytes()));
                let mut message = Prepared::<Charge>::new(envelope, &Policy::DEFAULT).unwrap();
                executor.handle(&mut message, &working).await
            });
        }
        let works = u32::try_from(works).unwrap();
        at_work.acquire_many(works).await.unwrap().forget();
        others
    }

    /// Until a group has begun, and so many wait for a slot in it.
    async fn have_come(&self, waiting: usize) {
        let queue = self.store.groups.queue(Charge::SCOPE);
        while queue.len() != waiting || !queue.has_begun() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    fn first_waits_for(&self, others: usize, act: &Act) -> Act {
        let (first, queue) = (Once::new(), self.store.groups.queue(Charge::SCOPE));
        let inner = act.clone();
        self::act(move |db, order, attempt| {
            let (queue, inner) = (Arc::clone(&queue), inner.clone());
            let waits = first.is_now();
            Box::pin(async move {
                while waits && queue.len() < others {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                (inner.0)(db, order, attempt).await
            })
        })
    }

    async fn charges(&self) -> Vec<String> {
        sqlx::query_scalar("SELECT id FROM charges ORDER BY id")
            .fetch_all(&mut self.bystander().await)
            .await
            .unwrap()
    }

    /// Which orders were told of, and by how many transactions.
    async fn told(&self) -> (Vec<String>, i64) {
        let told = "SELECT coalesce(array_agg(convert_from(body, 'UTF8') ORDER BY body), '{}'),
                count(DISTINCT xmin::text)
            FROM idem_records_outbox";
        let mut bystander = self.bystander().await;
        let told = sqlx::query_as(told).fetch_one(&mut bystander);
        told.await.unwrap()
    }

    async fn transactions(&self) -> i64 {
        sqlx::query_scalar("SELECT count(DISTINCT transaction) FROM charges")
            .fetch_one(&mut self.bystander().await)
            .await
            .unwrap()
    }

    async fn is_completed(&self, order: &str) -> bool {
        let claim = self.store.claim(&request(order)).await.unwrap();
        matches!(claim, Claim::Completed { .. })
    }
}

fn request(order: &str) -> ClaimRequest {
    let policy = Policy::builder().lease(MINUTE).build().unwrap();
    ClaimRequest::new(Key::new("orders", order).unwrap(), &policy)
}

fn executed(ended: &Ended) -> bool {
    matches!(ended, Execution::Executed { attempt: 1, .. })
}

fn all_executed(all: &[Ended]) {
    assert!(all.iter().all(executed), "{all:?}");
}
