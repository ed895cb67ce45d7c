//! What the broker sends ahead, and what of it waits.

use std::{sync::Arc, time::Duration};

use idem_amqp::{ExecutionKind as Kind, MemoryStore, Queue, QueueType, Worker};
use idem_tests::{
    bed::{Bed, dead},
    journal::eventually,
    laddered::laddered,
    queue_type::under_test,
    running::{Running, assert_balance},
    script::{Script, charge},
    servers::off_thread,
};
use lapin::types::{AMQPValue, FieldTable};
use tokio::sync::Semaphore;

/// What `slow` waits for; the others succeed at once.
fn slow() -> (Script, Arc<Semaphore>) {
    let gate = Arc::new(Semaphore::new(0));
    let opened = Arc::clone(&gate);
    let script = Script::new(move |call| {
        let opened = Arc::clone(&opened);
        async move {
            if call.id == "slow" {
                opened.acquire().await?.forget();
            }
            Ok(())
        }
    });
    (script, gate)
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
        let (queue, (script, gate), store) = (queue(&bed), slow(), MemoryStore::new());
        bed.declare(&queue).await;
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

#[tokio::test]
async fn the_broker_sends_as_many_messages_as_the_prefetch_and_as_many_run_as_the_concurrency() {
    let bed = Bed::new().await;
    let script = Script::hanging();
    let queue = bed.queue().prefetch(5).concurrency(2);
    let worker = start(&bed, &MemoryStore::new(), &script, queue);
    bed.until_consumed(bed.name(), 1).await;
    for number in 0..8 {
        bed.order(&format!("o-{number}")).await;
    }
    bed.until_waiting(3).await;
    script.calls.count("two run", 2).await;
    assert_eq!(script.calls.entries().len(), 2);
    worker.vanish().await;
    for queue in [bed.name().to_owned(), dead(bed.name())] {
        bed.delete(&queue).await;
    }
}

/// Of the type under test, as somebody else declares it.
async fn declare(bed: &Bed) {
    let mut arguments = FieldTable::default();
    if under_test() == QueueType::Quorum {
        let quorum = AMQPValue::LongString("quorum".into());
        arguments.insert("x-queue-type".into(), quorum);
    }
    bed.declare_foreign(bed.name(), arguments).await;
}

/// A worker at a queue that somebody else declares.
async fn at_existing(bed: &Bed, script: &Script) -> Running {
    declare(bed).await;
    bed.declare_foreign(&dead(bed.name()), FieldTable::default())
        .await;
    let queue = Queue::existing(bed.name()).accept("no-dead-letter-target");
    let worker = Worker::builder(MemoryStore::new()).state(script.clone());
    let worker = worker.renew_idle_after(Duration::from_millis(500));
    let worker = bed.start(worker.consume::<charge>(queue));
    bed.until_consumed(bed.name(), 1).await;
    worker
}

#[tokio::test]
async fn a_queue_that_is_deleted_and_declared_again_at_once_is_consumed_again() {
    let bed = Bed::with_vhost().await;
    let script = Script::succeeding();
    let worker = at_existing(&bed, &script).await;
    bed.order("a").await;
    worker.ended(Kind::Executed, 1).await;

    bed.delete(bed.name()).await;
    declare(&bed).await;
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

/// The broker gives back what is with a channel when that is closed.
#[tokio::test]
async fn a_consumer_that_the_broker_cancels_closes_its_channel_though_a_handler_still_runs() {
    let bed = Bed::with_vhost().await;
    let (script, gate) = slow();
    let worker = at_existing(&bed, &script).await;
    bed.order("slow").await;
    script.calls.count("it runs", 1).await;
    let before = channels(&bed).await;

    bed.delete(bed.name()).await;
    worker
        .until("the cancel is noticed", |health| !health.is_ready())
        .await;
    declare(&bed).await;
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

#[tokio::test]
async fn a_message_whose_handler_takes_longer_than_a_pause_is_delivered_once() {
    let bed = Bed::new().await;
    let (script, gate) = slow();
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
