//! Which queues have a retry ladder, and who declares it.

use std::time::Duration;

use futures_util::future::join_all;
use idem_amqp::{
    BuildError, MemoryStore, Publication, Publisher, Queue, RunError, Worker,
    executor::ExecutionKind as Kind, worker::Settlement,
};
use idem_servers::rabbitmq::Version;
use idem_tests::{
    bed::{Bed, QUICK, dead, persistent},
    laddered::{DELAY, SECOND_RUNG, body, failing_until, laddered, rungs, start},
    running::{Running, assert_balance},
    script::{Order, charge, notify},
    servers::off_thread,
};
use lapin::types::FieldTable;

const A_DAY: Duration = Duration::from_hours(24);

/// An existing queue asks for the ladder.
///
/// - does: binds it to `idem.return`, declares nothing else of it
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn an_existing_queue_has_a_ladder_if_it_is_asked_for() {
    let bed = Bed::with_vhost().await;
    for queue in [bed.name(), &dead(bed.name())] {
        bed.declare_foreign(queue, FieldTable::default()).await;
    }
    let script = failing_until(2, DELAY);
    let queue = laddered(Queue::existing(bed.name()).policy(QUICK));
    let worker = start(&bed, &MemoryStore::new(), &script, queue);
    bed.order("a").await;

    worker.ended(Kind::Executed, 1).await;
    let after = SECOND_RUNG;
    let settled = worker.settled.entries();
    assert_eq!(settled[0].settlement, Settlement::Retry { after });
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Failed, 1), (Kind::Executed, 1)]);
    bed.assert_nothing_stuck().await;
}

/// A queue has no ladder.
///
/// - does: declares none, keeps the message and returns it when it is due
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_queue_without_ladder_declares_none() {
    let bed = Bed::with_vhost().await;
    let queue = bed.queue().local_retries();
    bed.declare(&queue).await;
    let script = failing_until(2, DELAY);
    let worker = start(&bed, &MemoryStore::new(), &script, queue);
    bed.order("a").await;

    worker.ended(Kind::Executed, 1).await;
    let settled = worker.settled.entries();
    let after = DELAY;
    assert_eq!(settled[0].settlement, Settlement::Requeue { after });
    assert_eq!(bed.waiting("idem.retry.1s").await, None);
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Failed, 1), (Kind::Executed, 1)]);
    bed.assert_nothing_stuck().await;
}

/// Workers of one vhost have different ladders.
///
/// - does: lets them share the rungs that are the same
/// - atomic: once each
/// - leased: once each
#[tokio::test]
async fn workers_with_different_ladders_share_a_vhost() {
    let bed = Bed::with_vhost().await;
    let other = bed.another("other");
    let script = failing_until(2, DELAY);
    let worker = Worker::builder(MemoryStore::new())
        .state(script.clone())
        .consume::<charge>(laddered(bed.queue()))
        .consume::<notify>(
            Queue::quorum(&other)
                .policy(QUICK)
                .ladder(rungs([SECOND_RUNG, A_DAY])),
        );
    let worker = bed.start(worker);
    for queue in [bed.name(), &other] {
        bed.until_consumed(queue, 1).await;
        bed.send(queue, &body("a"), persistent()).await;
    }

    worker.ended(Kind::Executed, 2).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Failed, 2), (Kind::Executed, 2)]);
    bed.assert_nothing_stuck().await;
}

/// Many workers start at once in an empty vhost.
///
/// - does: declares one ladder
/// - atomic: once each
/// - leased: once each
#[tokio::test]
async fn many_workers_that_start_at_once_declare_one_ladder() {
    let bed = Bed::with_vhost().await;
    let script = failing_until(2, DELAY);
    let store = MemoryStore::new();
    let workers: Vec<_> = (0..8)
        .map(|_| start(&bed, &store, &script, laddered(bed.queue())))
        .collect();
    bed.until_consumed(bed.name(), 8).await;
    let ids: Vec<_> = (0..40).map(|number| format!("o-{number}")).collect();
    for id in &ids {
        bed.order(id).await;
    }

    script.effects.count("all take effect", ids.len()).await;
    bed.until_settled().await;
    let (broker, vhost) = (bed.broker().clone(), bed.vhost().to_owned());
    let listed = off_thread(move || broker.list_queues(&vhost)).await;
    let mut names: Vec<_> = listed.into_iter().map(|queue| queue.name).collect();
    names.sort();
    let one_ladder = ["idem.retry.200ms", "idem.retry.500ms", "idem.unrouted"];
    let mut expected: Vec<_> = one_ladder.map(str::to_owned).into();
    expected.extend([bed.name().to_owned(), dead(bed.name())]);
    assert_eq!(names, expected);
    for balance in join_all(workers.into_iter().map(Running::stop)).await {
        let ended = balance.of(Kind::Failed) + balance.of(Kind::Executed);
        assert_eq!(ended, balance.deliveries(), "{balance}");
    }
    script.assert_effects(ids);
    bed.assert_nothing_stuck().await;
}

/// The queue's name is 250 bytes long.
///
/// - does: works with it as with any queue
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_queue_may_have_the_longest_name_there_is() {
    let bed = Bed::with_vhost().await;
    let name = format!("{}-{}", bed.name(), "x".repeat(250 - bed.name().len() - 1));
    assert_eq!(name.len(), 250);
    let queue = laddered(Queue::quorum(&name).policy(QUICK));
    bed.declare(&queue).await;
    let script = failing_until(2, DELAY);
    let worker = start(&bed, &MemoryStore::new(), &script, queue);
    bed.send(&name, &body("a"), persistent()).await;

    worker.ended(Kind::Executed, 1).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Failed, 1), (Kind::Executed, 1)]);
    assert_eq!(bed.waiting(&name).await, Some((0, 0)));
    bed.assert_nothing_stuck().await;
}

/// A publisher declares a queue before the first worker.
///
/// - does: declares the queue's ladder, too
#[tokio::test]
async fn a_publisher_declares_what_a_worker_would() {
    let bed = Bed::with_vhost().await;
    bed.declare(&bed.queue()).await;
    let rungs = ["1s", "5s", "15s", "1m", "5m", "15m", "1h"];
    for rung in rungs {
        let queue = format!("idem.retry.{rung}");
        assert_eq!(bed.waiting(&queue).await, Some((0, 0)), "{queue}");
    }
    assert_eq!(bed.waiting("idem.unrouted").await, Some((0, 0)));
    let publisher = Publisher::connect(bed.url()).await.unwrap();
    let back = Publication::json(bed.name(), &Order::new("a"));
    let back = back.exchange("idem.return", bed.name());
    publisher.publish(&back).await.unwrap();
    bed.until_waiting(1).await;
    bed.delete(bed.name()).await;
    bed.assert_nothing_stuck().await;
}

/// A queue is to delay messages by itself.
///
/// - does: returns them at once, the queue delays them; on RabbitMQ before 4.3 the worker ends with an error that says
///   so
/// - atomic: once
/// - leased: once
///
/// On a broker that cannot, the worker says so at its start.
#[tokio::test]
async fn a_queue_delays_by_itself_where_the_broker_can() {
    const MIN: Duration = Duration::from_millis(700);
    let bed = Bed::bare().await;
    let queue = Queue::quorum(bed.name()).policy(QUICK);
    let queue = queue.native_retries(MIN, 2 * MIN);
    let script = failing_until(2, Duration::from_millis(10));
    let worker = start(&bed, &MemoryStore::new(), &script, queue);
    if bed.broker().version() < Version::new(4, 3) {
        let error = worker.failed().await.to_string();
        assert!(error.contains("upgrade it to 4.3"), "{error}");
        assert_eq!(bed.waiting(bed.name()).await, None, "it was declared");
        return bed.assert_nothing_stuck().await;
    }
    bed.until_consumed(bed.name(), 1).await;
    bed.order("a").await;
    worker.ended(Kind::Failed, 1).await;
    let after = Duration::ZERO;
    assert_eq!(
        worker.settled.entries()[0].settlement,
        Settlement::Requeue { after }
    );
    let calls = script.calls.count("the second attempt", 2).await;
    assert!(calls[1].at - calls[0].at >= MIN / 2, "{calls:?}");
    worker.ended(Kind::Executed, 1).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Failed, 1), (Kind::Executed, 1)]);
    script.assert_effects(["a"]);
    bed.assert_nothing_stuck().await;
}

/// A queue is to delay messages by itself, and cannot.
///
/// - does: ends with an error that says why
#[tokio::test]
async fn impossible_native_delays_end_the_worker_with_a_clear_error() {
    let bed = Bed::bare().await;
    let (min, max) = (Duration::from_secs(1), Duration::from_secs(2));
    let queue = Queue::classic(bed.name()).native_retries(min, max);
    let worker = start(&bed, &MemoryStore::new(), &failing_until(1, min), queue);
    let error = worker.failed().await;
    assert!(
        matches!(error, RunError::Build(BuildError::NativeRetries { .. })),
        "{error:?}"
    );
    assert!(error.to_string().contains("only quorum queues"), "{error}");
    bed.assert_nothing_stuck().await;
}
