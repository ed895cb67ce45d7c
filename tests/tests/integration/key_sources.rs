//! Where a key comes from, on a broker: headers, the message's id, its content, the first of several, a type that says
//! its own.
//!
//! Each message is sent twice as it is, and once with another key.

use idem_amqp::{
    MemoryStore, Worker,
    executor::ExecutionKind as Kind,
    handler::{Handler, Leased},
    prelude::*,
};
use idem_tests::{
    bed::{Bed, persistent},
    running::assert_balance,
    script::{Order, Script},
};
use lapin::{
    BasicProperties,
    types::{AMQPValue, FieldTable},
};
use serde::Deserialize;

/// A message whose type says what its key is.
#[derive(Deserialize, IdempotencyKey)]
struct Item {
    #[key]
    order: String,
    #[key]
    line: u32,
    amount_cents: i64,
}

#[idempotent(key = header("x-request"), scope = "by.header")]
async fn by_header(
    order: Order,
    State(script): State<Script>,
    attempt: Attempt,
    delivery: Delivery,
) -> Result<(), Failed> {
    script.play(order, attempt, delivery).await
}

#[idempotent(key = message_id(), scope = "by.message_id")]
async fn by_message_id(
    order: Order,
    State(script): State<Script>,
    attempt: Attempt,
    delivery: Delivery,
) -> Result<(), Failed> {
    script.play(order, attempt, delivery).await
}

#[idempotent(key = content(), scope = "by.content")]
async fn by_content(
    order: Order,
    State(script): State<Script>,
    attempt: Attempt,
    delivery: Delivery,
) -> Result<(), Failed> {
    script.play(order, attempt, delivery).await
}

#[idempotent(key = first(header("x-request"), message_id(), "id"), scope = "by.first")]
async fn by_the_first(
    order: Order,
    State(script): State<Script>,
    attempt: Attempt,
    delivery: Delivery,
) -> Result<(), Failed> {
    script.play(order, attempt, delivery).await
}

#[idempotent(key = [header("x-tenant"), "id"], scope = "by.both")]
async fn by_both(
    order: Order,
    State(script): State<Script>,
    attempt: Attempt,
    delivery: Delivery,
) -> Result<(), Failed> {
    script.play(order, attempt, delivery).await
}

#[idempotent(scope = "by.itself")]
async fn by_itself(
    item: Item,
    State(script): State<Script>,
    attempt: Attempt,
    delivery: Delivery,
) -> Result<(), Failed> {
    assert_eq!(item.amount_cents, 1299);
    let order = Order::new(&format!("{}/{}", item.order, item.line));
    script.play(order, attempt, delivery).await
}

fn order(id: &str) -> Vec<u8> {
    serde_json::to_vec(&Order::new(id)).unwrap()
}

fn with_header(name: &str, value: AMQPValue) -> BasicProperties {
    let mut headers = FieldTable::default();
    headers.insert(name.into(), value);
    persistent().with_headers(headers)
}

fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(value.into())
}

fn with_id(id: &str) -> BasicProperties {
    persistent().with_message_id(id.into())
}

/// Sends each of these twice: they are handled once each, and each second one is a duplicate.
async fn handled_once_each<H>(messages: &[(Vec<u8>, BasicProperties)], effects: &[&str])
where
    H: Handler<Script, Mode = Leased>,
{
    let (bed, script) = (Bed::new().await, Script::succeeding());
    let worker = Worker::builder(MemoryStore::new()).state(script.clone());
    let worker = bed.start(worker.consume::<H>(bed.queue()));
    for round in [Kind::Executed, Kind::Duplicate] {
        for (body, properties) in messages {
            bed.send(bed.name(), body, properties.clone()).await;
        }
        worker.ended(round, messages.len()).await;
    }
    let each = messages.len() as u64;
    let expected = [(Kind::Executed, each), (Kind::Duplicate, each)];
    assert_balance(&worker.stop().await, expected);
    script.assert_effects(effects.iter().copied());
    bed.assert_nothing_stuck().await;
}

/// The key is a header, the message's id, its content, or a header and a field.
///
/// - does: runs messages with different keys, and acknowledges the copies of each
/// - leased: once
#[tokio::test]
async fn a_key_from_outside_the_body_tells_copies_from_other_messages() {
    // The same content under two keys is two messages.
    let by_header = |value| (order("a"), with_header("x-request", value));
    // A number and its digits are one key: publishers in other languages write the one or the other.
    let headers = [by_header(text("r-1")), by_header(AMQPValue::LongInt(7))];
    handled_once_each::<self::by_header>(&headers, &["a", "a"]).await;

    let ids = [(order("a"), with_id("m-1")), (order("a"), with_id("m-2"))];
    handled_once_each::<by_message_id>(&ids, &["a", "a"]).await;

    // What is not content makes no other message of it.
    let contents = [(order("a"), with_id("m-1")), (order("b"), with_id("m-1"))];
    handled_once_each::<by_content>(&contents, &["a", "b"]).await;

    let of_tenant = |tenant| with_header("x-tenant", text(tenant));
    let both = [
        (order("a"), of_tenant("t-1")),
        (order("a"), of_tenant("t-2")),
        (order("b"), of_tenant("t-1")),
    ];
    handled_once_each::<by_both>(&both, &["a", "a", "b"]).await;
}

/// The key is the first of several that the message has.
///
/// - does: takes that one; the same value from another source is another key
/// - leased: once
#[tokio::test]
async fn the_first_source_that_is_there_is_the_key() {
    let messages = [
        (
            order("a"),
            with_header("x-request", text("a")).with_message_id("a".into()),
        ),
        (order("a"), with_id("a")),
        (order("a"), persistent()),
        // Not there is as good as empty.
        (
            order("b"),
            with_header("x-request", text("")).with_message_id("b".into()),
        ),
    ];
    handled_once_each::<by_the_first>(&messages, &["a", "a", "a", "b"]).await;
}

/// A header that would be the key is there and has no text: a float, a table, or bytes that are not UTF-8.
///
/// - does: dead-letters the message as keyless; it does not take the next source, which another message may have as
///   well
/// - leased: never
#[tokio::test]
async fn a_header_that_cannot_be_read_is_not_passed_over() {
    let (bed, script) = (Bed::new().await, Script::succeeding());
    let worker = Worker::builder(MemoryStore::new()).state(script.clone());
    let worker = bed.start(worker.consume::<by_the_first>(bed.queue()));
    let unreadable = [
        AMQPValue::Double(17.5),
        AMQPValue::FieldTable(FieldTable::default()),
        AMQPValue::LongString(b"K\xf6ln".to_vec().into()),
    ];
    for value in unreadable {
        bed.send(bed.name(), &order("a"), with_header("x-request", value))
            .await;
        let letter = bed.dead_letter().await;
        let error = letter.error();
        assert!(error.contains("cannot be read"), "{error}");
    }
    // Null is as good as not there.
    let null = with_header("x-request", AMQPValue::Void).with_message_id("m-1".into());
    bed.send(bed.name(), &order("a"), null).await;
    worker.ended(Kind::Executed, 1).await;
    let ends = [(Kind::Keyless, 3), (Kind::Executed, 1)];
    assert_balance(&worker.stop().await, ends);
    script.assert_effects(["a"]);
    bed.assert_nothing_stuck().await;
}

/// The message's type derives `IdempotencyKey`.
///
/// - does: takes its marked fields for the key, in their order
/// - leased: once
#[tokio::test]
async fn a_type_that_derives_its_key_is_handled_once() {
    let line = |order: &str, line: u32| {
        let body = serde_json::json!({"order": order, "line": line, "amount_cents": 1299});
        (body.to_string().into_bytes(), persistent())
    };
    // `a1` and `1` together are not `a` and `11`.
    let lines = [line("a", 1), line("a", 11), line("a1", 1)];
    handled_once_each::<by_itself>(&lines, &["a/1", "a/11", "a1/1"]).await;
}
