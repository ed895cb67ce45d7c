//! Messages that have something in common run one after the other (`ordered_by`).

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    sync::{Arc, Mutex},
    time::Duration,
};

use idem_amqp::{
    MemoryStore, Queue, QueueType, Worker, WorkerBuilder, executor::ExecutionKind as Kind,
    prelude::*, worker::Health,
};
use idem_servers::{Server as _, rabbitmq::RabbitMq};
use idem_tests::{
    bed::{Bed, QUICK, dead, persistent},
    cell::{Cell, LeasedOnMemory},
    journal::{Journal, eventually},
    laddered::{DELAY, laddered},
    proxy::Proxy,
    queue_type::under_test,
    running::{Running, assert_balance},
    servers::off_thread,
};
use lapin::types::{AMQPValue, FieldTable};
use serde::{Deserialize, Serialize};
use tokio::{sync::Semaphore, time::sleep};

use crate::streams::{mark, mark_key, stream, stream_bed};

/// The number-th posting to an account.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Posting {
    account: String,
    number: u32,
}

impl Posting {
    fn new(account: &str, number: u32) -> Self {
        let account = account.into();
        Self { account, number }
    }
}

/// The worker's state: what becomes of a posting at its so-many-th attempt, and what was seen of it.
#[derive(Clone)]
struct Book {
    fails: fn(&Posting, u32) -> bool,
    /// Between the attempts of one that fails.
    apart: Duration,
    /// If there is one, each call needs a permit.
    gate: Option<Arc<Semaphore>>,
    running: Arc<Mutex<BTreeSet<String>>>,
    /// How many ran at once at most.
    most: Arc<Mutex<usize>>,
    calls: Journal<Posting>,
    posted: Journal<Posting>,
}

impl Book {
    fn new() -> Self {
        Self {
            fails: |_, _| false,
            apart: Duration::from_millis(20),
            gate: None,
            running: Arc::default(),
            most: Arc::default(),
            calls: Journal::default(),
            posted: Journal::default(),
        }
    }

    fn failing(fails: fn(&Posting, u32) -> bool) -> Self {
        Self {
            fails,
            ..Self::new()
        }
    }

    fn gated() -> (Self, Arc<Semaphore>) {
        let gate = Arc::new(Semaphore::new(0));
        let book = Self {
            gate: Some(Arc::clone(&gate)),
            ..Self::new()
        };
        (book, gate)
    }

    async fn post(self, posting: Posting, attempt: Attempt) -> Result<(), Failed> {
        self.calls.write(posting.clone());
        let at_it = self.begin(&posting);
        if let Some(gate) = &self.gate {
            gate.acquire().await?.forget();
        }
        sleep(Duration::from_millis(10)).await;
        drop(at_it);
        if posting.account == "unknown" {
            return Err(Failed::rejected("there is no such account"));
        }
        if (self.fails)(&posting, attempt.number()) {
            return Err(Failed::retry_after(self.apart, "the ledger is locked"));
        }
        self.posted.write(posting);
        Ok(())
    }

    fn begin(&self, posting: &Posting) -> AtIt {
        let mut running = self.running.lock().unwrap();
        let is_alone = running.insert(posting.account.clone());
        assert!(is_alone, "{posting:?} runs beside another of its account");
        let mut most = self.most.lock().unwrap();
        *most = running.len().max(*most);
        AtIt {
            account: posting.account.clone(),
            running: Arc::clone(&self.running),
        }
    }

    /// What was posted to an account, in order.
    fn posted_to(&self, account: &str) -> Vec<u32> {
        numbers(&self.posted.entries(), account)
    }

    fn most_at_once(&self) -> usize {
        *self.most.lock().unwrap()
    }
}

/// A call for an account, also one that is dropped before its end.
struct AtIt {
    account: String,
    running: Arc<Mutex<BTreeSet<String>>>,
}

impl Drop for AtIt {
    fn drop(&mut self) {
        self.running.lock().unwrap().remove(&self.account);
    }
}

fn numbers(postings: &[Posting], account: &str) -> Vec<u32> {
    let of_account = postings.iter().filter(|one| one.account == account);
    of_account.map(|one| one.number).collect()
}

#[idempotent(
    key = ["account", "number"],
    ordered_by = "account",
    scope = "books.post",
    lease = "2s"
)]
async fn post(posting: Posting, State(book): State<Book>, attempt: Attempt) -> Result<(), Failed> {
    book.post(posting, attempt).await
}

/// The same, where others may overtake one that has failed.
#[idempotent(
    key = ["account", "number"],
    ordered_by = "account",
    overtake = "failed",
    scope = "books.post-overtaking"
)]
async fn post_overtaking(
    posting: Posting,
    State(book): State<Book>,
    attempt: Attempt,
) -> Result<(), Failed> {
    book.post(posting, attempt).await
}

/// The same, by what stands in a header.
#[idempotent(
    key = ["account", "number"],
    ordered_by = header("x-account"),
    scope = "books.post-by-header"
)]
async fn post_by_header(
    posting: Posting,
    State(book): State<Book>,
    attempt: Attempt,
) -> Result<(), Failed> {
    book.post(posting, attempt).await
}

fn posting(book: &Book, queue: Queue) -> WorkerBuilder<MemoryStore, Book> {
    let worker = Worker::builder(MemoryStore::new()).state(book.clone());
    worker.consume::<post>(queue)
}

/// Ten postings to each of three accounts, by turns.
async fn send(bed: &Bed) {
    for number in 0..10 {
        for account in ["a", "b", "c"] {
            bed.json(&Posting::new(account, number)).await;
        }
    }
}

fn assert_in_order(book: &Book) {
    for account in ["a", "b", "c"] {
        let posted = book.posted_to(account);
        assert_eq!(posted, (0..10).collect::<Vec<_>>(), "{account}");
    }
}

/// Thirty messages of three keys come at once to a handler that is ordered by this key.
///
/// - does: runs those of one key one after the other, as they came, and those of different keys at once
/// - atomic: once each
/// - leased: once each
#[tokio::test]
async fn messages_of_one_key_run_one_after_the_other_and_keys_at_once() {
    let (bed, book) = (Bed::new().await, Book::new());
    send(&bed).await;
    let worker = bed.start(posting(&book, bed.queue()));
    worker.ended(Kind::Executed, 30).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, 30)]);
    assert_in_order(&book);
    assert_eq!(book.most_at_once(), 3);
    bed.assert_nothing_stuck().await;
}

/// Thirty messages of three keys are in a stream, and one of them fails for longer than the first rung of the ladder.
///
/// - does: as with a queue; the failed one is tried again at its place, not by the ladder
/// - atomic: once each
/// - leased: once each
#[tokio::test]
async fn messages_of_one_key_in_a_stream_run_one_after_the_other_and_keys_at_once() {
    let bed = stream_bed().await;
    let book = Book {
        apart: DELAY,
        ..Book::failing(|posting, attempt| *posting == Posting::new("b", 3) && attempt == 1)
    };
    let store = MemoryStore::new();
    send(&bed).await;
    let worker = Worker::builder(store.clone()).state(book.clone());
    let worker = bed.start(worker.consume_stream::<post>(stream(&bed).prefetch(32)));
    worker.ended(Kind::Executed, 30).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, 30)]);
    assert_in_order(&book);
    assert_eq!(book.most_at_once(), 3);
    let called = numbers(&book.calls.entries(), "b");
    assert_eq!(called, [0, 1, 2, 3, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(mark(&store, &mark_key(&bed, "books.post")).await, Some(30));
}

/// The same by a header, which some messages do not have.
///
/// - does: those without the header wait for none
/// - atomic: once each
/// - leased: once each
#[tokio::test]
async fn messages_without_the_key_wait_for_none() {
    let (bed, (book, gate)) = (Bed::new().await, Book::gated());
    let mut headers = FieldTable::default();
    headers.insert("x-account".into(), AMQPValue::LongString("a".into()));
    let properties = persistent().with_headers(headers);
    // Each for itself to the handler, which looks at that.
    for account in ["a", "b", "c"] {
        let body = serde_json::to_vec(&Posting::new(account, 0)).unwrap();
        bed.send(bed.name(), &body, properties.clone()).await;
    }
    for account in ["d", "e"] {
        bed.json(&Posting::new(account, 0)).await;
    }
    let worker = Worker::builder(MemoryStore::new()).state(book.clone());
    let worker = bed.start(worker.consume::<post_by_header>(bed.queue()));
    let calls = book.calls.count("those without the header run", 3).await;
    let begun: BTreeSet<_> = calls.iter().map(|one| &*one.account).collect();
    assert_eq!(begun, BTreeSet::from(["a", "d", "e"]));
    gate.add_permits(5);
    worker.ended(Kind::Executed, 5).await;
    let posted = book.calls.entries().split_off(3);
    let posted: Vec<_> = posted.iter().map(|one| &*one.account).collect();
    assert_eq!(posted, ["b", "c"]);
    assert_balance(&worker.stop().await, [(Kind::Executed, 5)]);
    bed.assert_nothing_stuck().await;
}

/// A posting fails twice; its attempts are to be apart by this.
async fn waits_for_a_failed_one(queue: impl FnOnce(&Bed) -> Queue, apart: Duration) {
    let bed = Bed::with_vhost().await;
    let queue = queue(&bed);
    bed.declare(&queue).await;
    let book = Book {
        apart,
        ..Book::failing(|posting, attempt| *posting == Posting::new("a", 3) && attempt < 3)
    };
    send(&bed).await;
    let worker = bed.start(posting(&book, queue));
    worker.ended(Kind::Executed, 30).await;
    assert_in_order(&book);
    let called = numbers(&book.calls.entries(), "a");
    assert_eq!(called, [0, 1, 2, 3, 3, 3, 4, 5, 6, 7, 8, 9]);
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 30)]);
    bed.assert_nothing_stuck().await;
}

/// One of them fails, and is tried again at the worker (`local_retries`).
///
/// - does: those of its key wait until it is done; it does not go back to its queue
/// - atomic: once each
/// - leased: once each
#[tokio::test]
async fn those_behind_a_failed_message_wait_for_it() {
    waits_for_a_failed_one(|bed| bed.queue().local_retries(), DELAY / 10).await;
}

/// One of them fails, on a queue with a ladder that has a rung for it.
///
/// - does: those of its key wait until it is done; it does not go to the ladder
/// - atomic: once each
/// - leased: once each
#[tokio::test]
async fn those_behind_a_failed_message_wait_for_it_beside_a_ladder() {
    waits_for_a_failed_one(|bed| laddered(bed.queue()), DELAY).await;
}

/// More of them fail at once than may wait (`max_waiting`).
///
/// - does: keeps their places all the same, and others run meanwhile
/// - atomic: once each
/// - leased: once each
#[tokio::test]
async fn more_may_fail_than_may_wait() {
    let bed = Bed::with_vhost().await;
    let queue = laddered(bed.queue()).concurrency(1).max_waiting(1);
    bed.declare(&queue).await;
    let book = Book {
        apart: DELAY,
        ..Book::failing(|posting, attempt| {
            posting.account != "c" && posting.number == 0 && attempt < 3
        })
    };
    send(&bed).await;
    let worker = bed.start(posting(&book, queue));
    worker.ended(Kind::Executed, 30).await;
    assert_in_order(&book);
    let posted = book.posted.entries();
    let others = posted.iter().position(|one| one.account != "c");
    assert!(others > Some(2), "the third runs meanwhile: {posted:?}");
    assert_balance(&worker.stop().await, [(Kind::Executed, 30)]);
    bed.assert_nothing_stuck().await;
}

/// A posting fails once, and others may overtake it.
async fn is_overtaken(queue: impl FnOnce(&Bed) -> Queue) {
    let bed = Bed::with_vhost().await;
    let queue = queue(&bed);
    bed.declare(&queue).await;
    let book = Book {
        apart: DELAY,
        ..Book::failing(|posting, attempt| *posting == Posting::new("a", 3) && attempt < 2)
    };
    send(&bed).await;
    let worker = Worker::builder(MemoryStore::new()).state(book.clone());
    let worker = bed.start(worker.consume::<post_overtaking>(queue));
    worker.ended(Kind::Executed, 30).await;
    assert_eq!(book.posted_to("a"), [0, 1, 2, 4, 5, 6, 7, 8, 9, 3]);
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 30), (Kind::Failed, 1)]);
    bed.assert_nothing_stuck().await;
}

/// One of them fails, and others may overtake it (`overtake = "failed"`).
///
/// - does: goes to the ladder; those of its key go on, and it runs when it comes back
/// - atomic: once each
/// - leased: once each
#[tokio::test]
async fn a_failed_message_is_overtaken_if_it_may_be() {
    is_overtaken(|bed| laddered(bed.queue())).await;
}

/// The same without a ladder (`local_retries`).
///
/// - does: waits for its return to the queue; those of its key go on meanwhile
/// - atomic: once each
/// - leased: once each
#[tokio::test]
async fn a_failed_message_is_overtaken_while_it_waits_to_be_returned() {
    is_overtaken(|bed| bed.queue().local_retries()).await;
}

/// One of them is dead-lettered: rejected, or after its last attempt.
///
/// - does: those of its key go on
/// - atomic: once each; not at all
/// - leased: once each; not at all
#[tokio::test]
async fn those_behind_a_dead_letter_go_on() {
    let bed = Bed::new().await;
    let book = Book::failing(|posting, _| *posting == Posting::new("a", 3));
    send(&bed).await;
    for number in 0..2 {
        bed.json(&Posting::new("unknown", number)).await;
    }
    bed.send(bed.name(), b"{", persistent()).await;
    let worker = bed.start(posting(&book, bed.queue()));
    worker.ended(Kind::Executed, 29).await;
    worker.ended(Kind::Rejected, 2).await;
    worker.ended(Kind::Exhausted, 1).await;
    worker.ended(Kind::Undecodable, 1).await;
    assert_eq!(book.posted_to("a"), [0, 1, 2, 4, 5, 6, 7, 8, 9]);
    worker.stop().await;
    assert_eq!(bed.drain(&dead(bed.name())).await.len(), 4);
    bed.assert_nothing_stuck().await;
}

/// The link is cut while the first of them runs and the others wait.
///
/// - does: connects again; the handler goes on, and what comes again waits for it
/// - atomic: once each, in order
/// - leased: once each, in order
#[tokio::test]
async fn what_comes_again_waits_for_what_still_runs() {
    let (bed, (book, gate)) = (Bed::new().await, Book::gated());
    for number in 0..4 {
        bed.json(&Posting::new("a", number)).await;
    }
    let proxy = Proxy::open(bed.broker().port()).await;
    let worker = posting(&book, bed.queue());
    let worker = Running::start(worker, bed.url_by(proxy.port(), ""));
    book.calls.count("the first runs", 1).await;
    proxy.cut();
    bed.until_consumed(bed.name(), 1).await;
    bed.json(&Posting::new("b", 0)).await;
    book.calls.count("consumed again, by the new link", 2).await;
    gate.add_permits(5);
    worker.ended(Kind::Executed, 5).await;
    worker.ended(Kind::Duplicate, 1).await;
    assert_eq!(book.posted_to("a"), [0, 1, 2, 3]);
    assert_eq!(numbers(&book.calls.entries(), "a"), [0, 1, 2, 3]);
    let balance = worker.stop().await;
    assert_eq!(balance.of(Kind::Executed), 5);
    bed.assert_nothing_stuck().await;
}

/// The worker is told to stop while the first of them runs and the others wait.
///
/// - does: ends the first, and starts none of the others; a second worker handles them
/// - atomic: once each, in order
/// - leased: once each, in order
#[tokio::test]
async fn a_worker_that_stops_starts_none_that_wait() {
    let (bed, (book, gate)) = (Bed::new().await, Book::gated());
    for number in 0..4 {
        bed.json(&Posting::new("a", number)).await;
    }
    let store = MemoryStore::new();
    let start = || {
        let worker = Worker::builder(store.clone()).state(book.clone());
        bed.start(worker.consume::<post>(bed.queue()))
    };
    let first = start();
    book.calls.count("the first runs", 1).await;
    let health = first.health().clone();
    let stopping = tokio::spawn(first.stop());
    eventually("it starts nothing any more", async || {
        (!health.is_ready()).then_some(()).ok_or("it is ready")
    })
    .await;
    // More than it may use.
    gate.add_permits(4);
    let balance = stopping.await.unwrap();
    assert_eq!(balance.of(Kind::Executed), 1, "{balance}");
    assert_eq!(book.calls.entries(), [Posting::new("a", 0)]);
    let second = start();
    book.posted.count("the second does the rest", 4).await;
    assert_eq!(book.posted_to("a"), [0, 1, 2, 3]);
    second.stop().await;
    bed.assert_nothing_stuck().await;
}

/// A queue with a single active consumer that somebody else has declared.
async fn foreign_single_active(bed: &Bed) -> Queue {
    let queue = bed.another("active");
    let mut arguments = FieldTable::default();
    arguments.insert("x-single-active-consumer".into(), AMQPValue::Boolean(true));
    let kind = match under_test() {
        QueueType::Quorum => "quorum",
        _ => "classic",
    };
    arguments.insert("x-queue-type".into(), AMQPValue::LongString(kind.into()));
    bed.declare_foreign(&queue, arguments).await;
    bed.declare_foreign(&dead(&queue), FieldTable::default())
        .await;
    Queue::existing(queue)
}

/// Two workers consume a queue of which one is active, and that one goes while much waits in the queue.
async fn is_followed_in_order(bed: Bed, queue: Queue, leaves: impl AsyncFnOnce(Running, Proxy)) {
    for number in 0..60 {
        let body = serde_json::to_vec(&Posting::new("a", number)).unwrap();
        bed.send(queue.name(), &body, persistent()).await;
    }
    let (cell, book) = (LeasedOnMemory::open().await, Book::new());
    let worker = || {
        let worker = Worker::builder(cell.store()).state(book.clone());
        worker.consume::<post>(queue.clone().prefetch(8))
    };
    let proxy = Proxy::open(bed.broker().port()).await;
    let one = Running::start(worker(), bed.url_by(proxy.port(), ""));
    book.posted.count("one is active", 1).await;
    let other = bed.start(worker());
    other
        .until("the other one consumes, too", Health::is_ready)
        .await;
    assert!(other.settled.entries().is_empty(), "only one is active");
    leaves(one, proxy).await;
    book.posted.count("the other one does the rest", 60).await;
    let mut called = numbers(&book.calls.entries(), "a");
    // What ran when its worker went may run again.
    called.dedup();
    assert_eq!(called, (0..60).collect::<Vec<_>>());
    other.stop().await;
    bed.assert_nothing_stuck().await;
}

/// Two workers consume a queue with `x-single-active-consumer`, and the active one stops while messages wait in it and
/// in the queue.
///
/// - does: gives back what it has not begun, before the other one is sent what comes after that: it goes on in order
/// - atomic: once each, in order
/// - leased: once each, in order
#[tokio::test]
async fn with_a_single_active_consumer_workers_keep_the_order_when_one_stops() {
    let bed = Bed::bare().await;
    let queue = foreign_single_active(&bed).await;
    is_followed_in_order(bed, queue, async |one, _proxy| {
        one.stop().await;
    })
    .await;
}

/// Shares the promise of `ordered_by::with_a_single_active_consumer_workers_keep_the_order_when_one_stops`.
#[tokio::test]
async fn with_a_single_active_consumer_that_a_worker_declares_workers_keep_the_order() {
    let bed = Bed::bare().await;
    let queue = Queue::of_type(bed.another("active"), under_test()).single_active_consumer();
    bed.declare(&queue).await;
    is_followed_in_order(bed, queue, async |one, _proxy| {
        one.stop().await;
    })
    .await;
}

/// The same, and the active one dies with its link.
///
/// - does: the other one goes on in order; what ran is taken over when its lease has run out, and those behind it wait
/// - atomic: once each, in order
/// - leased: in order; what ran may run twice
#[tokio::test]
async fn with_a_single_active_consumer_workers_keep_the_order_when_one_dies() {
    let bed = Bed::bare().await;
    let queue = foreign_single_active(&bed).await;
    is_followed_in_order(bed, queue, async |one, proxy| {
        // Before its end, at which the client would still cancel its consumer.
        drop(proxy);
        one.vanish().await;
    })
    .await;
}

/// Two workers consume two queues behind a consistent-hash exchange, by whose hash each key has one queue.
///
/// - does: runs those of one key one after the other
/// - atomic: once each, in order
/// - leased: once each, in order
#[tokio::test]
async fn behind_a_consistent_hash_exchange_workers_keep_the_order() {
    let broker = Arc::new(off_thread(RabbitMq::start).await);
    let on = Arc::clone(&broker);
    off_thread(move || enable_consistent_hashes(&on)).await;
    let bed = Bed::on(&broker);
    let (store, book) = (MemoryStore::new(), Book::new());
    let exchange = bed.another("by-account");
    bed.declare_exchange_of("x-consistent-hash", &exchange)
        .await;
    let mut workers = Vec::new();
    for part in ["one", "two"] {
        // The routing key of the binding is the queue's weight.
        let queue = Queue::quorum(bed.another(part)).bind(&exchange, "1");
        let queue = queue.prefetch(16).policy(QUICK);
        bed.declare(&queue).await;
        let worker = Worker::builder(store.clone()).state(book.clone());
        workers.push(bed.start(worker.consume::<post>(queue)));
    }
    let accounts: Vec<_> = (0..20).map(|account| format!("acc-{account}")).collect();
    for number in 0..5 {
        for account in &accounts {
            let body = serde_json::to_vec(&Posting::new(account, number)).unwrap();
            bed.send_by(&exchange, account, &body).await;
        }
    }
    book.posted.count("all are posted", 100).await;
    for account in &accounts {
        assert_eq!(book.posted_to(account), [0, 1, 2, 3, 4], "{account}");
    }
    let mut shares = BTreeMap::new();
    for (place, worker) in workers.into_iter().enumerate() {
        shares.insert(place, worker.stop().await.of(Kind::Executed));
    }
    assert!(shares.values().all(|share| *share > 0), "{shares:?}");
    bed.assert_nothing_stuck().await;
}

/// As `rabbitmq-plugins enable` does.
fn enable_consistent_hashes(broker: &RabbitMq) -> idem_servers::Result<()> {
    let file = broker.folder().join("enabled_plugins");
    fs::write(&file, "[rabbitmq_consistent_hash_exchange].\n").expect("the broker's own folder");
    let ensure = format!("rabbit_plugins:ensure(\"{}\").", file.display());
    broker.rabbitmqctl(["eval", &ensure]).map(drop)
}
