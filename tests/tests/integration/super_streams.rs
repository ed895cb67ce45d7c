//! Super streams as sources: one call reads all partitions, each with its own mark, and workers share them.

use std::{collections::BTreeSet, time::Duration};

use idem_amqp::{
    Attempt, BuildError, Delivery, Failed, Key, MemoryStore, Partitions, PublishError, Publisher,
    Queue, State, StreamOffset, Worker,
    dead_letters::{Replayer, Selection},
    executor::ExecutionKind as Kind,
    idempotent,
    store::{Severity, StreamStore},
    worker::Health,
};
use idem_tests::{
    bed::{Bed, QUICK, dead},
    cell::charge_by_mark_in_postgres,
    journal::eventually,
    laddered::{body, laddered},
    ledger::Ledger,
    running::{Running, assert_balance},
    script::{Order, Script, charge},
    store_at::Product,
};
use lapin::{
    Connection, ConnectionProperties, ExchangeKind,
    options::{ExchangeDeclareOptions, QueueBindOptions},
    types::{AMQPValue, FieldTable},
};
use tokio::time::{Instant, sleep};

use crate::streams::{failures, mark, stream_arguments, until_mark};

const CHARGE: &str = "orders.charge";

/// A super stream of three partitions that is there before its workers, made as RabbitMQ's own tool makes it.
async fn super_bed() -> Bed {
    let bed = Bed::with_vhost().await;
    let mut arguments = stream_arguments(&[]);
    let balanced = AMQPValue::LongString("balanced".into());
    arguments.insert("x-queue-leader-locator".into(), balanced);
    let partitions: Vec<_> = (0..3)
        .map(|n| (partition(&bed, n), n.to_string()))
        .collect();
    make(&bed, arguments, &partitions).await;
    bed
}

/// Makes a super stream by hand, of these streams and their routing keys.
async fn make(bed: &Bed, arguments: FieldTable, partitions: &[(String, String)]) {
    let connection = Connection::connect(bed.url(), ConnectionProperties::default()).await;
    let connection = connection.expect("a broker");
    let channel = connection.create_channel().await.expect("a channel");
    let durable = ExchangeDeclareOptions {
        durable: true,
        ..ExchangeDeclareOptions::default()
    };
    let (direct, none) = (ExchangeKind::Direct, FieldTable::default());
    let declared = channel.exchange_declare(bed.name().into(), direct, durable, none);
    declared.await.expect("the exchange is declared");
    for (order, (stream, key)) in (0..).zip(partitions) {
        bed.declare_foreign(stream, arguments.clone()).await;
        let mut arguments = FieldTable::default();
        let order = AMQPValue::LongLongInt(order);
        arguments.insert("x-stream-partition-order".into(), order);
        let bound = channel.queue_bind(
            stream.as_str().into(),
            bed.name().into(),
            key.as_str().into(),
            QueueBindOptions::default(),
            arguments,
        );
        bound.await.expect("the stream is bound");
    }
    let _ = connection.close(200, "done".into()).await;
}

fn partition(bed: &Bed, number: u32) -> String {
    format!("{}-{number}", bed.name())
}

fn mark_key(bed: &Bed, number: u32) -> Key {
    Key::new(CHARGE, partition(bed, number)).unwrap()
}

fn readable(stream: Queue) -> Queue {
    let stream = stream.prefetch(16).policy(QUICK);
    laddered(stream).takeover_after(Duration::from_secs(2))
}

fn super_stream(bed: &Bed) -> Queue {
    readable(Queue::super_stream(bed.name(), 3))
}

fn reading<S>(bed: &Bed, store: &S, script: &Script, stream: Queue) -> Running
where
    S: StreamStore + idem_amqp::store::Purge + Clone,
{
    let worker = Worker::builder(store.clone()).state(script.clone());
    bed.start(worker.consume_stream::<charge>(stream))
}

/// Publishes one order for each id, to one partition after the other.
async fn orders(bed: &Bed, ids: std::ops::Range<u32>) {
    for id in ids {
        order(bed, &(id % 3).to_string(), &id.to_string()).await;
    }
}

async fn order(bed: &Bed, key: &str, id: &str) {
    bed.send_by(bed.name(), key, &body(id)).await;
}

fn ids(ids: std::ops::Range<u32>) -> BTreeSet<String> {
    ids.map(|id| id.to_string()).collect()
}

/// All that was done, once each.
fn assert_once(script: &Script, expected: &BTreeSet<String>) {
    let effects = script.effects.entries();
    let done: BTreeSet<_> = effects.iter().map(|call| call.id.clone()).collect();
    assert_eq!(&done, expected);
    assert_eq!(effects.len(), expected.len(), "{effects:?}");
}

/// From which queues the handler was called.
fn queues(script: &Script) -> BTreeSet<String> {
    let calls = script.calls.entries();
    calls.into_iter().map(|call| call.queue).collect()
}

/// A worker of a super stream that is not there starts, stops and starts again.
///
/// - does: declares it, reads all partitions, and goes on from the mark of each
/// - effect: once each
#[tokio::test]
async fn a_worker_reads_all_partitions_and_goes_on_from_the_mark_of_each() {
    let bed = Bed::with_vhost().await;
    let (store, script) = (MemoryStore::new(), Script::succeeding());
    let worker = reading(&bed, &store, &script, super_stream(&bed));
    worker.until("it reads", Health::is_ready).await;
    orders(&bed, 0..9).await;
    worker.ended(Kind::Executed, 9).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, 9)]);
    for number in 0..3 {
        assert_eq!(mark(&store, &mark_key(&bed, number)).await, Some(3));
    }
    let partitions = (0..3).map(|number| partition(&bed, number)).collect();
    assert_eq!(queues(&script), partitions);
    orders(&bed, 9..15).await;
    let worker = reading(&bed, &store, &script, super_stream(&bed));
    worker.ended(Kind::Executed, 6).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, 6)]);
    assert_once(&script, &ids(0..15));
}

/// A publisher declares a super stream before the first worker.
///
/// - does: declares its exchange and its partitions; a worker reads what was published to them meanwhile
/// - effect: once each
#[tokio::test]
async fn a_publisher_declares_the_partitions_of_a_super_stream() {
    let bed = Bed::with_vhost().await;
    bed.declare(&super_stream(&bed)).await;
    orders(&bed, 0..6).await;
    let (store, script) = (MemoryStore::new(), Script::succeeding());
    let stream = super_stream(&bed).offset(StreamOffset::First);
    let worker = reading(&bed, &store, &script, stream);
    script.effects.count("all are read", 6).await;
    worker.stop().await;
    assert_once(&script, &ids(0..6));
    let publisher = Publisher::connect(bed.url()).await.unwrap();
    let none = publisher.declare(Queue::super_stream(bed.name(), 0)).await;
    let error = none.unwrap_err();
    assert!(
        matches!(error, PublishError::NoSuchStream { .. }),
        "{error}"
    );
}

/// A person sets the mark of one partition of a super stream back.
///
/// - does: reads that partition again, and knows all of it; others go on
/// - effect: once each
#[tokio::test]
async fn a_mark_of_one_partition_that_is_set_back_repeats_that_partition_alone() {
    let (bed, store, script) = (super_bed().await, MemoryStore::new(), Script::succeeding());
    orders(&bed, 0..9).await;
    let worker = reading(&bed, &store, &script, super_stream(&bed));
    worker.ended(Kind::Executed, 9).await;
    store.set_mark(&mark_key(&bed, 1), None).await.unwrap();
    worker.ended(Kind::Duplicate, 3).await;
    orders(&bed, 9..12).await;
    worker.ended(Kind::Executed, 12).await;
    let ends = [(Kind::Executed, 12), (Kind::Duplicate, 3)];
    assert_balance(&worker.stop().await, ends);
    assert_once(&script, &ids(0..12));
}

/// A message in one partition of a super stream can never be handled, and another one takes long.
///
/// - does: dead-letters the one to the handler's one queue; reads the other partitions on
/// - effect: others once each
#[tokio::test]
async fn what_fails_or_takes_long_in_one_partition_stops_no_other() {
    let (bed, store) = (super_bed().await, MemoryStore::new());
    let script = Script::new(async |call| match &*call.id {
        "hangs" => std::future::pending().await,
        "1" => Err(Failed::rejected("nobody wants it")),
        _ => Ok(()),
    });
    order(&bed, "2", "hangs").await;
    bed.send_by(bed.name(), "0", b"no order").await;
    orders(&bed, 0..12).await;
    let worker = Worker::builder(store.clone()).state(script.clone());
    let one_by_one = super_stream(&bed).prefetch(1);
    let worker = worker.consume_stream::<charge>(one_by_one);
    let worker = bed.start(worker.grace(Duration::ZERO));
    worker.ended(Kind::Executed, 7).await;
    let letters = dead(&failures(&bed, CHARGE));
    let mut seen = BTreeSet::new();
    for _ in 0..2 {
        let letter = bed.dead_letter_in(&letters).await;
        seen.insert((letter.reason(), letter.header("idem-partition")));
    }
    let of = |reason: &str, number| (reason.to_owned(), Some(partition(&bed, number)));
    assert_eq!(
        seen,
        BTreeSet::from([of("rejected", 1), of("undecodable", 0)])
    );
    until_mark(&store, &mark_key(&bed, 0), 5).await;
    until_mark(&store, &mark_key(&bed, 1), 4).await;
    worker.stop().await;
    assert_once(
        &script,
        &["0", "3", "4", "6", "7", "9", "10"]
            .map(String::from)
            .into(),
    );
}

/// A handler whose key is the position: of no two messages the same.
#[idempotent(key = position(), scope = "orders.charge")]
async fn charge_by_position(
    order: Order,
    State(script): State<Script>,
    attempt: Attempt,
    delivery: Delivery,
) -> Result<(), Failed> {
    script.play(order, attempt, delivery).await
}

/// Messages have the same offset in several partitions of a super stream, and fail; the handler's key is the position.
///
/// - does: tells them apart in the partitions, on the ladder, as dead letters that are sent again, and when a mark is
///   set back
/// - effect: once each
#[tokio::test]
async fn the_same_offset_in_two_partitions_is_two_messages_wherever_they_fail() {
    let (bed, store) = (super_bed().await, MemoryStore::new());
    let script = Script::new(async |call| match (call.id.parse::<u32>(), call.attempt) {
        // Offset 0 of each partition by the ladder, offset 1 of each by a person.
        (Ok(0..3), 1) => Err(Failed::retry_after(Duration::from_millis(300), "later")),
        (Ok(3..6), 1) if !call.queue.contains('~') => Err(Failed::rejected("not today")),
        _ => Ok(()),
    });
    orders(&bed, 0..9).await;
    let worker = Worker::builder(store.clone()).state(script.clone());
    let worker = bed.start(worker.consume_stream::<charge_by_position>(super_stream(&bed)));
    worker.ended(Kind::Executed, 6).await;
    let letters = Replayer::new(bed.url(), dead(&failures(&bed, CHARGE))).unwrap();
    let replayed = letters.replay(&Selection::all()).await.unwrap();
    assert_eq!(replayed.replayed, 3, "{replayed}");
    worker.ended(Kind::Executed, 9).await;
    for number in 0..3 {
        store
            .set_mark(&mark_key(&bed, number), Some(0))
            .await
            .unwrap();
    }
    worker.ended(Kind::Duplicate, 9).await;
    let ends = [
        (Kind::Executed, 9),
        (Kind::Failed, 3),
        (Kind::Rejected, 3),
        (Kind::Duplicate, 9),
    ];
    assert_balance(&worker.stop().await, ends);
    assert_once(&script, &ids(0..9));
    let own = failures(&bed, CHARGE);
    let mut effects = script.effects.entries();
    effects.retain(|call| call.queue == own);
    let again: BTreeSet<_> = effects.into_iter().map(|call| call.id).collect();
    assert_eq!(again, ids(0..6));
}

/// Two workers of one handler read a super stream.
///
/// - does: when one stops, the other goes on with its partitions, from their marks
/// - effect: once each
#[tokio::test]
async fn a_worker_takes_over_the_partitions_of_one_that_stops() {
    let (bed, store, script) = (super_bed().await, MemoryStore::new(), Script::succeeding());
    orders(&bed, 0..9).await;
    let first = reading(&bed, &store, &script, super_stream(&bed));
    first.ended(Kind::Executed, 9).await;
    let second = reading(&bed, &store, &script, super_stream(&bed));
    second.until("the second is ready", Health::is_ready).await;
    first.stop().await;
    orders(&bed, 9..18).await;
    script.effects.count("all is handled", 18).await;
    second.stop().await;
    assert_once(&script, &ids(0..18));
    for number in 0..3 {
        assert_eq!(mark(&store, &mark_key(&bed, number)).await, Some(6));
    }
}

/// Further workers of a handler join one that reads all partitions of a super stream, and one of them stops.
///
/// - does: shares the partitions among all; reads on with those of the one that stopped
/// - effect: once each
#[tokio::test]
async fn workers_share_the_partitions_of_a_super_stream() {
    let (bed, store) = (super_bed().await, MemoryStore::new());
    let scripts = [(); 3].map(|()| Script::succeeding());
    let mut round = Rounds::of(&bed, &scripts);
    // No lease ends in time: each partition is given back.
    let read = |script| {
        let stream = super_stream(&bed).takeover_after(Duration::from_mins(10));
        reading(&bed, &store, script, stream)
    };
    let first = read(&scripts[0]);
    round.until([3, 0, 0]).await;
    let second = read(&scripts[1]);
    round.until([2, 1, 0]).await;
    let third = read(&scripts[2]);
    round.until([1, 1, 1]).await;
    third.stop().await;
    round.until_none_of(2).await;
    first.stop().await;
    round.until([0, 3, 0]).await;
    second.stop().await;
    round.assert_once();
}

/// A worker that begins at the end of empty partitions is to give some to another one, before anything has come.
///
/// - does: keeps each until its first message has come, so that the other does not begin behind that
/// - effect: once each
#[tokio::test]
async fn a_partition_changes_hands_only_when_it_is_known_where_its_handler_begins() {
    let (bed, store) = (super_bed().await, MemoryStore::new());
    let scripts = [(); 2].map(|()| Script::succeeding());
    let read = |script| {
        let stream = super_stream(&bed).offset(StreamOffset::Next);
        reading(
            &bed,
            &store,
            script,
            stream.takeover_after(Duration::from_mins(10)),
        )
    };
    let first = read(&scripts[0]);
    first.until("it reads", Health::is_ready).await;
    let second = read(&scripts[1]);
    second.until("it stands by", Health::is_ready).await;
    // Long enough to be counted, and to be given a partition.
    sleep(Duration::from_secs(8)).await;
    orders(&bed, 0..3).await;
    scripts[0]
        .effects
        .count("the first has one of each", 3)
        .await;
    let ends = Instant::now() + Duration::from_mins(1);
    for more in 1.. {
        orders(&bed, more * 3..more * 3 + 3).await;
        sleep(Duration::from_millis(300)).await;
        if !scripts[1].effects.entries().is_empty() {
            break;
        }
        assert!(Instant::now() < ends, "the second never has a partition");
    }
    first.stop().await;
    second.stop().await;
}

/// Others consume the queue of what fails in a super stream, and read none of it, so that a worker counts more than
/// there are.
///
/// - does: reads all partitions all the same, after a few seconds in which nobody else claims them
/// - effect: once each
#[tokio::test]
async fn a_partition_that_nobody_else_claims_is_read_beyond_the_share() {
    let (bed, store, script) = (super_bed().await, MemoryStore::new(), Script::succeeding());
    let failures = Queue::quorum(failures(&bed, CHARGE));
    bed.declare(&laddered(failures.clone())).await;
    let others = [(); 2].map(|()| {
        let other = Worker::builder(MemoryStore::new()).state(Script::succeeding());
        bed.start(other.consume::<charge>(failures.clone().local_retries()))
    });
    for other in &others {
        other.until("it consumes", Health::is_ready).await;
    }
    orders(&bed, 0..9).await;
    let worker = reading(&bed, &store, &script, super_stream(&bed));
    worker.ended(Kind::Executed, 9).await;
    worker.stop().await;
    for other in others {
        other.stop().await;
    }
    assert_once(&script, &ids(0..9));
}

/// Messages for each partition, again and again, until they are shared as they should be.
struct Rounds<'a> {
    bed: &'a Bed,
    scripts: &'a [Script; 3],
    published: u32,
}

impl<'a> Rounds<'a> {
    fn of(bed: &'a Bed, scripts: &'a [Script; 3]) -> Self {
        let published = 0;
        Self {
            bed,
            scripts,
            published,
        }
    }

    fn done(&self) -> [usize; 3] {
        self.scripts
            .each_ref()
            .map(|script| script.effects.entries().len())
    }

    /// How many of one message for each partition each worker handles.
    async fn next(&mut self) -> [usize; 3] {
        let before = self.done();
        orders(self.bed, self.published..self.published + 3).await;
        self.published += 3;
        let all = usize::try_from(self.published).unwrap();
        let after = eventually("the round is handled", async || match self.done() {
            done if done.iter().sum::<usize>() == all => Ok(done),
            done => Err(done),
        })
        .await;
        [0, 1, 2].map(|worker| after[worker] - before[worker])
    }

    async fn until_so(&mut self, is_so: impl Fn(&[usize; 3]) -> bool) {
        let began = Instant::now();
        loop {
            let shared = self.next().await;
            if is_so(&shared) {
                return;
            }
            assert!(began.elapsed() < Duration::from_mins(1), "{shared:?}");
            sleep(Duration::from_millis(200)).await;
        }
    }

    async fn until(&mut self, expected: [usize; 3]) {
        self.until_so(|shared| *shared == expected).await;
    }

    async fn until_none_of(&mut self, worker: usize) {
        self.until_so(|shared| shared[worker] == 0).await;
    }

    fn assert_once(&self) {
        let effects = self
            .scripts
            .iter()
            .flat_map(|script| script.effects.entries());
        let mut done: Vec<_> = effects.map(|call| call.id).collect();
        done.sort();
        let expected: Vec<_> = ids(0..self.published).into_iter().collect();
        assert_eq!(done, expected);
    }
}

/// A super stream whose mark alone says what is done is shared by a second worker, and then the first one stops, while
/// messages come.
///
/// - does: hands partitions over between two calls or in the middle of one, whose transaction then has no effect
/// - effect: once each
#[tokio::test]
async fn partitions_without_records_change_hands_while_messages_come() {
    let (bed, script) = (super_bed().await, Script::succeeding());
    let ledger = Ledger::on(Product::Postgres).await;
    let store = ledger.store().open_postgres().await;
    let read = || {
        let worker = Worker::builder(store.clone()).state(script.clone());
        bed.start(worker.consume_stream::<charge_by_mark_in_postgres>(super_stream(&bed)))
    };
    let first = read();
    orders(&bed, 0..30).await;
    first.ended(Kind::Executed, 30).await;
    let (second, began, mut published) = (read(), Instant::now(), 30);
    while second.settled.entries().is_empty() {
        orders(&bed, published..published + 30).await;
        published += 30;
        assert!(
            began.elapsed() < Duration::from_mins(1),
            "nothing is shared"
        );
    }
    let publishing = orders(&bed, published..published + 300);
    let ((), stopped) = tokio::join!(publishing, first.stop());
    published += 300;
    assert!(stopped.of(Kind::Executed) > 30, "{stopped}");
    let all = usize::try_from(published).unwrap();
    eventually("all are charged", async || match ledger.count().await {
        charged if charged >= all => Ok(()),
        charged => Err(charged),
    })
    .await;
    second.stop().await;
    let charges = ledger.charges().await;
    let mut done: Vec<_> = charges.into_iter().map(|it| it.order_id).collect();
    done.sort();
    assert_eq!(done, Vec::from_iter(ids(0..published)));
}

/// The partitions of a super stream that somebody else has made have names of their own.
///
/// - does: reads them by these names, and changes nothing of it
/// - effect: once each
#[tokio::test]
async fn a_super_stream_of_other_names_is_read_by_these() {
    let bed = Bed::with_vhost().await;
    let streams = ["europe", "america"].map(|region| bed.another(region));
    let [europe, america] = &streams;
    let partitions = [(europe, "eu"), (america, "us")];
    let named = partitions.map(|(stream, key)| (stream.clone(), key.to_owned()));
    // With an argument that a worker would not give it.
    make(
        &bed,
        stream_arguments(&[("x-max-length-bytes", 1_000_000)]),
        &named,
    )
    .await;
    let (store, script) = (MemoryStore::new(), Script::succeeding());
    let theirs = || {
        let named = Partitions::named(named.clone());
        readable(Queue::existing_super_stream(bed.name(), named))
    };
    for (key, id) in [("eu", "0"), ("us", "1"), ("eu", "2")] {
        order(&bed, key, id).await;
    }
    let worker = reading(&bed, &store, &script, theirs());
    worker.ended(Kind::Executed, 3).await;
    worker.stop().await;
    assert_once(&script, &ids(0..3));
    for (stream, expected) in [(europe, 2), (america, 1)] {
        let key = Key::new(CHARGE, stream).unwrap();
        assert_eq!(mark(&store, &key).await, Some(expected));
    }
    assert_eq!(bindings(&bed).await.len(), 2);
    let missing = Partitions::named([(europe.as_str(), "eu"), ("asia", "as")]);
    let missing = Queue::existing_super_stream(bed.name(), missing);
    let worker = Worker::builder(store).state(script);
    let worker = worker
        .consume_stream::<charge>(missing)
        .build(bed.url())
        .unwrap();
    let findings = worker.doctor().await.into_iter();
    let wrong = findings.filter(|finding| finding.severity == Severity::Error);
    let wrong: Vec<_> = wrong
        .map(|finding| (finding.code, finding.subject))
        .collect();
    assert_eq!(wrong, [("missing", Some("asia".to_owned()))]);
}

/// The bindings of the super stream's exchange.
async fn bindings(bed: &Bed) -> Vec<String> {
    let (broker, vhost) = (bed.broker().clone(), bed.vhost().to_owned());
    let what = [
        "source_name",
        "destination_name",
        "routing_key",
        "arguments",
    ];
    let arguments = ["list_bindings", "-q", "--no-table-headers", "-p", &vhost];
    let arguments: Vec<_> = arguments
        .into_iter()
        .chain(what)
        .map(str::to_owned)
        .collect();
    let listed = tokio::task::spawn_blocking(move || broker.rabbitmqctl(arguments)).await;
    let listed = listed.expect("no panic").expect("rabbitmqctl answers");
    let own = |line: &&str| line.split('\t').next() == Some(bed.name());
    listed.lines().filter(own).map(str::to_owned).collect()
}

/// A super stream is there as RabbitMQ's own tool makes it, but for one binding.
///
/// - does: reads it, adds the binding, and leaves all else as it is
/// - effect: once each
#[tokio::test]
async fn a_missing_binding_is_added_and_none_is_made_twice() {
    let (bed, store, script) = (super_bed().await, MemoryStore::new(), Script::succeeding());
    let before = bindings(&bed).await;
    assert_eq!(before.len(), 3, "{before:?}");
    bed.delete(&partition(&bed, 2)).await;
    assert_eq!(bindings(&bed).await.len(), 2);
    let worker = reading(&bed, &store, &script, super_stream(&bed));
    eventually("the binding is added", async || {
        match bindings(&bed).await {
            now if now == before => Ok(()),
            now => Err(now),
        }
    })
    .await;
    orders(&bed, 0..9).await;
    worker.ended(Kind::Executed, 9).await;
    worker.stop().await;
    assert_once(&script, &ids(0..9));
}

/// A super stream is to be read that cannot be one, or as a queue.
///
/// - does: does not start, and says what is wrong
/// - effect: —
#[tokio::test]
async fn what_is_no_super_stream_is_refused() {
    let url = "amqp://127.0.0.1:5672/%2f";
    let worker = || Worker::builder(MemoryStore::new()).state(Script::succeeding());
    let read = |stream: Queue| worker().consume_stream::<charge>(stream);
    let wrong = [
        (read(Queue::super_stream("ledger", 0)), "no partitions"),
        (read(Queue::super_stream("", 3)), "its name is empty"),
        (
            read(Queue::super_stream("ledger", [""])),
            "partition is empty",
        ),
        (
            read(Queue::super_stream("ledger", ["eu", "eu"])),
            "the same name",
        ),
        (
            read(Queue::super_stream("ledger", 3).bind("shop", "#")),
            "leave `bind` out",
        ),
        (
            worker().consume::<charge>(Queue::super_stream("ledger", 3)),
            "`consume_stream`",
        ),
        (
            read(Queue::super_stream("ledger", 3))
                .consume_stream::<charge>(Queue::stream("ledger-1")),
            "another handler of this worker",
        ),
    ];
    for (worker, part) in wrong {
        let error = worker.build(url).err();
        assert!(
            matches!(error, Some(BuildError::Stream { .. })),
            "{error:?}"
        );
        let text = error.map(|error| error.to_string()).unwrap_or_default();
        assert!(text.contains(part), "{text}");
    }
}
