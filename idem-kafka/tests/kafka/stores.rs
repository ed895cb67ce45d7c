//! Effects that commit with their records, on real stores: killed, away, in batches.

use std::time::Duration;

use idem_core::{
    AnyStore, Batch, Failed, PostgresStore, SqliteStore, State,
    executor::ExecutionKind as Kind,
    idempotent,
    sqlx::{Connection as _, PgConnection, SqliteConnection, query, query_scalar},
    store::Owner,
};
use idem_kafka::PartitionState;
use idem_servers::Postgres;

use tokio::time::timeout;

use crate::bed::{Bed, Order, PATIENCE, Seen, note, order, until};

const CREATE: &str = "CREATE TABLE effects (id TEXT NOT NULL)";

#[idempotent(
    key = "id",
    scope = "kafka.sqlite",
    lease = "2s",
    backoff = "10ms..20ms"
)]
async fn write_sqlite(
    order: Order,
    db: &mut SqliteConnection,
    State(seen): State<Seen>,
) -> Result<(), Failed> {
    query("INSERT INTO effects VALUES (?)")
        .bind(&order.id)
        .execute(db)
        .await?;
    seen.work(&order.id).await
}

#[idempotent(
    key = "id",
    scope = "kafka.postgres",
    lease = "2s",
    backoff = "10ms..20ms"
)]
async fn write_postgres(
    order: Order,
    db: &mut PgConnection,
    State(seen): State<Seen>,
) -> Result<(), Failed> {
    query("INSERT INTO effects VALUES ($1)")
        .bind(&order.id)
        .execute(db)
        .await?;
    seen.work(&order.id).await
}

#[idempotent(key = "id", scope = "kafka.batch", batch = 64)]
async fn write_batch(orders: Batch<Order>, db: &mut PgConnection) -> Result<(), Failed> {
    let ids: Vec<_> = orders.iter().map(|order| &*order.id).collect();
    query("INSERT INTO effects SELECT * FROM UNNEST($1::text[])")
        .bind(ids)
        .execute(db)
        .await?;
    Ok(())
}

fn unique() -> String {
    let random = u128::from_be_bytes(*Owner::new().as_bytes());
    format!("kafka_{random:032x}")
}

/// A database of the test's own.
async fn postgres() -> (PostgresStore, PgConnection) {
    let server = idem_servers::postgres::shared().expect("PostgreSQL can be started");
    let url = server.create_database(&unique()).expect("it is a new name");
    let mut db = PgConnection::connect(&url).await.unwrap();
    query(CREATE).execute(&mut db).await.unwrap();
    (PostgresStore::connect(&url).await.unwrap(), db)
}

async fn effects(db: &mut PgConnection) -> (i64, i64) {
    let all = query_scalar("SELECT count(*) FROM effects")
        .fetch_one(&mut *db)
        .await
        .unwrap();
    let each = query_scalar("SELECT count(DISTINCT id) FROM effects")
        .fetch_one(db)
        .await
        .unwrap();
    (all, each)
}

/// Shares the promise of
/// `kafka::crashes::a_worker_that_dies_at_any_point_of_a_record_is_followed_as_the_table_says`.
///
/// In the middle of their transactions.
#[tokio::test(flavor = "multi_thread")]
async fn effects_of_a_worker_that_died_happen_once_on_sqlite() {
    let bed = Bed::new();
    let topic = bed.topic("orders", 2).await.concurrency(8);
    let name = topic.name().to_owned();
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("store.db").display());
    let store = SqliteStore::connect(&url).await.unwrap();
    let mut db = SqliteConnection::connect(&url).await.unwrap();
    query(CREATE).execute(&mut db).await.unwrap();
    for number in 0..100 {
        bed.send(&name, number % 2, None, &order(number)).await;
    }
    let dying = Seen::default().taking(Duration::from_millis(5));
    let worker = bed.worker::<write_sqlite, _>(store.clone(), &dying, topic.clone());
    dying.until_settled(30).await;
    worker.die().await;
    let seen = Seen::default();
    let worker = bed.worker::<write_sqlite, _>(store, &seen, topic);
    let waits = async {
        loop {
            let count: i64 = query_scalar("SELECT count(*) FROM effects")
                .fetch_one(&mut db)
                .await
                .unwrap();
            if count >= 100 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, waits)
        .await
        .expect("all have their effect");
    worker.stop().await;
    let all: i64 = query_scalar("SELECT count(*) FROM effects")
        .fetch_one(&mut db)
        .await
        .unwrap();
    let each: i64 = query_scalar("SELECT count(DISTINCT id) FROM effects")
        .fetch_one(&mut db)
        .await
        .unwrap();
    assert_eq!((all, each), (100, 100));
}

#[tokio::test(flavor = "multi_thread")]
async fn records_share_a_transaction_in_a_batch() {
    let bed = Bed::new();
    let topic = bed.topic("orders", 2).await.concurrency(128);
    let (name, seen) = (topic.name().to_owned(), Seen::default());
    let (store, mut db) = postgres().await;
    for number in 0..300 {
        bed.send(&name, number % 2, None, &order(number % 250))
            .await;
    }
    let worker = bed.worker::<write_batch, _>(store, &seen, topic);
    seen.until_settled(300).await;
    let stats = worker.stop().await;
    assert_eq!(
        (stats.count(Kind::Executed), stats.count(Kind::Duplicate)),
        (250, 50)
    );
    assert_eq!(effects(&mut db).await, (250, 250));
}

/// PostgreSQL is killed in the middle of a partition, and restarted.
///
/// - does: reads no more meanwhile, which its health says, and goes on from the mark
/// - effect: once each
#[tokio::test(flavor = "multi_thread")]
async fn while_postgres_is_away_records_wait_and_none_is_lost_or_doubled() {
    let bed = Bed::new();
    let topic = bed.topic("orders", 2).await.concurrency(4);
    let (name, seen) = (
        topic.name().to_owned(),
        Seen::default().taking(Duration::from_millis(10)),
    );
    let server = Postgres::start().unwrap();
    let mut db = PgConnection::connect(&server.url()).await.unwrap();
    query(CREATE).execute(&mut db).await.unwrap();
    let store = PostgresStore::connect(&server.url()).await.unwrap();
    for number in 0..200 {
        bed.send(&name, number % 2, None, &order(number)).await;
    }
    let worker = bed.worker::<write_postgres, _>(store, &seen, topic);
    seen.until_settled(40).await;
    server.kill().unwrap();
    until("a partition is not read", || {
        let partitions = worker.health.partitions();
        partitions
            .iter()
            .any(|one| matches!(one.state, PartitionState::Failing { .. }))
    })
    .await;
    server.restart().unwrap();
    let mut db = PgConnection::connect(&server.url()).await.unwrap();
    let waits = async {
        while effects(&mut db).await.1 < 200 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, waits)
        .await
        .expect("all have their effect");
    worker.stop().await;
    assert_eq!(effects(&mut db).await, (200, 200));
}

/// Marks and records by a store that is named by its URL, on Redis.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_goes_on_from_the_mark_on_redis() {
    let bed = Bed::new();
    let topic = bed.topic("orders", 1).await;
    let (name, seen) = (topic.name().to_owned(), Seen::default());
    let server = idem_servers::redis::shared().expect("Redis can be started");
    let store = AnyStore::connect(&server.url()).await.unwrap();
    for round in 1..=2 {
        for number in 0..5 {
            bed.send(&name, 0, None, &order(format!("{name}-{round}-{number}")))
                .await;
        }
        let worker = bed.worker::<note, _>(store.clone(), &seen, topic.clone());
        seen.until_settled(round * 5).await;
        worker.stop().await;
    }
    assert_eq!((seen.done().len(), seen.all_settled()), (10, 10));
}
