//! Dead letters that are sent again execute again, each as its end demands.

use idem_amqp::{
    Failed, MemoryStore, Worker,
    dead_letters::{DeadLetterStats, Replayer, Selection},
    executor::ExecutionKind as Kind,
    prelude::*,
};
use idem_tests::{
    bed::{Bed, dead},
    journal::eventually,
    log::Log,
    running::{Running, assert_balance},
    script::{Order, Script},
};
use lapin::{
    Connection, ConnectionProperties,
    options::{BasicConsumeOptions, BasicQosOptions},
    types::FieldTable,
};
use serde::Deserialize;
use serde_json::json;

use crate::dead_letters::{quarantined, rejecting};

/// For the test's own dead-letter queue.
pub(crate) fn replayer(bed: &Bed) -> Replayer {
    Replayer::new(bed.url(), dead(bed.name())).unwrap()
}

/// Waits until so many letters are there: a worker's acknowledgement may come after them.
pub(crate) async fn until_dead(bed: &Bed, letters: u32) {
    eventually("the dead letters are there", async || {
        match bed.waiting(&dead(bed.name())).await {
            Some((waiting, _)) if waiting == letters => Ok(()),
            seen => Err(seen),
        }
    })
    .await;
}

/// Leaves one dead letter for each of these orders, rejected.
pub(crate) async fn bury(bed: &Bed, store: &MemoryStore, ids: &[&str]) {
    let worker = bed.charging(store.clone(), &rejecting());
    for id in ids {
        bed.order(id).await;
    }
    worker.ended(Kind::Rejected, ids.len()).await;
    worker.stop().await;
    until_dead(bed, ids.len().try_into().unwrap()).await;
}

/// Seen, replayed, discarded, failed, left.
pub(crate) fn tally(tally: DeadLetterStats) -> [u64; 5] {
    let DeadLetterStats { seen, .. } = tally;
    let ended = [tally.replayed, tally.discarded, tally.failed, tally.left];
    assert_eq!(ended.iter().sum::<u64>(), seen, "{tally}");
    [seen, ended[0], ended[1], ended[2], ended[3]]
}

/// Sends the only dead letter again, to a worker that can handle it.
pub(crate) async fn replay_to(worker: Running, bed: Bed, script: &Script, id: &str) {
    let replayed = replayer(&bed).replay(&Selection::all()).await.unwrap();
    assert_eq!(tally(replayed), [1, 1, 0, 0, 0]);
    worker.ended(Kind::Executed, 1).await;
    assert!(worker.settled.entries().iter().all(|ended| ended.replay));
    assert_balance(&worker.stop().await, [(Kind::Executed, 1)]);
    script.assert_effects([id]);
    assert_eq!(script.attempts(), [1]);
    bed.assert_nothing_stuck().await;
}

/// The handler that rejected the message was mended.
///
/// - does: runs it, attempts counted from 1
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_rejected_letter_executes_when_it_is_replayed() {
    let bed = Bed::new().await;
    let store = MemoryStore::new();
    bury(&bed, &store, &["a"]).await;
    let script = Script::succeeding();
    let worker = bed.charging(store, &script);
    replay_to(worker, bed, &script, "a").await;
}

/// What made the message exhaust its attempts is over.
///
/// - does: runs it, attempts counted from 1
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn an_exhausted_letter_executes_when_it_is_replayed() {
    let bed = Bed::new().await;
    let store = MemoryStore::new();
    let failing = Script::new(async |_| Err(Failed::retry("still down")));
    let worker = bed.charging(store.clone(), &failing);
    bed.order("a").await;
    worker.ended(Kind::Exhausted, 1).await;
    worker.stop().await;
    until_dead(&bed, 1).await;
    let script = Script::succeeding();
    let worker = bed.charging(store, &script);
    replay_to(worker, bed, &script, "a").await;
}

/// The message's attempt was in doubt, and its key is in quarantine.
///
/// - does: runs it
/// - atomic: never in doubt
/// - leased: runs when a person says so
#[tokio::test]
async fn a_letter_in_doubt_executes_when_it_is_replayed() {
    let bed = Bed::new().await;
    let store = MemoryStore::new();
    let letter = quarantined(&bed, &store).await;
    bed.send(&dead(bed.name()), &letter.body, letter.properties)
        .await;
    let script = Script::succeeding();
    let worker = bed.charging(store, &script);
    replay_to(worker, bed, &script, "a").await;
}

/// An order as the handler should have read it from the start.
#[derive(Deserialize)]
struct Mended {
    #[serde(alias = "order")]
    id: String,
    #[serde(default)]
    amount_cents: i64,
    #[serde(default)]
    number: u32,
}

/// The mended handler: another name of the field, and a key that tells any two orders apart.
#[idempotent(key = ["id", "number", "amount_cents"], scope = "orders.charge")]
async fn mended(
    order: Mended,
    State(script): State<Script>,
    attempt: Attempt,
    delivery: Delivery,
) -> Result<(), Failed> {
    let order = Order::new(&format!("{}{}", order.id, order.number));
    script.play(order, attempt, delivery).await
}

/// What a handler could not handle is handled when it is mended.
async fn replay_to_a_mended_handler(body: serde_json::Value, kind: Kind, reason: &str, id: &str) {
    let bed = Bed::new().await;
    let store = MemoryStore::new();
    let before = bed.charging(store.clone(), &Script::succeeding());
    bed.json(&Order::new("taken")).await;
    before.ended(Kind::Executed, 1).await;
    bed.json(&body).await;
    before.ended(kind, 1).await;
    before.stop().await;
    until_dead(&bed, 1).await;
    let found = replayer(&bed).look(&Selection::all()).await.unwrap();
    assert_eq!(found[0].reason(), reason);

    let script = Script::succeeding();
    let worker = Worker::builder(store).state(script.clone());
    let worker = bed.start(worker.consume::<mended>(bed.queue()));
    replay_to(worker, bed, &script, id).await;
}

/// The handler can decode the message now.
///
/// - does: runs it
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn an_undecodable_letter_executes_when_the_handler_was_mended() {
    let body = json!({"order": "a", "number": 1});
    replay_to_a_mended_handler(body, Kind::Undecodable, "undecodable", "a1").await;
}

/// The handler finds a key in the message now.
///
/// - does: runs it
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_keyless_letter_executes_when_the_handler_was_mended() {
    let bed = Bed::new().await;
    let store = MemoryStore::new();
    let before = bed.charging(store.clone(), &Script::succeeding());
    bed.json(&json!({"id": "", "amount_cents": 5})).await;
    before.ended(Kind::Keyless, 1).await;
    before.stop().await;
    until_dead(&bed, 1).await;

    let script = Script::succeeding();
    let worker = Worker::builder(store).state(script.clone());
    let worker = bed.start(worker.consume::<by_content>(bed.queue()));
    replay_to(worker, bed, &script, "").await;
}

/// Takes the whole body as the key.
#[idempotent(key = content(), scope = "orders.charge")]
async fn by_content(
    order: Order,
    State(script): State<Script>,
    attempt: Attempt,
    delivery: Delivery,
) -> Result<(), Failed> {
    script.play(order, attempt, delivery).await
}

/// The key had been used for other content, and the handler's key tells the two apart now.
///
/// - does: runs it; as long as the key does not tell them apart, the letter comes back
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_letter_whose_key_was_used_for_other_content_executes_when_the_handler_was_mended() {
    let body = json!({"id": "taken", "amount_cents": 5, "number": 3});
    replay_to_a_mended_handler(body, Kind::KeyReused, "key-reused", "taken3").await;
}

/// A copy of the message has been executed meanwhile.
///
/// - does: acknowledges it as a duplicate, and says so in the log and to the observer
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_replay_of_what_is_done_is_a_duplicate_and_says_so() {
    let bed = Bed::new().await;
    let store = MemoryStore::new();
    bury(&bed, &store, &["a"]).await;
    let log = Log::default();
    let _guard = log.capture();
    let script = Script::succeeding();
    let worker = bed.charging(store, &script);
    bed.order("a").await;
    worker.ended(Kind::Executed, 1).await;

    let replayed = replayer(&bed).replay(&Selection::all()).await.unwrap();
    assert_eq!(tally(replayed), [1, 1, 0, 0, 0]);
    worker.ended(Kind::Duplicate, 1).await;
    let settled = worker.settled.entries();
    let replays = settled.iter().map(|ended| (ended.kind, ended.replay));
    let expected = [(Kind::Executed, false), (Kind::Duplicate, true)];
    assert_eq!(replays.collect::<Vec<_>>(), expected);
    let expected = "a dead letter was sent again, and its work had been done already";
    let text = log.text();
    let mut lines = text.lines().filter(|line| line.contains(expected));
    let line = lines.next().unwrap_or_else(|| panic!("{text}"));
    assert!(line.contains("WARN") && line.contains(":a"), "{line}");
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 1), (Kind::Duplicate, 1)]);
    script.assert_effects(["a"]);
    bed.assert_nothing_stuck().await;
}

/// Letters wait, and the broker gives them to another consumer alone: the queue has a single active one.
///
/// - does: ends in an error that tells how many wait, and not as an empty queue
/// - atomic: nothing lost
/// - leased: nothing lost
#[tokio::test]
async fn letters_that_the_broker_does_not_deliver_are_no_empty_queue() {
    let bed = Bed::new().await;
    let letters = bed.another("letters");
    let mut single = FieldTable::default();
    single.insert("x-single-active-consumer".into(), true.into());
    bed.declare_foreign(&letters, single).await;
    let other = Connection::connect(bed.url(), ConnectionProperties::default());
    let other = other.await.unwrap().create_channel().await.unwrap();
    other
        .basic_qos(1, BasicQosOptions::default())
        .await
        .unwrap();
    let _active = other
        .basic_consume(
            letters.as_str().into(),
            "".into(),
            BasicConsumeOptions::default(),
            FieldTable::default(),
        )
        .await
        .unwrap();
    for id in ["a", "b", "c"] {
        bed.order_to(&letters, id).await;
    }

    let replayer = Replayer::new(bed.url(), letters.as_str()).unwrap();
    let error = replayer.replay(&Selection::all()).await.unwrap_err();
    let told = format!("{error:?}");
    assert!(told.contains("2 letters wait"), "{told}");
    other.close(200, "".into()).await.unwrap();
    eventually("all letters are there", async || {
        match bed.waiting(&letters).await {
            Some((3, _)) => Ok(()),
            seen => Err(seen),
        }
    })
    .await;
}
