//! For how long a sequence is known, and how it begins anew.

use std::time::Duration;

use idem_core::store::{Claim, OutOfPlace, Release};

use super::{
    Producer, RETENTION, Rule, SequenceHarness,
    producer::{FAR, PRODUCED},
};

/// As long as messages come, however few.
pub async fn a_sequence_is_known_while_messages_come<H: SequenceHarness>(harness: &H) {
    let producer = Producer::new(harness, Rule::StaysKnown);
    producer.works_on(0..3).await;
    for number in 3..6 {
        producer.scene.advance(RETENTION / 2).await;
        producer.works(number).await;
        producer.claim(number - 1).await.is_done("it was passed");
    }
    producer.are_done(0..5, "its sequence is known").await;
}

/// Also by messages that do not run.
pub async fn a_message_that_is_ahead_keeps_its_sequence_known<H: SequenceHarness>(harness: &H) {
    let producer = Producer::new(harness, Rule::StaysKnown);
    producer.works_on(0..2).await;
    for _ in 0..4 {
        producer.scene.advance(RETENTION / 2).await;
        producer.claim(20).await.is_ahead(2, "2 has not come");
    }
    producer.are_done(0..2, "its sequence is known").await;
}

/// Nobody has heard of the producer for the retention: its sequence begins where it goes on.
pub async fn an_expired_sequence_begins_anew<H: SequenceHarness>(harness: &H) {
    let producer = Producer::new(harness, Rule::StaysKnown);
    producer.works_on(0..30).await;
    producer.mark_is(30, "all are done").await;
    producer.scene.advance(RETENTION * 3 / 4).await;
    producer.claim(5).await.is_done("the retention is not over");
    producer.scene.advance(2 * RETENTION).await;
    producer.acquires(500).await;
    producer.mark_is(500, "it was begun with 500").await;
    for number in [0, 29, 499] {
        let holder = producer.acquires(number).await;
        holder.is_attempt(1, false, "nobody knows what came before");
    }
}

/// Nothing of an earlier sequence is left in the one that has its name.
pub async fn the_exceptions_of_an_expired_sequence_are_gone<H: SequenceHarness>(harness: &H) {
    let producer = Producer::new(harness, Rule::StaysKnown);
    producer.releases(0, &Release::gave_up("no")).await;
    producer.works_on(1..5).await;
    producer.mark_is(5, "nobody waits for a dead letter").await;
    producer.are_late(0..1, "it was given up").await;
    producer.scene.advance(2 * RETENTION).await;
    producer.works_on(0..5).await;
    producer.mark_is(5, "all are done").await;
    producer
        .are_done(0..5, "they are of another sequence")
        .await;
}

/// Done shortly before the next look is due, and passed at once.
pub async fn what_the_mark_has_passed_is_known_for_most_of_the_retention<H: SequenceHarness>(
    harness: &H,
) {
    let producer = Producer::new(harness, Rule::StaysKnown);
    producer.works(0).await;
    producer.scene.advance_nearly(RETENTION / 8).await;
    producer.works_on(1..6).await;
    producer.mark_is(6, "all are done").await;
    producer.scene.advance_nearly(RETENTION * 7 / 8).await;
    producer.claim(5).await.is_done("its sequence is known");
}

/// A copy is no sign that the producer goes on: one that counts anew without an epoch must come
/// through at some time.
pub async fn a_copy_below_the_mark_keeps_no_sequence_known<H: SequenceHarness>(harness: &H) {
    let producer = Producer::new(harness, Rule::StaysKnown);
    producer.works_on(0..5).await;
    producer.mark_is(5, "all are done").await;
    for _ in 0..3 {
        producer.scene.advance(RETENTION / 4).await;
        producer.are_done(0..5, "its sequence is known").await;
    }
    producer.scene.advance(RETENTION / 4).await;
    producer.works_on(0..5).await;
}

/// A handler's window was narrowed while the mark stands still: what is done above it is kept.
pub async fn a_window_may_be_narrowed<H: SequenceHarness>(harness: &H) {
    let producer = Producer::new(harness, Rule::StaysKnown);
    let narrow = |number| producer.asks_at(producer.place(number).window(2));
    producer.works(0).await;
    producer.works_on(2..9).await;
    for _ in 0..4 {
        producer.scene.advance(RETENTION / 2).await;
        let ahead = Claim::OutOfPlace(OutOfPlace::Ahead { mark: 1, window: 2 });
        narrow(9).claim().await.is(&ahead, "1 has not come");
    }
    producer.works(1).await;
    for _ in 0..4 {
        narrow(FAR).claim().await;
    }
    let answer = narrow(9).claim().await;
    answer.is_acquired("none above was forgotten");
}

/// A handler's retention was shortened: what is written from then on is looked at in time.
pub async fn a_retention_may_be_shortened<H: SequenceHarness>(harness: &H) {
    const SHORTER: Duration = Duration::from_hours(4);
    let producer = Producer::new(harness, Rule::StaysKnown);
    producer.works_on(0..2).await;
    producer.works_on(3..6).await;
    for number in 6..8 {
        let mut claimant = producer.asks(number);
        claimant.request.retention = SHORTER;
        let holder = claimant.claim().await.is_acquired("nobody has it");
        let written = holder.complete_for(number.to_string(), SHORTER).await;
        written.is_applied("it is the holder");
    }
    for _ in 0..4 {
        producer.scene.advance(SHORTER / 2).await;
        let mut claimant = producer.asks(FAR);
        claimant.request.retention = SHORTER;
        claimant.claim().await.is_ahead(2, "2 has not come");
    }
    producer.hears(7, "its sequence goes on").await;
}

/// What is told of the rest of the time is true.
pub async fn what_is_done_is_told_with_the_rest_of_its_time<H: SequenceHarness>(harness: &H) {
    let producer = Producer::new(harness, Rule::StaysKnown);
    producer.works_on(0..5).await;
    producer.mark_is(5, "all are done").await;
    let remaining = producer.claim(0).await.is_done("it was passed");
    let told = "the rest of the retention";
    producer.scene.lasts(remaining, RETENTION, told);
    producer.scene.advance(RETENTION / 16).await;
    let remaining = producer.claim(0).await.is_done("it was passed");
    let rest = RETENTION * 15 / 16;
    producer.scene.lasts(remaining, rest, told);
}

/// An attempt outlives its sequence: it counts, and its number is not run beside it.
pub async fn a_number_in_progress_outlives_its_sequence<H: SequenceHarness>(harness: &H) {
    let producer = Producer::new(harness, Rule::StaysKnown);
    let slow = producer.acquires(0).await;
    slow.extend(2 * RETENTION).await.is_applied("the holder");
    producer.scene.advance(RETENTION * 3 / 2).await;
    producer.works(3 * u64::from(PRODUCED)).await;
    producer.claim(0).await.is_held("a worker has it");
    slow.complete("0").await.is_applied("nobody took over");
    producer.hears(0, "it is done").await;
}
