//! What the broker sends ahead, and what of it waits.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use idem_amqp::{
    MemoryStore, Queue, QueueType, Worker, executor::ExecutionKind as Kind, session::Sessions,
};
use idem_servers::rabbitmq::Version;
use idem_tests::{
    bed::{Bed, dead},
    journal::eventually,
    laddered::laddered,
    queue_type::under_test,
    requester::Requester,
    running::{Running, assert_balance},
    script::{Script, charge},
    servers::off_thread,
    session::{Session, control},
};
use lapin::types::{AMQPValue, FieldTable};
use tokio::{sync::Semaphore, time::Instant};

use crate::{
    replies::order,
    sessions::{self, building},
};

/// How many run, and how many ran at once at most.
type Counts = Arc<Mutex<(usize, usize)>>;

/// All wait for the gate.
fn counted() -> (Script, Arc<Semaphore>, Counts) {
    let gate = Arc::new(Semaphore::new(0));
    let running = Arc::new(Mutex::new((0, 0)));
    let (opened, counts) = (Arc::clone(&gate), Arc::clone(&running));
    let script = Script::new(move |_| {
        let (opened, counts) = (Arc::clone(&opened), Arc::clone(&counts));
        async move {
            {
                let (now, most) = &mut *counts.lock().unwrap();
                *now += 1;
                *most = (*most).max(*now);
            }
            opened.acquire().await?.forget();
            counts.lock().unwrap().0 -= 1;
            Ok(())
        }
    });
    (script, gate, running)
}

fn start(bed: &Bed, store: &MemoryStore, script: &Script, queue: Queue) -> Running {
    let worker = Worker::builder(store.clone()).state(script.clone());
    bed.start(worker.consume::<charge>(queue))
}

/// Two workers of one message each; one of them is at `slow`.
struct Pair {
    bed: Bed,
    script: Script,
    gate: Arc<Semaphore>,
    workers: [Running; 2],
}

impl Pair {
    async fn start(queue: impl FnOnce(&Bed) -> Queue) -> Self {
        let bed = Bed::with_vhost().await;
        let queue = queue(&bed);
        bed.declare(&queue).await;
        Self::consuming(bed, queue).await
    }

    async fn consuming(bed: Bed, queue: Queue) -> Self {
        let ((script, gate), store) = (Script::slow(), MemoryStore::new());
        let workers = [0, 1].map(|_| start(&bed, &store, &script, queue.clone()));
        bed.until_consumed(bed.name(), 2).await;
        bed.order("slow").await;
        script.calls.count("one is busy", 1).await;
        Self {
            bed,
            script,
            gate,
            workers,
        }
    }

    /// Lets `slow` end; `copies` of it are found out.
    async fn end(self, orders: &[String], copies: u64) {
        self.gate.add_permits(1);
        self.script
            .effects
            .count("all are done", orders.len() + 1)
            .await;
        self.bed.until_settled().await;
        let mut kinds = [Kind::Executed, Kind::Duplicate, Kind::Conflict].map(|kind| (kind, 0));
        let mut deliveries = 0;
        for worker in self.workers {
            let balance = worker.stop().await;
            for (kind, count) in &mut kinds {
                *count += balance.of(*kind);
            }
            deliveries += balance.deliveries();
        }
        let [(_, executed), (_, duplicates), (_, conflicts)] = kinds;
        assert_eq!((executed, duplicates), (orders.len() as u64 + 1, copies));
        assert_eq!(deliveries, executed + duplicates + conflicts);
        let slow = std::iter::once("slow".to_owned());
        self.script
            .assert_effects(slow.chain(orders.iter().cloned()));
        self.bed.assert_nothing_stuck().await;
    }
}

/// A worker's only message runs for long (`prefetch(1)`), and another worker is idle.
///
/// - does: lets the idle worker handle all further messages
/// - atomic: once each
/// - leased: once each
#[tokio::test]
async fn no_message_waits_behind_a_long_handler_while_another_worker_is_idle() {
    let pair = Pair::start(|bed| bed.queue().prefetch(1)).await;
    let orders: Vec<_> = (0..50).map(|number| format!("o-{number}")).collect();
    for id in &orders {
        pair.bed.order(id).await;
    }
    let awaited = "the idle worker handles all others";
    pair.script.effects.count(awaited, orders.len()).await;
    pair.end(&orders, 0).await;
}

/// A worker's only message runs for long (`prefetch(1)`), and copies of it come to an idle worker.
///
/// - does: sends them to the ladder, and handles the messages behind them
/// - atomic: once each
/// - leased: once each
#[tokio::test]
async fn a_copy_in_conflict_leaves_its_place_to_the_messages_behind_it() {
    let ladder = |bed: &Bed| laddered(bed.queue());
    let pair = Pair::start(|bed| ladder(bed).prefetch(1)).await;
    let orders: Vec<_> = (0..200).map(|number| format!("o-{number}")).collect();
    for id in ["slow", "slow", "slow"]
        .into_iter()
        .chain(orders.iter().map(String::as_str))
    {
        pair.bed.order(id).await;
    }
    let awaited = "the other worker handles all others";
    pair.script.effects.count(awaited, orders.len()).await;
    pair.end(&orders, 3).await;
}

/// A worker's only message runs for long (`prefetch(1)`), and copies of it come to an idle worker, on an existing queue
/// without a ladder.
///
/// - does: returns the copy after half a second, later each time. Where the broker puts it at the head (each queue but
///   a quorum queue of 3.10), the worker is sent the same copy again: the messages behind it wait until the key is
///   free. Give the queue a ladder or a `prefetch` of 2
/// - atomic: once each
/// - leased: once each
///
/// What is returned comes first again where the broker puts it at the head of its queue: each but a quorum queue
/// without a delivery limit, which none is from RabbitMQ 4.0 on.
#[tokio::test]
async fn a_copy_in_conflict_is_returned_ever_more_rarely_where_there_is_no_ladder_and_no_further_place()
 {
    let bed = Bed::with_vhost().await;
    let queue = existing(&bed).await.prefetch(1);
    let pair = Pair::consuming(bed, queue).await;
    pair.bed.order("slow").await;
    let copies = || {
        let settled = pair.workers.iter().flat_map(|one| one.settled.entries());
        settled.filter(|ended| ended.kind == Kind::Conflict).count()
    };
    let returned = async |times: usize| {
        eventually("the copy is returned", async || {
            if copies() >= times {
                Ok(())
            } else {
                Err(copies())
            }
        })
        .await;
    };
    let sent = Instant::now();
    returned(1).await;
    let orders: Vec<_> = (0..20).map(|number| format!("o-{number}")).collect();
    for id in &orders {
        pair.bed.order(id).await;
    }
    let to_the_end =
        under_test() == QueueType::Quorum && pair.bed.broker().version() < Version::new(4, 0);
    if to_the_end {
        let awaited = "the other worker handles all others";
        pair.script.effects.count(awaited, orders.len()).await;
    } else {
        returned(3).await;
        assert_eq!(pair.script.effects.entries().len(), 0, "they wait");
    }
    // The first is kept for half a second at least, those after it for longer.
    let most = 1.0 + sent.elapsed().as_secs_f64();
    let times = u32::try_from(copies()).unwrap();
    assert!(f64::from(times) <= most, "a hot loop: {times}");
    pair.end(&orders, 1).await;
}

/// The prefetch is greater than the concurrency (`prefetch(5).concurrency(2)`).
///
/// - does: runs two; the broker sends no sixth
#[tokio::test]
async fn the_broker_sends_as_many_messages_as_the_prefetch_and_as_many_run_as_the_concurrency() {
    const ORDERS: usize = 8;
    let bed = Bed::new().await;
    let (script, gate, running) = counted();
    let queue = bed.queue().prefetch(5).concurrency(2);
    let worker = start(&bed, &MemoryStore::new(), &script, queue);
    bed.until_consumed(bed.name(), 1).await;
    let ids: Vec<_> = (0..ORDERS).map(|number| format!("o-{number}")).collect();
    for id in &ids {
        bed.order(id).await;
    }
    bed.until_waiting(3).await;
    script.calls.count("two run", 2).await;
    for ended in 1..=ORDERS {
        gate.add_permits(1);
        script.effects.count("one ends", ended).await;
        let started = ORDERS.min(ended + 2);
        script.calls.count("one more starts", started).await;
        assert_eq!(script.calls.entries().len(), started);
    }
    worker.ended(Kind::Executed, ORDERS).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, ORDERS as u64)]);
    let ran = *running.lock().unwrap();
    assert_eq!(ran, (0, 2), "how many run, and ran at most");
    script.assert_effects(ids);
    bed.assert_nothing_stuck().await;
}

/// Of the type under test, as somebody else declares it.
pub(crate) async fn declare(bed: &Bed, queue: &str) {
    let mut arguments = FieldTable::default();
    if under_test() == QueueType::Quorum {
        let quorum = AMQPValue::LongString("quorum".into());
        arguments.insert("x-queue-type".into(), quorum);
    }
    bed.declare_foreign(queue, arguments).await;
}

/// A queue that somebody else declares, without a ladder.
async fn existing(bed: &Bed) -> Queue {
    declare(bed, bed.name()).await;
    bed.declare_foreign(&dead(bed.name()), FieldTable::default())
        .await;
    Queue::existing(bed.name()).accept("no-dead-letter-target")
}

/// A worker at a queue that somebody else declares.
async fn at_existing(bed: &Bed, script: &Script) -> Running {
    let queue = existing(bed).await;
    let worker = Worker::builder(MemoryStore::new()).state(script.clone());
    let worker = worker.renew_idle_after(Duration::from_millis(500));
    let worker = bed.start(worker.consume::<charge>(queue));
    bed.until_consumed(bed.name(), 1).await;
    worker
}

/// A queue is deleted and declared again at once by somebody else, and the broker forgets the consumer without a word
/// (a quorum queue of RabbitMQ 3.10).
///
/// - does: renews its channel when nothing has come for a while: after one to two minutes, unless set
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_queue_that_is_deleted_and_declared_again_at_once_is_consumed_again() {
    let bed = Bed::with_vhost().await;
    let script = Script::succeeding();
    let worker = at_existing(&bed, &script).await;
    bed.order("a").await;
    worker.ended(Kind::Executed, 1).await;

    bed.delete(bed.name()).await;
    declare(&bed, bed.name()).await;
    for id in ["b", "c"] {
        bed.order(id).await;
    }
    worker.ended(Kind::Executed, 3).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 3)]);
    script.assert_effects(["a", "b", "c"]);
    bed.assert_nothing_stuck().await;
}

/// How many channels the broker has open in the test's vhost.
async fn channels(bed: &Bed) -> usize {
    let broker = bed.broker().clone();
    let listed = off_thread(move || broker.rabbitmqctl(["list_channels", "vhost"])).await;
    listed.lines().filter(|vhost| *vhost == bed.vhost()).count()
}

/// The broker cancels the consumer while a handler runs (4.3: one past the consumer timeout).
///
/// - does: sends what is decided and closes the channel, so that what is not settled comes back at once; its key is
///   claimed, so it waits
/// - atomic: once
/// - leased: once
///
/// The broker gives back what is with a channel when that is closed.
#[tokio::test]
async fn a_consumer_that_the_broker_cancels_closes_its_channel_though_a_handler_still_runs() {
    let bed = Bed::with_vhost().await;
    let (script, gate) = Script::slow();
    let worker = at_existing(&bed, &script).await;
    bed.order("slow").await;
    script.calls.count("it runs", 1).await;
    let before = channels(&bed).await;

    bed.delete(bed.name()).await;
    worker
        .until("the cancel is noticed", |health| !health.is_ready())
        .await;
    declare(&bed, bed.name()).await;
    bed.until_consumed(bed.name(), 1).await;
    eventually("the old channel is closed", async || {
        let now = channels(&bed).await;
        if now <= before { Ok(()) } else { Err(now) }
    })
    .await;
    assert!(
        script.effects.entries().is_empty(),
        "the handler still runs"
    );
    gate.add_permits(1);
    script.effects.count("it ends", 1).await;
    worker.stop().await;
    bed.assert_nothing_stuck().await;
}

/// Nothing comes for a while because a handler takes long.
///
/// - does: leaves the channel alone until the handler has ended
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_message_whose_handler_takes_longer_than_a_pause_is_delivered_once() {
    let bed = Bed::new().await;
    let (script, gate) = Script::slow();
    let worker = Worker::builder(MemoryStore::new()).state(script.clone());
    let worker = worker.renew_idle_after(Duration::from_millis(50));
    let worker = bed.start(worker.consume::<charge>(bed.queue()));
    bed.order("slow").await;
    script.calls.count("it runs", 1).await;
    // Of many pauses: whatever came back would be a conflict by now.
    tokio::time::sleep(Duration::from_secs(2)).await;
    bed.order("b").await;
    worker.ended(Kind::Executed, 1).await;
    gate.add_permits(1);
    worker.ended(Kind::Executed, 2).await;
    bed.until_settled().await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 2)]);
    script.assert_effects(["slow", "b"]);
    bed.assert_nothing_stuck().await;
}

/// The consumers of the worker's queues, with the names that the broker gave them. One look for all queues, because
/// each takes seconds on a busy machine.
async fn consumers(bed: &Bed) -> Vec<(String, String)> {
    let (broker, vhost) = (bed.broker().clone(), bed.vhost().to_owned());
    let listed = off_thread(move || {
        broker.rabbitmqctl(["list_consumers", "-p", &vhost, "queue_name", "consumer_tag"])
    })
    .await;
    let listed = listed.lines().filter_map(|line| line.split_once('\t'));
    let ours = listed.filter(|(queue, _)| queue.starts_with(bed.name()));
    ours.map(|(queue, tag)| (queue.to_owned(), tag.to_owned()))
        .collect()
}

/// Nothing comes for long, and the broker still knows the consumer.
///
/// - does: renews its channel each time, also that of registrations, and handles what comes
/// - atomic: once
/// - leased: once
///
/// Also those of registrations: whatever the broker has forgotten, and whichever version it is.
#[tokio::test]
async fn an_idle_worker_has_other_consumers_after_a_while_and_works() {
    let bed = sessions::bed().await;
    let script = Script::succeeding();
    let worker = building(
        MemoryStore::new(),
        &script,
        Sessions::default(),
        bed.queue(),
    );
    // Long beside the moment in which there is no consumer: a slow look would find none, time and again.
    let worker = bed.start(worker.renew_idle_after(Duration::from_secs(3)));
    let seen = Mutex::new(BTreeSet::new());
    let awaited = "each queue has three consumers, one after the other";
    eventually(awaited, async || {
        let now = consumers(&bed).await;
        let mut seen = seen.lock().unwrap();
        seen.extend(now);
        let of = |queue: &str| seen.iter().filter(|(name, _)| name == queue).count();
        if of(bed.name()) < 3 || of(&control(bed.name())) < 3 {
            return Err(seen.clone());
        }
        Ok(())
    })
    .await;
    let requester = Requester::on(&bed).await;
    let session = Session::open(&requester, bed.name()).await;
    assert_eq!(session.ask(0, 0, &order("a")).await.refusal(), None);
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 1)]);
    assert_eq!(balance.incidents().to_string(), "");
    script.assert_effects(["a"]);
    bed.assert_nothing_stuck().await;
}

/// A message ends just before its channel is renewed.
///
/// - does: settles the message on the old channel first
/// - atomic: once
/// - leased: once
///
/// Where the channel is closed as soon as nothing is with it, each message ends just before.
#[tokio::test]
async fn a_message_that_ends_just_before_its_channel_is_closed_is_delivered_once() {
    const ORDERS: usize = 100;
    let bed = Bed::new().await;
    let script = Script::succeeding();
    let worker = Worker::builder(MemoryStore::new()).state(script.clone());
    let worker = worker.renew_idle_after(Duration::from_millis(1));
    let worker = bed.start(worker.consume::<charge>(bed.queue()));
    let ids: Vec<_> = (0..ORDERS).map(|number| format!("o-{number}")).collect();
    for (number, id) in ids.iter().enumerate() {
        bed.order(id).await;
        if number % 3 == 0 {
            worker.ended(Kind::Executed, number + 1).await;
        }
    }
    worker.ended(Kind::Executed, ORDERS).await;
    bed.until_settled().await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, ORDERS as u64)]);
    assert_eq!(balance.incidents().to_string(), "");
    script.assert_effects(ids);
    bed.assert_nothing_stuck().await;
}
