//! What handlers publish: committed with their writes, published until a queue has it.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use idem_amqp::{
    Publication, Queue, Worker,
    executor::ExecutionKind as Kind,
    outbox::{
        Outbox, OutboxChange, OutboxListing, OutboxRelay, OutboxState, Outboxes, SharedOutbox,
    },
    prelude::*,
    sqlx::{self, AssertSqlSafe, Connection as _, PgConnection, SqliteConnection},
};
use idem_servers::RabbitMq;
use idem_tests::{
    bed::{Bed, DeadLetter, QUICK},
    journal::eventually,
    ledger::{Charge, Ledger, in_postgres, in_sqlite},
    running::Running,
    servers::off_thread,
    store_at::Product,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::{Mutex, oneshot};

/// A sale, and what its handler publishes.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Sale {
    id: String,
    /// The queues that events go to, one each.
    to: Vec<String>,
    /// So many attempts fail after they have published.
    fails: u32,
    /// Events are ordered by this.
    lane: Option<String>,
    /// Events leave so many seconds later.
    after: Option<u64>,
    /// Events go to this exchange.
    exchange: Option<String>,
}

impl Sale {
    fn new(id: &str, to: &str) -> Self {
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
struct Shop {
    bed: Bed,
    ledger: Ledger,
    product: Product,
    /// Where the events of its sales go.
    events: String,
}

impl Shop {
    async fn open(product: Product) -> Self {
        let shop = Self::on(Bed::new().await, product).await;
        shop.declare_events().await;
        shop
    }

    async fn on(bed: Bed, product: Product) -> Self {
        let ledger = Ledger::on(product).await;
        let events = bed.another("events");
        Self {
            bed,
            ledger,
            product,
            events,
        }
    }

    async fn declare_events(&self) {
        self.bed.declare(&Queue::classic(&self.events)).await;
    }

    /// A worker that sells.
    async fn sell(&self) -> Running {
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

    /// A worker that sells in batches.
    async fn sell_all(&self) -> Running {
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

    async fn outbox(&self) -> SharedOutbox {
        match self.product {
            Product::Postgres => self.ledger.store().open_postgres().await.outbox(),
            _ => self.ledger.store().open_sqlite().await.outbox(),
        }
    }

    /// Makes what is in the outbox due so much sooner.
    async fn pass_time(&self, by: Duration) {
        let url = &self.ledger.store().url;
        let seconds = by.as_secs();
        if self.product == Product::Postgres {
            let mut db = PgConnection::connect(url).await.unwrap();
            let sooner =
                format!("UPDATE idem_records_outbox SET due = due - interval '{seconds} s'");
            sqlx::raw_sql(AssertSqlSafe(sooner))
                .execute(&mut db)
                .await
                .unwrap();
        } else {
            let mut db = SqliteConnection::connect(url).await.unwrap();
            let sooner = format!("UPDATE idem_records_outbox SET due = due - {seconds} * 1000000");
            sqlx::raw_sql(AssertSqlSafe(sooner))
                .execute(&mut db)
                .await
                .unwrap();
        }
    }

    /// Waits until so many events are there, and takes them; there are no more.
    async fn events(&self, count: usize) -> Vec<DeadLetter> {
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
    async fn until_event(&self, id: &str) {
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

    async fn until_empty(&self) {
        let outbox = self.outbox().await;
        eventually("the outbox is empty", async || {
            let left = outbox.list(&all()).await.unwrap();
            if left.is_empty() { Ok(()) } else { Err(left) }
        })
        .await;
    }
}

fn all() -> OutboxListing {
    OutboxListing {
        limit: 1000,
        ..OutboxListing::default()
    }
}

fn ids(events: &[DeadLetter]) -> Vec<String> {
    let id = |event: &DeadLetter| event.properties.message_id().as_ref().unwrap().to_string();
    events.iter().map(id).collect()
}

/// A relay of its own, until it is stopped.
struct Relaying {
    stop: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<idem_amqp::outbox::OutboxStats>,
}

impl Relaying {
    fn start(outbox: SharedOutbox, url: &str) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let relay = OutboxRelay::new(outbox, url).unwrap();
        let task = tokio::spawn(relay.run_until(async {
            let _ = stopped.await;
        }));
        Self { stop, task }
    }

    async fn stop(self) -> idem_amqp::outbox::OutboxStats {
        let _ = self.stop.send(());
        self.task.await.unwrap()
    }
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

/// A handler publishes what it has done.
///
/// - does: publishes it when its writes are committed, under an id of the key's own, and forgets it when a queue has it
/// - effect: once
async fn what_a_handler_publishes_leaves_with_its_commit(product: Product) {
    let shop = Shop::open(product).await;
    let worker = shop.sell().await;
    shop.bed.json(&Sale::new("a", &shop.events)).await;
    shop.bed.json(&Sale::new("b", &shop.events)).await;
    // A copy publishes nothing.
    shop.bed.json(&Sale::new("a", &shop.events)).await;
    worker.ended(Kind::Duplicate, 1).await;
    let events = shop.events(2).await;
    let mut names = ids(&events);
    names.sort();
    assert_eq!(names, ["sales.sell:a#0", "sales.sell:b#0"]);
    let event = events
        .iter()
        .find(|it| it.header("x-sale").as_deref() == Some("a"));
    assert_eq!(*event.unwrap().properties.delivery_mode(), Some(2));
    shop.until_empty().await;
    let stats = worker.stop().await;
    let outbox = stats.outbox();
    assert_eq!((outbox.committed, outbox.confirmed), (2, 2), "{stats}");
    assert!(
        stats
            .to_string()
            .contains("outbox: committed=2 confirmed=2"),
        "{stats}"
    );
    assert_eq!(shop.ledger.count().await, 2);
    shop.bed.assert_nothing_stuck().await;
}

/// An attempt publishes, and fails.
///
/// - does: publishes nothing of it; what the next attempt publishes has the same ids
/// - effect: once
async fn a_failed_attempt_publishes_nothing(product: Product) {
    let shop = Shop::open(product).await;
    let worker = shop.sell().await;
    let sale = Sale::new("a", &shop.events);
    shop.bed.json(&Sale { fails: 2, ..sale }).await;
    worker.ended(Kind::Executed, 1).await;
    assert_eq!(ids(&shop.events(1).await), ["sales.sell:a#0"]);
    let stats = worker.stop().await;
    assert_eq!(stats.outbox().committed, 1, "{stats}");
    shop.until_empty().await;
    shop.bed.assert_nothing_stuck().await;
}

/// Handlers of batches publish for each message.
///
/// - does: publishes what the messages of the batch have published that it has not failed
/// - effect: once
async fn each_message_of_a_batch_publishes_its_own(product: Product) {
    let shop = Shop::open(product).await;
    for id in ["a", "b", "bad", "c", "d"] {
        shop.bed.json(&Sale::new(id, &shop.events)).await;
    }
    let worker = shop.sell_all().await;
    worker.ended(Kind::Executed, 4).await;
    let mut names = ids(&shop.events(4).await);
    names.sort();
    let expected = ["a", "b", "c", "d"].map(|id| format!("sales.sell_all:{id}#0"));
    assert_eq!(names, expected);
    let stats = worker.stop().await;
    assert_eq!(stats.outbox().committed, 4, "{stats}");
    shop.until_empty().await;
    shop.bed.dead_letter().await;
    shop.bed.assert_nothing_stuck().await;
}

/// No queue takes what a handler publishes, or there is no such exchange.
///
/// - does: gives it up, with the broker's word, and shows it; other messages leave. It leaves when somebody has declared
///   what it needs and tries it again, or has sent it elsewhere
/// - effect: at least once, under one id
async fn what_no_queue_takes_is_given_up_and_can_be_tried_again(product: Product) {
    let shop = Shop::open(product).await;
    let worker = shop.sell().await;
    let missing = shop.bed.another("missing");
    shop.bed.json(&Sale::new("a", &missing)).await;
    let exchange = Some(format!("{missing}.exchange"));
    let sale = Sale::new("b", &shop.events);
    shop.bed.json(&Sale { exchange, ..sale }).await;
    shop.bed.json(&Sale::new("c", &shop.events)).await;
    let outbox = shop.outbox().await;
    let dead = eventually("two messages are dead", async || {
        let dead = OutboxListing {
            state: Some(OutboxState::Dead),
            ..all()
        };
        let dead = outbox.list(&dead).await.unwrap();
        if dead.len() == 2 { Ok(dead) } else { Err(dead) }
    })
    .await;
    // The broker has closed the channel because of the exchange, and perhaps before it had confirmed this one.
    shop.until_event("sales.sell:c#0").await;
    let of = |id: &str| dead.iter().find(|it| it.message_id == id).unwrap();
    let unroutable = of("sales.sell:a#0");
    assert!(
        unroutable
            .error
            .as_ref()
            .unwrap()
            .contains("no queue is bound"),
        "{unroutable:?}"
    );
    assert_eq!(unroutable.target, missing);
    let no_exchange = of("sales.sell:b#0");
    assert!(
        no_exchange.error.as_ref().unwrap().contains("NOT_FOUND"),
        "{no_exchange:?}"
    );

    shop.bed.declare(&Queue::classic(&missing)).await;
    let retry = OutboxChange::Retry(Some(unroutable.id));
    assert_eq!(outbox.change(&retry).await.unwrap(), 1);
    eventually("it has left", async || {
        let found = shop.bed.drain(&missing).await;
        if found.len() == 1 { Ok(()) } else { Err(found) }
    })
    .await;
    let (_, content) = outbox.show(no_exchange.id).await.unwrap().unwrap();
    let elsewhere = idem_amqp::outbox::redirected(no_exchange.id, content, "", &shop.events);
    assert_eq!(outbox.change(&elsewhere.unwrap()).await.unwrap(), 1);
    shop.until_event("sales.sell:b#0").await;
    shop.until_empty().await;
    shop.bed.drain(&shop.events).await;
    let stats = worker.stop().await;
    assert_eq!(stats.outbox().given_up, 2, "{stats}");
    shop.bed.assert_nothing_stuck().await;
}

/// A worker vanishes between its commit and the broker's confirm.
///
/// - does: leaves what it has committed to others, who publish it when its lease has run out
/// - effect: at least once, under one id
async fn what_a_vanished_worker_has_committed_others_publish(product: Product) {
    let shop = Shop::open(product).await;
    let id = commit_alone(&shop, &Sale::new("a", &shop.events)).await;
    shop.pass_time(Duration::from_secs(20)).await;
    let relay = Relaying::start(shop.outbox().await, shop.bed.url());
    tokio::time::sleep(Duration::from_secs(1)).await;
    let early = relay.stop().await;
    assert_eq!(
        early.confirmed, 0,
        "it is left to who has committed it: {early}"
    );
    shop.pass_time(Duration::from_secs(11)).await;
    let (one, other) = (
        Relaying::start(shop.outbox().await, shop.bed.url()),
        Relaying::start(shop.outbox().await, shop.bed.url()),
    );
    assert_eq!(ids(&shop.events(1).await), [id]);
    shop.until_empty().await;
    let (one, other) = (one.stop().await, other.stop().await);
    assert_eq!(one.confirmed + other.confirmed, 1, "{one} {other}");
    shop.bed.assert_nothing_stuck().await;
}

/// Commits a sale in a process that never gets to publish, and says the event's id.
async fn commit_alone(shop: &Shop, sale: &Sale) -> String {
    use idem_amqp::{
        executor::{Executor, Prepared},
        message::Envelope,
    };
    let envelope = Envelope::new(serde_json::to_vec(sale).unwrap());
    if shop.product == Product::Postgres {
        let executor = Executor::new(shop.ledger.store().open_postgres().await);
        executor.when_committed(drop);
        let mut message = Prepared::<sell_in_postgres>::new(envelope, &QUICK).unwrap();
        let ended = executor.handle(&mut message, &()).await;
        assert_eq!(ended.kind(), Kind::Executed);
    } else {
        let executor = Executor::new(shop.ledger.store().open_sqlite().await);
        executor.when_committed(drop);
        let mut message = Prepared::<sell_in_sqlite>::new(envelope, &QUICK).unwrap();
        let ended = executor.handle(&mut message, &()).await;
        assert_eq!(ended.kind(), Kind::Executed);
    }
    format!("sales.sell:{}#0", sale.id)
}

/// What is published is to leave later.
///
/// - does: keeps it in the store until then, where it can be cancelled
/// - effect: once
async fn what_is_to_leave_later_waits_in_the_store(product: Product) {
    let shop = Shop::open(product).await;
    let worker = shop.sell().await;
    let sale = |id: &str, after| Sale {
        after: Some(after),
        ..Sale::new(id, &shop.events)
    };
    shop.bed.json(&sale("soon", 2)).await;
    shop.bed.json(&sale("tomorrow", 86_400)).await;
    shop.bed.json(&sale("never", 86_400)).await;
    worker.ended(Kind::Executed, 3).await;
    let began = SystemTime::now();
    let outbox = shop.outbox().await;
    let cancelled = outbox
        .change(&OutboxChange::Cancel("sales.sell:never".into()))
        .await;
    assert_eq!(cancelled.unwrap(), 1);
    assert_eq!(ids(&shop.events(1).await), ["sales.sell:soon#0"]);
    assert!(began.elapsed().unwrap() > Duration::from_millis(500));
    // An event is there before its row is gone.
    let left = eventually("one is left", async || {
        let left = outbox.list(&all()).await.unwrap();
        if left.len() == 1 { Ok(left) } else { Err(left) }
    })
    .await;
    assert_eq!(left[0].state, OutboxState::Later);
    worker.stop().await;

    shop.pass_time(Duration::from_hours(24)).await;
    let relay = Relaying::start(shop.outbox().await, shop.bed.url());
    assert_eq!(ids(&shop.events(1).await), ["sales.sell:tomorrow#0"]);
    relay.stop().await;
    shop.until_empty().await;
    shop.bed.assert_nothing_stuck().await;
}

/// What is published is to leave in the order of its commits.
///
/// - does: publishes the next one of an order when a queue has the one before it, whoever publishes it
/// - effect: in order
async fn what_is_ordered_leaves_in_the_order_of_its_commits(product: Product) {
    const EACH: usize = 20;
    let shop = Shop::open(product).await;
    let lanes = ["c-1", "c-2"];
    let mut committed = lanes.map(|_| Vec::new());
    for i in 0..EACH {
        for (lane, committed) in lanes.iter().zip(&mut committed) {
            let sale = Sale {
                lane: Some((*lane).into()),
                ..Sale::new(&format!("{lane}-{i}"), &shop.events)
            };
            committed.push(commit_alone(&shop, &sale).await);
        }
    }
    let (one, other) = (
        Relaying::start(shop.outbox().await, shop.bed.url()),
        Relaying::start(shop.outbox().await, shop.bed.url()),
    );
    let events = ids(&shop.events(2 * EACH).await);
    for (lane, committed) in lanes.iter().zip(&committed) {
        let of_lane = events.iter().filter(|id| id.contains(lane));
        assert_eq!(&of_lane.cloned().collect::<Vec<_>>(), committed);
    }
    let (one, other) = (one.stop().await, other.stop().await);
    assert_eq!(
        one.confirmed + other.confirmed,
        2 * EACH as u64,
        "{one} {other}"
    );
    shop.until_empty().await;
    shop.bed.assert_nothing_stuck().await;
}

/// An application publishes with a transaction of its own, outside of a handler.
///
/// - does: publishes it when that transaction is committed, and not when it is rolled back
/// - effect: once
async fn a_transaction_of_the_applications_own_publishes(product: Product) {
    let shop = Shop::open(product).await;
    let url = &shop.ledger.store().url;
    for (text, commits) in [("kept", true), ("undone", false)] {
        let outbox = Outbox::outside();
        let event = Publication::json(&shop.events, &json!({"text": text})).message_id(text);
        outbox.publish(event).unwrap();
        if product == Product::Postgres {
            let store = shop.ledger.store().open_postgres().await;
            let mut db = PgConnection::connect(url).await.unwrap();
            let mut transaction = db.begin().await.unwrap();
            store
                .publish(&mut transaction, outbox.clone())
                .await
                .unwrap();
            if commits {
                transaction.commit().await.unwrap();
            }
        } else {
            let store = shop.ledger.store().open_sqlite().await;
            let mut db = SqliteConnection::connect(url).await.unwrap();
            let mut transaction = db.begin().await.unwrap();
            store
                .publish(&mut transaction, outbox.clone())
                .await
                .unwrap();
            if commits {
                transaction.commit().await.unwrap();
            }
        }
    }
    let relay = Relaying::start(shop.outbox().await, shop.bed.url());
    assert_eq!(ids(&shop.events(1).await), ["kept"]);
    shop.until_empty().await;
    assert_eq!(relay.stop().await.confirmed, 1);
    shop.bed.assert_nothing_stuck().await;
}

/// The broker is away when something is published.
///
/// - does: keeps it in the store, and publishes it when the broker is back
/// - effect: at least once, under one id
async fn a_broker_that_is_away_gets_it_when_it_is_back(product: Product) {
    let broker = Arc::new(off_thread(RabbitMq::start).await);
    let shop = Shop::on(Bed::on(&broker), product).await;
    shop.declare_events().await;
    let ids_of = |count: usize| (0..count).map(|i| format!("sale-{i:02}"));
    let outbox = shop.outbox().await;
    let relay = Relaying::start(outbox.clone(), shop.bed.url());
    let stopped = Arc::clone(&broker);
    off_thread(move || stopped.kill()).await;
    for id in ids_of(20) {
        // Free at once: an executor of its own publishes nothing.
        let sale = Sale {
            after: Some(0),
            ..Sale::new(&id, &shop.events)
        };
        commit_alone(&shop, &sale).await;
    }
    eventually("it was tried in vain", async || {
        let entries = outbox.list(&all()).await.unwrap();
        if entries.iter().any(|it| it.error.is_some()) {
            Ok(())
        } else {
            Err(entries.len())
        }
    })
    .await;
    let restarted = Arc::clone(&broker);
    off_thread(move || restarted.restart()).await;
    let mut events = ids(&shop.events(20).await);
    events.sort();
    events.dedup();
    assert_eq!(events.len(), 20);
    shop.until_empty().await;
    relay.stop().await;
}

on_postgres_and_sqlite! {
    what_a_handler_publishes_leaves_with_its_commit,
    a_failed_attempt_publishes_nothing,
    each_message_of_a_batch_publishes_its_own,
    what_no_queue_takes_is_given_up_and_can_be_tried_again,
    what_a_vanished_worker_has_committed_others_publish,
    what_is_to_leave_later_waits_in_the_store,
    what_is_ordered_leaves_in_the_order_of_its_commits,
    a_transaction_of_the_applications_own_publishes,
    a_broker_that_is_away_gets_it_when_it_is_back,
}
