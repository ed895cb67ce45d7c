//! Records per second of one partition: handlers of idem beside a plain consumer of the same client that commits each
//! batch to Kafka, and beside a transaction by hand that stores the offset with its rows.
//!
//! ```sh
//! cargo bench -p idem-kafka --features postgres    # on librdkafka's mock cluster and a private PostgreSQL
//! ```
//!
//! A round counts only if each record has had its effect once.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "it ends where it cannot measure, and prints what it has measured"
)]

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use idem_core::{
    Batch, Failed, MemoryStore, PostgresStore,
    executor::RunsOn,
    handler::Handler,
    idempotent,
    sqlx::{Connection as _, PgConnection, query, query_scalar},
    store::{Purge, StreamStore},
};
use idem_kafka::{KafkaWorker, Order, Topic};
use rdkafka::{
    ClientConfig, Message as _,
    consumer::{CommitMode, Consumer as _, StreamConsumer},
    mocking::MockCluster,
    producer::{FutureProducer, FutureRecord},
};
use serde::Deserialize;
use tokio::{sync::oneshot, time::sleep};

const RECORDS: u32 = 30_000;
const ROUNDS: usize = 7;
const BATCH: usize = 256;

const INSERT: &str =
    "INSERT INTO charges (order_id, cents) SELECT * FROM unnest($1::text[], $2::bigint[])";
const STORE_OFFSET: &str = "INSERT INTO offsets (part, next) VALUES (0, $1)
    ON CONFLICT (part) DO UPDATE SET next = excluded.next";

#[derive(Debug, Deserialize)]
struct OrderPlaced {
    order_id: String,
    cents: i64,
}

#[idempotent(key = "order_id", scope = "bench.leased")]
async fn leased(_order: OrderPlaced) -> Result<(), Failed> {
    Ok(())
}

#[idempotent(key = "order_id", scope = "bench.records", batch = 256)]
async fn with_records(orders: Batch<OrderPlaced>, db: &mut PgConnection) -> Result<(), Failed> {
    insert(orders.iter().map(|order| &**order), db).await?;
    Ok(())
}

#[idempotent(key = position(), scope = "bench.mark", batch = 256)]
async fn by_mark(orders: Batch<OrderPlaced>, db: &mut PgConnection) -> Result<(), Failed> {
    insert(orders.iter().map(|order| &**order), db).await?;
    Ok(())
}

async fn insert(
    orders: impl Iterator<Item = &OrderPlaced>,
    db: &mut PgConnection,
) -> idem_core::sqlx::Result<()> {
    let (ids, cents): (Vec<_>, Vec<_>) = orders.map(|it| (&*it.order_id, it.cents)).unzip();
    query(INSERT).bind(ids).bind(cents).execute(db).await?;
    Ok(())
}

struct Site {
    kafka: String,
    postgres: String,
    store: PostgresStore,
}

impl Site {
    /// Runs a handler over the whole partition, and says how fast.
    async fn idem<H, S>(&self, store: S, group: String, concurrency: u16) -> f64
    where
        H: Handler<()>,
        H::Mode: RunsOn<S>,
        S: StreamStore + Purge + Clone,
    {
        let (first, done) = (Arc::new(OnceLock::new()), Arc::new(AtomicU32::new(0)));
        let topic = Topic::new("orders")
            .group(group)
            .dead_letters("dead")
            .order(Order::Unordered)
            .concurrency(concurrency);
        let (began, count) = (Arc::clone(&first), Arc::clone(&done));
        let worker = KafkaWorker::builder(store)
            .consume::<H>(topic)
            .on_settled(move |_| {
                began.get_or_init(Instant::now);
                count.fetch_add(1, Relaxed);
            })
            .build(&*self.kafka)
            .unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let running = tokio::spawn(worker.run_until(async {
            let _ = stopped.await;
        }));
        while done.load(Relaxed) < RECORDS {
            sleep(Duration::from_millis(1)).await;
        }
        let took = first.get().unwrap().elapsed();
        drop(stop);
        running.await.unwrap().unwrap();
        f64::from(RECORDS) / took.as_secs_f64()
    }

    /// Reads the whole partition as people do by hand.
    async fn by_hand(&self, group: String, mut db: Option<PgConnection>) -> f64 {
        let consumer: StreamConsumer = ClientConfig::new()
            .set("bootstrap.servers", &self.kafka)
            .set("group.id", group)
            .set("auto.offset.reset", "earliest")
            .set("enable.auto.commit", "false")
            .create()
            .unwrap();
        consumer.subscribe(&["orders"]).unwrap();
        let (mut done, mut first) = (0, None);
        while done < RECORDS {
            let mut batch = vec![consumer.recv().await.unwrap().detach()];
            first.get_or_insert_with(Instant::now);
            while batch.len() < BATCH
                && let Ok(Ok(next)) =
                    tokio::time::timeout(Duration::from_micros(1), consumer.recv()).await
            {
                batch.push(next.detach());
            }
            let orders: Vec<OrderPlaced> = batch
                .iter()
                .map(|it| serde_json::from_slice(it.payload().unwrap()).unwrap())
                .collect();
            done += u32::try_from(orders.len()).unwrap();
            let Some(db) = &mut db else {
                consumer.commit_consumer_state(CommitMode::Sync).unwrap();
                continue;
            };
            let next = batch.last().unwrap().offset() + 1;
            let mut transaction = db.begin().await.unwrap();
            insert(orders.iter(), &mut transaction).await.unwrap();
            query(STORE_OFFSET)
                .bind(next)
                .execute(&mut *transaction)
                .await
                .unwrap();
            transaction.commit().await.unwrap();
        }
        f64::from(RECORDS) / first.unwrap().elapsed().as_secs_f64()
    }

    async fn db(&self) -> PgConnection {
        PgConnection::connect(&self.postgres).await.unwrap()
    }

    /// Each record has had its effect once; forgets them, and what is known of them.
    async fn settle(&self, effects: bool) {
        let mut db = self.db().await;
        let rows: (i64, i64) =
            idem_core::sqlx::query_as("SELECT count(*), count(DISTINCT order_id) FROM charges")
                .fetch_one(&mut db)
                .await
                .unwrap();
        let expected = if effects { i64::from(RECORDS) } else { 0 };
        assert_eq!(rows, (expected, expected));
        query("TRUNCATE charges, offsets, idem_records, idem_records_streams")
            .execute(&mut db)
            .await
            .unwrap();
    }

    /// The contestants' figures of one round, in the order of `NAMES`.
    async fn round(&self, number: usize) -> [f64; 6] {
        let group = |name: &str| format!("{name}-{number}");
        let plain = self.by_hand(group("plain"), None).await;
        let by_hand = self.by_hand(group("by-hand"), Some(self.db().await)).await;
        self.settle(true).await;
        let memory = self.idem::<leased, _>(MemoryStore::new(), group("memory"), 512);
        let memory = memory.await;
        let store = || self.store.clone();
        let leased = self.idem::<leased, _>(store(), group("leased"), 512).await;
        self.settle(false).await;
        let records = self.idem::<with_records, _>(store(), group("records"), 1024);
        let records = records.await;
        self.settle(true).await;
        let by_mark = self.idem::<by_mark, _>(store(), group("mark"), 1).await;
        self.settle(true).await;
        [plain, by_hand, memory, leased, records, by_mark]
    }
}

const NAMES: [&str; 6] = [
    "plain, commits each batch to Kafka",
    "by hand, offset and rows in one transaction",
    "idem, memory, leased",
    "idem, PostgreSQL, leased",
    "idem, PostgreSQL, batches with records",
    "idem, PostgreSQL, batches by the mark",
];

#[tokio::main]
async fn main() {
    let cluster = MockCluster::new(1).unwrap();
    for topic in ["orders", "dead"] {
        cluster.create_topic(topic, 1, 1).unwrap();
    }
    let kafka = cluster.bootstrap_servers();
    publish(&kafka).await;
    let server = idem_servers::Postgres::start().unwrap();
    let postgres = server.url();
    let store = PostgresStore::connect(&postgres).await.unwrap();
    let site = Site {
        kafka,
        postgres,
        store,
    };
    let mut db = site.db().await;
    for table in [
        "charges (order_id text, cents bigint)",
        "offsets (part int PRIMARY KEY, next bigint)",
    ] {
        let create = format!("CREATE TABLE {table}");
        query(idem_core::sqlx::AssertSqlSafe(create))
            .execute(&mut db)
            .await
            .unwrap();
    }
    let version: String = query_scalar("SHOW server_version")
        .fetch_one(&mut db)
        .await
        .unwrap();
    let mut rounds = Vec::new();
    for number in 0..ROUNDS {
        let figures = site.round(number).await;
        println!("round {}: {figures:.0?}", number + 1);
        rounds.push(figures);
    }
    println!("{RECORDS} records, PostgreSQL {version}; medians of {ROUNDS} rounds");
    println!("| consumer | records/s | of plain | of by hand |\n|---|--:|--:|--:|");
    for (at, name) in NAMES.iter().enumerate() {
        let of = |other: usize| median(rounds.iter().map(|it| it[at] / it[other]).collect());
        let each = median(rounds.iter().map(|it| it[at]).collect());
        println!("| {name} | {each:.0} | {:.2} | {:.2} |", of(0), of(1));
    }
}

async fn publish(kafka: &str) {
    let producer: FutureProducer = ClientConfig::new()
        .set("bootstrap.servers", kafka)
        .set("linger.ms", "20")
        .set("queue.buffering.max.messages", "200000")
        .create()
        .unwrap();
    let sent: Vec<_> = (0..RECORDS)
        .map(|number| {
            let body = format!(r#"{{"order_id":"o-{number}","cents":{number}}}"#);
            let record = FutureRecord::<str, str>::to("orders")
                .partition(0)
                .payload(&body);
            producer.send_result(record).unwrap()
        })
        .collect();
    for sent in sent {
        sent.await.unwrap().unwrap();
    }
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
