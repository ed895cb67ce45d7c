//! Batches in transactions of PostgreSQL.

use idem_servers::postgres;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, raw_sql};

use super::*;
use crate::{
    handler::AtomicBatch,
    store::{
        Look as _, Owner,
        operator::{Intervened, Intervention, OperatorStore as _},
    },
    stores::PostgresStore,
};

/// Its messages are the names of orders. A batch waits until it has so many.
struct Charge<const SIZE: usize>;

/// What is done with a batch.
struct Act(Box<Acts>);

type Acts = dyn for<'a> Fn(&'a mut PgConnection, Batch<String>) -> BoxFuture<'a, Result<(), Failed>>
    + Send
    + Sync;

impl<const SIZE: usize> Operation for Charge<SIZE> {
    type Message = String;
    type Output = ();
    type Error = Failed;
    type Mode = AtomicBatch<PgConnection>;
    const SCOPE: &'static str = "orders";
    const BATCH: Option<BatchOptions> = Some(BatchOptions::new(SIZE).wait(Duration::from_secs(20)));

    fn decode(envelope: &Envelope) -> Result<String, DecodeError> {
        String::from_utf8(envelope.body().to_vec()).map_err(DecodeError::new)
    }

    fn key(order: &String, _: &Envelope) -> Result<Key, KeyError> {
        Key::new(Self::SCOPE, order.as_str())
    }
}

impl<const SIZE: usize> Handler<Act> for Charge<SIZE> {
    fn call<'a>(
        order: String,
        context: &'a Context<'a, Act>,
        db: &'a mut PgConnection,
    ) -> Result<impl Future<Output = Result<(), Failed>> + Send + 'a, Rejection> {
        let batch = batch_of_one(order, context);
        Ok(result_of_one(Self::call_batch(batch, context.state, db)?))
    }

    fn call_batch<'a>(
        batch: Batch<String>,
        act: &'a Act,
        db: &'a mut PgConnection,
    ) -> Result<impl Future<Output = BatchResults<(), Failed>> + Send + 'a, Rejection> {
        let failures = batch.failures();
        let work = (act.0)(db, batch);
        Ok(async move { results(work.await, &failures) })
    }
}

fn act(
    act: impl for<'a> Fn(&'a mut PgConnection, Batch<String>) -> BoxFuture<'a, Result<(), Failed>>
    + Send
    + Sync
    + 'static,
) -> Act {
    Act(Box::new(act))
}

/// Charges what is accepted, by one statement.
async fn charge(db: &mut PgConnection, orders: &Batch<String>) -> Result<(), Failed> {
    let names: Vec<_> = orders.accepted().map(|order| (**order).clone()).collect();
    sqlx::query("INSERT INTO charges (id) SELECT * FROM unnest($1::text[])")
        .bind(names)
        .execute(db)
        .await?;
    Ok(())
}

async fn run(db: &mut PgConnection, sql: &str) {
    raw_sql(AssertSqlSafe(sql.to_owned()))
        .execute(db)
        .await
        .unwrap();
}

/// A store in a schema of its own, with a table of charges that tells which transaction made them.
struct Shop {
    url: String,
    executor: Executor<PostgresStore>,
}

impl Shop {
    async fn open() -> Self {
        let server = postgres::shared().expect("PostgreSQL can be started");
        let schema = format!("batch_{:x}", u128::from_be_bytes(*Owner::new().as_bytes()));
        let url = format!("{}?options[search_path]={schema}", server.url());
        let store = PostgresStore::builder(&url).schema(&schema).build();
        let shop = Self {
            executor: Executor::new(store.await.unwrap()),
            url,
        };
        let tables = "CREATE TABLE charges (
                id text CHECK (id <> 'bad'), transaction xid8 DEFAULT pg_current_xact_id());
            CREATE TABLE receipts (name text UNIQUE DEFERRABLE INITIALLY DEFERRED)";
        run(&mut shop.bystander().await, tables).await;
        shop
    }

    async fn bystander(&self) -> PgConnection {
        PgConnection::connect(&self.url).await.unwrap()
    }

    /// Handles them in one batch.
    async fn handle<const SIZE: usize>(
        &self,
        orders: [&str; SIZE],
        act: &Act,
    ) -> Vec<Execution<(), Failed>> {
        // Nobody is alone.
        let (_present, _) = self.executor.concurrency.enter(Charge::<SIZE>::SCOPE);
        let handled = orders.map(|order| {
            Box::pin(async move {
                let envelope = Envelope::new(order.to_owned());
                let message = Prepared::<Charge<SIZE>>::new(envelope, &Policy::DEFAULT);
                self.executor.handle(&mut message.unwrap(), act).await
            })
        });
        join_all(handled).await
    }

    async fn charges(&self) -> Vec<String> {
        sqlx::query_scalar("SELECT id FROM charges ORDER BY id")
            .fetch_all(&mut self.bystander().await)
            .await
            .unwrap()
    }

    async fn transactions(&self) -> i64 {
        sqlx::query_scalar("SELECT count(DISTINCT transaction) FROM charges")
            .fetch_one(&mut self.bystander().await)
            .await
            .unwrap()
    }
}

fn kinds(ended: &[Execution<(), Failed>]) -> Vec<(ExecutionKind, Option<u32>)> {
    ended.iter().map(|it| (it.kind(), it.attempt())).collect()
}

const EXECUTED: (ExecutionKind, Option<u32>) = (ExecutionKind::Executed, Some(1));

#[tokio::test]
async fn a_batch_is_charged_and_completed_by_one_commit() {
    let shop = Shop::open().await;
    let act = act(|db, orders| Box::pin(async move { charge(db, &orders).await }));
    let ended = shop.handle(["a", "b", "c"], &act).await;
    assert_eq!(kinds(&ended), [EXECUTED; 3]);
    assert_eq!(shop.charges().await, ["a", "b", "c"]);
    assert_eq!(shop.transactions().await, 1);
    let copies = shop.handle(["c", "a", "d"], &act).await;
    let duplicate = (ExecutionKind::Duplicate, None);
    assert_eq!(kinds(&copies), [duplicate, duplicate, EXECUTED]);
    assert_eq!(shop.charges().await, ["a", "b", "c", "d"]);
}

#[tokio::test]
async fn a_member_that_is_failed_is_left_out_of_the_commit() {
    let shop = Shop::open().await;
    let act = act(|db, orders| {
        Box::pin(async move {
            orders.reject(0, "no such customer");
            orders.retry(2, "not yet");
            charge(db, &orders).await
        })
    });
    let ended = shop.handle(["a", "b", "c"], &act).await;
    let (rejected, failed) = (
        (ExecutionKind::Rejected, Some(1)),
        (ExecutionKind::Failed, Some(1)),
    );
    assert_eq!(kinds(&ended), [rejected, EXECUTED, failed]);
    assert_eq!(shop.charges().await, ["b"]);
}

#[tokio::test]
async fn a_statement_that_fails_because_of_one_is_that_ones_failure() {
    let shop = Shop::open().await;
    let act = act(|db, orders| Box::pin(async move { charge(db, &orders).await }));
    let ended = shop.handle(["a", "bad", "c", "d"], &act).await;
    let failed = (ExecutionKind::Failed, Some(1));
    assert_eq!(kinds(&ended), [EXECUTED, failed, EXECUTED, EXECUTED]);
    assert_eq!(shop.charges().await, ["a", "c", "d"]);
    // `c` and `d`, which were not with the bad one; and `a`, by itself.
    assert_eq!(shop.transactions().await, 2);
}

/// Found out by the commit.
#[tokio::test]
async fn a_deferred_constraint_that_two_violate_together_is_one_ones_failure() {
    let shop = Shop::open().await;
    let act = act(|db, orders| {
        Box::pin(async move {
            for order in &orders {
                let receipt = sqlx::query("INSERT INTO receipts (name) VALUES ($1)");
                receipt
                    .bind(order[..1].to_owned())
                    .execute(&mut *db)
                    .await?;
            }
            charge(db, &orders).await
        })
    });
    let ended = shop.handle(["a", "b1", "b2", "c"], &act).await;
    assert_eq!(kinds(&ended[..1]), [EXECUTED]);
    assert_eq!(kinds(&ended[3..]), [EXECUTED]);
    // Halved between the two: both halves are right.
    let failed = kinds(&ended)
        .iter()
        .filter(|(kind, _)| *kind == ExecutionKind::Failed)
        .count();
    assert_eq!(failed, 1, "{ended:?}");
    assert_eq!(shop.charges().await.len(), 3);
}

/// PostgreSQL ends one of them: that call has failed, and no message.
#[tokio::test]
async fn batches_that_lock_rows_in_different_order_are_all_done_by_their_first_attempts() {
    let shop = Shop::open().await;
    let accounts = "CREATE TABLE accounts (id text PRIMARY KEY, charges int);
        INSERT INTO accounts VALUES ('a', 0), ('b', 0), ('c', 0), ('d', 0)";
    run(&mut shop.bystander().await, accounts).await;
    let met = Arc::new(tokio::sync::Barrier::new(2));
    // A half would race for the next row with the batch that goes on, and either could be ended then.
    let has_locked = tokio::sync::watch::Sender::new(false);
    let locking = |is_descending: bool| {
        let (met, has_locked) = (Arc::clone(&met), has_locked.clone());
        act(move |db, orders| {
            let (met, has_locked) = (Arc::clone(&met), has_locked.clone());
            Box::pin(async move {
                if orders.len() < 4 {
                    let mut has_locked = has_locked.subscribe();
                    has_locked.wait_for(|it| *it).await.unwrap();
                }
                let mut accounts: Vec<_> = orders.iter().map(|order| &order[..1]).collect();
                accounts.sort_unstable();
                if is_descending {
                    accounts.reverse();
                }
                for (i, account) in accounts.iter().enumerate() {
                    sqlx::query("UPDATE accounts SET charges = charges + 1 WHERE id = $1")
                        .bind(*account)
                        .execute(&mut *db)
                        .await?;
                    if i == 0 && accounts.len() == 4 {
                        met.wait().await;
                    }
                }
                if accounts.len() == 4 {
                    has_locked.send_replace(true);
                }
                charge(db, &orders).await
            })
        })
    };
    let (up, down) = (locking(false), locking(true));
    let (one, other) = tokio::join!(
        shop.handle(["a1", "b1", "c1", "d1"], &up),
        shop.handle(["a2", "b2", "c2", "d2"], &down)
    );
    assert_eq!(kinds(&one), [EXECUTED; 4]);
    assert_eq!(kinds(&other), [EXECUTED; 4]);
    assert_eq!(shop.charges().await.len(), 8);
    // One of them whole, the other in halves.
    assert_eq!(shop.transactions().await, 3);
}

#[tokio::test]
async fn a_batch_whose_connection_is_lost_is_done_once_and_was_no_attempt() {
    let shop = Shop::open().await;
    let lost = AtomicU32::new(0);
    let act = act(move |db, orders| {
        let is_first = lost.fetch_add(1, SeqCst) == 0;
        Box::pin(async move {
            charge(db, &orders).await?;
            if is_first {
                sqlx::query("SELECT pg_terminate_backend(pg_backend_pid())")
                    .execute(db)
                    .await?;
            }
            Ok(())
        })
    });
    let ended = shop.handle(["a", "b", "c", "d"], &act).await;
    assert_eq!(kinds(&ended), [EXECUTED; 4]);
    assert_eq!(shop.charges().await, ["a", "b", "c", "d"]);
}

/// Before the heartbeat notices: the commit does.
#[tokio::test]
async fn a_member_whose_key_is_taken_away_is_not_done_and_the_others_are() {
    let shop = Arc::new(Shop::open().await);
    let (other, calls) = (Arc::clone(&shop), Arc::new(AtomicU32::new(0)));
    let act = act(move |db, orders| {
        let (other, calls) = (Arc::clone(&other), Arc::clone(&calls));
        Box::pin(async move {
            charge(db, &orders).await?;
            if calls.fetch_add(1, SeqCst) == 0 {
                let key = Key::new("orders", "b").unwrap();
                let store = other.executor.store();
                let seen = store.look(&key).await?.map(|it| it.record.seen());
                let outcome = Outcome::new("null");
                let complete =
                    Intervention::complete(key, seen, "operator@ops-1", outcome, LEASE * 100);
                assert_eq!(store.intervene(&complete).await?, Intervened::Applied);
            }
            Ok(())
        })
    });
    let ended = shop.handle(["a", "b", "c", "d"], &act).await;
    let duplicate = (ExecutionKind::Duplicate, None);
    assert_eq!(kinds(&ended), [EXECUTED, duplicate, EXECUTED, EXECUTED]);
    assert_eq!(shop.charges().await, ["a", "c", "d"]);
}

#[tokio::test]
async fn a_batch_that_vanishes_leaves_nothing_and_each_is_done_by_the_next() {
    let shop = Shop::open().await;
    let charged = Arc::new(Notify::new());
    let tell = Arc::clone(&charged);
    let hangs = act(move |db, orders| {
        let tell = Arc::clone(&tell);
        Box::pin(async move {
            charge(db, &orders).await?;
            tell.notify_one();
            pending().await
        })
    });
    tokio::select! {
        ended = shop.handle(["a", "b"], &hangs) => panic!("{ended:?}"),
        () = charged.notified() => {}
    }
    assert!(shop.charges().await.is_empty());
    shop.executor.store().advance(LEASE);
    let works = act(|db, orders| Box::pin(async move { charge(db, &orders).await }));
    let ended = shop.handle(["a", "b"], &works).await;
    assert_eq!(kinds(&ended), [(ExecutionKind::Executed, Some(2)); 2]);
    assert_eq!(shop.charges().await, ["a", "b"]);
}
