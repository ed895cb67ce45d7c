//! What is traced of a message, from its publisher to its settlement.

use std::time::Duration;

use idem_amqp::{
    MemoryStore, Publication, Publisher, dead_letters::Selection, executor::ExecutionKind as Kind,
};
use idem_tests::{
    bed::{Bed, DeadLetter, dead},
    laddered::{self, DELAY, failing_until, laddered},
    requester::Requester,
    running::Running,
    script::{Order, Script},
    store_at::Product,
    traced::{Span, Traced},
};
use lapin::types::AMQPValue;
use tracing::{Instrument as _, info_span};

use crate::{
    dead_letters::rejecting,
    outbox::shop::{Relaying, Sale, Shop, ids},
    replays::{replayer, until_dead},
};

fn order(bed: &Bed, id: &str) -> Publication {
    Publication::json(bed.name(), &Order::new(id))
}

async fn publish(bed: &Bed, publication: &Publication) {
    let publisher = Publisher::connect(bed.url()).await.unwrap();
    let checkout = info_span!(target: "test", "checkout");
    let publishing = publisher.publish(publication);
    publishing.instrument(checkout).await.unwrap();
}

fn publishing(traced: &Traced, bed: &Bed) -> Span {
    traced.only(&format!("publish {}", bed.name()))
}

async fn processed(traced: &Traced, bed: &Bed, worker: Running) -> Vec<Span> {
    worker.stop().await;
    traced.named(&format!("process {}", bed.name()))
}

/// A message is published in a trace.
///
/// - told: its delivery, claim, run, completion and settlement are in that trace
#[tokio::test]
async fn a_message_is_one_trace_from_its_publisher_to_its_settlement() {
    let (bed, traced) = (Bed::new().await, Traced::default());
    let _recorded = traced.record();
    let script = Script::new(async |_| info_span!(target: "test", "gateway").in_scope(|| Ok(())));
    let worker = bed.charging(MemoryStore::new(), &script);
    let publication = order(&bed, "a");
    publish(&bed, &publication).await;
    worker.ended(Kind::Executed, 1).await;

    let [process] = &processed(&traced, &bed, worker).await[..] else {
        panic!("one span: {traced:?}");
    };
    let (checkout, publish) = (traced.only("checkout"), publishing(&traced, &bed));
    assert_eq!(publish.parent(), checkout.id());
    assert_eq!(process.parent(), publish.id());
    assert_eq!(process.trace(), checkout.trace());
    let settle = format!("settle {}", bed.name());
    for inside in ["claim", "run", "complete", &settle] {
        assert_eq!(traced.only(inside).parent(), process.id(), "{inside}");
    }
    assert_eq!(traced.only("gateway").parent(), traced.only("run").id());

    assert_eq!(
        (publish.kind(), process.kind()),
        ("Producer".into(), "Consumer".into())
    );
    let size = serde_json::to_vec(&Order::new("a"))
        .unwrap()
        .len()
        .to_string();
    for (name, value) in [
        ("messaging.system", "rabbitmq"),
        ("messaging.operation.name", "process"),
        ("messaging.operation.type", "process"),
        ("messaging.destination.name", bed.name()),
        ("messaging.rabbitmq.destination.routing_key", bed.name()),
        ("messaging.rabbitmq.message.delivery_tag", "1"),
        ("messaging.message.id", publication.id()),
        ("messaging.message.body.size", &size),
        ("idem.key", "orders.charge:a"),
        ("idem.attempt", "1"),
        ("idem.outcome", "executed"),
        ("idem.settlement", "ack"),
        ("idem.replay", "false"),
    ] {
        assert_eq!(process.attribute(name), value, "{name}");
    }
    assert_eq!(publish.attribute("messaging.operation.type"), "send");
    assert_eq!(
        traced.only(&settle).attribute("messaging.operation.type"),
        "settle"
    );
    assert_eq!(traced.only("claim").attribute("idem.answer"), "acquired");
    assert_eq!(
        traced.only("run").attribute("idem.handler"),
        "orders.charge"
    );
    assert!(!process.is_error());
}

/// A copy comes, and traces are kept.
///
/// - told: a trace of its own that runs nothing
#[tokio::test]
async fn a_copy_of_what_is_done_is_a_trace_of_its_own_that_runs_nothing() {
    let (bed, traced) = (Bed::new().await, Traced::default());
    let _recorded = traced.record();
    let worker = bed.charging(MemoryStore::new(), &Script::succeeding());
    publish(&bed, &order(&bed, "a")).await;
    worker.ended(Kind::Executed, 1).await;
    publish(&bed, &order(&bed, "a")).await;
    worker.ended(Kind::Duplicate, 1).await;

    let [first, second] = &processed(&traced, &bed, worker).await[..] else {
        panic!("two spans: {traced:?}");
    };
    assert_ne!(first.trace(), second.trace());
    assert_eq!(second.attribute("idem.outcome"), "duplicate");
    assert_eq!(traced.only("run").parent(), first.id());
}

/// A copy comes, and its execution is looked for.
///
/// - told: the same key and message id on both spans
#[tokio::test]
async fn a_duplicate_and_the_execution_that_it_repeats_have_the_same_key_and_message_id() {
    let (bed, traced) = (Bed::new().await, Traced::default());
    let _recorded = traced.record();
    let worker = bed.charging(MemoryStore::new(), &Script::succeeding());
    let publication = order(&bed, "a");
    for outcome in [Kind::Executed, Kind::Duplicate] {
        publish(&bed, &publication).await;
        worker.ended(outcome, 1).await;
    }
    let spans = processed(&traced, &bed, worker).await;
    let found = |attribute: &str| -> Vec<_> {
        let values = spans.iter().map(|span| span.attribute(attribute));
        values.collect()
    };
    assert_eq!(found("idem.outcome"), ["executed", "duplicate"]);
    assert_eq!(found("idem.key"), ["orders.charge:a"; 2]);
    assert_eq!(found("messaging.message.id"), [publication.id(); 2]);
}

/// A message comes back from the retry ladder.
///
/// - told: every attempt is in its publisher's trace
#[tokio::test]
async fn every_attempt_is_in_the_publishers_trace_also_by_way_of_the_ladder() {
    let (bed, traced) = (Bed::with_vhost().await, Traced::default());
    let _recorded = traced.record();
    let queue = laddered(bed.queue());
    bed.declare(&queue).await;
    let script = failing_until(2, DELAY);
    let worker = laddered::start(&bed, &MemoryStore::new(), &script, queue);
    publish(&bed, &order(&bed, "a")).await;
    worker.ended(Kind::Executed, 1).await;

    let [failed, executed] = &processed(&traced, &bed, worker).await[..] else {
        panic!("two spans: {traced:?}");
    };
    let publish = publishing(&traced, &bed);
    assert_eq!(
        [failed.parent(), executed.parent()],
        [publish.id(), publish.id()]
    );
    assert_eq!(failed.attribute("idem.settlement"), "retry");
    assert_eq!(failed.attribute("error.type"), "failed");
    assert!(failed.is_error() && !executed.is_error());
    assert_eq!(executed.attribute("idem.attempt"), "2");
}

/// A dead letter is replayed, and traces are kept.
///
/// - told: a trace of its own, linked to the publisher's
#[tokio::test]
async fn what_a_person_sends_again_is_a_trace_of_its_own_linked_to_the_publishers() {
    let (bed, traced) = (Bed::new().await, Traced::default());
    let _recorded = traced.record();
    let store = MemoryStore::new();
    let worker = bed.charging(store.clone(), &rejecting());
    publish(&bed, &order(&bed, "a")).await;
    worker.ended(Kind::Rejected, 1).await;
    worker.stop().await;
    until_dead(&bed, 1).await;
    let worker = bed.charging(store, &Script::succeeding());
    replayer(&bed).replay(&Selection::all()).await.unwrap();
    worker.ended(Kind::Executed, 1).await;

    let [rejected, replayed] = &processed(&traced, &bed, worker).await[..] else {
        panic!("two spans: {traced:?}");
    };
    let publish = traced.named(&format!("publish {}", bed.name())).remove(0);
    assert_eq!(rejected.parent(), publish.id());
    assert_ne!(replayed.trace(), publish.trace());
    assert_eq!(replayed.links(), [publish.id()]);
    assert_eq!(replayed.attribute("idem.replay"), "true");
    // The dead letter was published inside of the settlement.
    let letter = traced.only(&format!("publish {}", dead(bed.name())));
    assert_eq!(letter.trace(), rejected.trace());
}

/// A message brings a context.
///
/// - told: the message's own context, which it keeps
#[tokio::test]
async fn a_message_keeps_the_context_that_it_brings() {
    let (bed, traced) = (Bed::new().await, Traced::default());
    let _recorded = traced.record();
    let worker = bed.charging(MemoryStore::new(), &Script::succeeding());
    let brought = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let publication = order(&bed, "a").header("traceparent", brought);
    publish(&bed, &publication).await;
    worker.ended(Kind::Executed, 1).await;
    let process = &processed(&traced, &bed, worker).await[0];
    assert_eq!(process.trace().to_string(), &brought[3..35]);
    assert_eq!(process.parent().to_string(), &brought[36..52]);
}

/// A request brings a context.
///
/// - told: the same context, carried by the reply
#[tokio::test]
async fn a_reply_carries_the_context_of_its_request() {
    let (bed, traced) = (Bed::new().await, Traced::default());
    let _recorded = traced.record();
    let worker = bed.charging(MemoryStore::new(), &Script::succeeding());
    let requester = Requester::on(&bed).await;
    let body = serde_json::to_vec(&Order::new("a")).unwrap();
    requester.ask(bed.name(), &body, "c-1").await;
    let reply = requester.reply().await;
    worker.ended(Kind::Executed, 1).await;
    let process = &processed(&traced, &bed, worker).await[0];
    let Some(AMQPValue::LongString(context)) = reply.header("traceparent") else {
        panic!("a reply with its context");
    };
    assert!(context.to_string().contains(&process.trace().to_string()));
    requester.leave().await;
}

/// Trace and span that an event says it was published in.
fn context(event: &DeadLetter) -> (String, String) {
    let context = event.header("traceparent").expect("it has a context");
    let parts: Vec<_> = context.split('-').collect();
    let ["00", trace, span, _] = parts[..] else {
        panic!("the W3C's form: {context}")
    };
    (trace.into(), span.into())
}

/// A handler publishes by an outbox, and what it publishes leaves at once or later.
///
/// - told: the context of the handler's run, whoever sends the event
#[tokio::test]
async fn what_an_outbox_publishes_is_in_the_trace_of_its_handler() {
    // SQLite works on a thread of its own. If that is the last to drop a span, `tracing-subscriber` looks for the span's
    // parent among those of that thread's subscriber, which is another one, and panics.
    let (shop, traced) = (Shop::open(Product::Postgres).await, Traced::default());
    let _recorded = traced.record();
    let worker = shop.sell().await;
    let later = |after| Sale {
        after,
        ..Sale::new(if after.is_some() { "later" } else { "now" }, &shop.events)
    };
    for after in [None, Some(3600)] {
        let sale = Publication::json(shop.bed.name(), &later(after));
        publish(&shop.bed, &sale).await;
    }
    worker.ended(Kind::Executed, 2).await;
    let now = shop.events(1).await;
    processed(&traced, &shop.bed, worker).await;
    shop.pass_time(Duration::from_hours(2)).await;
    let relay = Relaying::start(shop.outbox().await, shop.bed.url());
    let later = shop.events(1).await;
    relay.stop().await;
    assert_eq!(ids(&now), ["sales.sell:now#0"]);
    assert_eq!(ids(&later), ["sales.sell:later#0"]);

    let runs = traced.named("run");
    let found = [&now[0], &later[0]].map(context);
    for (event, (trace, span)) in ["now", "later"].into_iter().zip(&found) {
        let run = runs.iter().find(|run| run.id().to_string() == *span);
        let run = run.unwrap_or_else(|| panic!("{event}: {found:?} {traced:?}"));
        assert_eq!(run.trace().to_string(), *trace, "{event}");
    }
    assert_ne!(found[0].0, found[1].0, "each has its handler's");
    shop.bed.assert_nothing_stuck().await;
}
