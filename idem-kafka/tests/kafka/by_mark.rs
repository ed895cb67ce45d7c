//! Partitions whose mark alone says what is done: it moves in the transaction in which the handler writes a batch.

use std::time::Duration;

use idem_core::{
    Batch, Failed, Key, State,
    executor::{ExecutionKind as Kind, RunsOn},
    handler::{Handler, IntoOutgoing, OutboxError, Outboxes, OutgoingContent},
    idempotent,
    sqlx::{PgConnection, SqliteConnection, query, query_as},
    store::StreamStore as _,
};
use idem_kafka::{Ladder, OnFailure, PartitionState, StartAt, Topic};
use idem_servers::Postgres as PostgresServer;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use tokio::time::{sleep, timeout};

use crate::{
    bed::{Bed, Order, PATIENCE, Running, Seen, order, until},
    books::{Books, OnPostgres, OnSqlite, on_postgres_and_sqlite},
};

/// Until a record on the retry topic is due: longer than a busy machine may stall a process.
const LATER: Duration = Duration::from_secs(10);

/// What the handler of these tests is on this store.
trait ByMark: Books {
    type Write: Handler<Seen, Mode: RunsOn<Self::Store>>;
}

impl ByMark for OnPostgres {
    type Write = write_postgres;
}

impl ByMark for OnSqlite {
    type Write = write_sqlite;
}

/// What a batch is to write; the size of each call is what `Seen` has done.
async fn about(orders: &Batch<Order>, seen: &Seen) -> Result<String, Failed> {
    for order in orders {
        match order.id.as_str() {
            "bad" => return Err(Failed::rejected("not for us")),
            "panics" => panic!("at the record {}", order.id),
            "later" => {
                let worked = seen.work("later").await;
                let after = |_| Failed::retry_after(LATER, "not now");
                worked.map_err(after)?;
            }
            "never" => return Err(Failed::retry("not now, and never")),
            _ => {}
        }
    }
    seen.work(&orders.len().to_string()).await?;
    let ids: Vec<_> = orders.iter().map(|order| &*order.id).collect();
    Ok(ids.join(","))
}

#[idempotent(
    key = position(),
    scope = "kafka.by_mark",
    batch = 64,
    lease = "2s",
    backoff = "10ms..20ms",
    max_attempts = 2
)]
async fn write_postgres(
    orders: Batch<Order>,
    db: &mut PgConnection,
    State(seen): State<Seen>,
) -> Result<(), Failed> {
    let ids = about(&orders, &seen).await?;
    query("INSERT INTO effects (id) SELECT * FROM string_to_table($1, ',')")
        .bind(ids)
        .execute(db)
        .await?;
    Ok(())
}

#[idempotent(
    key = position(),
    scope = "kafka.by_mark",
    batch = 64,
    lease = "2s",
    backoff = "10ms..20ms",
    max_attempts = 2
)]
async fn write_sqlite(
    orders: Batch<Order>,
    db: &mut SqliteConnection,
    State(seen): State<Seen>,
) -> Result<(), Failed> {
    let ids = about(&orders, &seen).await?;
    query("INSERT INTO effects (id) SELECT value FROM json_each('[\"' || replace(?, ',', '\",\"') || '\"]')")
        .bind(ids)
        .execute(db)
        .await?;
    Ok(())
}

fn numbers(range: std::ops::Range<u32>) -> Vec<String> {
    range.map(|number| number.to_string()).collect()
}

async fn send(bed: &Bed, topic: &str, ids: &[String]) {
    for id in ids {
        bed.send(topic, 0, None, &order(id)).await;
    }
}

fn mark_of(topic: &str) -> Key {
    Key::new("kafka.by_mark", format!("kafka:{topic}:0")).unwrap()
}

/// Waits until so much is written.
async fn until_written<B: ByMark>(books: &mut B, count: usize) {
    let waits = async {
        while books.written().await.len() < count {
            sleep(Duration::from_millis(20)).await;
        }
    };
    let written = timeout(PATIENCE, waits).await;
    assert!(written.is_ok(), "not within {PATIENCE:?}: {count} written");
}

async fn what_is_written_and_the_mark_commit_together_and_no_record_is_kept<B: ByMark>(
    mut books: B,
) {
    let bed = Bed::new();
    let topic = bed.topic("orders", 1).await;
    let (name, seen, ids) = (topic.name().to_owned(), Seen::default(), numbers(0..300));
    send(&bed, &name, &ids).await;
    let worker = bed.worker::<B::Write, _>(books.store(), &seen, topic);
    seen.until_settled(300).await;
    let stats = worker.stop().await;
    assert_eq!(stats.count(Kind::Executed), 300, "{stats}");
    assert_eq!(books.written().await, ids);
    assert_eq!(books.records().await, [""; 0]);
    let looked = books.store().look_at_stream(&mark_of(&name)).await;
    assert_eq!(looked.unwrap().unwrap().mark, Some(300));
    let sizes: Vec<usize> = seen.done().iter().map(|it| it.parse().unwrap()).collect();
    assert!(sizes.iter().all(|size| *size <= 64), "{sizes:?}");
    assert!(sizes.len() < 100, "many share a call: {sizes:?}");
}

/// Records in the middle of a partition can never be handled, and the mark alone records what is done.
///
/// - does: finds them by calls with fewer, and dead-letters them in their order; those behind them go on
/// - effect: others once each, in their order
async fn records_that_cannot_be_handled_are_dead_lettered_in_their_order<B: ByMark>(mut books: B) {
    let bed = Bed::new();
    let topic = bed.topic("orders", 1).await;
    let (name, seen) = (topic.name().to_owned(), Seen::default());
    let mut ids = numbers(0..60);
    let wrong = [(50, "panics"), (37, "never"), (10, "bad"), (0, "bad")];
    for (at, id) in wrong {
        ids.insert(at, id.into());
    }
    send(&bed, &name, &ids).await;
    bed.send(&name, 0, None, "no JSON").await;
    bed.send(&name, 0, None, &order(60)).await;
    let worker = bed.worker::<B::Write, _>(books.store(), &seen, topic);
    seen.until_settled(66).await;
    let stats = worker.stop().await;
    let count = |kind| stats.count(kind);
    assert_eq!(count(Kind::Executed), 61, "{stats}");
    assert_eq!(
        (
            count(Kind::Rejected),
            count(Kind::Exhausted),
            count(Kind::Undecodable)
        ),
        (2, 2, 1),
        "{stats}"
    );
    assert_eq!(books.written().await, numbers(0..61));
    let dead = bed.read(&format!("{name}.dead"), 5).await;
    let dead: Vec<_> = dead.iter().map(|it| it.body.clone().unwrap()).collect();
    let expected = [order("bad"), order("bad"), order("never"), order("panics")];
    assert_eq!(dead[..4], expected);
}

/// Shares the promise of
/// `kafka::crashes::a_worker_that_dies_at_any_point_of_a_record_is_followed_as_the_table_says`.
async fn what_a_worker_that_died_was_at_is_done_once<B: ByMark>(mut books: B) {
    let bed = Bed::new();
    let topic = bed.topic("orders", 1).await;
    let (name, ids) = (topic.name().to_owned(), numbers(0..400));
    send(&bed, &name, &ids).await;
    for round in 1..=2 {
        let dying = Seen::default().taking(Duration::from_millis(20));
        let worker = bed.worker::<B::Write, _>(books.store(), &dying, topic.clone());
        until_written(&mut books, 70 * round).await;
        worker.die().await;
    }
    let seen = Seen::default();
    let worker = bed.worker::<B::Write, _>(books.store(), &seen, topic);
    until_written(&mut books, 400).await;
    worker.stop().await;
    assert_eq!(books.written().await, ids);
}

async fn what_is_written_under_a_mark_that_somebody_has_set_meanwhile_is_undone<B: ByMark>(
    mut books: B,
) {
    let bed = Bed::new();
    let topic = bed.topic("orders", 1).await;
    let (name, ids) = (topic.name().to_owned(), numbers(0..10));
    send(&bed, &name, &ids).await;
    let seen = Seen::default().gated().taking(Duration::from_secs(1));
    let worker = bed.worker::<B::Write, _>(books.store(), &seen, topic);
    until("the handler runs", || !seen.begun().is_empty()).await;
    books
        .store()
        .set_mark(&mark_of(&name), Some(0))
        .await
        .unwrap();
    seen.open(usize::MAX);
    until_written(&mut books, 10).await;
    worker.stop().await;
    assert_eq!(books.written().await, ids);
    assert!(
        seen.begun().len() > 1,
        "it was called again: {:?}",
        seen.begun()
    );
}

/// A person sets the mark of a partition back that alone records what is done.
///
/// - does: handles all from there on again, those that it may have read before one by one, which leaves records of them
/// - effect: as often as it is read, but for what has a record
async fn a_mark_that_is_set_back_has_all_done_again_but_what_was_handled_alone<B: ByMark>(
    mut books: B,
) {
    let bed = Bed::new();
    let topic = bed.topic("orders", 1).await;
    let (name, seen) = (topic.name().to_owned(), Seen::default());
    let back = async |store: B::Store| store.set_mark(&mark_of(&name), Some(20)).await.unwrap();
    send(&bed, &name, &numbers(0..50)).await;
    let worker = bed.worker::<B::Write, _>(books.store(), &seen, topic);
    until_written(&mut books, 50).await;
    back(books.store()).await;
    // What was read before is handled one by one, and leaves records.
    until_written(&mut books, 80).await;
    back(books.store()).await;
    until("they are duplicates", || seen.count(Kind::Duplicate) == 30).await;
    worker.stop().await;
    let expected = [numbers(0..50), numbers(20..50)].concat();
    assert_eq!(books.written().await, expected);
}

async fn a_record_alone_whose_mark_is_set_meanwhile_loses_no_attempt<B: ByMark>(mut books: B) {
    let bed = Bed::new();
    let topic = bed.topic("orders", 1).await;
    let name = topic.name().to_owned();
    let set = async |store: B::Store| store.set_mark(&mark_of(&name), Some(0)).await.unwrap();
    send(&bed, &name, &numbers(0..1)).await;
    // It may have been read before.
    set(books.store()).await;
    let seen = Seen::default().gated().taking(Duration::from_secs(1));
    let worker = bed.worker::<B::Write, _>(books.store(), &seen, topic);
    // More often than it may be attempted.
    for times in 1..=3 {
        until("the handler runs", || seen.begun().len() == times).await;
        set(books.store()).await;
        seen.open(times);
    }
    seen.open(4);
    until_written(&mut books, 1).await;
    let stats = worker.stop().await;
    assert_eq!((seen.begun().len(), stats.dead_letters), (4, 0), "{stats}");
    assert_eq!(books.written().await, numbers(0..1));
}

/// A person sets the mark behind the record at which a partition stops.
///
/// - does: goes on behind it
/// - effect: others once each, in their order
async fn a_partition_that_stops_at_a_record_goes_on_behind_it<B: ByMark>(mut books: B) {
    let bed = Bed::new();
    let topic = bed.topic("orders", 1).await.on_failure(OnFailure::Stop);
    let (name, seen) = (topic.name().to_owned(), Seen::default());
    let mut ids = numbers(0..20);
    ids.insert(5, "bad".into());
    send(&bed, &name, &ids).await;
    let worker = bed.worker::<B::Write, _>(books.store(), &seen, topic);
    until("it stops", || {
        let partitions = worker.health.partitions();
        let stopped = PartitionState::Stopped { offset: 5 };
        partitions.iter().any(|one| one.state == stopped)
    })
    .await;
    assert_eq!(books.written().await, numbers(0..5));
    books
        .store()
        .set_mark(&mark_of(&name), Some(6))
        .await
        .unwrap();
    until_written(&mut books, 20).await;
    worker.stop().await;
    assert_eq!(books.written().await, numbers(0..20));
}

async fn a_record_on_the_retry_topic_lets_those_behind_it_pass<B: ByMark>(mut books: B) {
    let bed = Bed::new();
    let topic = bed.topic("orders", 1).await;
    let name = topic.name().to_owned();
    let ladder = Ladder::new([LATER]).unwrap();
    let topic: Topic = topic.retries(format!("{name}.retry"), ladder);
    // The call with this one alone fails, and then its first attempt, which sends it to the retry topic.
    let seen = Seen::default().failing("later", u32::MAX);
    send(&bed, &name, &["later".to_owned()]).await;
    let worker = bed.worker::<B::Write, _>(books.store(), &seen, topic);
    seen.until_settled(1).await;
    seen.fail("later", 0);
    send(&bed, &name, &numbers(1..20)).await;
    until_written(&mut books, 20).await;
    let stats = worker.stop().await;
    assert_eq!(stats.retries, 1, "{stats}");
    let expected = [numbers(1..20), vec!["later".to_owned()]].concat();
    assert_eq!(books.written().await, expected);
}

/// As if its worker had died when the copy was in the retry topic, and the mark was not saved.
async fn a_record_that_is_read_again_beside_its_copy_in_the_retry_topic_is_done_once<B: ByMark>(
    mut books: B,
) {
    let bed = Bed::new();
    let topic = bed.topic("orders", 1).await;
    let name = topic.name().to_owned();
    let ladder = Ladder::new([LATER]).unwrap();
    let topic: Topic = topic.retries(format!("{name}.retry"), ladder);
    let seen = Seen::default().failing("later", u32::MAX);
    send(&bed, &name, &["later".to_owned()]).await;
    let worker = bed.worker::<B::Write, _>(books.store(), &seen, topic.clone());
    seen.until_settled(1).await;
    worker.stop().await;
    seen.fail("later", 0);
    let mark = mark_of(&name);
    books.store().set_mark(&mark, Some(0)).await.unwrap();

    let worker = bed.worker::<B::Write, _>(books.store(), &seen, topic);
    seen.until_settled(3).await;
    worker.stop().await;
    let counts = [Kind::Failed, Kind::Executed, Kind::Duplicate].map(|kind| seen.count(kind));
    assert_eq!(counts, [1, 1, 1]);
    assert_eq!(books.written().await, ["later"]);
}

/// Shares the promise of `kafka::groups::partitions_move_to_a_worker_that_joins_and_nothing_runs_twice`.
async fn workers_that_come_and_go_do_each_record_once<B: ByMark>(mut books: B) {
    let bed = Bed::new();
    let topic = bed.topic("orders", 3).await;
    let name = topic.name().to_owned();
    for number in 0..600 {
        bed.send(&name, number % 3, None, &order(number)).await;
    }
    let seen = Seen::default().taking(Duration::from_millis(5));
    let first = bed.worker::<B::Write, _>(books.store(), &seen, topic.clone());
    until_written(&mut books, 50).await;
    let second = bed.worker::<B::Write, _>(books.store(), &seen, topic.clone());
    until_written(&mut books, 250).await;
    first.stop().await;
    until_written(&mut books, 600).await;
    second.stop().await;
    let mut written: Vec<u32> = books
        .written()
        .await
        .iter()
        .map(|id| id.parse().unwrap())
        .collect();
    // Those of a partition in their order.
    for partition in 0..3 {
        let own: Vec<_> = written.iter().filter(|id| *id % 3 == partition).collect();
        assert!(own.is_sorted(), "{own:?}");
    }
    written.sort_unstable();
    assert_eq!(written, (0..600).collect::<Vec<_>>());
}

/// A rebalance takes a partition away in the middle of a call that the mark alone records.
///
/// - does: drops the call, whose writes are rolled back; the new owner makes it
/// - effect: once each
#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_partition_is_taken_away_is_undone_and_made_by_the_next_worker() {
    let bed = Bed::new();
    let topic = bed.topic("orders", 2).await;
    let name = topic.name().to_owned();
    for number in 0..6 {
        bed.send(&name, number % 2, None, &order(number)).await;
    }
    let mut books = OnPostgres::open().await;
    let (stuck, seen) = (Seen::default().gated(), Seen::default());
    let partitions = |worker: &Running| worker.health.partitions().len();
    let first = bed.worker::<write_postgres, _>(books.store(), &stuck, topic.clone());
    until("both calls run", || stuck.begun().len() == 2).await;
    let second = bed.worker::<write_postgres, _>(books.store(), &seen, topic);
    until("both have a partition", || {
        partitions(&first) == 1 && partitions(&second) == 1
    })
    .await;
    until_written(&mut books, 3).await;
    stuck.open(usize::MAX);
    until_written(&mut books, 6).await;
    let stats = first.stop().await;
    second.stop().await;
    // The call with the other one's records was dropped.
    assert_eq!(stats.count(Kind::Executed), 3, "{stats}");
    let ended: u32 = stuck
        .done()
        .iter()
        .map(|it| it.parse::<u32>().unwrap())
        .sum();
    assert_eq!(ended, 3, "{:?}", stuck.done());
    let mut written = books.written().await;
    written.sort();
    assert_eq!(written, numbers(0..6));
    for partition in 0..2 {
        let mark = Key::new("kafka.by_mark", format!("kafka:{name}:{partition}")).unwrap();
        let looked = books.store().look_at_stream(&mark).await;
        assert_eq!(looked.unwrap().unwrap().mark, Some(3), "{partition}");
    }
}

/// Shares the promise of
/// `kafka::crashes::a_worker_that_dies_at_any_point_of_a_record_is_followed_as_the_table_says`.
///
/// Kafka knows nothing of what the store has committed when the worker dies.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_dies_before_it_has_told_kafka_is_followed_from_the_mark_of_the_store() {
    let bed = Bed::new();
    let Some(mock) = &bed.mock else { return };
    let topic = bed.topic("orders", 1).await;
    let topic = topic.start_at(StartAt::Committed);
    let (name, mut books) = (topic.name().to_owned(), OnPostgres::open().await);
    send(&bed, &name, &numbers(0..10)).await;
    let refused = [RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED; 99];
    mock.request_errors(RDKafkaApiKey::OffsetCommit, &refused);
    let first = Seen::default();
    let worker = bed.worker::<write_postgres, _>(books.store(), &first, topic.clone());
    until_written(&mut books, 10).await;
    worker.die().await;
    assert_eq!(bed.committed(&name).await, None);

    send(&bed, &name, &numbers(10..15)).await;
    let seen = Seen::default();
    let worker = bed.worker::<write_postgres, _>(books.store(), &seen, topic);
    seen.until_settled(5).await;
    mock.clear_request_errors(RDKafkaApiKey::OffsetCommit);
    let stats = worker.stop().await;
    assert_eq!(stats.count(Kind::Executed), 5, "{stats}");
    assert_eq!(
        (seen.all_settled(), books.written().await),
        (5, numbers(0..15))
    );
}

struct Told;

impl IntoOutgoing for Told {
    fn into_outgoing(self, id: String) -> Result<OutgoingContent, OutboxError> {
        Ok(OutgoingContent {
            message_id: id,
            target: "shipping".into(),
            head: Vec::new(),
            body: b"{}".to_vec(),
        })
    }
}

#[idempotent(key = position(), scope = "kafka.by_mark", batch = 8)]
async fn write_and_tell(
    orders: Batch<Order>,
    db: &mut PgConnection,
    outboxes: Outboxes,
    State(seen): State<Seen>,
) -> Result<(), Failed> {
    let ids = about(&orders, &seen).await?;
    query("INSERT INTO effects (id) SELECT * FROM string_to_table($1, ',')")
        .bind(ids)
        .execute(db)
        .await?;
    for outbox in outboxes.iter() {
        outbox.publish(Told)?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_handler_publishes_commits_with_the_mark() {
    let bed = Bed::new();
    let topic = bed.topic("orders", 1).await;
    let (name, seen) = (topic.name().to_owned(), Seen::default());
    let mut ids = numbers(0..20);
    ids.insert(10, "bad".into());
    send(&bed, &name, &ids).await;
    let mut books = OnPostgres::open().await;
    let worker = bed.worker::<write_and_tell, _>(books.store(), &seen, topic);
    seen.until_settled(21).await;
    worker.stop().await;
    assert_eq!(books.written().await, numbers(0..20));
    let told: Vec<(String,)> = query_as("SELECT message_id FROM idem_records_outbox ORDER BY id")
        .fetch_all(&mut books.1)
        .await
        .unwrap();
    let mut told: Vec<String> = told.into_iter().map(|(id,)| id).collect();
    told.sort_unstable();
    let offsets = (0..21).filter(|offset| *offset != 10);
    let mut expected: Vec<_> = offsets
        .map(|offset| Key::new("kafka.by_mark", format!("{name}:0:{offset}")).unwrap())
        .map(|key| format!("{key}#0"))
        .collect();
    expected.sort_unstable();
    assert_eq!(told, expected);
}

/// Shares the promise of `kafka::stores::while_postgres_is_away_records_wait_and_none_is_lost_or_doubled`.
#[tokio::test(flavor = "multi_thread")]
async fn while_postgres_is_away_nothing_is_lost_or_doubled() {
    let bed = Bed::new();
    let topic = bed.topic("orders", 1).await;
    let (name, ids) = (topic.name().to_owned(), numbers(0..300));
    send(&bed, &name, &ids).await;
    let server = PostgresServer::start().unwrap();
    let mut books = OnPostgres::at(&server.url()).await;
    let seen = Seen::default().taking(Duration::from_millis(20));
    let worker = bed.worker::<write_postgres, _>(books.store(), &seen, topic);
    for round in 1..=2 {
        until_written(&mut books, 64 * round).await;
        server.kill().unwrap();
        sleep(Duration::from_millis(500)).await;
        server.restart().unwrap();
        books = OnPostgres::at(&server.url()).await;
    }
    until_written(&mut books, 300).await;
    worker.stop().await;
    assert_eq!(books.written().await, ids);
}

on_postgres_and_sqlite! {
    what_is_written_and_the_mark_commit_together_and_no_record_is_kept,
    records_that_cannot_be_handled_are_dead_lettered_in_their_order,
    what_a_worker_that_died_was_at_is_done_once,
    what_is_written_under_a_mark_that_somebody_has_set_meanwhile_is_undone,
    a_mark_that_is_set_back_has_all_done_again_but_what_was_handled_alone,
    a_record_alone_whose_mark_is_set_meanwhile_loses_no_attempt,
    a_partition_that_stops_at_a_record_goes_on_behind_it,
    a_record_on_the_retry_topic_lets_those_behind_it_pass,
    a_record_that_is_read_again_beside_its_copy_in_the_retry_topic_is_done_once,
    workers_that_come_and_go_do_each_record_once,
}
