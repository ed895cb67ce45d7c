//! The harness for users' tests, with records of Kafka.

#![expect(
    clippy::unwrap_used,
    reason = "tests, though clippy does not see that of functions beside them"
)]

use std::{
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use idem_core::{
    Envelope, Failed, Headers, State, executor::ExecutionKind as Kind, handler::DecodeError,
    idempotent,
};
use idem_testing::{
    CrashPoint, Harness, InMemory, Message, Setup, assert_distinct_keys, assert_idempotent,
    kafka::Record,
};

/// What the handler was called with, once for each effect.
type Seen = Arc<Mutex<Vec<String>>>;

/// Cents; none in a tombstone.
fn cents(envelope: &Envelope) -> Result<Option<i64>, DecodeError> {
    if envelope.body().is_empty() {
        Ok(None)
    } else {
        envelope.json().map(Some)
    }
}

#[idempotent(key = position(), scope = "postings.book", decode = cents)]
async fn book(
    posting: Option<i64>,
    from: idem_kafka::Record,
    headers: Headers,
    State(seen): State<Seen>,
) -> Result<(), Failed> {
    if posting == Some(0) {
        return Err(Failed::rejected("nothing to book"));
    }
    let key = headers.get("kafka-key").unwrap_or_default();
    let tenant = headers.get("x-tenant").unwrap_or_default();
    let made = from
        .timestamp()
        .map(|at| at.elapsed().unwrap().as_secs() / 3600);
    let place = format!("{}:{}:{}", from.topic(), from.partition(), from.offset());
    let entry = format!("{place} {posting:?} {key} {tenant} {made:?}");
    let mut seen = seen.lock().unwrap();
    if !seen.contains(&entry) {
        seen.push(entry);
    }
    Ok(())
}

fn harness() -> Harness<book, Seen, InMemory> {
    Setup::new(Seen::default).handler::<book>()
}

#[tokio::test(start_paused = true)]
async fn a_handler_finds_in_a_record_what_a_worker_reads() {
    let harness = harness();
    let record = Record::json(&1250)
        .at("postings", 3, 17)
        .key("a-1")
        .header("x-tenant", "other")
        .header("x-tenant", "acme")
        .timestamp(SystemTime::now() - Duration::from_hours(2))
        .message();
    assert_eq!(harness.deliver(&record).await.kind(), Kind::Executed);
    let deleted = Record::tombstone().at("postings", 3, 18).key("a-1");
    let deleted = harness.deliver(&deleted.into()).await;
    assert_eq!(deleted.kind(), Kind::Executed);
    let seen = harness.state().lock().unwrap().clone();
    let expected = [
        "postings:3:17 Some(1250) a-1 acme Some(2)",
        "postings:3:18 None a-1  None",
    ];
    assert_eq!(seen, expected);
}

#[tokio::test(start_paused = true)]
async fn a_record_that_is_read_again_is_a_duplicate_and_one_at_another_place_is_not() {
    let harness = harness();
    let record = Record::json(&1250).at("postings", 0, 17).message();
    harness.crash(CrashPoint::BeforeCompletion, &record).await;
    let again = harness.deliver_until_done(&record.redelivered()).await;
    assert_eq!((again.kind(), again.attempt()), (Kind::Executed, Some(2)));
    let copy = harness.deliver(&record.redelivered()).await;
    assert_eq!(copy.kind(), Kind::Duplicate);

    let places = [("postings", 0, 18), ("postings", 1, 17), ("other", 0, 17)];
    let [a, b, c] = places.map(|(topic, partition, offset)| {
        Record::json(&1250).at(topic, partition, offset).message()
    });
    assert_distinct_keys(&harness, [&a, &b, &c]).await;
    assert_idempotent(&harness, &record, async |run| {
        run.state().lock().unwrap().clone()
    })
    .await;
}

/// What the record says of its parts, and what is found of its headers as text.
#[idempotent(key = position(), scope = "postings.look")]
async fn look(
    body: u32,
    from: idem_kafka::Record,
    headers: Headers,
    State(seen): State<Seen>,
) -> Result<(), Failed> {
    let text = |bytes: Option<&[u8]>| bytes.map(|it| String::from_utf8_lossy(it).into_owned());
    let [bytes, as_text] = [
        ["a", "b"].map(|name| text(from.header(name))),
        ["a", "b"].map(|name| headers.get(name).map(Into::into)),
    ];
    assert_eq!(bytes, as_text);
    let entry = format!("{body} {:?} {bytes:?}", text(from.key()));
    seen.lock().unwrap().push(entry);
    Ok(())
}

/// What it sees of these records.
async fn looked_at<const N: usize>(records: [Record; N]) -> Vec<String> {
    let harness = Setup::new(Seen::default).handler::<look>();
    for (offset, record) in (0..).zip(records) {
        let record = record.at("postings", 0, offset).message();
        assert_eq!(harness.deliver(&record).await.kind(), Kind::Executed);
    }
    harness.state().lock().unwrap().clone()
}

#[tokio::test(start_paused = true)]
async fn a_header_may_have_no_value() {
    let record = || Record::bytes("1");
    let seen = looked_at([
        record().header("a", "").header_without_value("b"),
        // The last one of a name counts.
        record().header("a", "1").header_without_value("a"),
        record().header_without_value("b").header("b", "1"),
    ])
    .await;
    let expected = [
        r#"1 None [Some(""), None]"#,
        "1 None [None, None]",
        r#"1 None [None, Some("1")]"#,
    ];
    assert_eq!(seen, expected);
}

#[tokio::test(start_paused = true)]
async fn a_record_is_written_of_whatever_holds_bytes() {
    let text = String::from("12");
    let (name, slice, array) = ("a".to_owned(), text.as_bytes(), [b'1', b'2']);
    let (vec, shared) = (slice.to_vec(), bytes::Bytes::from_static(b"12"));
    let seen = looked_at([
        Record::bytes(&*text).key(&*text).header(&*name, &*text),
        Record::bytes(&text).key(&text).header(&name, &text),
        Record::bytes(slice).key(slice).header("a", slice),
        Record::bytes(array).key(array).header("a", b"12"),
        Record::bytes(&vec).key(&vec).header("a", vec),
        Record::bytes(&shared).key(&shared).header("a", shared),
        Record::bytes(text.clone())
            .key(text.clone())
            .header("a", text),
    ])
    .await;
    assert_eq!(seen, [r#"12 Some("12") [Some("12"), None]"#; 7]);
}

#[tokio::test(start_paused = true)]
async fn a_rejected_record_runs_again_as_a_replay() {
    let harness = harness();
    let record = Record::json(&0).at("postings", 0, 17).message();
    let refused = harness.deliver(&record).await;
    assert_eq!(refused.kind(), Kind::Rejected);
    let mended = Record::json(&5).at("postings", 0, 17).message();
    let sent_again = harness.deliver(&mended.replayed()).await;
    assert_eq!(sent_again.kind(), Kind::Executed);
}

#[test]
#[should_panic(expected = "write it there, before it becomes a message")]
fn a_record_is_not_written_to_as_a_message() {
    let _: Message = Record::bytes("1").message().header("x-tenant", "acme");
}
