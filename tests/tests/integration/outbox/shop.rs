//! A shop whose handlers publish, on one of the stores that have an outbox.

use std::time::Duration;

use idem_amqp::{
    Publication, Queue, Worker,
    executor::{ExecutionKind as Kind, Executor, Prepared, RunsOn},
    handler::Handler,
    message::Envelope,
    outbox::{
        Outbox, OutboxCounts, OutboxListing, OutboxRelay, OutboxStats, Outboxes, SharedOutbox,
    },
    prelude::*,
    sqlx::{self, AssertSqlSafe, Connection as _, PgConnection, SqliteConnection},
    store::Store,
};
use idem_tests::{
    bed::{Bed, DeadLetter, QUICK},
    journal::{eventually, within},
    ledger::{Charge, Ledger, in_postgres, in_sqlite},
    running::Running,
    store_at::Product,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::{
    sync::{Mutex, oneshot},
    time,
};

/// A sale, and what its handler publishes.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Sale {
    pub(crate) id: String,
    /// The queues that events go to, one each.
    pub(crate) to: Vec<String>,
    /// So many attempts fail after they have published.
    pub(crate) fails: u32,
    /// Events are ordered by this.
    pub(crate) lane: Option<String>,
    /// Events leave so many seconds later.
    pub(crate) after: Option<u64>,
    /// Events go to this exchange.
    pub(crate) exchange: Option<String>,
}

impl Sale {
    pub(crate) fn new(id: &str, to: &str) -> Self {
        Self {
            id: id.into(),
            to: vec![to.into()],
            ..Self::default()
        }
    }

    fn publish(&self, outbox: &Outbox) -> Result<(), Failed> {
        let outbox = match &self.lane {
            Some(lane) => outbox.ordered_by(lane),
            None => outbox.clone(),
        };
        let outbox = match self.after {
            Some(after) => outbox.after(Duration::from_secs(after)),
            None => outbox,
        };
        for to in &self.to {
            let event = Publication::json(to, &json!({"sale": self.id})).header("x-sale", &self.id);
            outbox.publish(match &self.exchange {
                Some(exchange) => event.exchange(exchange, to),
                None => event,
            })?;
        }
        Ok(())
    }

    fn end(&self, attempt: Attempt) -> Result<(), Failed> {
        if attempt.number() <= self.fails {
            return Err(Failed::retry("not yet"));
        }
        Ok(())
    }

    fn charge(&self, attempt: Attempt) -> Charge {
        Charge::new(&self.id, attempt.number(), "here")
    }
}

#[idempotent(key = "id", scope = "sales.sell")]
async fn sell_in_postgres(
    sale: Sale,
    attempt: Attempt,
    outbox: Outbox,
    db: &mut PgConnection,
) -> Result<(), Failed> {
    in_postgres::write(db, &sale.charge(attempt)).await?;
    sale.publish(&outbox)?;
    sale.end(attempt)
}

#[idempotent(key = "id", scope = "sales.sell_together", group = 8)]
async fn sell_together_in_postgres(
    sale: Sale,
    attempt: Attempt,
    outbox: Outbox,
    db: &mut PgConnection,
) -> Result<(), Failed> {
    in_postgres::write(db, &sale.charge(attempt)).await?;
    sale.publish(&outbox)?;
    sale.end(attempt)
}

#[idempotent(key = "id", scope = "sales.sell")]
async fn sell_in_sqlite(
    sale: Sale,
    attempt: Attempt,
    outbox: Outbox,
    db: &mut SqliteConnection,
) -> Result<(), Failed> {
    in_sqlite::write(db, &sale.charge(attempt)).await?;
    sale.publish(&outbox)?;
    sale.end(attempt)
}

#[idempotent(key = "id", scope = "sales.sell_all", batch = 16)]
async fn sell_all_in_postgres(
    sales: Batch<Sale>,
    outboxes: Outboxes,
    db: &mut PgConnection,
) -> Result<(), Failed> {
    for (i, sale) in sales.iter().enumerate() {
        sale.publish(&outboxes[i])?;
        if sale.id == "bad" {
            sales.reject(i, "it is bad");
            continue;
        }
        in_postgres::write(&mut *db, &sale.charge(sale.attempt())).await?;
    }
    Ok(())
}

#[idempotent(key = "id", scope = "sales.sell_all", batch = 16)]
async fn sell_all_in_sqlite(
    sales: Batch<Sale>,
    outboxes: Outboxes,
    db: &mut SqliteConnection,
) -> Result<(), Failed> {
    for (i, sale) in sales.iter().enumerate() {
        sale.publish(&outboxes[i])?;
        if sale.id == "bad" {
            sales.reject(i, "it is bad");
            continue;
        }
        in_sqlite::write(&mut *db, &sale.charge(sale.attempt())).await?;
    }
    Ok(())
}

/// A shop on one of the stores that have an outbox.
pub(crate) struct Shop {
    pub(crate) bed: Bed,
    pub(crate) ledger: Ledger,
    pub(crate) product: Product,
    /// Where the events of its sales go.
    pub(crate) events: String,
}

impl Shop {
    pub(crate) async fn open(product: Product) -> Self {
        let shop = Self::on(Bed::new().await, product).await;
        shop.declare_events().await;
        shop
    }

    pub(crate) async fn on(bed: Bed, product: Product) -> Self {
        Self::with(bed, Ledger::on(product).await)
    }

    pub(crate) fn with(bed: Bed, ledger: Ledger) -> Self {
        let product = ledger.store().product();
        let events = bed.another("events");
        Self {
            bed,
            ledger,
            product,
            events,
        }
    }

    pub(crate) async fn declare_events(&self) {
        self.bed.declare(&Queue::classic(&self.events)).await;
    }

    /// A worker that sells.
    pub(crate) async fn sell(&self) -> Running {
        if self.product == Product::Postgres {
            let store = self.ledger.store().open_postgres().await;
            let worker = Worker::builder(store);
            self.bed
                .start(worker.consume::<sell_in_postgres>(self.bed.queue()))
        } else {
            let store = self.ledger.store().open_sqlite().await;
            let worker = Worker::builder(store);
            self.bed
                .start(worker.consume::<sell_in_sqlite>(self.bed.queue()))
        }
    }

    /// A worker that sells in groups, on PostgreSQL.
    pub(crate) async fn sell_together(&self) -> Running {
        let store = self.ledger.store().open_postgres().await;
        let worker = Worker::builder(store);
        self.bed
            .start(worker.consume::<sell_together_in_postgres>(self.bed.queue()))
    }

    /// A worker that sells in batches.
    pub(crate) async fn sell_all(&self) -> Running {
        if self.product == Product::Postgres {
            let store = self.ledger.store().open_postgres().await;
            let worker = Worker::builder(store);
            self.bed
                .start(worker.consume::<sell_all_in_postgres>(self.bed.queue()))
        } else {
            let store = self.ledger.store().open_sqlite().await;
            let worker = Worker::builder(store);
            self.bed
                .start(worker.consume::<sell_all_in_sqlite>(self.bed.queue()))
        }
    }

    pub(crate) async fn outbox(&self) -> SharedOutbox {
        match self.product {
            Product::Postgres => self.ledger.store().open_postgres().await.outbox(),
            _ => self.ledger.store().open_sqlite().await.outbox(),
        }
    }

    /// Makes what is in the outbox due so much sooner: as if the clock of the store were set forward.
    pub(crate) async fn pass_time(&self, by: Duration) {
        self.shift(i64::try_from(by.as_secs()).unwrap()).await;
    }

    /// Makes what is in the outbox due so much later: as if the clock of the store were set back.
    pub(crate) async fn set_back(&self, by: Duration) {
        self.shift(-i64::try_from(by.as_secs()).unwrap()).await;
    }

    async fn shift(&self, seconds: i64) {
        self.sql(
            &format!("UPDATE idem_records_outbox SET due = due - interval '{seconds} s'"),
            &format!("UPDATE idem_records_outbox SET due = due - {seconds} * 1000000"),
        )
        .await;
    }

    /// Runs one of these in the store's database.
    pub(crate) async fn sql(&self, in_postgres: &str, in_sqlite: &str) {
        let url = &self.ledger.store().url;
        if self.product == Product::Postgres {
            let mut db = PgConnection::connect(url).await.unwrap();
            let sql = sqlx::raw_sql(AssertSqlSafe(in_postgres));
            sql.execute(&mut db).await.unwrap();
        } else {
            let mut db = SqliteConnection::connect(url).await.unwrap();
            let sql = sqlx::raw_sql(AssertSqlSafe(in_sqlite));
            sql.execute(&mut db).await.unwrap();
        }
    }

    /// What was committed is confirmed, waiting or dead.
    #[track_caller]
    pub(crate) fn assert_law(counts: OutboxCounts, committed: u64, confirmed: u64) {
        let left = counts.waiting + counts.later + counts.dead;
        assert_eq!(committed, confirmed + left, "{counts:?}");
    }

    pub(crate) async fn counts(&self) -> OutboxCounts {
        self.outbox().await.counts().await.unwrap()
    }

    /// Waits until so many events are there, and takes them; there are no more.
    pub(crate) async fn events(&self, count: usize) -> Vec<DeadLetter> {
        let events = Mutex::new(Vec::new());
        eventually(&format!("{count} events"), async || {
            let mut events = events.lock().await;
            events.extend(self.bed.drain(&self.events).await);
            if events.len() >= count {
                Ok(())
            } else {
                Err(events.len())
            }
        })
        .await;
        let events = events.into_inner();
        assert_eq!(events.len(), count, "{events:?}");
        events
    }

    /// Waits until this event is there. It may be there more than once, and so may those before it.
    pub(crate) async fn until_event(&self, id: &str) {
        eventually(&format!("the event {id}"), async || {
            let found = ids(&self.bed.drain(&self.events).await);
            if found.iter().any(|it| it == id) {
                Ok(())
            } else {
                Err(found)
            }
        })
        .await;
    }

    pub(crate) async fn until_empty(&self) {
        let outbox = self.outbox().await;
        eventually("the outbox is empty", async || {
            let left = outbox.list(&all()).await.unwrap();
            if left.is_empty() { Ok(()) } else { Err(left) }
        })
        .await;
    }
}

pub(crate) fn all() -> OutboxListing {
    OutboxListing {
        limit: 1000,
        ..OutboxListing::default()
    }
}

pub(crate) fn ids(events: &[DeadLetter]) -> Vec<String> {
    let id = |event: &DeadLetter| event.properties.message_id().as_ref().unwrap().to_string();
    events.iter().map(id).collect()
}

/// So much time passes in this process, though not on the clock of the store: what waits here for that goes on.
pub(crate) async fn pass_time_here(by: Duration) {
    time::pause();
    time::advance(by).await;
    time::resume();
}

/// The law of a worker that was alone, and nothing was cancelled.
#[track_caller]
pub(crate) fn law_of(stats: OutboxStats, counts: OutboxCounts) -> OutboxStats {
    Shop::assert_law(counts, stats.committed, stats.confirmed);
    stats
}

/// A relay of its own, until it is stopped.
pub(crate) struct Relaying {
    stop: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<OutboxStats>,
}

impl Relaying {
    pub(crate) fn start(outbox: SharedOutbox, url: &str) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let relay = OutboxRelay::new(outbox, url).unwrap();
        let task = tokio::spawn(relay.run_until(async {
            let _ = stopped.await;
        }));
        Self { stop, task }
    }

    pub(crate) async fn stop(self) -> OutboxStats {
        let _ = self.stop.send(());
        self.task.await.unwrap()
    }

    /// It ends where it is, as if its process had.
    pub(crate) async fn vanish(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

/// Commits a sale in a process that never gets to publish, and says the event's id.
pub(crate) async fn commit_alone(shop: &Shop, sale: &Sale) -> String {
    let envelope = Envelope::new(serde_json::to_vec(sale).unwrap());
    let store = shop.ledger.store();
    if shop.product == Product::Postgres {
        commit::<sell_in_postgres, _>(store.open_postgres().await, envelope).await;
    } else {
        commit::<sell_in_sqlite, _>(store.open_sqlite().await, envelope).await;
    }
    format!("sales.sell:{}#0", sale.id)
}

/// Handles a message once. On a busy machine the store may answer too late, and then it is asked again.
async fn commit<H, S>(store: S, envelope: Envelope)
where
    H: Handler<(), Mode: RunsOn<S>>,
    S: Store,
{
    let executor = Executor::new(store);
    executor.when_committed(drop);
    let Ok(mut message) = Prepared::<H>::new(envelope, &QUICK) else {
        panic!("it is a sale, and has a key")
    };
    let handled = async {
        loop {
            match executor.handle(&mut message, &()).await.kind() {
                Kind::StoreUnavailable => tokio::time::sleep(Duration::from_millis(20)).await,
                kind => return kind,
            }
        }
    };
    let kind = within("the store answers in time", Box::pin(handled)).await;
    assert_eq!(kind, Kind::Executed);
}

/// A test for each store that has an outbox.
macro_rules! on_postgres_and_sqlite {
    ($($test:ident,)+) => {
        mod postgres {
            $(#[tokio::test]
            async fn $test() {
                super::$test(idem_tests::store_at::Product::Postgres).await;
            })+
        }
        mod sqlite {
            $(#[tokio::test]
            async fn $test() {
                super::$test(idem_tests::store_at::Product::Sqlite).await;
            })+
        }
    };
}

pub(crate) use on_postgres_and_sqlite;
