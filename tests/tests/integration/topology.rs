//! Queues that are missing, different, or deleted.

use std::time::Duration;

use idem_amqp::{
    BuildError, Failed, Ladder, MemoryStore, Queue, RunError, Worker,
    error::{Permission, TopologyError, TopologyObject, TopologyProblem as Problem},
    executor::ExecutionKind as Kind,
    worker::{Health, ProblemKind},
};
use idem_servers::rabbitmq::Version;
use idem_tests::{
    bed::{Bed, QUICK, dead},
    laddered::{body, laddered},
    running::{Running, assert_balance},
    script::{Order, Script, charge, notify},
    servers::off_thread,
};
use lapin::{
    BasicProperties,
    types::{AMQPValue, FieldTable},
};

use crate::streams::failures;

fn worker(bed: &Bed, queue: impl Into<Queue>, script: &Script) -> Running {
    let worker = Worker::builder(MemoryStore::new()).state(script.clone());
    bed.start(worker.consume::<charge>(queue))
}

async fn topology_error(bed: &Bed, queue: impl Into<Queue>) -> TopologyError {
    why_unusable(worker(bed, queue, &Script::succeeding())).await
}

async fn why_unusable(worker: Running) -> TopologyError {
    match worker.failed().await {
        RunError::Topology(error) => error,
        other => panic!("{other:?}"),
    }
}

/// A user of the test's own, without any permission; its URL.
pub(crate) async fn stranger(bed: &Bed) -> String {
    let user = bed.name().to_owned();
    rabbitmqctl(bed, ["add_user", &user, "secret"]).await;
    let nothing = [
        "set_permissions",
        "-p",
        bed.vhost(),
        &user,
        "^$",
        "^$",
        "^$",
    ];
    rabbitmqctl(bed, nothing).await;
    bed.url().replace("guest:guest", &format!("{user}:secret"))
}

pub(crate) async fn rabbitmqctl<const N: usize>(bed: &Bed, arguments: [&str; N]) {
    let broker = bed.broker().clone();
    let arguments = arguments.map(str::to_owned);
    off_thread(move || broker.rabbitmqctl(&arguments)).await;
}

fn arguments<const N: usize>(entries: [(&str, AMQPValue); N]) -> FieldTable {
    let mut table = FieldTable::default();
    for (name, value) in entries {
        table.insert(name.into(), value);
    }
    table
}

fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(value.into())
}

/// A declared queue is deleted.
///
/// - does: declares and consumes it again
#[tokio::test]
async fn a_queue_that_is_deleted_is_declared_and_consumed_again() {
    let bed = Bed::new().await;
    let script = Script::succeeding();
    let worker = worker(&bed, bed.queue(), &script);
    bed.order("a").await;
    worker.ended(Kind::Executed, 1).await;
    bed.delete(bed.name()).await;
    bed.until_consumed(bed.name(), 1).await;
    bed.order("b").await;

    worker.ended(Kind::Executed, 2).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, 2)]);
    script.assert_effects(["a", "b"]);
    bed.assert_nothing_stuck().await;
}

/// A queue is to be bound to exchanges (`Queue::bind`).
///
/// - does: binds it before it consumes
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_queue_gets_the_messages_of_the_exchanges_that_it_is_to_be_bound_to() {
    let bed = Bed::new().await;
    let shop = format!("{}-shop", bed.name());
    bed.declare_foreign_exchange(&shop).await;
    let queue = bed.queue().bind(&shop, "order.placed");
    let queue = queue.bind(&shop, "order.*.again");
    let script = Script::succeeding();
    let worker = worker(&bed, queue, &script);
    bed.until_consumed(bed.name(), 1).await;
    for (routing_key, id) in [("order.placed", "a"), ("order.placed.again", "b")] {
        let order = serde_json::to_vec(&Order::new(id)).unwrap();
        bed.send_by(&shop, routing_key, &order).await;
    }

    worker.ended(Kind::Executed, 2).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, 2)]);
    script.assert_effects(["a", "b"]);
    bed.delete_exchange(&shop).await;
    bed.assert_nothing_stuck().await;
}

/// An exchange that a queue is to be bound to is missing at the start, or has no name.
///
/// - does: ends with an error that says so
#[tokio::test]
async fn an_exchange_that_a_queue_is_to_be_bound_to_and_that_is_missing_ends_the_worker() {
    let bed = Bed::new().await;
    let shop = format!("{}-shop", bed.name());
    let error = topology_error(&bed, bed.queue().bind(&shop, "order.placed")).await;
    assert_eq!(error.object(), TopologyObject::Exchange);
    assert_eq!(error.name(), shop);
    assert_eq!(error.problem(), &Problem::Missing, "{error}");
    let cure = "declare it first: `.bind(…)` binds the queue to an exchange that is there";
    assert!(error.to_string().ends_with(cure), "{error}");
    bed.assert_nothing_stuck().await;
}

/// Shares the promise of `topology::an_exchange_that_a_queue_is_to_be_bound_to_and_that_is_missing_ends_the_worker`.
#[test]
fn a_queue_cannot_be_bound_to_an_exchange_without_a_name() {
    let worker = Worker::builder(MemoryStore::new()).state(Script::succeeding());
    let worker = worker.consume::<charge>(Queue::quorum("orders").bind("", "orders"));
    let error = worker.build("amqp://127.0.0.1:1").unwrap_err();
    assert!(
        matches!(&error, BuildError::Binding { queue } if queue == "orders"),
        "{error}"
    );
}

/// An existing queue is deleted.
///
/// - does: waits until somebody declares it
#[tokio::test]
async fn an_existing_queue_that_is_deleted_is_waited_for() {
    let bed = Bed::bare().await;
    let queues = [bed.name().to_owned(), dead(bed.name())];
    for queue in &queues {
        bed.declare_foreign(queue, FieldTable::default()).await;
    }
    let script = Script::succeeding();
    let worker = worker(&bed, Queue::existing(bed.name()), &script);
    bed.until_consumed(bed.name(), 1).await;
    bed.delete(bed.name()).await;
    bed.declare_foreign(bed.name(), FieldTable::default()).await;
    bed.until_consumed(bed.name(), 1).await;
    bed.order("a").await;

    worker.ended(Kind::Executed, 1).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, 1)]);
    script.assert_effects(["a"]);
    bed.assert_nothing_stuck().await;
}

/// An existing queue is missing at the start.
///
/// - does: ends with an error that says so, declares nothing
#[tokio::test]
async fn an_existing_queue_that_is_missing_ends_the_worker_with_a_clear_error() {
    let bed = Bed::bare().await;
    bed.declare_foreign(&dead(bed.name()), FieldTable::default())
        .await;
    let error = topology_error(&bed, Queue::existing(bed.name())).await;
    assert_eq!(error.name(), bed.name());
    assert_eq!(error.problem(), &Problem::Missing, "{error}");
    assert_eq!(bed.waiting(bed.name()).await, None, "it was declared");
    bed.assert_nothing_stuck().await;
}

/// An existing queue is missing at the start, and its name is so long and not ASCII that the broker's refusal is cut
/// within a character.
///
/// - does: on RabbitMQ 3.10 ends with an error that says so. From 4.0 on the broker fails because of its own refusal
///   and closes the connection: the worker says `INTERNAL_ERROR`, and tries again
#[tokio::test]
async fn a_missing_queue_whose_name_is_too_long_for_the_brokers_refusal_ends_the_worker_too() {
    let bed = Bed::bare().await;
    let name = format!("x{}", "é".repeat(124));
    if bed.broker().version() >= Version::new(4, 0) {
        // The broker fails of its own refusal, and closes the connection.
        let worker = worker(&bed, Queue::existing(&name), &Script::succeeding());
        let told = "what the broker says is told";
        worker
            .until(told, |health| health.to_string().contains("INTERNAL_ERROR"))
            .await;
        worker.stop().await;
        return;
    }
    let error = topology_error(&bed, Queue::existing(&name)).await;
    assert_eq!(error.name(), name);
    assert_eq!(error.problem(), &Problem::Missing, "{error}");
    bed.assert_nothing_stuck().await;
}

/// Shares the promise of `topology::an_existing_queue_that_is_missing_ends_the_worker_with_a_clear_error`.
#[tokio::test]
async fn an_existing_queue_that_is_missing_with_its_dead_letter_queue_is_the_one_that_is_named() {
    let bed = Bed::bare().await;
    let error = topology_error(&bed, Queue::existing(bed.name())).await;
    assert_eq!(error.name(), bed.name());
    assert_eq!(error.problem(), &Problem::Missing, "{error}");
    bed.assert_nothing_stuck().await;
}

/// The dead-letter queue of an existing queue is missing at the start.
///
/// - does: ends with an error that says so
#[tokio::test]
async fn an_existing_queue_without_dead_letter_queue_ends_the_worker_with_a_clear_error() {
    let bed = Bed::bare().await;
    bed.declare_foreign(bed.name(), FieldTable::default()).await;
    let error = topology_error(&bed, Queue::existing(bed.name())).await;
    assert_eq!(error.name(), dead(bed.name()));
    assert_eq!(error.problem(), &Problem::Missing, "{error}");
    bed.assert_nothing_stuck().await;
}

/// A queue is of another type, or has other arguments.
///
/// - does: ends with an error that names the queue, the argument, both values, and what to do; declares nothing
#[tokio::test]
async fn a_queue_of_another_type_ends_the_worker_with_an_error_that_names_both() {
    let bed = Bed::bare().await;
    bed.declare(&bed.classic_queue()).await;
    let error = topology_error(&bed, Queue::quorum(bed.name())).await;
    // The broker tells of one argument.
    let differs = Problem::Different {
        argument: "x-overflow".into(),
        existing: None,
        declared: Some("reject-publish".into()),
    };
    assert_eq!(error.problem(), &differs, "{error}");
    assert_eq!(error.name(), bed.name());
    let advice = ": consume it as it is with `Queue::existing`, declare it with `Queue::classic`";
    assert!(error.to_string().contains(advice), "{error}");
    bed.assert_nothing_stuck().await;
}

/// Shares the promise of `topology::a_queue_of_another_type_ends_the_worker_with_an_error_that_names_both`.
#[tokio::test]
async fn a_queue_with_another_delivery_limit_ends_the_worker_with_an_error_that_names_both() {
    let bed = Bed::with_vhost().await;
    let otherwise = arguments([
        ("x-queue-type", text("quorum")),
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text(&dead(bed.name()))),
        ("x-dead-letter-strategy", text("at-least-once")),
        ("x-overflow", text("reject-publish")),
        ("x-delivery-limit", AMQPValue::LongInt(5)),
    ]);
    bed.declare_foreign(bed.name(), otherwise).await;
    let error = topology_error(&bed, Queue::quorum(bed.name())).await;
    assert_eq!(error.name(), bed.name());
    let differs = Problem::Different {
        argument: "x-delivery-limit".into(),
        existing: Some("5".into()),
        declared: Some("1000".into()),
    };
    assert_eq!(error.problem(), &differs, "{error}");
    for left_behind in [dead(bed.name()), "idem.retry.1s".into()] {
        assert_eq!(bed.waiting(&left_behind).await, None, "{left_behind}");
    }
    bed.assert_nothing_stuck().await;
}

/// Why a user that may configure only this cannot consume a declared queue.
async fn refused(bed: &Bed, configure: &str) -> TopologyError {
    let url = stranger(bed).await;
    let user = bed.name();
    rabbitmqctl(bed, ["set_permissions", user, configure, ".*", ".*"]).await;
    let worker = Worker::builder(MemoryStore::new()).state(Script::succeeding());
    let worker = Running::start(worker.consume::<charge>(bed.queue()), &url);
    let error = why_unusable(worker).await;
    let Problem::Forbidden { user: named, .. } = error.problem() else {
        panic!("{error}")
    };
    assert_eq!(named, user);
    error
}

/// The user lacks a permission.
///
/// - does: ends with an error that names it, and the command that grants what is needed
#[tokio::test]
async fn a_user_that_may_not_declare_the_queues_ends_the_worker_with_an_error_that_names_one() {
    let bed = Bed::bare().await;
    let error = refused(&bed, "^idem\\.").await;
    assert_eq!(error.name(), bed.name());
    bed.assert_nothing_stuck().await;
}

/// Shares the promise of
/// `topology::a_user_that_may_not_declare_the_queues_ends_the_worker_with_an_error_that_names_one`.
#[tokio::test]
async fn a_user_that_may_not_declare_the_ladder_ends_the_worker_with_an_error_that_names_it() {
    let bed = Bed::bare().await;
    let error = refused(&bed, "^orders").await;
    assert!(error.name().starts_with("idem."), "{error}");
    bed.assert_nothing_stuck().await;
}

/// Shares the promise of `topology::a_queue_of_another_type_ends_the_worker_with_an_error_that_names_both`.
#[tokio::test]
async fn a_rung_with_another_delay_ends_the_worker_with_an_error_that_names_both() {
    let bed = Bed::with_vhost().await;
    let otherwise = arguments([
        ("x-queue-type", text("quorum")),
        ("x-dead-letter-exchange", text("idem.return")),
        ("x-dead-letter-strategy", text("at-least-once")),
        ("x-overflow", text("reject-publish")),
        ("x-message-ttl", AMQPValue::LongInt(999)),
    ]);
    bed.declare_foreign("idem.retry.1s", otherwise).await;
    let error = topology_error(&bed, bed.queue()).await;
    assert_eq!(error.name(), "idem.retry.1s");
    let differs = Problem::Different {
        argument: "x-message-ttl".into(),
        existing: Some("999".into()),
        declared: Some("1000".into()),
    };
    assert_eq!(error.problem(), &differs, "{error}");
    bed.assert_nothing_stuck().await;
}

/// Shares the promise of
/// `topology::a_user_that_may_not_declare_the_queues_ends_the_worker_with_an_error_that_names_one`.
#[tokio::test]
async fn a_user_that_may_not_read_ends_the_worker_with_an_error_that_names_the_permission() {
    let bed = Bed::new().await;
    let url = stranger(&bed).await;
    // RabbitMQ 4.3 tells nobody that a queue is there who has no permission at all.
    rabbitmqctl(&bed, ["set_permissions", bed.name(), "^$", ".*", "^$"]).await;
    let worker = Worker::builder(MemoryStore::new()).state(Script::succeeding());
    let existing = Queue::existing(bed.name());
    let error = why_unusable(Running::start(worker.consume::<charge>(existing), &url)).await;
    assert_eq!(error.name(), bed.name());
    let lacks = Problem::Forbidden {
        user: bed.name().into(),
        permission: Some(Permission::Read),
    };
    assert_eq!(error.problem(), &lacks, "{error}");
    bed.assert_nothing_stuck().await;
}

/// Fails once, then rejects.
fn failing() -> Script {
    Script::new(async |call| match call.attempt {
        1 => Err(Failed::retry("the gateway timed out")),
        _ => Err(Failed::rejected("the card is expired")),
    })
}

/// Grants what the error of a worker asks for, beside what was granted before.
async fn grant(bed: &Bed, lacking: Running, granted: &mut [String; 3]) {
    let error = why_unusable(lacking).await.to_string();
    let (_, command) = error.split_once("rabbitmqctl ").expect("a command");
    let command: Vec<_> = command
        .split(' ')
        .map(|word| word.trim_matches('\''))
        .collect();
    let [what, p, vhost, user, patterns @ ..]: [&str; 7] =
        command.try_into().expect("user, vhost and three patterns");
    for (granted, pattern) in granted.iter_mut().zip(patterns) {
        *granted = format!("{granted}|{pattern}");
    }
    let [configure, write, read] = &*granted;
    rabbitmqctl(bed, [what, p, vhost, user, configure, write, read]).await;
}

/// A worker that lacks every permission, and then has those that its error asks for, consumes the
/// queue, retries and sends dead letters.
async fn is_granted_what_it_needs(bed: Bed, queue: Queue) {
    let url = stranger(&bed).await;
    let script = failing();
    let start = || {
        let worker = Worker::builder(MemoryStore::new()).state(script.clone());
        Running::start(worker.consume::<charge>(queue.clone()), &url)
    };
    grant(&bed, start(), &mut ["^$"; 3].map(String::from)).await;

    let worker = start();
    bed.until_consumed(bed.name(), 1).await;
    bed.order("a").await;
    assert_eq!(bed.dead_letter().await.reason(), "rejected");
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Failed, 1), (Kind::Rejected, 1)]);
    bed.assert_nothing_stuck().await;
}

/// Shares the promise of
/// `topology::a_user_that_may_not_declare_the_queues_ends_the_worker_with_an_error_that_names_one`.
#[tokio::test]
async fn the_command_in_the_error_grants_what_a_worker_needs() {
    let bed = Bed::bare().await;
    let queue = bed.queue();
    is_granted_what_it_needs(bed, queue).await;
}

/// Shares the promise of
/// `topology::a_user_that_may_not_declare_the_queues_ends_the_worker_with_an_error_that_names_one`.
#[tokio::test]
async fn the_command_in_the_error_grants_what_a_worker_needs_for_an_existing_queue() {
    let bed = Bed::new().await;
    let queue = Queue::existing(bed.name()).policy(QUICK);
    is_granted_what_it_needs(bed, queue).await;
}

/// Shares the promise of
/// `topology::a_user_that_may_not_declare_the_queues_ends_the_worker_with_an_error_that_names_one`.
#[tokio::test]
async fn the_command_in_the_error_grants_what_the_ladder_of_an_existing_queue_needs() {
    let bed = Bed::new().await;
    let queue = Queue::existing(bed.name()).policy(QUICK);
    is_granted_what_it_needs(bed, queue.ladder(Ladder::default())).await;
}

/// The same of a stream: what fails in it comes back by the ladder, and is dead-lettered.
async fn may_read(stream: impl Fn(&Bed) -> Queue, routing: impl Fn(&Bed) -> [String; 2]) {
    let bed = Bed::with_vhost().await;
    let url = stranger(&bed).await;
    let (script, stream) = (failing(), laddered(stream(&bed).policy(QUICK)));
    let start = || {
        let worker = Worker::builder(MemoryStore::new()).state(script.clone());
        Running::start(worker.consume_stream::<charge>(stream.clone()), &url)
    };
    let is_over = |health: &Health| {
        let problems = health.problems();
        problems.iter().any(|one| one.kind == ProblemKind::Ended)
    };
    let mut granted = ["^$"; 3].map(String::from);
    // Of the stream and of the queue of what fails, whichever is refused first.
    let worker = loop {
        let worker = start();
        let told = |health: &Health| health.is_ready() || is_over(health);
        worker.until("it reads or has ended", told).await;
        if !is_over(worker.health()) {
            break worker;
        }
        grant(&bed, worker, &mut granted).await;
    };
    let [exchange, key] = routing(&bed);
    bed.send_by(&exchange, &key, &body("a")).await;
    let letter = bed
        .dead_letter_in(&dead(&failures(&bed, "orders.charge")))
        .await;
    assert_eq!(letter.reason(), "rejected");
    worker.stop().await;
    assert_eq!(script.calls.entries().len(), 2);
}

/// Shares the promise of
/// `topology::a_user_that_may_not_declare_the_queues_ends_the_worker_with_an_error_that_names_one`.
#[tokio::test]
async fn the_command_in_the_error_grants_what_a_worker_needs_for_a_stream() {
    let stream = |bed: &Bed| Queue::stream(bed.name());
    may_read(stream, |bed| [String::new(), bed.name().into()]).await;
}

/// Shares the promise of
/// `topology::a_user_that_may_not_declare_the_queues_ends_the_worker_with_an_error_that_names_one`.
#[tokio::test]
async fn the_command_in_the_error_grants_what_a_worker_needs_for_a_partition() {
    let partitions = |bed: &Bed| Queue::super_stream(bed.name(), 1);
    may_read(partitions, |bed| [bed.name().into(), "0".into()]).await;
}

/// The queue is a classic one.
///
/// - does: works as with a quorum queue
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_classic_queue_works_as_a_quorum_queue_does() {
    let bed = Bed::bare().await;
    let queue = bed.classic_queue();
    bed.declare(&queue).await;
    let script = Script::new(async |call| match (&*call.id, call.attempt) {
        ("rejected", _) => Err(idem_amqp::Failed::rejected("no such customer")),
        ("hopeless", _) | (_, 1) => Err(idem_amqp::Failed::retry("the gateway timed out")),
        _ => Ok(()),
    });
    let worker = worker(&bed, queue, &script);
    bed.order("a").await;
    worker.ended(Kind::Executed, 1).await;
    bed.order("a").await;
    worker.ended(Kind::Duplicate, 1).await;
    bed.order("rejected").await;
    assert_eq!(bed.dead_letter().await.reason(), "rejected");
    bed.order("hopeless").await;
    let letter = bed.dead_letter().await;
    assert_eq!(
        (letter.reason(), letter.attempt()),
        ("exhausted".into(), "3".into())
    );
    bed.send(bed.name(), b"no JSON", idem_tests::bed::persistent())
        .await;
    assert_eq!(bed.dead_letter().await.reason(), "undecodable");
    worker.ended(Kind::Undecodable, 1).await;
    let balance = worker.stop().await;
    assert_balance(
        &balance,
        [
            (Kind::Failed, 3),
            (Kind::Executed, 1),
            (Kind::Duplicate, 1),
            (Kind::Rejected, 1),
            (Kind::Exhausted, 1),
            (Kind::Undecodable, 1),
        ],
    );
    script.assert_effects(["a"]);
    bed.assert_nothing_stuck().await;
}

/// A worker has several queues and handlers.
///
/// - does: hands each message to its queue's handler
/// - atomic: once each
/// - leased: once each
#[tokio::test]
async fn one_worker_consumes_several_queues_with_several_handlers() {
    let bed = Bed::bare().await;
    let others = ["one", "two"].map(|name| bed.another(name));
    let script = Script::succeeding();
    let worker = Worker::builder(MemoryStore::new())
        .state(script.clone())
        .consume::<charge>(bed.queue())
        .consume::<notify>(others[0].as_str())
        .consume::<charge>(Queue::classic(&others[1]));
    let worker = bed.start(worker);
    for (number, queue) in [bed.name(), &others[0], &others[1]].into_iter().enumerate() {
        bed.until_consumed(queue, 1).await;
        let order = idem_tests::script::Order::new(&format!("o-{number}"));
        let body = serde_json::to_vec(&order).unwrap();
        bed.send(queue, &body, BasicProperties::default()).await;
    }

    worker.ended(Kind::Executed, 3).await;
    let mut queues: Vec<_> = worker
        .settled
        .entries()
        .into_iter()
        .map(|s| s.queue)
        .collect();
    queues.sort();
    let mut expected = vec![bed.name().to_owned(), others[0].clone(), others[1].clone()];
    expected.sort();
    assert_eq!(queues, expected);
    assert_balance(&worker.stop().await, [(Kind::Executed, 3)]);
    script.assert_effects(["o-0", "o-1", "o-2"]);
    bed.assert_nothing_stuck().await;
}

/// One queue of several is deleted.
///
/// - does: goes on with the handlers of the others
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_queue_that_is_deleted_does_not_disturb_the_others_of_its_worker() {
    let bed = Bed::new().await;
    let other = bed.another("other");
    let script = Script::new(async |call| {
        if call.id == "long" {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        Ok(())
    });
    let worker = Worker::builder(MemoryStore::new())
        .state(script.clone())
        .consume::<charge>(bed.queue())
        .consume::<notify>(other.as_str());
    let worker = bed.start(worker);
    bed.until_consumed(&other, 1).await;
    bed.order("long").await;
    script.calls.count("the handler runs", 1).await;
    bed.delete(&other).await;
    bed.until_consumed(&other, 1).await;

    worker.ended(Kind::Executed, 1).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, 1)]);
    assert_eq!(script.attempts(), [1]);
    bed.assert_nothing_stuck().await;
}
