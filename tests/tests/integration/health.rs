//! What a worker says of itself to those who probe it.

use std::{sync::atomic::Ordering::SeqCst, time::Duration};

use idem_amqp::{
    Failed, MemoryStore, Queue, Worker,
    executor::ExecutionKind as Kind,
    worker::{Health, Incident, ProblemKind},
};
use idem_tests::{
    bed::{Bed, QUICK, dead},
    interfered::Interfered,
    proxy::Proxy,
    running::{Running, assert_balance},
    script::{Script, charge},
};
use lapin::types::{AMQPValue, FieldTable};

fn has(health: &Health, kind: &ProblemKind) -> bool {
    health
        .problems()
        .iter()
        .any(|problem| problem.kind == *kind)
}

fn not_consuming(queue: &str) -> ProblemKind {
    let queue = queue.to_owned();
    ProblemKind::NotConsuming { queue }
}

/// The broker is away, at the start or later.
///
/// - does: is failing for as long; ready again when it consumes
#[tokio::test]
async fn a_worker_is_ready_once_it_consumes_and_failing_while_its_broker_is_away() {
    let bed = Bed::new().await;
    let mut proxy = Proxy::closed(bed.broker().port());
    let worker = Worker::builder(MemoryStore::new()).state(Script::succeeding());
    let url = bed.url_by(proxy.port(), "");
    let worker = Running::start(worker.consume::<charge>(bed.queue()), url);
    let refused = |health: &Health| health.incidents().of(Incident::Unreachable) > 1;
    worker.until("it has tried twice", refused).await;
    let health = worker.health().clone();
    assert!(!health.is_ready());
    let told = health.to_string();
    assert!(
        told.starts_with("no connection to the broker for "),
        "{told}"
    );
    assert!(
        health.failing_for() < Some(Duration::from_secs(20)),
        "{told}"
    );
    proxy.listen().await;
    worker.until("it is ready", Health::is_ready).await;
    assert_eq!(health.failing_for(), None);
    assert!(health.broker().unwrap().contains(&proxy.port().to_string()));

    proxy.close().await;
    proxy.cut();
    worker
        .until("the loss is noticed", |health| !health.is_ready())
        .await;
    assert!(has(&health, &ProblemKind::Disconnected));
    assert!(has(&health, &not_consuming(bed.name())));
    proxy.listen().await;
    worker.until("it is ready again", Health::is_ready).await;
    assert_balance(&worker.stop().await, []);
    assert_eq!(health.failing_for(), None);
    assert_eq!(health.to_string(), "drained");
    bed.assert_nothing_stuck().await;
}

/// A worker with two queues of which one cannot be consumed for a while.
async fn one_queue_fails(
    one: Queue,
    bed: &Bed,
    spoil: impl AsyncFnOnce(&Bed, &str),
    mend: impl AsyncFnOnce(&Bed, &str),
) {
    let other = bed.another("other");
    let script = Script::succeeding();
    let name = one.name().to_owned();
    let mut proxy = Proxy::open(bed.broker().port()).await;
    let worker = Worker::builder(MemoryStore::new())
        .state(script.clone())
        .consume::<charge>(one)
        .consume::<charge>(Queue::quorum(&other).policy(QUICK));
    let worker = Running::start(worker, bed.url_by(proxy.port(), ""));
    worker.until("it is ready", Health::is_ready).await;
    // It must not declare its queue again before the test has its own way.
    proxy.close().await;
    proxy.cut();
    bed.until_consumed(&other, 0).await;
    spoil(bed, &name).await;
    proxy.listen().await;

    bed.until_consumed(&other, 1).await;
    let refused = |health: &Health| health.incidents().of(Incident::QueueRefused) > 1;
    worker.until("it has tried twice", refused).await;
    let consumes_other = |health: &Health| !has(health, &not_consuming(&other));
    worker.until("it consumes the other", consumes_other).await;
    let problems = worker.health().problems();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_eq!(problems[0].kind, not_consuming(&name));
    let error = problems[0].error.as_deref().unwrap_or_default();
    assert!(error.contains(&name), "{error}");
    bed.order_to(&other, "a").await;
    worker.ended(Kind::Executed, 1).await;

    mend(bed, &name).await;
    worker.until("it is ready again", Health::is_ready).await;
    bed.order_to(&name, "b").await;
    worker.ended(Kind::Executed, 2).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, 2)]);
    script.assert_effects(["a", "b"]);
}

async fn declare_plainly(bed: &Bed, queue: &str) {
    bed.declare_foreign(queue, FieldTable::default()).await;
}

/// An existing queue is gone after a reconnect.
///
/// - does: names it; consumes the others, and this one when it is back
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn an_existing_queue_that_is_gone_is_told_and_consumed_as_soon_as_it_is_back() {
    let bed = Bed::bare().await;
    for queue in [bed.name().to_owned(), dead(bed.name())] {
        declare_plainly(&bed, &queue).await;
    }
    let queue = Queue::existing(bed.name()).policy(QUICK);
    one_queue_fails(
        queue,
        &bed,
        async |bed, queue| bed.delete(queue).await,
        async |bed, queue| declare_plainly(bed, queue).await,
    )
    .await;
    bed.assert_nothing_stuck().await;
}

/// Existing queues are deleted while their consumers are being renewed, on the worker's first connection.
///
/// - does: tells of it, and waits; consumes them as soon as they are back
/// - atomic: once
/// - leased: once
///
/// At its start a worker ends for a queue that is missing.
#[tokio::test]
async fn existing_queues_that_are_deleted_while_they_are_renewed_are_consumed_when_they_are_back() {
    let bed = Bed::bare().await;
    let script = Script::succeeding();
    // So often that some are between two channels at any time.
    let mut worker = Worker::builder(MemoryStore::new())
        .renew_idle_after(Duration::from_millis(10))
        .state(script.clone());
    let queues: Vec<_> = (0..8).map(|n| bed.another(&n.to_string())).collect();
    for queue in &queues {
        declare_plainly(&bed, queue).await;
        declare_plainly(&bed, &dead(queue)).await;
        worker = worker.consume::<charge>(Queue::existing(queue).policy(QUICK));
    }
    let worker = bed.start(worker);
    worker.until("it is ready", Health::is_ready).await;
    for queue in &queues {
        bed.delete(queue).await;
    }
    let all_gone = |health: &Health| {
        queues
            .iter()
            .all(|queue| has(health, &not_consuming(queue)))
    };
    worker.until("it misses all of them", all_gone).await;
    for queue in &queues {
        declare_plainly(&bed, queue).await;
    }
    worker.until("it is ready again", Health::is_ready).await;
    for queue in &queues {
        bed.order_to(queue, queue).await;
    }
    worker.ended(Kind::Executed, queues.len()).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, 8)]);
    script.assert_effects(queues.iter().map(String::as_str));
    bed.assert_nothing_stuck().await;
}

/// A queue has other arguments after a reconnect.
///
/// - does: names it; consumes the others, and this one when its arguments are right again
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_queue_that_came_to_differ_is_told_and_consumed_as_soon_as_it_is_right() {
    let bed = Bed::new().await;
    one_queue_fails(
        bed.queue(),
        &bed,
        async |bed, queue| {
            bed.delete(queue).await;
            let mut arguments = FieldTable::default();
            arguments.insert("x-max-length".into(), AMQPValue::LongInt(5));
            bed.declare_foreign(queue, arguments).await;
        },
        async |bed, queue| bed.delete(queue).await,
    )
    .await;
    bed.assert_nothing_stuck().await;
}

/// The permission to read a queue is taken away.
///
/// - does: names it; consumes the others, and this one when the permission is back
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_permission_that_was_taken_away_is_told_and_heals_when_it_is_given_back() {
    let bed = Bed::with_vhost().await;
    let permit = async |bed: &Bed, read: String| {
        let ctl = ["set_permissions", "-p", bed.vhost(), "guest", ".*", ".*"];
        let ctl = ctl.map(str::to_owned).into_iter().chain([read]);
        let (broker, ctl): (_, Vec<_>) = (bed.broker().clone(), ctl.collect());
        idem_tests::servers::off_thread(move || broker.rabbitmqctl(ctl)).await;
    };
    one_queue_fails(
        bed.queue(),
        &bed,
        async |bed, queue| permit(bed, format!("^(?!{queue}$)")).await,
        async |bed, _| permit(bed, ".*".into()).await,
    )
    .await;
    bed.assert_nothing_stuck().await;
}

/// The broker cancels the consumer.
///
/// - does: counts it, consumes again
#[tokio::test]
async fn a_consumer_that_the_broker_cancelled_is_counted_and_replaced() {
    let bed = Bed::new().await;
    let script = Script::succeeding();
    let worker = bed.charging(MemoryStore::new(), &script);
    worker.until("it is ready", Health::is_ready).await;
    bed.delete(bed.name()).await;
    let cancelled = |health: &Health| health.incidents().of(Incident::ConsumerCancelled) == 1;
    worker.until("it was told", cancelled).await;
    worker.until("it is ready again", Health::is_ready).await;
    bed.order("a").await;
    worker.ended(Kind::Executed, 1).await;
    let balance = worker.stop().await;
    assert_eq!(balance.incidents().to_string(), "consumer-cancelled=1");
    bed.assert_nothing_stuck().await;
}

/// The store is away, and health is asked.
///
/// - does: is failing until the store answers an execution, or no message waits for it
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_store_that_is_away_is_told_until_it_answers() {
    let bed = Bed::new().await;
    let (store, away) = Interfered::switched(MemoryStore::new());
    let script = Script::succeeding();
    let worker = bed.charging(store, &script);
    worker.until("it is ready", Health::is_ready).await;
    away.store(true, SeqCst);
    bed.order("a").await;
    let told = |health: &Health| has(health, &ProblemKind::StoreUnavailable);
    worker.until("the outage is told", told).await;
    let health = worker.health().to_string();
    assert!(health.contains("refused by the test"), "{health}");
    away.store(false, SeqCst);
    worker.until("it is over", Health::is_ready).await;
    worker.ended(Kind::Executed, 1).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, 1)]);
    bed.assert_nothing_stuck().await;
}

/// Dead letters or retries cannot be published.
///
/// - does: is not ready, and says why; is ready again when they can be published
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_dead_letter_that_cannot_be_published_is_told_until_its_queue_is_back() {
    let bed = Bed::bare().await;
    for queue in [bed.name().to_owned(), dead(bed.name())] {
        declare_plainly(&bed, &queue).await;
    }
    let script = Script::new(async |_| Err(Failed::rejected("no such order")));
    let worker = Worker::builder(MemoryStore::new()).state(script.clone());
    let worker = worker.consume::<charge>(Queue::existing(bed.name()).policy(QUICK));
    let worker = bed.start(worker);
    worker.until("it is ready", Health::is_ready).await;
    bed.delete(&dead(bed.name())).await;
    bed.order("a").await;
    let queue = bed.name().to_owned();
    let unpublished = ProblemKind::Unpublished { queue };
    let told = |health: &Health| has(health, &unpublished);
    worker.until("the message waits", told).await;
    let health = worker.health();
    assert_eq!((health.failing_for(), health.is_ready()), (None, false));
    let told = health.to_string();
    assert!(told.contains(&dead(bed.name())), "{told}");

    declare_plainly(&bed, &dead(bed.name())).await;
    worker.until("it is ready again", Health::is_ready).await;
    assert_eq!(bed.dead_letter().await.reason(), "rejected");
    assert_balance(&worker.stop().await, [(Kind::Rejected, 1)]);
    assert_eq!(script.attempts(), [1]);
    bed.assert_nothing_stuck().await;
}

/// A handler takes long, or the worker drains.
///
/// - does: is not failing
#[tokio::test]
async fn a_worker_whose_handler_takes_long_is_not_failing_nor_is_one_that_drains() {
    let bed = Bed::new().await;
    let hanging = Script::hanging();
    let worker = Worker::builder(MemoryStore::new())
        .state(hanging.clone())
        .grace(Duration::from_millis(500))
        .consume::<charge>(bed.queue());
    let worker = bed.start(worker);
    bed.order("a").await;
    hanging.calls.count("the handler runs", 1).await;
    let health = worker.health().clone();
    assert!(health.is_ready(), "{health}");
    let (balance, ()) = tokio::join!(worker.stop(), async {
        idem_tests::journal::eventually("it drains", async || match health.to_string() {
            told if told == "draining" => Ok(()),
            told => Err(told),
        })
        .await;
        assert_eq!((health.failing_for(), health.is_ready()), (None, false));
    });
    assert_balance(&balance, [(Kind::Interrupted, 1)]);
    bed.until_waiting(1).await;
    bed.delete(bed.name()).await;
    bed.assert_nothing_stuck().await;
}

/// The worker ended inside its process although nobody told it to.
///
/// - does: is failing from then on
#[tokio::test]
async fn a_worker_that_vanished_inside_its_process_is_failing() {
    let bed = Bed::new().await;
    let worker = bed.charging(MemoryStore::new(), &Script::succeeding());
    worker.until("it is ready", Health::is_ready).await;
    let health = worker.health().clone();
    worker.vanish().await;
    let problems = health.problems();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_eq!(problems[0].kind, ProblemKind::Ended);
    assert!(health.failing_for().is_some());
    bed.assert_nothing_stuck().await;
}
