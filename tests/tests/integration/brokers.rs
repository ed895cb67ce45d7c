//! Brokers that are stopped, killed and started again: each test has its own.

use std::{sync::Arc, time::Duration};

use idem_amqp::{
    Failed, MemoryStore, Queue, Worker,
    executor::ExecutionKind as Kind,
    worker::{Health, Incident, ProblemKind, WorkerStats},
};
use idem_servers::{QueueState, RabbitMq};
use idem_tests::{
    bed::{Bed, QUICK},
    journal::eventually,
    running::Running,
    script::{Order, Script, charge},
};
use tokio::{sync::Semaphore, task::spawn_blocking};

/// Does something with a broker that blocks the thread.
async fn with<T: Send + 'static>(
    broker: &Arc<RabbitMq>,
    act: impl FnOnce(&RabbitMq) -> idem_servers::Result<T> + Send + 'static,
) -> T {
    let broker = Arc::clone(broker);
    let acted = spawn_blocking(move || act(&broker)).await;
    acted.unwrap().unwrap()
}

async fn broker() -> Arc<RabbitMq> {
    let started = spawn_blocking(RabbitMq::start).await;
    Arc::new(started.unwrap().unwrap())
}

fn steady() -> Script {
    Script::new(async |_| {
        tokio::time::sleep(Duration::from_millis(50)).await;
        Ok(())
    })
}

fn worker(bed: &Bed, classic: &str, script: &Script) -> Running {
    let worker = Worker::builder(MemoryStore::new())
        .state(script.clone())
        .consume::<charge>(Queue::quorum(bed.name()).prefetch(8).policy(QUICK))
        .consume::<charge>(Queue::classic(classic).policy(QUICK));
    bed.start(worker)
}

/// Persistent orders, half of them on the quorum queue, half on the classic one.
async fn publish(bed: &Bed, classic: &str, numbers: std::ops::Range<u32>) -> Vec<String> {
    let mut ids = Vec::new();
    for number in numbers {
        let id = format!("o-{number}");
        let queue = if number % 2 == 0 { bed.name() } else { classic };
        let body = serde_json::to_vec(&Order::new(&id)).unwrap();
        bed.send(queue, &body, idem_tests::bed::persistent()).await;
        ids.push(id);
    }
    ids
}

/// The broker restarts under load.
///
/// - does: connects again, consumes all queues again
/// - atomic: once each
/// - leased: once each
#[tokio::test]
async fn a_broker_that_restarts_is_consumed_again_and_nothing_is_lost_or_doubled() {
    let broker = broker().await;
    let bed = Bed::on(&broker);
    let classic = bed.another("classic");
    let script = steady();
    let running = worker(&bed, &classic, &script);
    bed.until_consumed(bed.name(), 1).await;
    bed.until_consumed(&classic, 1).await;
    let mut ids = publish(&bed, &classic, 0..40).await;
    script.effects.count("half of the orders", 20).await;
    with(&broker, RabbitMq::restart).await;
    ids.extend(publish(&bed, &classic, 40..60).await);

    let balance =
        all_are_executed_once_and_nothing_is_stuck(bed, running, &script, ids, &classic).await;
    assert_eq!(lost_connections(&balance), 1, "{balance}");
}

/// The broker is killed under load.
///
/// - does: connects again, consumes all queues again; acks that the broker forgot come again as duplicates
/// - atomic: once each
/// - leased: once each
#[tokio::test]
async fn a_broker_that_is_killed_is_consumed_again_and_nothing_is_lost_or_doubled() {
    let broker = broker().await;
    let bed = Bed::on(&broker);
    let classic = bed.another("classic");
    // A quorum queue declared moments before a crash never elects a leader again on RabbitMQ 3.10.
    bed.declare(&Queue::quorum(bed.name())).await;
    bed.declare(&Queue::classic(&classic)).await;
    with(&broker, RabbitMq::restart).await;
    let script = steady();
    let running = worker(&bed, &classic, &script);
    let mut ids = publish(&bed, &classic, 0..40).await;
    script.effects.count("half of the orders", 20).await;
    with(&broker, |broker| {
        broker.kill()?;
        broker.restart()
    })
    .await;
    ids.extend(publish(&bed, &classic, 40..60).await);

    let balance =
        all_are_executed_once_and_nothing_is_stuck(bed, running, &script, ids, &classic).await;
    assert_eq!(lost_connections(&balance), 1, "{balance}");
}

/// A broker that stops says so before it closes the link; which of the two the client sees first is
/// a matter of luck.
fn lost_connections(balance: &WorkerStats) -> u64 {
    let lost = [Incident::ConnectionClosed, Incident::ConnectionBroken];
    lost.iter().map(|one| balance.incidents().of(*one)).sum()
}

async fn all_are_executed_once_and_nothing_is_stuck(
    bed: Bed,
    worker: Running,
    script: &Script,
    ids: Vec<String>,
    classic: &str,
) -> WorkerStats {
    worker.ended(Kind::Executed, ids.len()).await;
    // Messages that came again are settled, too, before the worker is told to stop.
    for queue in [bed.name(), classic] {
        eventually("the queue is empty", async || {
            match bed.waiting(queue).await {
                Some((0, _)) => Ok(()),
                seen => Err(seen),
            }
        })
        .await;
    }
    let balance = worker.stop().await;
    let settled = balance.of(Kind::Executed) + balance.of(Kind::Duplicate);
    let unsettled = balance.of(Kind::Abandoned) + balance.of(Kind::Conflict);
    assert_eq!(settled + unsettled, balance.deliveries(), "{balance}");
    script.assert_effects(ids);
    bed.assert_nothing_stuck().await;
    balance
}

/// The broker restarts, and there are dead letters.
///
/// - does: finds them in their queue again
/// - atomic: survives
/// - leased: survives
#[tokio::test]
async fn dead_letters_survive_a_restart_of_the_broker() {
    let broker = broker().await;
    let bed = Bed::on(&broker);
    bed.declare(&bed.queue()).await;
    let script = Script::new(async |_| Err(Failed::rejected("no such customer")));
    let worker = bed.charging(MemoryStore::new(), &script);
    bed.order("a").await;
    worker.ended(Kind::Rejected, 1).await;
    worker.stop().await;
    with(&broker, RabbitMq::restart).await;
    assert_eq!(bed.dead_letter().await.reason(), "rejected");
    bed.assert_nothing_stuck().await;
}

/// The broker hangs for a while.
///
/// - does: connects again when it answers
/// - atomic: once each
/// - leased: once each
#[tokio::test]
async fn a_broker_that_hangs_for_a_while_is_waited_for() {
    let broker = broker().await;
    let bed = Bed::on(&broker);
    bed.declare(&bed.queue()).await;
    let script = steady();
    let worker = Worker::builder(MemoryStore::new()).state(script.clone());
    let url = bed.url_by(broker.port(), "?heartbeat=1");
    let worker = Running::start(worker.consume::<charge>(bed.queue()), &url);
    bed.order("a").await;
    worker.ended(Kind::Executed, 1).await;
    with(&broker, RabbitMq::freeze).await;
    // Longer than the heartbeat's patience.
    tokio::time::sleep(Duration::from_secs(4)).await;
    with(&broker, RabbitMq::thaw).await;
    bed.order("b").await;

    worker.ended(Kind::Executed, 2).await;
    let balance = worker.stop().await;
    assert_eq!(balance.of(Kind::Executed), 2, "{balance}");
    script.assert_effects(["a", "b"]);
    bed.assert_nothing_stuck().await;
}

/// Holds handlers until it is opened. The order `bad` is rejected then.
fn gated() -> (Script, Arc<Semaphore>) {
    let gate = Arc::new(Semaphore::new(0));
    let shut = Arc::clone(&gate);
    let script = Script::new(move |call| {
        let gate = Arc::clone(&shut);
        async move {
            gate.acquire().await?.forget();
            match call.id.as_str() {
                "bad" => Err(Failed::rejected("no such customer")),
                _ => Ok(()),
            }
        }
    });
    (script, gate)
}

/// The broker takes no messages: its memory or disk is short.
///
/// - does: consumes and acknowledges; what has to be dead-lettered waits
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_broker_that_takes_no_messages_is_waited_for_and_consumed_meanwhile() {
    let broker = broker().await;
    let bed = Bed::on(&broker);
    bed.declare(&bed.queue()).await;
    let (script, gate) = gated();
    let worker = bed.charging(MemoryStore::new(), &script);
    for id in ["bad", "a", "b"] {
        bed.order(id).await;
    }
    script.calls.count("the handlers run", 3).await;
    with(&broker, |broker| memory_suffices_from(broker, "0")).await;
    gate.add_permits(3);

    worker.ended(Kind::Executed, 2).await;
    let blocked = |health: &Health| {
        let problems = health.problems();
        problems.iter().any(|one| one.kind == ProblemKind::Blocked)
    };
    worker.until("the blockade is told", blocked).await;
    // The acks of the others are read: only the one that cannot be dead-lettered is left.
    eventually("the others are acknowledged", async || {
        match bed.state_of(bed.name()).await {
            Some(QueueState { unacked: 1, .. }) => Ok(()),
            seen => Err(seen),
        }
    })
    .await;
    with(&broker, |broker| memory_suffices_from(broker, "0.6")).await;
    assert_eq!(bed.dead_letter().await.reason(), "rejected");
    worker.ended(Kind::Rejected, 1).await;
    let well = |health: &Health| health.problems().is_empty();
    worker.until("it is over", well).await;
    let balance = worker.stop().await;
    assert_eq!(balance.incidents().to_string(), "blocked=1 unblocked=1");
    bed.assert_nothing_stuck().await;
}

/// Of which part of the memory on the broker is short of it.
fn memory_suffices_from(broker: &RabbitMq, part: &str) -> idem_servers::Result<()> {
    broker.rabbitmqctl(["set_vm_memory_high_watermark", part])?;
    let told = || broker.rabbitmqctl(["eval", "rabbit_alarm:get_alarms() =/= []."]);
    while told()?.trim() != (part == "0").to_string() {
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}
