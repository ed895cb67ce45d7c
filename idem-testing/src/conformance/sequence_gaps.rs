//! What is below the mark and not done: given up, or skipped.

use std::time::Duration;

use idem_core::{
    handler::{Outcome, Refusal},
    store::{Claim, OutOfPlace, Release},
};

use super::{LEASE, Producer, RETENTION, Rule, SequenceHarness, claimant::Claimant, producer::FAR};

/// For how long a gap is waited for in these cases.
const PATIENCE: Duration = MINUTE.saturating_mul(MINUTES);
/// Who is ahead asks that often.
const MINUTE: Duration = Duration::from_mins(1);
const MINUTES: u32 = 6;

/// A dead letter: the mark does not wait for it, and its copies do not run.
pub async fn what_was_given_up_is_late<H: SequenceHarness>(harness: &H) {
    let producer = Producer::new(harness, Rule::Exceptions);
    given_up(&producer, &Release::gave_up("it will not work")).await;
    producer.are_late(2..3, "it was given up").await;
    producer.are_done(0..2, "it was passed").await;
    producer.are_done(3..8, "it was passed").await;
}

/// A person sends the dead letter again: it runs, once.
pub async fn a_replay_of_what_was_given_up_runs_once<H: SequenceHarness>(harness: &H) {
    let producer = Producer::new(harness, Rule::Exceptions);
    given_up(&producer, &Release::gave_up("it will not work")).await;
    let replay = producer.replays(2).await.is_acquired("a person sent it");
    replay.is_attempt(1, false, "a replay starts over");
    producer.claim(2).await.is_held("a worker has it");
    replay.complete("2").await.is_applied("it is the holder");
    producer.hears(2, "the replay has done it").await;
    let again = producer.replays(2).await;
    again.is_completed(b"2", "the replay has done it");
    producer.mark_is(8, "the mark was past it").await;
}

/// A replay below the mark fails and is retried, or vanishes and is taken over.
pub async fn a_replay_below_the_mark_has_its_attempts<H: SequenceHarness>(harness: &H) {
    let producer = Producer::new(harness, Rule::Exceptions);
    given_up(&producer, &Release::gave_up("it will not work")).await;
    let replay = producer.replays(2).await.is_acquired("a person sent it");
    replay.fails().await;
    let retry = producer.acquires(2).await;
    retry.is_attempt(2, false, "its retry carries no mark of a replay");
    producer.scene.advance(LEASE).await;
    let successor = producer.acquires(2).await;
    successor.is_attempt(3, true, "the retry has vanished");
    let written = successor.release(&Release::gave_up("no")).await;
    written.is_applied("it is the holder");
    producer.are_late(2..3, "it was given up once more").await;
}

/// In doubt, and below the mark: it says so, as anywhere.
pub async fn what_was_quarantined_stays_quarantined<H: SequenceHarness>(harness: &H) {
    let producer = Producer::new(harness, Rule::Exceptions);
    given_up(&producer, &Release::Quarantined).await;
    let answer = producer.claim(2).await;
    answer.is_quarantined("it waits for a person");
    let replay = producer.replays(2).await.is_acquired("a person sent it");
    replay.complete("2").await.is_applied("it is the holder");
    producer.hears(2, "the replay has done it").await;
}

/// The requester was told that nothing was done. That is remembered, but is not done.
pub async fn what_was_refused_is_not_done<H: SequenceHarness>(harness: &H) {
    let producer = Producer::new(harness, Rule::Exceptions);
    let refused = Outcome::rejected(&Refusal::rejected("it will not work"));
    producer.works_on(0..2).await;
    for claimant in [producer.asks(2), producer.asks(3).content("a")] {
        let holder = claimant.claim().await.is_acquired("nobody has it");
        let written = holder.complete(refused.as_bytes().to_vec()).await;
        written.is_applied("it is the holder");
    }
    producer.works_on(4..8).await;
    producer
        .mark_is(8, "nobody waits for what was refused")
        .await;
    for number in 2..4 {
        let answer = producer.claim(number).await;
        answer.is_completed(refused.as_bytes(), "the refusal is remembered");
    }
    for _ in 0..3 {
        producer.scene.advance(RETENTION / 2).await;
        producer.mark_is(8, "its sequence goes on").await;
    }
    producer.are_late(2..4, "nothing was done").await;
    for number in 2..4 {
        let replay = producer.replays(number).await;
        replay.is_acquired("a person sent it");
    }
}

/// Its record is forgotten long before its sequence.
pub async fn what_was_given_up_stays_late<H: SequenceHarness>(harness: &H) {
    let producer = Producer::new(harness, Rule::Exceptions);
    given_up(&producer, &Release::gave_up("it will not work")).await;
    for _ in 0..4 {
        producer.scene.advance(RETENTION / 2).await;
        producer.mark_is(8, "its sequence goes on").await;
    }
    producer.are_late(2..3, "its sequence is known").await;
    producer.are_done(3..4, "its sequence is known").await;
    let replay = producer.replays(2).await;
    replay.is_acquired("a person sent it");
}

/// Who asks for it has the mark pass what never came, and not before its time.
pub async fn a_gap_is_skipped_when_it_is_asked_for<H: SequenceHarness>(harness: &H) {
    let producer = Producer::new(harness, Rule::Gaps);
    producer.works_on(0..2).await;
    producer.works_on(4..9).await;
    waits(&producer, 10, 2, "it has time").await;
    let answer = producer.claim(10).await;
    answer.is_ahead(2, "this one waits for ever");
    let answer = skips(&producer, 10).claim().await;
    answer.is_acquired("the gap was skipped");
    producer.mark_is(9, "9 has not come").await;
    producer.are_late(2..4, "its turn has passed").await;
    producer.are_done(4..9, "it was passed").await;
    let replay = producer.replays(3).await;
    let replay = replay.is_acquired("a person sent it");
    replay.complete("3").await.is_applied("it is the holder");
    producer.hears(3, "the replay has done it").await;
    producer.are_late(2..3, "nobody has sent it again").await;
    let place = producer.place(20).skip_after(Duration::ZERO);
    let answer = producer.asks_at(place).claim().await;
    answer.is_ahead(10, "this one does not wait for 9, and 10 is at work");
}

/// A stream that loses a message now and then: each of them would stop it for so long.
pub async fn all_gaps_of_a_window_are_skipped_at_once<H: SequenceHarness>(harness: &H) {
    let producer = Producer::new(harness, Rule::Gaps);
    producer.works(0).await;
    producer.works_on(2..4).await;
    producer.works_on(5..7).await;
    waits(&producer, 20, 1, "1 has not come").await;
    let answer = skips(&producer, 20).claim().await;
    answer.is_ahead(7, "1 and 4 were skipped, and nothing above 6 has come");
    for number in [1, 4] {
        producer.are_late(number..number + 1, "it has passed").await;
    }
    producer.works_on(7..15).await;
    producer.mark_is(15, "7 was not skipped").await;
}

/// The window was narrowed since: what was done beyond it says nothing about a gap at its end.
pub async fn a_gap_at_the_end_of_a_narrowed_window_has_its_time<H: SequenceHarness>(harness: &H) {
    let producer = Producer::new(harness, Rule::Gaps);
    for number in [0, 2, 4] {
        producer.works(number).await;
    }
    let narrow = || producer.asks_at(producer.place(20).window(3).skip_after(PATIENCE));
    let ahead = |mark| Claim::OutOfPlace(OutOfPlace::Ahead { mark, window: 3 });
    for _ in 0..MINUTES {
        narrow().claim().await.is(&ahead(1), "1 has time");
        producer.scene.advance(MINUTE).await;
    }
    producer.scene.advance(H::CLOCK.slack()).await;
    narrow().claim().await.is(&ahead(3), "3 has time");
}

/// The next gap has its own time: its number may have been sent just now.
pub async fn when_the_mark_moves_the_next_gap_is_waited_for<H: SequenceHarness>(harness: &H) {
    let producer = Producer::new(harness, Rule::Gaps);
    producer.works(0).await;
    producer.works_on(2..4).await;
    producer.works_on(5..8).await;
    waits(&producer, 20, 1, "1 has not come").await;
    producer.works(1).await;
    let answer = skips(&producer, 20).claim().await;
    answer.is_ahead(4, "1 has come");
    waits(&producer, 20, 4, "4 has time").await;
    producer.works(4).await;
    let answer = skips(&producer, 20).claim().await;
    answer.is_ahead(8, "all others are done");
}

/// The workers were away: what is missing had no chance to come.
pub async fn after_a_pause_a_gap_is_waited_for_anew<H: SequenceHarness>(harness: &H) {
    let producer = Producer::new(harness, Rule::Gaps);
    producer.works(0).await;
    producer.works_on(2..8).await;
    producer.scene.advance(10 * PATIENCE).await;
    for _ in 0..3 {
        let answer = skips(&producer, 20).claim().await;
        answer.is_ahead(1, "nobody has waited for long");
        producer.scene.advance(PATIENCE).await;
    }
    // Nobody who waits asks so seldom, however long the patience is.
    for _ in 0..4 {
        let answer = skips(&producer, 20).claim().await;
        answer.is_ahead(1, "each pause was long");
        producer.scene.advance(MINUTE * 5 / 2).await;
    }
    waits(&producer, 20, 1, "the last pause was long").await;
    let answer = skips(&producer, 20).claim().await;
    answer.is_ahead(8, "1 was skipped");
}

/// Nobody is kept waiting by it, so there is nothing to skip.
pub async fn a_gap_that_keeps_nobody_waiting_is_not_skipped<H: SequenceHarness>(harness: &H) {
    let producer = Producer::new(harness, Rule::Gaps);
    producer.works(0).await;
    producer.works_on(2..7).await;
    for _ in 0..2 * MINUTES {
        let answer = skips(&producer, 6).claim().await;
        answer.is_completed(b"6", "it is inside the window");
        producer.scene.advance(MINUTE).await;
    }
    let answer = skips(&producer, 8).claim().await;
    answer.is_acquired("it is inside the window");
    producer.works(1).await;
    producer.mark_is(7, "1 has come").await;
}

/// A worker has it, or it is to be tried again: that is no gap, however long it takes.
pub async fn what_is_tried_again_is_never_skipped<H: SequenceHarness>(harness: &H) {
    for reason in [None, Some(Release::failed("no")), Some(Release::Abandoned)] {
        let producer = Producer::new(harness, Rule::Gaps);
        let holder = producer.acquires(0).await;
        if let Some(reason) = &reason {
            holder.release(reason).await.is_applied("the holder");
        }
        producer.works_on(1..8).await;
        waits(&producer, 8, 0, "0 is not done").await;
        let answer = skips(&producer, 8).claim().await;
        answer.is_ahead(0, "0 is not done");
        producer.works(0).await;
        let answer = skips(&producer, 8).claim().await;
        answer.is_acquired("0 is done");
    }
}

/// It failed, and its message was lost on its way back: when its retention is over it is missing.
pub async fn what_is_tried_again_is_missing_when_its_retention_ends<H: SequenceHarness>(
    harness: &H,
) {
    let producer = Producer::new(harness, Rule::Gaps);
    producer.acquires(0).await.fails().await;
    producer.works_on(1..8).await;
    for _ in 0..3 {
        producer.scene.advance(RETENTION / 2).await;
        producer.mark_is(0, "0 is not done").await;
    }
    waits(&producer, 8, 0, "0 is missing").await;
    let answer = skips(&producer, 8).claim().await;
    answer.is_acquired("the gap was skipped");
    producer.are_late(0..1, "its turn has passed").await;
    producer.are_done(1..8, "it was passed").await;
}

/// Everything between was lost: a window of it is skipped at a time, for what is beyond it may be
/// waiting.
pub async fn a_wide_gap_is_skipped_window_by_window<H: SequenceHarness>(harness: &H) {
    let producer = Producer::new(harness, Rule::Gaps);
    producer.works(0).await;
    producer.releases(1, &Release::gave_up("no")).await;
    waits(&producer, 20, 2, "2 has not come").await;
    let answer = skips(&producer, 20).claim().await;
    answer.is_ahead(10, "a window was skipped");
    waits(&producer, 20, 10, "10 has time").await;
    let answer = skips(&producer, 20).claim().await;
    answer.is_acquired("all the gap was skipped");
    producer.are_late(1..18, "its turn has passed").await;
    producer.are_done(0..1, "it was passed").await;
}

/// How long others had waited before it expired says nothing about the gap of its successor.
pub async fn a_sequence_that_begins_anew_waits_anew<H: SequenceHarness>(harness: &H) {
    // Shorter than the longest pause that a wait may have.
    const BRIEF: Duration = Duration::from_secs(40);
    let producer = Producer::new(harness, Rule::Gaps);
    let briefly = |mut claimant: Claimant<H::Store>| {
        claimant.request.retention = BRIEF;
        claimant
    };
    let fails = async |number| {
        let answer = briefly(producer.asks(number)).claim().await;
        answer.is_acquired("nobody has it").fails().await;
    };
    fails(0).await;
    let answer = briefly(skips(&producer, 20)).claim().await;
    answer.is_ahead(0, "0 has time");
    producer.scene.advance(BRIEF).await;
    fails(100).await;
    // The sequence stays known, and the record of 100 does not.
    for _ in 0..2 {
        producer.scene.advance(BRIEF / 2).await;
        let answer = briefly(producer.asks(FAR)).claim().await;
        answer.is_ahead(100, "100 is not done");
    }
    let answer = briefly(skips(&producer, 120)).claim().await;
    answer.is_ahead(100, "100 has time");
}

/// While the mark stands still, what others have done above it stays known, and so do dead letters.
pub async fn what_waits_for_a_gap_is_kept<H: SequenceHarness>(harness: &H) {
    let producer = Producer::new(harness, Rule::StaysKnown);
    producer.works(0).await;
    producer.works_on(2..5).await;
    producer.releases(5, &Release::Quarantined).await;
    let outside = producer.scene.acquired().await;
    outside.complete("done").await.is_applied("the holder");
    for _ in 0..5 {
        producer.scene.advance(RETENTION / 2).await;
        producer.mark_is(1, "1 has not come").await;
    }
    for number in 2..5 {
        producer.hears(number, "its sequence goes on").await;
    }
    let answer = producer.claim(5).await;
    answer.is_quarantined("its sequence goes on");
    producer.works(1).await;
    producer.mark_is(6, "1 has come").await;
    let outside = producer.scene.acquired().await;
    outside.is_attempt(1, false, "a record outside of the sequence is forgotten");
}

/// Asks as a message that waits, for nearly as long as a gap is waited for and then for the rest.
async fn waits<H: SequenceHarness>(producer: &Producer<'_, H>, number: u64, mark: u64, why: &str) {
    producer.mark_is(mark, why).await;
    let answer = skips(producer, number).claim().await;
    answer.is_ahead(mark, why);
    for _ in 1..MINUTES {
        producer.scene.advance(MINUTE).await;
        let answer = skips(producer, number).claim().await;
        answer.is_ahead(mark, why);
    }
    producer.scene.advance_nearly(MINUTE).await;
    let answer = skips(producer, number).claim().await;
    answer.is_ahead(mark, why);
    producer.scene.advance(H::CLOCK.slack()).await;
}

/// A message of a handler that lets gaps be skipped.
fn skips<H: SequenceHarness>(producer: &Producer<'_, H>, number: u64) -> Claimant<H::Store> {
    producer.asks_at(producer.place(number).skip_after(PATIENCE))
}

/// Eight numbers, of which number 2 was given back for this reason, and the mark passed them all.
async fn given_up<H: SequenceHarness>(producer: &Producer<'_, H>, reason: &Release) {
    producer.works_on(0..2).await;
    producer.releases(2, reason).await;
    producer.works_on(3..8).await;
    producer.mark_is(8, "nobody waits for a dead letter").await;
}
