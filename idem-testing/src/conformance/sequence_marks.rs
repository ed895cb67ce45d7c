//! How the mark moves, and what is known of what it has passed.

use idem_core::store::Release;

use super::{LEASE, Producer, RETENTION, Rule, SequenceHarness, producer::PRODUCED};

/// What is below is one number, not a record for each message.
pub async fn the_mark_passes_what_is_done<H: SequenceHarness>(harness: &H) {
    let producer = Producer::new(harness, Rule::MarkMoves);
    let first = producer.works(0).await;
    let again = first.complete("again").await;
    again.is_applied("its record is still there");
    // The shortest record that there is.
    let empty = producer.acquires(1).await.complete("").await;
    empty.is_applied("it is the holder");
    producer.works_on(2..100).await;
    producer.mark_is(100, "all are done").await;
    let again = first.complete("again").await;
    again.is_fenced("its record was removed");
}

/// Copies, replays and other content: nobody runs it, however long ago it was.
pub async fn what_the_mark_has_passed_never_runs_again<H: SequenceHarness>(harness: &H) {
    let producer = Producer::new(harness, Rule::Done);
    producer.works_on(0..40).await;
    producer.mark_is(40, "all are done").await;
    producer.are_done(0..40, "it was passed").await;
    let other = producer.asks(17).content("other").claim().await;
    other.is_done("there is nothing to compare with");
    for _ in 0..4 {
        producer.scene.advance(RETENTION / 2).await;
        producer.mark_is(40, "nothing has happened").await;
    }
    producer.are_done(0..40, "its sequence is known").await;
}

/// A worker is at it.
pub async fn the_mark_stops_at_a_number_in_progress<H: SequenceHarness>(harness: &H) {
    let producer = Producer::new(harness, Rule::MarkMoves);
    let slow = producer.acquires(0).await;
    producer.works_on(1..8).await;
    producer.mark_is(0, "a worker has it").await;
    producer.scene.advance(LEASE).await;
    producer.mark_is(0, "its worker has vanished").await;
    producer.hears(5, "the mark has not passed it").await;
    slow.complete("done").await.is_applied("nobody took over");
    producer.mark_is(8, "all are done").await;
}

/// It will be tried again, at once or later.
pub async fn the_mark_stops_at_a_number_that_failed<H: SequenceHarness>(harness: &H) {
    for reason in [
        Release::failed("it did not work"),
        Release::retry_after(10 * LEASE, "it did not work"),
        Release::Abandoned,
    ] {
        let producer = Producer::new(harness, Rule::MarkMoves);
        producer.works(0).await;
        producer.releases(1, &reason).await;
        producer.works_on(2..8).await;
        producer.mark_is(1, "it is to be tried again").await;
        producer.scene.advance(10 * LEASE).await;
        producer.mark_is(1, "it is to be tried again").await;
        producer.works(1).await;
        producer.mark_is(8, "all are done").await;
    }
}

/// A gap: it may still be on its way.
pub async fn the_mark_stops_at_a_number_that_never_came<H: SequenceHarness>(harness: &H) {
    let producer = Producer::new(harness, Rule::Gaps);
    producer.works(0).await;
    producer.works_on(2..9).await;
    producer.mark_is(1, "it has not come yet").await;
    for _ in 0..4 {
        producer.scene.advance(RETENTION / 6).await;
        producer.mark_is(1, "nobody asked to skip it").await;
    }
    producer.works(1).await;
    producer.mark_is(9, "all are done").await;
}

/// Whoever asks for an outcome does not have it removed.
pub async fn the_mark_never_passes_the_number_that_is_claimed<H: SequenceHarness>(harness: &H) {
    let producer = Producer::new(harness, Rule::MarkMoves);
    producer.works_on(0..8).await;
    for _ in 0..2 {
        producer.scene.advance(RETENTION / 4).await;
        producer.hears(7, "it is asked for").await;
    }
    producer.claim(6).await.is_done("the mark is at 7");
    producer.mark_is(8, "all are done").await;
}

/// One number fails again and again, and all others pass it within the window, window after window.
pub async fn one_number_is_delayed_while_others_pass<H: SequenceHarness>(harness: &H) {
    const MANY: u64 = 300;
    let producer = Producer::new(harness, Rule::MarkMoves).with_window(1000);
    for number in (0..MANY).filter(|number| *number != 7) {
        producer.works(number).await;
        if number % 50 == 8 {
            producer.acquires(7).await.fails().await;
        }
    }
    producer.mark_is(7, "it is to be tried again").await;
    for number in (8..MANY).step_by(30) {
        producer.hears(number, "the mark is at 7").await;
    }
    let holder = producer.acquires(7).await;
    holder.is_attempt(7, false, "none is forgotten");
    holder.complete("7").await.is_applied("it is the holder");
    producer.mark_is(MANY, "all are done").await;
    producer.are_done(6..9, "it was passed").await;
}

/// A completion is repeated whose answer was lost: fenced, and the claim after it tells the truth.
pub async fn a_completion_that_the_mark_has_passed_is_found_done<H: SequenceHarness>(harness: &H) {
    let producer = Producer::new(harness, Rule::Done);
    let owner = producer.asks(0);
    let holder = owner.claim().await.is_acquired("nobody has it");
    holder.complete("done").await.is_applied("the holder");
    producer.works_on(1..6).await;
    let again = holder.complete("done").await;
    again.is_fenced("its record went with the mark");
    owner.claim().await.is_done("it was done");
}

/// A zombie below the mark changes nothing.
pub async fn a_lease_that_the_mark_has_passed_is_fenced<H: SequenceHarness>(harness: &H) {
    let producer = Producer::new(harness, Rule::Done);
    let zombie = producer.acquires(0).await;
    producer.scene.advance(LEASE).await;
    producer.works(0).await;
    producer.works_on(1..6).await;
    zombie.extend(LEASE).await.is_fenced("it was taken over");
    let written = zombie.complete("late").await;
    written.is_fenced("it was taken over");
    let written = zombie.release(&Release::gave_up("late")).await;
    written.is_fenced("it was taken over");
    producer.are_done(0..1, "it was passed").await;
}

/// Hours between two messages: the mark does not wait until half a window has come.
pub async fn the_mark_moves_before_what_is_done_is_forgotten<H: SequenceHarness>(harness: &H) {
    let producer = Producer::new(harness, Rule::MarkMoves);
    for number in 0..u64::from(2 * PRODUCED) {
        producer.works(number).await;
        if let Some(last) = number.checked_sub(1) {
            producer.claim(last).await.is_done("a look was due");
        }
        producer.scene.advance(RETENTION * 2 / 3).await;
    }
    producer.mark_is(16, "none was forgotten before").await;
}
