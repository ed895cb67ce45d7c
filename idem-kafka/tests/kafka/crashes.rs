//! Workers that die at a fixed point of a record, and what the next one does: a table of points and modes.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::future::join_all;
use idem_core::{
    Attempt, Batch, Failed, State,
    executor::{ExecutionKind as Kind, RunsOn},
    handler::Handler,
    idempotent,
    sqlx::{PgConnection, SqliteConnection, query},
    store::{Purge, StreamStore},
};
use idem_kafka::{KafkaWorker, Ladder, PartitionState, StartAt, Topic};
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use tokio::{
    runtime::Builder,
    sync::watch,
    time::{sleep, timeout},
};

use crate::{
    bed::{Bed, Order, PATIENCE, Running, order, until},
    books::{Books, OnPostgres, OnSqlite},
    crashing_store::{
        Crash,
        CrashPoint::{self, *},
        CrashingStore,
    },
    reading::mark_of,
};

/// Until a record on the retry topic is due: longer than a mark waits to be saved, or the worker that is to die then would
/// run it once more.
const RUNG: Duration = Duration::from_secs(5);

/// For as long as a test lasts.
const REFUSED: [RDKafkaRespErr; 999] =
    [RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED; 999];

/// What becomes of the record at which a worker has died.
#[derive(Debug, Clone, Copy)]
struct Then {
    /// Its effects.
    effects: &'static [&'static str],
    /// How it ends at the next worker, if that is given it.
    ends: Option<Kind>,
}

const fn then(effects: &'static [&'static str], ends: Option<Kind>) -> Then {
    Then { effects, ends }
}

/// The next worker handles it, as if nothing had been.
const AGAIN: Option<Then> = Some(then(&["2 by second"], Some(Kind::Executed)));
/// The next worker handles it, and its handler is told that it may have run before.
const IN_DOUBT: Option<Then> = Some(then(&["2 by second in doubt"], Some(Kind::Executed)));
/// It had its effect, and nobody knows.
const TWICE: Option<Then> = Some(then(
    &["2 by first", "2 by second in doubt"],
    Some(Kind::Executed),
));
/// It is done, and its record says so.
const DUPLICATE: Option<Then> = Some(then(&["2 by first"], Some(Kind::Duplicate)));
/// It is done, and below the mark.
const PASSED: Option<Then> = Some(then(&["2 by first"], None));
/// The mark is saved by the completion.
const NO_POINT: Option<Then> = None;

/// Where the worker dies, and what becomes of the record if its handler is leased, atomic or one of batches, or if the
/// mark alone records it.
#[rustfmt::skip]
const CASES: [(CrashPoint, [Option<Then>; 4]); 7] = [
    //                 leased     atomic     batch      by mark
    (BeforeClaim,      [AGAIN,     AGAIN,     AGAIN,     AGAIN]),
    (AfterClaim,       [IN_DOUBT,  AGAIN,     AGAIN,     AGAIN]),
    (InHandler,        [TWICE,     AGAIN,     AGAIN,     AGAIN]),
    (BeforeCompletion, [TWICE,     AGAIN,     AGAIN,     AGAIN]),
    (AfterCompletion,  [DUPLICATE, DUPLICATE, DUPLICATE, PASSED]),
    (BeforeMark,       [DUPLICATE, DUPLICATE, DUPLICATE, NO_POINT]),
    (AfterMark,        [PASSED,    PASSED,    PASSED,    NO_POINT]),
];

/// The columns of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Leased,
    Atomic,
    Batch,
    ByMark,
}

impl Mode {
    /// How many workers a record kills that is to be attempted twice.
    fn deaths(self) -> usize {
        match self {
            Self::Leased | Self::Atomic | Self::Batch => 2,
            // The first call has others in it, perhaps, and is no attempt.
            Self::ByMark => 3,
        }
    }
}

/// The life of a worker; clones are that of the same one.
#[derive(Debug, Clone)]
struct Life {
    name: &'static str,
    crash: Crash,
    /// Effects that are in no database: those of leased handlers of all lives.
    outside: Arc<Mutex<Vec<String>>>,
    /// What handlers were called with.
    called: Arc<Mutex<Vec<String>>>,
    /// The offsets of records, and how they ended.
    ended: Arc<Mutex<Vec<(u64, Kind)>>>,
    /// Whether handlers go on.
    is_open: watch::Sender<bool>,
}

impl Life {
    fn first() -> Self {
        Self {
            name: "first",
            crash: Crash::default(),
            outside: Arc::default(),
            called: Arc::default(),
            ended: Arc::default(),
            is_open: watch::Sender::new(true),
        }
    }

    fn second(&self) -> Self {
        Self {
            name: "second",
            outside: Arc::clone(&self.outside),
            ..Self::first()
        }
    }

    fn called(&self) -> Vec<String> {
        self.called.lock().unwrap().clone()
    }

    fn ended(&self) -> Vec<(u64, Kind)> {
        self.ended.lock().unwrap().clone()
    }

    fn outside(&self) -> Vec<String> {
        self.outside.lock().unwrap().clone()
    }

    /// The effect of an order, or why it has none.
    async fn effect(&self, order: &Order, attempt: Attempt) -> Result<String, Failed> {
        self.called.lock().unwrap().push(order.id.clone());
        self.is_open
            .subscribe()
            .wait_for(|is_open| *is_open)
            .await?;
        match order.id.as_str() {
            "bad" => return Err(Failed::rejected("not for us")),
            "later" if self.name == "first" => return Err(Failed::retry_after(RUNG, "not now")),
            _ => {}
        }
        let doubt = if attempt.is_in_doubt() {
            " in doubt"
        } else {
            ""
        };
        Ok(format!("{} by {}{doubt}", order.id, self.name))
    }

    /// Runs a worker of this life.
    fn start<H, S>(&self, bed: &Bed, store: S, topic: Topic) -> Running
    where
        H: Handler<Self, Mode: RunsOn<CrashingStore<S>>>,
        S: StreamStore + Purge + Clone,
    {
        let ended = Arc::clone(&self.ended);
        let store = CrashingStore::new(store, self.crash.clone());
        let worker = KafkaWorker::builder(store)
            .state(self.clone())
            .consume::<H>(topic)
            .on_settled(move |settled| {
                let end = (settled.record.offset(), settled.kind);
                ended.lock().unwrap().push(end);
            });
        Running::start(worker.build(bed.cluster()).unwrap())
    }
}

/// A leased handler's effect is outside of its store.
#[idempotent(key = "id", scope = "kafka.crash", lease = "2s", max_attempts = 2)]
async fn leased(order: Order, attempt: Attempt, State(life): State<Life>) -> Result<(), Failed> {
    let effect = life.effect(&order, attempt).await?;
    life.outside.lock().unwrap().push(effect);
    life.crash.reach(InHandler).await;
    Ok(())
}

/// The handlers that write in a transaction of this kind.
macro_rules! handlers {
    ($database:ident, $connection:ty) => {
        mod $database {
            use super::*;

            async fn write(effect: String, db: &mut $connection) -> Result<(), Failed> {
                let insert = query("INSERT INTO effects (id) VALUES ($1)");
                insert.bind(effect).execute(db).await?;
                Ok(())
            }

            async fn write_all(
                orders: &Batch<Order>,
                db: &mut $connection,
                life: &Life,
            ) -> Result<(), Failed> {
                for order in orders {
                    write(life.effect(order, order.attempt()).await?, db).await?;
                }
                life.crash.reach(InHandler).await;
                Ok(())
            }

            #[idempotent(key = "id", scope = "kafka.crash", lease = "2s", max_attempts = 2)]
            pub(super) async fn atomic(
                order: Order,
                db: &mut $connection,
                attempt: Attempt,
                State(life): State<Life>,
            ) -> Result<(), Failed> {
                write(life.effect(&order, attempt).await?, db).await?;
                life.crash.reach(InHandler).await;
                Ok(())
            }

            #[idempotent(key = "id", scope = "kafka.crash", lease = "2s", batch = 8, max_attempts = 2)]
            pub(super) async fn batch(
                orders: Batch<Order>,
                db: &mut $connection,
                State(life): State<Life>,
            ) -> Result<(), Failed> {
                write_all(&orders, db, &life).await
            }

            #[idempotent(key = position(), scope = "kafka.crash", lease = "2s", batch = 8, max_attempts = 2)]
            pub(super) async fn by_mark(
                orders: Batch<Order>,
                db: &mut $connection,
                State(life): State<Life>,
            ) -> Result<(), Failed> {
                write_all(&orders, db, &life).await
            }
        }
    };
}

handlers!(postgres, PgConnection);
handlers!(sqlite, SqliteConnection);

async fn topic(bed: &Bed) -> Topic {
    let topic = bed.topic("orders", 1).await;
    topic.start_at(StartAt::Committed)
}

async fn send(bed: &Bed, topic: &str, ids: std::ops::Range<u32>) {
    for id in ids {
        bed.send(topic, 0, None, &order(id)).await;
    }
}

/// Waits until this is the mark of partition 0.
async fn until_mark<S: StreamStore>(store: &S, topic: &str, mark: u64) {
    let key = mark_of("kafka.crash", topic, 0);
    let waits = async {
        while store
            .look_at_stream(&key)
            .await
            .unwrap()
            .and_then(|it| it.mark)
            != Some(mark)
        {
            sleep(Duration::from_millis(20)).await;
        }
    };
    let marked = timeout(PATIENCE, waits).await;
    assert!(marked.is_ok(), "not within {PATIENCE:?}: the mark {mark}");
}

/// Waits until the group has committed this to Kafka.
pub(crate) async fn until_committed(bed: &Bed, topic: &str, offset: i64) {
    let waits = async {
        while bed.committed(topic).await != Some(offset) {
            sleep(Duration::from_millis(100)).await;
        }
    };
    let committed = timeout(PATIENCE, waits).await;
    assert!(
        committed.is_ok(),
        "not within {PATIENCE:?}: {offset} is committed"
    );
}

/// A worker dies at this point of the third record of a partition, and another one comes. The group's position in Kafka
/// is behind the mark then; or ahead, where somebody has put it before: the mark of the store counts.
async fn die_at<C: Cell>(point: CrashPoint, ahead: Option<i64>) {
    let (_, columns) = CASES.iter().find(|(at, _)| *at == point).unwrap();
    let Some(then) = columns[C::MODE as usize] else {
        return;
    };
    let (bed, mut books, first) = (Bed::new(), C::Books::open().await, Life::first());
    let mut topic = topic(&bed).await;
    let name = topic.name().to_owned();
    if let Some(offset) = ahead {
        let Some(mock) = &bed.mock else { return };
        bed.commit(&name, offset).await;
        mock.request_errors(RDKafkaApiKey::OffsetCommit, &REFUSED);
        topic = topic.start_at(StartAt::First);
    }
    send(&bed, &name, 0..2).await;
    let worker = first.start::<C::Handler, _>(&bed, books.store(), topic.clone());
    until_mark(&books.store(), &name, 2).await;
    let in_kafka = ahead.unwrap_or(2);
    until_committed(&bed, &name, in_kafka).await;
    first.crash.at(point);
    // Alone, so that no other one is between its effect and its completion then.
    send(&bed, &name, 2..3).await;
    first.crash.happens().await;
    worker.die().await;
    send(&bed, &name, 3..6).await;
    assert_eq!(bed.committed(&name).await, Some(in_kafka));

    let second = first.second();
    let worker = second.start::<C::Handler, _>(&bed, books.store(), topic);
    until_mark(&books.store(), &name, 6).await;
    worker.stop().await;
    let effects = [books.written().await, first.outside()].concat();
    let of = |id: u32| -> Vec<_> {
        let begin = format!("{id} ");
        let of = effects.iter().filter(|effect| effect.starts_with(&begin));
        of.cloned().collect()
    };
    let ended = second.ended();
    let of_the_third: Vec<_> = ended.iter().filter(|(offset, _)| *offset == 2).collect();
    let what = format!("{point:?}, {ahead:?}: {effects:?}, {ended:?}");
    assert_eq!(of(2), then.effects, "{what}");
    assert!(
        of_the_third
            .into_iter()
            .map(|(_, kind)| *kind)
            .eq(then.ends),
        "{what}"
    );
    assert_eq!([0, 1].map(of), [["0 by first"], ["1 by first"]], "{what}");
    let behind = [["3 by second"], ["4 by second"], ["5 by second"]];
    assert_eq!([3, 4, 5].map(of), behind, "{what}");
    assert!(ended.iter().all(|(offset, _)| *offset >= 2), "{what}");
}

/// A worker that reads a partition of Kafka dies: before the claim, after it, in the handler, before the completion is
/// committed or after that, before the mark is saved or after that; Kafka does not know of the mark, or its position was
/// moved by somebody else.
///
/// - does: another one takes over after its lease, and goes on from the mark of the store, whatever position Kafka has
/// - effect: once each; leased: once more, in doubt, if it died between the effect and the completion
async fn a_worker_that_dies_at_any_point_of_a_record_is_followed_as_the_table_says<C: Cell>() {
    // All at once: most of the time they wait.
    let at_each = CASES.map(|(point, _)| die_at::<C>(point, None));
    let ahead = [AfterCompletion, AfterMark].map(|point| die_at::<C>(point, Some(6)));
    tokio::join!(join_all(at_each), join_all(ahead));
}

/// A worker dies while this record is to go to another topic: before Kafka has it there, or when it has it, and the mark
/// is not saved.
async fn die_publishing<C: Cell>(id: &str, is_there: bool) {
    let (bed, mut books, first) = (Bed::new(), C::Books::open().await, Life::first());
    let Some(mock) = &bed.mock else { return };
    let topic = topic(&bed).await;
    let name = topic.name().to_owned();
    let [dead, again] = ["dead", "retry"].map(|it| format!("{name}.{it}"));
    let topic = topic.retries(again.clone(), Ladder::new([RUNG]).unwrap());
    first.is_open.send_replace(false);
    let worker = first.start::<C::Handler, _>(&bed, books.store(), topic.clone());
    until("it reads both topics", || {
        let partitions = worker.health.partitions();
        let reads = partitions
            .iter()
            .filter(|it| it.state == PartitionState::Reading);
        reads.count() == 2
    })
    .await;
    bed.send(&name, 0, None, &order(id)).await;
    until("the handler runs", || !first.called().is_empty()).await;
    if is_there {
        first.crash.at(BeforeMark);
    } else {
        mock.request_errors(RDKafkaApiKey::Produce, &REFUSED);
    }
    first.is_open.send_replace(true);
    if is_there {
        first.crash.happens().await;
    } else {
        // It tries again and again.
        sleep(Duration::from_secs(1)).await;
    }
    worker.die().await;
    // What its client has sent last is refused, too.
    sleep(Duration::from_secs(1)).await;
    mock.clear_request_errors(RDKafkaApiKey::Produce);
    let there = u64::from(is_there);
    let published = [bed.count(&dead), bed.count(&again)];
    let expected = if id == "bad" { [there, 0] } else { [0, there] };
    assert_eq!(published, expected, "{id}, {is_there}");

    let second = first.second();
    let worker = second.start::<C::Handler, _>(&bed, books.store(), topic);
    until_mark(&books.store(), &name, 1).await;
    until_mark(&books.store(), &again, bed.count(&again)).await;
    worker.stop().await;
    let effects = [books.written().await, first.outside()].concat();
    let mut ended = second.ended();
    ended.sort_by_key(|(_, kind)| kind.label());
    let published = [bed.count(&dead), bed.count(&again)];
    let what = format!("{id}, {is_there}: {effects:?}, {ended:?}, {published:?}");
    if id == "bad" {
        // Each of them may have it published.
        assert_eq!(published, [1 + there, 0], "{what}");
        assert_eq!(
            (effects, ended),
            (vec![], vec![(0, Kind::Rejected)]),
            "{what}"
        );
    } else {
        assert_eq!(published, [0, there], "{what}");
        assert_eq!(effects, ["later by second"], "{what}");
        let copy = is_there.then_some((0, Kind::Duplicate));
        assert!(
            copy.into_iter().chain([(0, Kind::Executed)]).eq(ended),
            "{what}"
        );
    }
}

/// A worker of Kafka dies when a record is to go to the dead-letter topic or to the retry topic: before that has it, or
/// when it has it and the mark is not saved.
///
/// - does: the next one handles the record again: one that it gives up, too, has a second dead letter, if the first was
///   there; a copy in the retry topic is a duplicate of it, or it of the copy
/// - effect: nothing of what is given up; what is tried again once
async fn a_worker_that_dies_while_it_publishes_a_record_is_followed_by_one_that_does<C: Cell>() {
    let cases = [
        ("bad", false),
        ("bad", true),
        ("later", false),
        ("later", true),
    ];
    join_all(cases.map(|(id, is_there)| die_publishing::<C>(id, is_there))).await;
}

/// A record kills every worker in its handler.
///
/// - does: counts the attempts, those of a record that is read again also where no record is kept of others; dead-letters
///   it, and the mark passes it
/// - effect: once per attempt; atomic: nothing of it
async fn a_record_that_kills_every_worker_is_dead_lettered<C: Cell>() {
    let (bed, mut books, first) = (Bed::new(), C::Books::open().await, Life::first());
    let topic = topic(&bed).await;
    let name = topic.name().to_owned();
    let (store, mut deaths) = (books.store(), 0);
    bed.send(&name, 0, None, &order("deadly")).await;
    let last = loop {
        let life = first.second();
        life.crash.at(InHandler);
        let worker = life.start::<C::Handler, _>(&bed, store.clone(), topic.clone());
        tokio::select! {
            () = life.crash.happens() => {}
            () = until_mark(&store, &name, 1) => break worker,
        }
        worker.die().await;
        deaths += 1;
        assert!(deaths < 9, "nobody gives it up");
    };
    let letter = &bed.read(&format!("{name}.dead"), 1).await[0];
    let told = ["idem-reason", "idem-attempt"].map(|it| letter.header(it));
    assert_eq!((told, deaths), (["exhausted", "2"], C::MODE.deaths()));
    let stats = last.stop().await;
    assert_eq!(stats.count(Kind::Exhausted), 1, "{stats}");
    assert_eq!(books.written().await, [""; 0]);
    let outside = if C::MODE == Mode::Leased { deaths } else { 0 };
    assert_eq!(first.outside().len(), outside);
}

/// A worker stands still before its handler or before its commit, for longer than its claims last and its group waits; another one
/// does its work; and it goes on.
///
/// - does: the first completes nothing, and moves no mark
/// - effect: once each; leased: twice, the second worker was told that it is in doubt
async fn a_worker_that_stands_still_for_too_long_completes_nothing<C: Cell>() {
    let (bed, mut books, first) = (Bed::new(), C::Books::open().await, Life::first());
    let topic = topic(&bed).await;
    let name = topic.name().to_owned();
    send(&bed, &name, 0..2).await;
    // What it does with its only thread is to stand still.
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    // None is dropped in another one.
    let runtime = Box::leak(Box::new(runtime.unwrap()));
    let entered = runtime.enter();
    let zombie = first.start::<C::Handler, _>(&bed, books.store(), topic.clone());
    drop(entered);
    until_mark(&books.store(), &name, 2).await;
    let goes_on = first.crash.stand_still_at(match C::MODE {
        // On SQLite, what it has written would keep all others out.
        Mode::Batch => AfterClaim,
        _ => BeforeCompletion,
    });
    send(&bed, &name, 2..3).await;
    until("it stands still", || first.crash.stands_still()).await;

    let second = first.second();
    let worker = second.start::<C::Handler, _>(&bed, books.store(), topic);
    // First the group takes the first one for dead, then the store does: each takes a part of a minute.
    until("the partition is the second's", || {
        let partitions = worker.health.partitions();
        partitions
            .iter()
            .any(|it| it.state == PartitionState::Reading)
    })
    .await;
    until_mark(&books.store(), &name, 3).await;
    drop(goes_on);
    sleep(Duration::from_secs(2)).await;
    send(&bed, &name, 3..6).await;
    until_mark(&books.store(), &name, 6).await;
    zombie.stop().await;
    worker.stop().await;
    let mut effects = [books.written().await, first.outside()].concat();
    effects.sort();
    let (third, others): (Vec<_>, Vec<_>) =
        effects.into_iter().partition(|it| it.starts_with("2 "));
    let expected: &[&str] = match C::MODE {
        Mode::Leased => &["2 by first", "2 by second in doubt"],
        _ => &["2 by second"],
    };
    assert_eq!(third, expected);
    let others: Vec<_> = others.iter().map(|it| &it[..1]).collect();
    assert_eq!(others, ["0", "1", "3", "4", "5"]);
    assert_eq!(
        first
            .ended()
            .iter()
            .filter(|(offset, _)| *offset == 2)
            .count(),
        0
    );
}

/// A store and a mode, with the handler of these tests for them.
trait Cell {
    const MODE: Mode;
    type Books: Books;
    type Handler: Handler<Life, Mode: RunsOn<CrashingStore<<Self::Books as Books>::Store>>>;
}

macro_rules! cells {
    ($($cell:ident: $mode:ident, $books:ty, $handler:ty;)*) => {$(
        struct $cell;

        impl Cell for $cell {
            const MODE: Mode = Mode::$mode;
            type Books = $books;
            type Handler = $handler;
        }
    )*};
}

cells! {
    LeasedOnPostgres: Leased, OnPostgres, leased;
    LeasedOnSqlite: Leased, OnSqlite, leased;
    AtomicOnPostgres: Atomic, OnPostgres, postgres::atomic;
    AtomicOnSqlite: Atomic, OnSqlite, sqlite::atomic;
    BatchOnPostgres: Batch, OnPostgres, postgres::batch;
    BatchOnSqlite: Batch, OnSqlite, sqlite::batch;
    ByMarkOnPostgres: ByMark, OnPostgres, postgres::by_mark;
    ByMarkOnSqlite: ByMark, OnSqlite, sqlite::by_mark;
}

/// A test of these cells for each of these functions.
macro_rules! tests_of {
    ($case:ident: $($test:ident $cell:ty,)*) => {
        mod $case {
            use super::*;

            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $test() {
                    super::$case::<$cell>().await;
                }
            )*
        }
    };
}

macro_rules! on_each_store {
    ($($case:ident,)*) => {$(
        tests_of! { $case:
            leased_on_postgres LeasedOnPostgres,
            leased_on_sqlite LeasedOnSqlite,
            atomic_on_postgres AtomicOnPostgres,
            atomic_on_sqlite AtomicOnSqlite,
            in_a_batch_on_postgres BatchOnPostgres,
            in_a_batch_on_sqlite BatchOnSqlite,
            by_mark_on_postgres ByMarkOnPostgres,
            by_mark_on_sqlite ByMarkOnSqlite,
        }
    )*};
}

/// Those that take long, and depend on the store by the points above alone.
macro_rules! in_each_mode {
    ($($case:ident,)*) => {$(
        tests_of! { $case:
            leased LeasedOnSqlite,
            atomic AtomicOnPostgres,
            in_a_batch BatchOnSqlite,
            by_mark ByMarkOnPostgres,
        }
    )*};
}

on_each_store! {
    a_worker_that_dies_at_any_point_of_a_record_is_followed_as_the_table_says,
    a_worker_that_dies_while_it_publishes_a_record_is_followed_by_one_that_does,
}

in_each_mode! {
    a_record_that_kills_every_worker_is_dead_lettered,
    a_worker_that_stands_still_for_too_long_completes_nothing,
}
