//! Several handlers of one queue, chosen by a message's type, a header or its routing key.

use std::time::Duration;

use idem_amqp::{
    BuildError, Failed, MemoryStore, Publication, Publisher, Queue, Worker, WorkerBuilder,
    dead_letters::Selection,
    executor::ExecutionKind as Kind,
    prelude::*,
    worker::{Routes, Settlement},
};
use idem_tests::{
    batches_on_each_store,
    bed::{Bed, persistent},
    cell::Cell,
    journal::Journal,
    laddered::{DELAY, SECOND_RUNG, laddered},
    ledger::Ledger,
    log::Log,
    metered::Metered,
    on_each_store, on_further_stores, readings,
    requester::Requester,
    running::{Running, assert_balance},
    script::{Order, Script, charge, notify},
    store_at::{Product, StoreAt},
};
use lapin::{
    BasicProperties,
    types::{AMQPValue, FieldTable},
};

use crate::{
    entities, groups,
    metrics::assert_conserved,
    replays::{replayer, tally, until_dead},
};

fn typed(name: &str) -> BasicProperties {
    persistent().with_type(name.into())
}

fn headed(name: &str, value: &str) -> BasicProperties {
    let mut headers = FieldTable::default();
    headers.insert(name.into(), AMQPValue::LongString(value.into()));
    persistent().with_headers(headers)
}

async fn send(bed: &Bed, id: &str, properties: BasicProperties) {
    let body = serde_json::to_vec(&Order::new(id)).unwrap();
    bed.send(bed.name(), &body, properties).await;
}

/// The keys of what ended in this kind, which begin with the handlers' scopes.
fn keys(worker: &Running, kind: Kind) -> Vec<String> {
    let settled = worker.settled.entries().into_iter();
    let mut keys: Vec<_> = settled
        .filter(|ended| ended.kind == kind)
        .filter_map(|ended| ended.key)
        .collect();
    keys.sort();
    keys
}

async fn each_its_own<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let script = Script::succeeding();
    let routes = Routes::by_type()
        .on::<C::Charge>("order.charged")
        .on::<notify>("order.noticed");
    let worker = bed.start(cell.worker(&script).consume_routed(bed.queue(), routes));
    for kind in [Kind::Executed, Kind::Duplicate] {
        for name in ["order.charged", "order.noticed"] {
            send(&bed, "a", typed(name)).await;
            send(&bed, "b", typed(name)).await;
        }
        worker.ended(kind, 4).await;
        let both = [
            "orders.charge:a",
            "orders.charge:b",
            "orders.notify:a",
            "orders.notify:b",
        ];
        assert_eq!(keys(&worker, kind), both, "{kind}");
    }
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 4), (Kind::Duplicate, 4)]);
    assert_eq!(script.calls.entries().len(), 4);
    bed.assert_nothing_stuck().await;
}

/// Messages of two types, and copies of them, come to a queue with a handler for each type.
///
/// - does: each handler gets those of its type; a copy is a duplicate to it
/// - atomic: once each
/// - leased: once each
async fn each_handler_gets_the_messages_of_its_type_once<C: Cell>() {
    each_its_own::<C>().await;
}

/// Shares the promise of `routes::each_handler_gets_the_messages_of_its_type_once`.
async fn a_handler_of_batches_gets_the_messages_of_its_type_once<C: Cell>() {
    each_its_own::<C>().await;
}

on_each_store! {
    each_handler_gets_the_messages_of_its_type_once,
}

on_further_stores! {
    each_handler_gets_the_messages_of_its_type_once,
}

batches_on_each_store! {
    a_handler_of_batches_gets_the_messages_of_its_type_once,
}

/// One of the handlers of a queue is recorded by its own table.
///
/// - does: rolls the run of a copy back and acknowledges it; the other handler's messages are recorded by the store
/// - atomic: once
#[tokio::test]
async fn an_atomic_handler_that_its_own_table_records_may_have_a_route() {
    let (bed, ledger) = (Bed::new().await, Ledger::on(Product::Sqlite).await);
    let script = Script::succeeding();
    let worker = Worker::builder(ledger.store().open_sqlite().await).state(script.clone());
    let routes = Routes::by_header("event")
        .on::<entities::charge_in_sqlite>("charged")
        .on::<notify>("noticed");
    let worker = bed.start(worker.consume_routed(bed.queue(), routes));
    for (kind, ended) in [(Kind::Executed, 2), (Kind::Duplicate, 2)] {
        send(&bed, "a", headed("event", "charged")).await;
        send(&bed, "a", headed("event", "noticed")).await;
        worker.ended(kind, ended).await;
    }
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 2), (Kind::Duplicate, 2)]);
    let charges = ledger.charges_per_order().await;
    assert_eq!(charges.into_iter().collect::<Vec<_>>(), [("a".into(), 1)]);
    assert_eq!(ledger.records().await, 1, "the other handler's");
    bed.assert_nothing_stuck().await;
}

/// Messages of one of the handlers of a queue share transactions.
///
/// - does: commits those of that handler together, and none of the other's with them
/// - atomic: once each
#[tokio::test]
async fn an_atomic_handler_whose_messages_share_a_transaction_on_postgres_may_have_a_route() {
    let (bed, ledger) = (Bed::new().await, Ledger::on(Product::Postgres).await);
    let script = Script::succeeding();
    let ids: Vec<_> = (0..40).map(|number| format!("o-{number}")).collect();
    for id in &ids {
        send(&bed, id, typed("charged")).await;
        send(&bed, id, typed("noticed")).await;
    }
    let worker = Worker::builder(ledger.store().open_postgres().await).state(script.clone());
    let routes = Routes::by_type()
        .on::<groups::charge>("charged")
        .on::<notify>("noticed");
    let queue = bed.queue().prefetch(100);
    let worker = bed.start(worker.consume_routed(queue, routes));
    worker.ended(Kind::Executed, 80).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, 80)]);
    let charges = ledger.charges_per_order().await;
    assert_eq!(charges.len(), 40);
    assert!(charges.values().all(|count| *count == 1), "{charges:?}");
    bed.assert_nothing_stuck().await;
}

/// Asks for another attempt by the ladder, then rejects, then succeeds.
fn struggling() -> Script {
    let calls = Journal::<()>::default();
    Script::new(move |_| {
        calls.write(());
        let so_far = calls.entries().len();
        async move {
            match so_far {
                1 => Err(Failed::retry_after(DELAY, "the gateway timed out")),
                2 => Err(Failed::rejected("no such customer")),
                _ => Ok(()),
            }
        }
    })
}

/// A message of the second of two handlers fails, is rejected, and is sent again.
async fn struggles(
    routes: Routes<MemoryStore, Script>,
    routing_key: &str,
    properties: BasicProperties,
) {
    let bed = Bed::with_vhost().await;
    let exchange = format!("{}-events", bed.name());
    bed.declare_foreign_exchange(&exchange).await;
    let queue = laddered(bed.queue()).bind(&exchange, "order.*");
    bed.declare(&queue).await;
    let script = struggling();
    let worker = Worker::builder(MemoryStore::new()).state(script.clone());
    let worker = bed.start(worker.consume_routed(queue, routes));
    let body = serde_json::to_vec(&Order::new("a")).unwrap();
    bed.send_by_with(&exchange, routing_key, &body, properties)
        .await;
    worker.ended(Kind::Rejected, 1).await;
    until_dead(&bed, 1).await;
    let replayed = replayer(&bed).replay(&Selection::all()).await.unwrap();
    assert_eq!(tally(replayed), [1, 1, 0, 0, 0]);
    worker.ended(Kind::Executed, 1).await;

    let settled = worker.settled.entries();
    let after = SECOND_RUNG;
    assert_eq!(settled[0].settlement, Settlement::Retry { after });
    let keys: Vec<_> = settled.iter().map(|ended| ended.key.as_deref()).collect();
    assert_eq!(keys, [Some("orders.notify:a"); 3]);
    let ends = [(Kind::Executed, 1), (Kind::Failed, 1), (Kind::Rejected, 1)];
    assert_balance(&worker.stop().await, ends);
    script.assert_effects(["a"]);
    bed.assert_nothing_stuck().await;
}

/// A handler that is chosen by the routing key fails a message, rejects it at its next attempt, and a person sends the
/// dead letter again.
///
/// - does: gives it to the same handler each time, by the routing key that it was published with
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_message_that_comes_again_finds_the_handler_of_its_routing_key() {
    let routes = Routes::by_routing_key()
        .on::<charge>("order.charged")
        .on::<notify>("order.*");
    struggles(routes, "order.noticed", persistent()).await;
}

/// The same with a handler that is chosen by the property `type`, or by a header.
///
/// - does: gives it to the same handler each time
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_message_that_comes_again_finds_the_handler_of_its_type() {
    let routes = Routes::by_type()
        .on::<charge>("charged")
        .on::<notify>("noticed");
    struggles(routes, "order.charged", typed("noticed")).await;
}

/// Shares the promise of `routes::a_message_that_comes_again_finds_the_handler_of_its_type`.
#[tokio::test]
async fn a_message_that_comes_again_finds_the_handler_of_its_header() {
    let routes = Routes::by_header("event")
        .on::<charge>("charged")
        .on::<notify>("noticed");
    struggles(routes, "order.charged", headed("event", "noticed")).await;
}

/// Two patterns match a routing key.
///
/// - does: gives the message to the first of them
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn the_first_route_that_takes_a_message_has_it() {
    let bed = Bed::new().await;
    let script = Script::succeeding();
    let routes = Routes::by_routing_key()
        .on::<notify>("#")
        .on::<charge>(bed.name());
    let worker = Worker::builder(MemoryStore::new()).state(script.clone());
    let worker = bed.start(worker.consume_routed(bed.queue(), routes));
    bed.order("a").await;
    worker.ended(Kind::Executed, 1).await;
    assert_eq!(keys(&worker, Kind::Executed), ["orders.notify:a"]);
    assert_balance(&worker.stop().await, [(Kind::Executed, 1)]);
    bed.assert_nothing_stuck().await;
}

/// A worker whose queue takes charges alone.
fn charging(bed: &Bed, store: &MemoryStore, script: &Script) -> WorkerBuilder<MemoryStore, Script> {
    let worker = Worker::builder(store.clone()).state(script.clone());
    let routes = Routes::by_type().on::<charge>("order.charged");
    worker.consume_routed(bed.queue(), routes)
}

/// No route takes a message: its type is another, or it has none.
///
/// - does: dead-letters it, `no-route`, and says its type in the letter, in the log and as a metric; it runs when it is
///   sent again to a worker with a route for it
/// - atomic: kept as dead letter
/// - leased: kept as dead letter
#[tokio::test]
async fn a_message_that_no_route_takes_is_dead_lettered_and_runs_when_there_is_one() {
    let (bed, metered, log) = (Bed::new().await, Metered::default(), Log::default());
    let (store, script) = (MemoryStore::new(), Script::succeeding());
    let _kept = log.capture();
    let worker = {
        let _recorded = metered.record();
        bed.start(charging(&bed, &store, &script))
    };
    send(&bed, "a", typed("order.charged")).await;
    worker.ended(Kind::Executed, 1).await;
    send(&bed, "b", persistent()).await;
    let letter = bed.dead_letter().await;
    assert_eq!(letter.reason(), "no-route");
    let error = letter.error();
    assert!(error.contains("has no property `type`"), "{error}");
    assert_eq!(letter.attempt(), "0");
    send(&bed, "c", typed("order.noticed")).await;
    worker.ended(Kind::Undecodable, 2).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 1), (Kind::Undecodable, 2)]);
    assert_conserved(&metered, &balance);
    let of = |labels: &[(&str, &str)]| metered.sum("idem_dead_letters_total", labels);
    assert_eq!(of(&[("handler", "routes"), ("reason", "no-route")]), 2);
    let executed = [("handler", "orders.charge"), ("outcome", "executed")];
    assert_eq!(metered.sum("idem_outcomes_total", &executed), 1);
    let text = log.text();
    assert!(text.contains("no route takes a message"), "{text}");
    script.assert_effects(["a"]);

    let found = replayer(&bed).look(&Selection::all()).await.unwrap();
    let error = found[0].error().unwrap();
    assert!(
        error.contains("property `type`, `order.noticed`"),
        "{error}"
    );
    let worker = Worker::builder(store).state(script.clone());
    let routes = Routes::by_type()
        .on::<charge>("order.charged")
        .on::<notify>("order.noticed");
    let worker = bed.start(worker.consume_routed(bed.queue(), routes));
    let replayed = replayer(&bed).replay(&Selection::all()).await.unwrap();
    assert_eq!(tally(replayed), [1, 1, 0, 0, 0]);
    worker.ended(Kind::Executed, 1).await;
    assert_eq!(keys(&worker, Kind::Executed), ["orders.notify:c"]);
    assert_balance(&worker.stop().await, [(Kind::Executed, 1)]);
    script.assert_effects(["a", "c"]);
    bed.assert_nothing_stuck().await;
}

/// No route takes a request.
///
/// - does: dead-letters it and refuses it as `no-route`
/// - atomic: kept as dead letter
/// - leased: kept as dead letter
#[tokio::test]
async fn the_requester_of_a_request_that_no_route_takes_is_told() {
    let bed = Bed::new().await;
    let script = Script::succeeding();
    let worker = bed.start(charging(&bed, &MemoryStore::new(), &script));
    let requester = Requester::on(&bed).await;
    let body = serde_json::to_vec(&Order::new("a")).unwrap();
    requester
        .ask_with(bed.name(), &body, "c-1", typed("order.noticed"))
        .await;
    let reply = requester.reply().await;
    assert_eq!(reply.refusal().as_deref(), Some("no-route"));
    assert_eq!(bed.dead_letter().await.reason(), "no-route");
    worker.ended(Kind::Undecodable, 1).await;
    assert_balance(&worker.stop().await, [(Kind::Undecodable, 1)]);
    requester.leave().await;
    bed.assert_nothing_stuck().await;
}

/// A `Publisher` says what its messages are.
///
/// - does: each finds its handler
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_publisher_names_the_type_of_its_message() {
    let bed = Bed::new().await;
    let script = Script::succeeding();
    let worker = bed.start(charging(&bed, &MemoryStore::new(), &script));
    let publisher = Publisher::connect(bed.url()).await.unwrap();
    let order = Publication::json(bed.name(), &Order::new("a")).message_type("order.charged");
    publisher.publish(&order).await.unwrap();
    worker.ended(Kind::Executed, 1).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, 1)]);
    bed.assert_nothing_stuck().await;
}

/// The worker stops while handlers of two routes block, and its grace period ends.
///
/// - does: counts each delivery as interrupted; it comes again
/// - atomic: rolled back
/// - leased: once
#[tokio::test]
async fn deliveries_of_each_route_are_counted_when_the_grace_period_ends() {
    let (bed, store) = (Bed::new().await, MemoryStore::new());
    let routes = || {
        Routes::by_type()
            .on::<charge>("order.charged")
            .on::<notify>("order.noticed")
    };
    let hanging = Script::hanging();
    let worker = Worker::builder(store.clone()).state(hanging.clone());
    let worker = worker.grace(Duration::from_millis(100));
    let worker = bed.start(worker.consume_routed(bed.queue(), routes()));
    send(&bed, "a", typed("order.charged")).await;
    send(&bed, "a", typed("order.noticed")).await;
    hanging.calls.count("both run", 2).await;
    assert_balance(&worker.stop().await, [(Kind::Interrupted, 2)]);

    let script = Script::succeeding();
    let worker = Worker::builder(store).state(script.clone());
    let worker = bed.start(worker.consume_routed(bed.queue(), routes()));
    worker.ended(Kind::Executed, 2).await;
    let both = ["orders.charge:a", "orders.notify:a"];
    assert_eq!(keys(&worker, Kind::Executed), both);
    worker.stop().await;
    bed.assert_nothing_stuck().await;
}

mod others {
    use super::*;

    #[idempotent(key = "id", scope = "orders.charge")]
    pub(super) async fn charge(order: Order, State(script): State<Script>) -> Result<(), Failed> {
        unreachable!("{order:?} {script:?}")
    }
}

/// The routes of a queue cannot work together: there is none, two take the same, one takes nothing, a handler's
/// messages are numbered, two handlers have one scope.
///
/// - does: does not start, and says what to do
#[test]
fn routes_that_cannot_work_together_are_refused() {
    let worker = || Worker::builder(MemoryStore::new()).state(Script::succeeding());
    let refused = |routes| {
        let built = worker()
            .consume_routed("orders", routes)
            .build("amqp://localhost");
        built.expect_err("it is refused").to_string()
    };
    let twice = Routes::by_type().on::<charge>("a").on::<notify>("a");
    for (routes, reason) in [
        (
            Routes::by_type(),
            "there is none: add one with `.on::<handler>(…)`",
        ),
        (twice, "two of them take `a`"),
        (Routes::by_type().on::<charge>(""), "takes nothing"),
        (Routes::by_header("").on::<charge>("a"), "has no name"),
        (
            Routes::by_type()
                .on::<charge>("a")
                .on::<readings::store>("b"),
            "`b` is a place in a sequence",
        ),
    ] {
        let error = refused(routes);
        let begins = "the queue `orders` cannot have these routes: ";
        assert!(
            error.starts_with(begins) && error.contains(reason),
            "{error}"
        );
    }
    let one_scope = Routes::by_type()
        .on::<charge>("a")
        .on::<others::charge>("b");
    let error = refused(one_scope);
    assert!(
        error.contains("have the scope `orders.charge` in common"),
        "{error}"
    );

    let one = || Routes::by_type().on::<charge>("a");
    let again = worker()
        .consume_routed("orders", one())
        .consume_routed("orders", one());
    let beside = worker()
        .consume::<charge>("orders")
        .consume_routed("orders", one());
    for built in [again, beside] {
        let error = built.build("amqp://localhost").expect_err("it is refused");
        assert!(matches!(error, BuildError::QueueTwice { .. }), "{error}");
    }
    let stream = worker().consume_routed(Queue::stream("orders"), one());
    let error = stream.build("amqp://localhost").expect_err("it is refused");
    assert!(matches!(error, BuildError::Stream { .. }), "{error}");

    let one_handler = one().on::<charge>("b").on::<notify>("c");
    drop(
        worker()
            .consume_routed("orders", one_handler)
            .build("amqp://localhost")
            .unwrap(),
    );
}

#[idempotent(key = "id", scope = "orders.forgetful", retention = "1m")]
async fn forgetful(order: Order, State(script): State<Script>) -> Result<(), Failed> {
    unreachable!("{order:?} {script:?}")
}

/// A queue has several handlers, and one of them forgets too soon.
///
/// - does: says its name; says once what is so for all of them
#[tokio::test]
async fn the_doctor_says_which_handler_of_a_queue_it_means() {
    let bed = Bed::new().await;
    let folder = tempfile::tempdir().unwrap();
    let store = StoreAt::sqlite(&folder.path().join("keys.db"));
    let worker = Worker::builder(store.open_sqlite().await).state(Script::succeeding());
    let routes = Routes::by_type()
        .on::<charge>("a")
        .on::<forgetful>("b")
        .on::<forgetful>("c");
    let queue = Queue::existing(bed.name()).prefetch(2000);
    let worker = worker
        .consume_routed(queue, routes)
        .build(bed.url())
        .unwrap();
    let found = worker.doctor().await;
    let of = |code| {
        let found = found.iter().filter(move |finding| finding.code == code);
        found.map(|finding| &*finding.text).collect::<Vec<_>>()
    };
    let forgets = of("retention");
    assert_eq!(forgets.len(), 1, "{found:?}");
    let named = "for the handler `orders.forgetful`, keys of ";
    assert!(forgets[0].starts_with(named), "{forgets:?}");
    let prefetch = of("prefetch");
    assert_eq!(prefetch.len(), 1, "{found:?}");
    assert!(
        prefetch[0].starts_with("a worker takes 2000"),
        "{prefetch:?}"
    );
    bed.assert_nothing_stuck().await;
}
