//! One key that is held, and many copies of its message: the others must not notice.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use futures_util::future::join_all;
use idem_amqp::{
    MemoryStore, Policy, Queue, Worker,
    executor::ExecutionKind as Kind,
    message::{Envelope, KeyBuilder, KeyError},
    prelude::*,
};
use idem_tests::{
    bed::{Bed, dead, persistent},
    interfered::{Call, Fate, Interfered},
    journal::Journal,
    queue_type::under_test,
    running::Running,
    script::{Order, Script},
};
use lapin::types::{AMQPValue, FieldTable};
use tokio::{sync::Semaphore, time::Instant};

const COPIES: usize = 50;
const OTHERS: usize = 1000;
/// Longer than a busy machine may stall a process: no copy takes the key over. The second rung of the ladder fits into
/// it.
const LEASE: Duration = Duration::from_secs(8);
/// How long the key is held at least: longer than its lease, and than a copy's first two waits on the ladder, 5 s each.
const HOLD: Duration = Duration::from_secs(12);
const MOST_DELIVERIES: usize = 9;

/// Of a copy.
#[derive(Debug, Clone)]
struct Arrival {
    queue: String,
    copy: String,
    /// As the broker counts.
    returns: u64,
}

static ARRIVALS: LazyLock<Journal<Arrival>> = LazyLock::new(Journal::default);

/// Looks at every delivery, also of those that are not handled.
fn watched(order: &Order, envelope: &Envelope, key: KeyBuilder) -> Result<Key, KeyError> {
    let delivery = envelope.extension::<Delivery>().unwrap();
    if let Some(copy) = envelope.header("x-copy") {
        let returns = envelope.header("x-delivery-count");
        ARRIVALS.write(Arrival {
            queue: delivery.queue().into(),
            copy: copy.into(),
            returns: returns.map_or(0, |count| count.parse().unwrap()),
        });
    }
    key.part("id", &order.id).build()
}

#[idempotent(key_with = watched, scope = "orders.contended")]
async fn contended(
    order: Order,
    State(script): State<Script>,
    attempt: Attempt,
    delivery: Delivery,
) -> Result<(), Failed> {
    script.play(order, attempt, delivery).await
}

/// A worker that holds one key until it is told to let it go.
struct Contention {
    bed: Bed,
    store: Interfered<MemoryStore>,
    script: Script,
    let_go: Arc<Semaphore>,
    worker: Running,
    held_since: Instant,
}

impl Contention {
    async fn begin(bed: Bed, queue: Queue) -> Self {
        let policy = Policy::builder().lease(LEASE);
        let queue = queue.policy(policy.build().unwrap());
        let let_go = Arc::new(Semaphore::new(0));
        let gate = Arc::clone(&let_go);
        let script = Script::new(move |call| {
            let gate = Arc::clone(&gate);
            async move {
                if call.id == "held" {
                    gate.acquire().await?.forget();
                }
                Ok(())
            }
        });
        let store = Interfered::new(MemoryStore::new(), |_, _| Fate::Pass);
        let worker = Worker::builder(store.clone()).state(script.clone());
        let worker = bed.start(worker.consume::<contended>(queue));
        bed.order("held").await;
        script.calls.count("the key is held", 1).await;
        Self {
            bed,
            store,
            script,
            let_go,
            worker,
            held_since: Instant::now(),
        }
    }

    async fn copy(&self, number: usize) {
        let mut headers = FieldTable::default();
        let copy = AMQPValue::LongString(number.to_string().into());
        headers.insert("x-copy".into(), copy);
        let body = serde_json::to_vec(&Order::new("held")).unwrap();
        let properties = persistent().with_headers(headers);
        self.bed.send(self.bed.name(), &body, properties).await;
    }

    /// Sends others with the copies among them, and says how long the others took.
    async fn flood(&self, copies: usize, others: usize) -> Duration {
        let begun = Instant::now();
        let done = self.script.effects.entries().len();
        let every = others / copies.max(1);
        for number in 0..others {
            if copies > 0 && number.is_multiple_of(every) {
                self.copy(number / every).await;
            }
            if number.is_multiple_of(50) {
                let orders = (number..number + 50).map(|n| format!("o-{done}-{n}"));
                join_all(orders.map(async |id| self.bed.order(&id).await)).await;
            }
        }
        let effects = &self.script.effects;
        effects.count("the others take effect", done + others).await;
        begun.elapsed()
    }

    /// Lets the key go, and waits until the copies are known as duplicates.
    async fn end(self, copies: usize) -> Tally {
        tokio::time::sleep_until(self.held_since + HOLD).await;
        self.let_go.add_permits(1);
        self.worker.ended(Kind::Duplicate, copies).await;
        let claims = self.store.count(Call::Claim);
        let balance = self.worker.stop().await;
        let conflicts = balance.of(Kind::Conflict);
        assert_eq!(balance.of(Kind::Duplicate), copies as u64);
        assert_eq!(
            balance.deliveries(),
            balance.of(Kind::Executed) + copies as u64 + conflicts
        );
        let arrivals: Vec<_> = (ARRIVALS.entries().into_iter())
            .filter(|arrival| arrival.queue == self.bed.name())
            .collect();
        let deliveries = (0..copies).map(|copy| {
            let of_this = arrivals
                .iter()
                .filter(|arrival| arrival.copy == copy.to_string());
            of_this.count()
        });
        let tally = Tally {
            deliveries: deliveries.collect(),
            returns: arrivals
                .iter()
                .map(|arrival| arrival.returns)
                .max()
                .unwrap_or(0),
            claims,
        };
        self.bed.assert_nothing_stuck().await;
        tally
    }
}

#[derive(Debug)]
struct Tally {
    /// Of each copy.
    deliveries: Vec<usize>,
    /// The most that the broker has counted of one copy.
    returns: u64,
    /// Of all messages.
    claims: u64,
}

impl Tally {
    #[track_caller]
    fn assert_frugal(&self) {
        let most = self.deliveries.iter().max();
        assert!(
            most.is_some_and(|most| *most <= MOST_DELIVERIES),
            "{self:?}"
        );
    }
}

async fn on_the_ladder(queue: impl FnOnce(&Bed) -> Queue) {
    let bed = Bed::with_vhost().await;
    // Fewer places to hold a copy than there are copies.
    let queue = queue(&bed).prefetch(24).concurrency(16);
    bed.declare(&queue).await;
    let contention = Contention::begin(bed, queue).await;
    let alone = contention.flood(0, OTHERS).await;
    let beside_copies = contention.flood(COPIES, OTHERS).await;
    let tally = contention.end(COPIES).await;
    println!("{alone:?} alone, {beside_copies:?} beside {COPIES} copies, {tally:?}");
    assert!(
        beside_copies < 10 * alone + Duration::from_secs(15),
        "{beside_copies:?} beside copies, {alone:?} alone"
    );
    tally.assert_frugal();
    assert!(tally.returns <= 1, "{tally:?}");
}

/// Many copies of one message come among very many others, more than may wait in the worker.
///
/// - does: lets them wait on the ladder, on a longer rung each time; handles the others meanwhile
/// - atomic: once
/// - leased: once
/// - settled by: `duplicates::a_copy_at_another_worker_is_held_until_the_first_has_ended`
#[tokio::test]
async fn copies_of_a_held_message_do_not_hold_up_the_others() {
    on_the_ladder(Bed::queue).await;
}

/// Shares the promise of `conflicts::copies_of_a_held_message_do_not_hold_up_the_others`.
#[tokio::test]
async fn copies_of_a_held_message_on_a_classic_queue_do_not_hold_up_the_others() {
    on_the_ladder(Bed::classic_queue).await;
}

/// Of the type under test, as RabbitMQ 4 declares it.
async fn declare_existing(bed: &Bed) {
    let mut arguments = FieldTable::default();
    if under_test() == idem_amqp::QueueType::Quorum {
        let quorum = AMQPValue::LongString("quorum".into());
        arguments.insert("x-queue-type".into(), quorum);
        arguments.insert("x-delivery-limit".into(), AMQPValue::LongInt(20));
    }
    bed.declare_foreign(bed.name(), arguments).await;
    bed.declare_foreign(&dead(bed.name()), FieldTable::default())
        .await;
}

/// Many copies of one message come in an existing queue, no more than may wait in the worker.
///
/// - does: lets them wait in the worker: none is delivered twice; handles the others meanwhile
/// - atomic: once
/// - leased: once
/// - settled by: `duplicates::a_copy_at_another_worker_is_held_until_the_first_has_ended`
#[tokio::test]
async fn copies_in_an_existing_queue_are_held_and_delivered_once() {
    let bed = Bed::bare().await;
    declare_existing(&bed).await;
    let queue = Queue::existing(bed.name()).prefetch(128).concurrency(64);
    let contention = Contention::begin(bed, queue).await;
    let alone = contention.flood(0, OTHERS).await;
    let beside_copies = contention.flood(COPIES, OTHERS).await;
    let tally = contention.end(COPIES).await;
    println!("{alone:?} alone, {beside_copies:?} beside {COPIES} copies, {tally:?}");
    assert!(
        beside_copies < 10 * alone + Duration::from_secs(15),
        "{beside_copies:?} beside copies, {alone:?} alone"
    );
    assert_eq!(tally.deliveries, [1; COPIES]);
}

/// More copies come than may wait in the worker, there is no ladder, and the key is busy for long.
///
/// - does: returns copies ever more rarely, up to 8 s; they stay far from a delivery limit of 20
/// - atomic: once
/// - leased: once
/// - settled by: `duplicates::a_copy_at_another_worker_is_held_until_the_first_has_ended`
#[tokio::test]
async fn more_copies_than_may_be_held_in_an_existing_queue_are_returned_ever_more_rarely() {
    const MANY: usize = 20;
    let bed = Bed::bare().await;
    declare_existing(&bed).await;
    let queue = Queue::existing(bed.name()).prefetch(8).concurrency(4);
    let contention = Contention::begin(bed, queue).await;
    for number in 0..MANY {
        contention.copy(number).await;
    }
    let tally = contention.end(MANY).await;
    println!("{tally:?}");
    tally.assert_frugal();
    assert!(tally.claims < 150, "{tally:?}");
}
