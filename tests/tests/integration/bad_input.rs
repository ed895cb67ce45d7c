//! Messages that cannot be handled: dead-lettered with the reason, never run, never requeued.

use std::collections::BTreeMap;

use idem_amqp::{
    FromContext, Key, MemoryStore, Worker,
    executor::ExecutionKind as Kind,
    handler::{Context, Rejection},
    prelude::*,
    store::Look as _,
};
use idem_tests::{
    bed::{Bed, persistent},
    cell::Cell,
    on_each_store, on_further_stores,
    running::assert_balance,
    script::{Order, Script},
};
use lapin::types::{AMQPValue, ByteArray, DecimalValue, FieldArray, FieldTable};
use serde_json::json;

/// A worker gets one message that cannot be handled: what does the dead letter say?
async fn dead_letter_of(body: &[u8], kind: Kind) -> (String, String) {
    let bed = Bed::new().await;
    let script = Script::succeeding();
    let worker = bed.charging(MemoryStore::new(), &script);
    bed.send(bed.name(), body, persistent()).await;

    let letter = bed.dead_letter().await;
    worker.ended(kind, 1).await;
    assert_balance(&worker.stop().await, [(kind, 1)]);
    assert_eq!(letter.body, body);
    assert_eq!(letter.attempt(), "0");
    assert!(script.calls.entries().is_empty());
    bed.assert_nothing_stuck().await;
    (letter.reason(), letter.error())
}

/// The body is not JSON.
///
/// - does: dead-letters it, `undecodable`
/// - atomic: kept as dead letter
/// - leased: kept as dead letter
#[tokio::test]
async fn a_body_that_is_not_json_is_dead_lettered_as_undecodable() {
    let (reason, error) = dead_letter_of(b"\xff\x00 not json", Kind::Undecodable).await;
    assert_eq!(reason, "undecodable");
    assert!(error.contains("expected value at line 1"), "{error}");
}

/// The body is empty.
///
/// - does: dead-letters it, `undecodable`
/// - atomic: kept as dead letter
/// - leased: kept as dead letter
#[tokio::test]
async fn an_empty_body_is_dead_lettered_as_undecodable() {
    let (reason, _) = dead_letter_of(b"", Kind::Undecodable).await;
    assert_eq!(reason, "undecodable");
}

/// A field of the message is missing.
///
/// - does: dead-letters it, `undecodable`
/// - atomic: kept as dead letter
/// - leased: kept as dead letter
#[tokio::test]
async fn a_body_without_a_field_of_the_message_is_dead_lettered_as_undecodable() {
    let (reason, error) = dead_letter_of(br#"{"amount_cents": 1}"#, Kind::Undecodable).await;
    assert_eq!(reason, "undecodable");
    assert!(error.contains("missing field `id`"), "{error}");
}

#[idempotent(key = "id", scope = "validated", validate = positive)]
async fn with_a_positive_amount(order: Order, State(script): State<Script>) -> Result<(), Failed> {
    unreachable!("{order:?} {script:?}")
}

fn positive(order: &Order) -> Result<(), String> {
    match order.amount_cents {
        1.. => Ok(()),
        amount => Err(format!("the amount must be positive, and is {amount}")),
    }
}

/// The handler's `validate` rejects the message.
///
/// - does: dead-letters it, `invalid`, with the words of `validate`; asks no store, and runs nothing
/// - atomic: kept as dead letter
/// - leased: kept as dead letter
#[tokio::test]
async fn a_message_that_is_not_valid_is_dead_lettered_as_invalid_and_never_claimed() {
    let (bed, store) = (Bed::new().await, MemoryStore::new());
    let worker = Worker::builder(store.clone()).state(Script::succeeding());
    let worker = bed.start(worker.consume::<with_a_positive_amount>(bed.queue()));
    bed.json(&json!({"id": "a", "amount_cents": 0})).await;

    let letter = bed.dead_letter().await;
    assert_eq!(letter.reason(), "invalid");
    assert_eq!(letter.error(), "the amount must be positive, and is 0");
    assert_eq!(letter.attempt(), "0");
    worker.ended(Kind::Invalid, 1).await;
    assert_balance(&worker.stop().await, [(Kind::Invalid, 1)]);
    let key = Key::new("validated", "a").unwrap();
    assert!(store.look(&key).await.unwrap().is_none());
    bed.assert_nothing_stuck().await;
}

/// The key is empty.
///
/// - does: dead-letters it, `keyless`
/// - atomic: kept as dead letter
/// - leased: kept as dead letter
#[tokio::test]
async fn an_empty_key_is_dead_lettered_as_keyless() {
    let body = br#"{"id": "", "amount_cents": 1}"#;
    let (reason, error) = dead_letter_of(body, Kind::Keyless).await;
    assert_eq!(reason, "keyless");
    assert!(error.contains("id"), "{error}");
}

#[derive(serde::Deserialize)]
struct Optional {
    id: Option<String>,
}

#[idempotent(key = "id", scope = "optional")]
async fn with_an_optional_key(
    message: Optional,
    State(script): State<Script>,
) -> Result<(), Failed> {
    unreachable!("{:?} {script:?}", message.id)
}

#[idempotent(key = header("x-request"), scope = "headed")]
async fn with_a_key_in_a_header(_order: Order, State(script): State<Script>) -> Result<(), Failed> {
    unreachable!("{script:?}")
}

#[idempotent(key = message_id(), scope = "identified")]
async fn with_the_message_id(_order: Order, State(script): State<Script>) -> Result<(), Failed> {
    unreachable!("{script:?}")
}

/// A handler whose key is missing is never run, not even unprotected.
async fn keyless<H>(bodies: &[&[u8]])
where
    H: idem_amqp::handler::Handler<Script, Mode = idem_amqp::handler::Leased>,
{
    let bed = Bed::new().await;
    let worker = Worker::builder(MemoryStore::new()).state(Script::succeeding());
    let worker = bed.start(worker.consume::<H>(bed.queue()));
    for body in bodies {
        bed.send(bed.name(), body, persistent()).await;
    }

    for _ in bodies {
        assert_eq!(bed.dead_letter().await.reason(), "keyless");
    }
    worker.ended(Kind::Keyless, bodies.len()).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Keyless, bodies.len() as u64)]);
    bed.assert_nothing_stuck().await;
}

/// The key's field is missing or null.
///
/// - does: dead-letters it, `keyless`
/// - atomic: kept as dead letter
/// - leased: kept as dead letter
#[tokio::test]
async fn a_missing_or_null_key_is_dead_lettered_as_keyless() {
    keyless::<with_an_optional_key>(&[b"{}", br#"{"id": null}"#]).await;
}

/// The key's header is missing.
///
/// - does: dead-letters it, `keyless`
/// - atomic: kept as dead letter
/// - leased: kept as dead letter
#[tokio::test]
async fn a_missing_key_header_is_dead_lettered_as_keyless() {
    keyless::<with_a_key_in_a_header>(&[br#"{"id": "a", "amount_cents": 1}"#]).await;
}

/// The key is the message id, and there is none.
///
/// - does: dead-letters it, `keyless`: such messages do not share a key
/// - atomic: kept as dead letter
/// - leased: kept as dead letter
#[tokio::test]
async fn messages_without_an_id_do_not_share_one_key() {
    let body = br#"{"id": "a", "amount_cents": 1}"#;
    keyless::<with_the_message_id>(&[body, body]).await;
}

/// The key was used for other content.
///
/// - does: dead-letters it, `key-reused`
/// - atomic: the first stays done
/// - leased: the first stays done
async fn a_key_used_again_for_other_content_is_dead_lettered<C: Cell>() {
    let (bed, cell) = (Bed::new().await, C::open().await);
    let script = Script::succeeding();
    let worker = cell.charging(&bed, &script);
    bed.order("a").await;
    worker.ended(Kind::Executed, 1).await;
    bed.json(&json!({"id": "a", "amount_cents": 999_999})).await;

    let letter = bed.dead_letter().await;
    assert_eq!(letter.reason(), "key-reused");
    worker.ended(Kind::KeyReused, 1).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 1), (Kind::KeyReused, 1)]);
    cell.assert_effects(&script, ["a"]).await;
    bed.assert_nothing_stuck().await;
}

struct Tenant;

impl<S> FromContext<S> for Tenant {
    fn from_context(context: &Context<'_, S>) -> Result<Self, Rejection> {
        let tenant = context.envelope.header("x-tenant");
        tenant
            .map(|_| Self)
            .ok_or_else(|| Rejection::new("there is no x-tenant header"))
    }
}

#[idempotent(key = "id", scope = "tenants")]
async fn for_a_tenant(
    order: Order,
    _tenant: Tenant,
    State(script): State<Script>,
    attempt: Attempt,
    delivery: Delivery,
) -> Result<(), Failed> {
    script.play(order, attempt, delivery).await
}

/// A parameter of the handler cannot be extracted.
///
/// - does: dead-letters it, `undecodable`, with the extractor's words
/// - atomic: kept as dead letter
/// - leased: kept as dead letter
#[tokio::test]
async fn a_parameter_that_cannot_be_extracted_dead_letters_the_message() {
    let bed = Bed::new().await;
    let script = Script::succeeding();
    let worker = Worker::builder(MemoryStore::new()).state(script.clone());
    let worker = bed.start(worker.consume::<for_a_tenant>(bed.queue()));
    bed.order("a").await;

    let letter = bed.dead_letter().await;
    assert_eq!(letter.reason(), "undecodable");
    assert_eq!(letter.error(), "there is no x-tenant header");
    worker.ended(Kind::Undecodable, 1).await;
    assert_balance(&worker.stop().await, [(Kind::Undecodable, 1)]);
    assert!(script.calls.entries().is_empty());
    bed.assert_nothing_stuck().await;
}

fn headers_of_every_type() -> FieldTable {
    let mut table = FieldTable::default();
    let mut inner = FieldTable::default();
    inner.insert("deep".into(), AMQPValue::Void);
    let array = FieldArray::from(vec![AMQPValue::Boolean(true), AMQPValue::LongInt(-1)]);
    let decimal = DecimalValue {
        scale: 2,
        value: 1299,
    };
    let values = [
        ("text", AMQPValue::LongString("täxt".into())),
        ("not-utf-8", AMQPValue::LongString(vec![0xff, 0x00].into())),
        (
            "bytes",
            AMQPValue::ByteArray(ByteArray::from(vec![1, 2, 3])),
        ),
        ("yes", AMQPValue::Boolean(true)),
        ("int", AMQPValue::LongLongInt(i64::MIN)),
        ("double", AMQPValue::Double(0.5)),
        ("decimal", AMQPValue::DecimalValue(decimal)),
        ("time", AMQPValue::Timestamp(1_700_000_000)),
        ("array", AMQPValue::FieldArray(array)),
        ("table", AMQPValue::FieldTable(inner)),
        ("void", AMQPValue::Void),
    ];
    for (name, value) in values {
        table.insert(name.into(), value);
    }
    table
}

#[idempotent(key = "id", scope = "headers")]
async fn rejecting_after_a_look_at_the_headers(
    _order: Order,
    headers: Headers,
    State(script): State<Script>,
) -> Result<(), Failed> {
    let texts = headers.names().into_iter().filter_map(|name| {
        let text = headers.get(name)?;
        Some((name.to_owned(), text.into_owned()))
    });
    let texts: BTreeMap<String, String> = texts.collect();
    let _ = script;
    Err(Failed::rejected(serde_json::to_string(&texts)?))
}

/// Headers have types other than text.
///
/// - does: hands the handler those that are exact as text, keeps all on the dead letter
/// - atomic: unchanged
/// - leased: unchanged
#[tokio::test]
async fn headers_of_every_type_reach_the_handler_and_the_dead_letter() {
    let bed = Bed::new().await;
    let worker = Worker::builder(MemoryStore::new()).state(Script::succeeding());
    let worker = bed.start(worker.consume::<rejecting_after_a_look_at_the_headers>(bed.queue()));
    let properties = persistent().with_headers(headers_of_every_type());
    let body = serde_json::to_vec(&Order::new("a")).unwrap();
    bed.send(bed.name(), &body, properties).await;

    let letter = bed.dead_letter().await;
    let seen: BTreeMap<String, String> = serde_json::from_str(&letter.error()).unwrap();
    let expected = [
        ("bytes", "\u{1}\u{2}\u{3}"),
        ("int", "-9223372036854775808"),
        ("text", "täxt"),
        ("time", "1700000000"),
        ("yes", "true"),
    ];
    let expected = expected.map(|(name, text)| (name.to_owned(), text.to_owned()));
    assert_eq!(seen, expected.into());
    for (name, value) in headers_of_every_type().inner() {
        assert_eq!(letter.value(name.as_str()), Some(value), "{name}");
    }
    worker.ended(Kind::Rejected, 1).await;
    assert_balance(&worker.stop().await, [(Kind::Rejected, 1)]);
    bed.assert_nothing_stuck().await;
}

on_each_store! {
    a_key_used_again_for_other_content_is_dead_lettered,
}

on_further_stores! {
    a_key_used_again_for_other_content_is_dead_lettered,
}
