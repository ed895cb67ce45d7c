//! Numbered messages that are dead-lettered: their numbers stop no later one, and sent again they run.

use idem_amqp::{
    Failed, MemoryStore, Worker, dead_letters::Selection, executor::ExecutionKind as Kind,
    prelude::*, store::Purge,
};
use idem_tests::{
    bed::Bed,
    laddered::laddered,
    log::Log,
    readings::{send_stamped, stamps, store_narrowly},
    running::Running,
    script::{Order, Script},
};
use serde::Deserialize;

use crate::replays::{replayer, until_dead};

/// A worker of one publisher's numbers, in a window of 8.
fn storing<S: Purge + Clone>(bed: &Bed, store: S, script: &Script) -> Running {
    let worker = Worker::builder(store).state(script.clone());
    bed.start(worker.consume::<store_narrowly>(laddered(bed.queue())))
}

/// An order as its handler should have read it from the start.
#[derive(Deserialize)]
struct Renamed {
    #[serde(alias = "order")]
    id: String,
}

#[idempotent(key = sequence(window = 8), scope = "readings.store")]
async fn store_renamed(
    order: Renamed,
    State(script): State<Script>,
    attempt: Attempt,
    delivery: Delivery,
) -> Result<(), Failed> {
    script.play(Order::new(&order.id), attempt, delivery).await
}

fn names(numbers: impl IntoIterator<Item = u64>) -> Vec<String> {
    numbers
        .into_iter()
        .map(|number| number.to_string())
        .collect()
}

async fn replay_all(bed: &Bed) {
    until_dead(bed, 1).await;
    replayer(bed).replay(&Selection::all()).await.unwrap();
}

/// A numbered message's body cannot be decoded, and its headers tell its number.
///
/// - does: gives the number up and dead-letters it, reason `undecodable`: no later number waits; a replay executes when
///   the handler was mended
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_number_whose_body_cannot_be_decoded_stops_no_later_one_and_runs_when_that_is_mended() {
    let bed = Bed::with_vhost().await;
    let store = MemoryStore::new();
    let script = Script::succeeding();
    let worker = storing(&bed, store.clone(), &script);
    bed.until_consumed(bed.name(), 1).await;
    send_stamped(&bed, 0..3).await;
    bed.send(bed.name(), br#"{"order": "3"}"#, stamps(3)).await;
    send_stamped(&bed, 4..40).await;
    worker.ended(Kind::Undecodable, 1).await;
    worker.ended(Kind::Executed, 39).await;
    worker.stop().await;

    let worker = Worker::builder(store).state(script.clone());
    let worker = bed.start(worker.consume::<store_renamed>(laddered(bed.queue())));
    replay_all(&bed).await;
    worker.ended(Kind::Executed, 1).await;
    worker.stop().await;
    script.assert_effects(names(0..40));
    bed.assert_nothing_stuck().await;
}

/// A replay of a number that the mark has passed is delivered again before a worker claimed it.
///
/// - does: treats it as a replay still, and runs it
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_replay_that_is_delivered_again_before_it_was_claimed_runs() {
    let bed = Bed::with_vhost().await;
    let store = MemoryStore::new();
    let rejecting = Script::new(async |call| match &*call.id {
        "1" => Err(Failed::rejected("no such sensor")),
        _ => Ok(()),
    });
    let worker = storing(&bed, store.clone(), &rejecting);
    bed.until_consumed(bed.name(), 1).await;
    send_stamped(&bed, 0..20).await;
    worker.ended(Kind::Executed, 19).await;
    worker.ended(Kind::Rejected, 1).await;
    worker.stop().await;

    replay_all(&bed).await;
    bed.until_waiting(1).await;
    // As if a worker had been killed before it looked at it.
    bed.give_back(bed.name()).await;
    let script = Script::succeeding();
    let worker = storing(&bed, store, &script);
    worker.ended(Kind::Executed, 1).await;
    let call = script.calls.entries().remove(0);
    assert!(call.redelivered);
    worker.stop().await;
    script.assert_effects(["1"]);
    bed.assert_nothing_stuck().await;
}

/// A producer uses its numbers again, in the same epoch.
///
/// - does: takes the messages for copies: they are **lost**. Counts them (`WorkerStats::stale_numbers`), and the log
///   says what to do; a copy that the broker delivers again is not counted
/// - atomic: lost
/// - leased: lost
#[tokio::test]
async fn numbers_that_are_used_again_are_counted_and_told() {
    let bed = Bed::with_vhost().await;
    let log = Log::default();
    let _guard = log.capture();
    let script = Script::succeeding();
    let worker = storing(&bed, MemoryStore::new(), &script);
    bed.until_consumed(bed.name(), 1).await;
    send_stamped(&bed, [0]).await;
    worker.ended(Kind::Executed, 1).await;
    send_stamped(&bed, 1..40).await;
    worker.ended(Kind::Executed, 40).await;
    // A copy in the window is an ordinary one.
    send_stamped(&bed, [39]).await;
    worker.ended(Kind::Duplicate, 1).await;
    send_stamped(&bed, 0..10).await;
    worker.ended(Kind::Duplicate, 11).await;
    let balance = worker.stop().await;
    assert_eq!(balance.stale_numbers(), 10, "{balance}");
    assert!(
        balance.to_string().ends_with(" stale_numbers=10"),
        "{balance}"
    );
    let text = log.text();
    let told: Vec<_> = (text.lines())
        .filter(|line| line.contains("done long ago"))
        .collect();
    assert_eq!(told.len(), 1, "{told:?}");
    let words = ["readings.store:till-4:e-1", "number=0", "`epoch`"];
    assert!(words.iter().all(|word| told[0].contains(word)), "{told:?}");
    script.assert_effects(names(0..40));
    bed.assert_nothing_stuck().await;
}

/// Shares the promise of `sequence_letters::numbers_that_are_used_again_are_counted_and_told`.
#[tokio::test]
async fn a_copy_below_the_mark_that_the_broker_delivers_again_tells_of_no_number_used_again() {
    let bed = Bed::with_vhost().await;
    let store = MemoryStore::new();
    let script = Script::succeeding();
    let worker = storing(&bed, store.clone(), &script);
    bed.until_consumed(bed.name(), 1).await;
    send_stamped(&bed, 0..40).await;
    worker.ended(Kind::Executed, 40).await;
    worker.stop().await;
    send_stamped(&bed, [0]).await;
    bed.until_waiting(1).await;
    bed.give_back(bed.name()).await;
    let worker = storing(&bed, store, &script);
    worker.ended(Kind::Duplicate, 1).await;
    assert_eq!(worker.stop().await.stale_numbers(), 0);
    bed.assert_nothing_stuck().await;
}
