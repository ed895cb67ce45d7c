//! What comes between a request and its reply.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use idem_amqp::{
    MemoryStore, Worker,
    executor::ExecutionKind as Kind,
    worker::{Health, Incident, ProblemKind, ReplyOutcome},
};
use idem_servers::Broker;
use idem_tests::{
    bed::Bed,
    interfered::{Call, Fate, Interfered},
    ledger::{Charge, Ledger},
    process::{Crash, Mode, Process, Settings},
    proxy::Proxy,
    requester::Requester,
    running::{Running, assert_balance},
    script::Script,
    servers::off_thread,
    store_at::Product,
};
use lapin::types::{AMQPValue, FieldTable};
use serde_json::json;
use tokio::sync::Semaphore;

use crate::replies::{order, quote, quoting};

const LEDGER_WORKER: &str = env!("CARGO_BIN_EXE_ledger-worker");

/// A worker dies after the completion of a request and before its reply.
async fn replied_by_the_next_worker(store: Product, mode: Mode) {
    let bed = Bed::new().await;
    let ledger = Ledger::on(store).await;
    let requester = Requester::on(&bed).await;
    let next = Settings::new(bed.url(), bed.name(), &ledger).with(|settings| {
        settings.mode = mode;
        settings.name = "next".into();
    });
    let dying = next.with(|settings| {
        settings.name = "dying".into();
        settings.crash = Some(Crash::AfterCompletion(1));
    });
    let dying = Process::start(LEDGER_WORKER, &dying);
    requester.ask(bed.name(), &order("a"), "c-1").await;
    dying.died().await;
    let next = Process::start(LEDGER_WORKER, &next);
    let reply = requester.reply().await;
    assert_eq!(reply.json(), json!(null));
    assert_eq!((reply.correlation(), reply.is_replayed()), ("c-1", true));
    next.ended("duplicate", 1).await;
    next.stop().await;
    assert_eq!(ledger.charges().await, [Charge::new("a", 1, "dying")]);
    bed.assert_nothing_stuck().await;
}

/// A worker is killed between completion and reply.
///
/// - does: lets the next worker reply from memory
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_worker_killed_between_commit_and_reply_is_followed_by_one_that_replies_from_postgres() {
    replied_by_the_next_worker(Product::Postgres, Mode::Atomic).await;
}

/// Shares the promise of
/// `reply_faults::a_worker_killed_between_commit_and_reply_is_followed_by_one_that_replies_from_postgres`.
#[tokio::test]
async fn a_worker_killed_between_commit_and_reply_is_followed_by_one_that_replies_from_sqlite() {
    replied_by_the_next_worker(Product::Sqlite, Mode::Atomic).await;
}

/// Shares the promise of
/// `reply_faults::a_worker_killed_between_commit_and_reply_is_followed_by_one_that_replies_from_postgres`.
#[tokio::test]
async fn a_worker_killed_between_completion_and_reply_is_followed_by_one_that_replies_from_redis() {
    replied_by_the_next_worker(Product::Redis, Mode::Leased).await;
}

/// The worker's link to the broker breaks before the reply.
///
/// - does: replies when the request is redelivered
/// - atomic: once
/// - leased: once
///
/// With the connection that the request came by, its reply goes, too.
#[tokio::test]
async fn a_link_cut_while_the_handler_runs_delays_the_reply() {
    let bed = Bed::new().await;
    let requester = Requester::on(&bed).await;
    let proxy = Proxy::open(bed.broker().port()).await;
    let go_on = Arc::new(Semaphore::new(0));
    let waiting = Arc::clone(&go_on);
    let script = Script::new(move |_| {
        let waiting = Arc::clone(&waiting);
        async move {
            waiting.acquire().await?.forget();
            Ok(())
        }
    });
    let worker = Worker::builder(MemoryStore::new()).state(script.clone());
    let worker = worker.consume::<quote>(bed.queue());
    let worker = Running::start(worker, bed.url_by(proxy.port(), "").as_str());
    requester.ask(bed.name(), &order("a"), "c-1").await;
    script.calls.count("the handler runs", 1).await;
    proxy.cut();
    let lost = |health: &Health| health.incidents().of(Incident::ConnectionBroken) == 1;
    worker.until("the worker has noticed", lost).await;
    go_on.add_permits(1);

    let reply = requester.reply().await;
    assert_eq!(reply.json(), json!({"attempt": 1}));
    worker.ended(Kind::Duplicate, 1).await;
    worker.stop().await;
    script.assert_effects(["a"]);
    bed.assert_nothing_stuck().await;
}

/// The store does not answer whether a completion was recorded.
///
/// - does: sends no reply before the store has answered
/// - atomic: once
/// - leased: once
///
/// Whoever is told must not be told otherwise later.
#[tokio::test]
async fn no_reply_is_sent_before_the_completion_is_known() {
    const TRIES: usize = 3;
    let bed = Bed::new().await;
    let requester = Requester::on(&bed).await;
    let tries = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&tries);
    let store = Interfered::new(MemoryStore::new(), move |call, _| match call {
        Call::Complete if counted.fetch_add(1, SeqCst) + 1 < TRIES => Fate::Refuse,
        _ => Fate::Pass,
    });
    let script = Script::succeeding();
    let worker = Worker::builder(store).state(script.clone());
    let worker = bed.start(worker.consume::<quote>(bed.queue()));
    requester.ask(bed.name(), &order("a"), "c-1").await;
    let reply = requester.reply().await;
    assert_eq!(tries.load(SeqCst), TRIES);
    assert_eq!(reply.json(), json!({"attempt": 1}));
    assert_balance(&worker.stop().await, [(Kind::Executed, 1)]);
    script.assert_effects(["a"]);
    bed.assert_nothing_stuck().await;
}

/// The requester's queue takes nothing (full).
///
/// - does: tries five times, counts the reply as lost, acknowledges the request; whoever asks again gets it
/// - atomic: once
/// - leased: once
///
/// The queue is there, and takes nothing.
#[tokio::test]
async fn a_reply_that_its_queue_refuses_is_given_up_and_had_by_asking_again() {
    let bed = Bed::new().await;
    let full = bed.another("replies");
    let mut arguments = FieldTable::default();
    arguments.insert("x-max-length".into(), 1.into());
    let reject = AMQPValue::LongString("reject-publish".into());
    arguments.insert("x-overflow".into(), reject);
    bed.declare_foreign(&full, arguments).await;
    let request = || {
        idem_tests::bed::persistent()
            .with_reply_to(full.as_str().into())
            .with_correlation_id("c-1".into())
    };
    bed.send(&full, b"in the way", idem_tests::bed::persistent())
        .await;
    let script = Script::succeeding();
    let worker = quoting(&bed, MemoryStore::new(), &script);
    bed.send(bed.name(), &order("a"), request()).await;
    worker.ended(Kind::Executed, 1).await;
    let settled = worker.settled.entries();
    assert_eq!(settled[0].reply, Some(ReplyOutcome::Lost));

    bed.drain(&full).await;
    bed.send(bed.name(), &order("a"), request()).await;
    worker.ended(Kind::Duplicate, 1).await;
    let replies = bed.drain(&full).await;
    assert_eq!(replies.len(), 1);
    assert_eq!(
        replies[0].value("idem-replayed"),
        Some(&AMQPValue::Boolean(true))
    );
    let balance = worker.stop().await;
    assert_eq!((balance.replies().sent, balance.replies().lost), (1, 1));
    script.assert_effects(["a"]);
    bed.assert_nothing_stuck().await;
}

/// A queue whose process is suspended: it takes messages, and confirms none.
pub(crate) struct Mute {
    broker: Broker,
    vhost: String,
    pub(crate) queue: String,
}

impl Mute {
    pub(crate) async fn declare(bed: &Bed) -> Self {
        let queue = bed.another("mute");
        bed.declare_foreign(&queue, FieldTable::default()).await;
        let mute = Self {
            broker: bed.broker().clone(),
            vhost: bed.vhost().to_owned(),
            queue,
        };
        mute.tell("suspend").await;
        mute
    }

    pub(crate) async fn speak(&self) {
        self.tell("resume").await;
    }

    async fn tell(&self, what: &str) {
        let Self {
            broker,
            vhost,
            queue,
        } = self;
        let tell = format!(
            "{{ok, Q}} = rabbit_amqqueue:lookup(rabbit_misc:r(<<\"{vhost}\">>, queue, <<\"{queue}\">>)), \
             ok = sys:{what}(amqqueue:get_pid(Q))."
        );
        let broker = broker.clone();
        off_thread(move || broker.rabbitmqctl(["eval", &tell])).await;
    }
}

/// The requester's queue never confirms.
///
/// - does: tries for as long as ten confirms are waited for; retries and dead letters of other messages do not wait for
///   it; the refusal of a dead-lettered request is given up after 5 s
/// - atomic: once
/// - leased: once
///
/// What is published for others must not wait for a confirm that does not come.
#[tokio::test]
async fn a_reply_that_is_not_confirmed_keeps_no_dead_letter_waiting() {
    let bed = Bed::with_vhost().await;
    bed.declare(&bed.queue()).await;
    let mute = Mute::declare(&bed).await;
    let script = Script::succeeding();
    let worker = quoting(&bed, MemoryStore::new(), &script);
    let request = idem_tests::bed::persistent().with_reply_to(mute.queue.as_str().into());
    let requested = Instant::now();
    bed.send(bed.name(), &order("a"), request).await;
    script.calls.count("the request is handled", 1).await;

    let sent = Instant::now();
    bed.send(bed.name(), b"no order", idem_tests::bed::persistent())
        .await;
    assert_eq!(bed.dead_letter().await.reason(), "undecodable");
    // A confirm is waited for for 30 s.
    let waited = sent.elapsed();
    assert!(waited < Duration::from_secs(20), "{waited:?}");
    worker.ended(Kind::Undecodable, 1).await;
    assert_eq!(worker.settled.entries().len(), 1, "the reply waits");

    mute.speak().await;
    worker.ended(Kind::Executed, 1).await;
    // Once, and once more for each confirm that did not come in its 30 s.
    let at_most = 1 + requested.elapsed().as_secs() / 30;
    let replies = bed.drain(&mute.queue).await.len() as u64;
    assert!((1..=at_most).contains(&replies), "{replies} of {at_most}");
    assert_eq!(worker.stop().await.replies().sent, 1);
    bed.assert_nothing_stuck().await;
}

/// Shares the promise of `reply_faults::a_reply_that_is_not_confirmed_keeps_no_dead_letter_waiting`.
///
/// It is where a person finds it, and is not remembered: nothing is gained by trying for long.
#[tokio::test]
async fn a_refusal_that_is_not_confirmed_keeps_no_message_for_long() {
    let bed = Bed::with_vhost().await;
    bed.declare(&bed.queue()).await;
    let mute = Mute::declare(&bed).await;
    let worker = quoting(&bed, MemoryStore::new(), &Script::succeeding());
    let request = idem_tests::bed::persistent().with_reply_to(mute.queue.as_str().into());
    bed.send(bed.name(), b"no order", request).await;
    assert_eq!(bed.dead_letter().await.reason(), "undecodable");
    worker.ended(Kind::Undecodable, 1).await;
    let settled = worker.settled.entries();
    assert_eq!(settled[0].reply, Some(ReplyOutcome::Lost));

    mute.speak().await;
    assert_eq!(worker.stop().await.replies().lost, 1);
    bed.drain(&mute.queue).await;
    bed.assert_nothing_stuck().await;
}

/// There is no connection for a reply.
///
/// - does: tries until there is one; meanwhile is not ready, and says why
/// - atomic: once
/// - leased: once
///
/// Replies have a connection of their own, which is opened with the first.
#[tokio::test]
async fn a_reply_that_waits_for_a_connection_is_told_until_it_was_sent() {
    let bed = Bed::with_vhost().await;
    bed.declare(&bed.queue()).await;
    let requester = Requester::on(&bed).await;
    let script = Script::succeeding();
    let worker = quoting(&bed, MemoryStore::new(), &script);
    worker.until("it is ready", Health::is_ready).await;
    let limit = async |command: &str, limits: Option<&str>| {
        let broker = bed.broker().clone();
        let arguments = [Some(command), Some("-p"), Some(bed.vhost()), limits];
        let arguments: Vec<_> = arguments.into_iter().flatten().map(String::from).collect();
        off_thread(move || broker.rabbitmqctl(arguments)).await;
    };
    limit("set_vhost_limits", Some(r#"{"max-connections": 0}"#)).await;
    requester.ask(bed.name(), &order("a"), "c-1").await;
    let queue = bed.name().to_owned();
    let waits = ProblemKind::Unpublished { queue };
    let told = |health: &Health| health.problems().iter().any(|it| it.kind == waits);
    worker.until("it says that the reply waits", told).await;
    assert!(!worker.health().is_ready());
    assert!(worker.settled.entries().is_empty());

    limit("clear_vhost_limits", None).await;
    assert_eq!(requester.reply().await.json(), json!({"attempt": 1}));
    worker.until("it is ready again", Health::is_ready).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, 1)]);
    script.assert_effects(["a"]);
    bed.assert_nothing_stuck().await;
}
