//! What comes of a numbered message while its number is inside the window.

use idem_core::{
    message::{PositionKind, SequencePlace},
    store::{Claim, OutOfPlace, Release, Store, StoreError},
};

use super::{
    LEASE, Producer, Rule, SequenceHarness,
    producer::FAR,
    scene::{key, unique},
};

/// The first message that is ever seen begins the sequence, whichever it is.
pub async fn a_number_inside_the_window_is_acquired<H: SequenceHarness>(harness: &H) {
    for number in [0, 3, 1_000_000] {
        let producer = Producer::new(harness, Rule::InSequence);
        let holder = producer.acquires(number).await;
        holder.is_attempt(1, false, "nobody has tried before");
        producer.mark_is(number, "nothing is done").await;
        producer.scene.holds(
            producer.scene.store().keeps(PositionKind::Sequence),
            "it says that it keeps sequences, or the executor never asks it",
        );
    }
}

/// Several workers: the broker mixes the messages.
pub async fn numbers_of_a_window_run_in_any_order<H: SequenceHarness>(harness: &H) {
    let producer = Producer::new(harness, Rule::InSequence);
    for number in [0, 5, 2, 7, 3, 1, 6, 4] {
        producer.works(number).await;
    }
    producer.mark_is(8, "all are done").await;
}

/// A duplicate is told what came of the first.
pub async fn an_outcome_inside_the_window_is_repeated<H: SequenceHarness>(harness: &H) {
    let producer = Producer::new(harness, Rule::InSequence);
    producer.works_on(0..3).await;
    for number in 0..3 {
        producer.hears(number, "nobody needs its place").await;
    }
}

/// Only its holder works on a number, and a vanished one has a successor.
pub async fn a_number_is_held_and_taken_over<H: SequenceHarness>(harness: &H) {
    let producer = Producer::new(harness, Rule::InSequence);
    let vanished = producer.acquires(0).await;
    let held = producer.claim(0).await.is_held("a worker has it");
    producer.scene.lasts(held, LEASE, "the rest of the lease");
    producer.scene.advance(LEASE).await;
    let successor = producer.acquires(0).await;
    successor.is_attempt(2, true, "the first has vanished");
    let written = vanished.complete("late").await;
    written.is_fenced("it was taken over");
}

/// The owner asks again who did not hear the answer.
pub async fn an_owner_may_repeat_a_numbered_claim<H: SequenceHarness>(harness: &H) {
    let producer = Producer::new(harness, Rule::InSequence);
    let owner = producer.asks(0);
    let [one, other] = [owner.claim().await, owner.claim().await]
        .map(|answer| answer.is_acquired("the owner has it").lease);
    producer.scene.holds(one == other, "it is one claim");
}

/// Attempts, errors and delays are what they are without a sequence.
pub async fn a_failed_number_is_tried_again<H: SequenceHarness>(harness: &H) {
    let producer = Producer::new(harness, Rule::InSequence);
    producer.acquires(0).await.fails().await;
    let holder = producer.acquires(0).await;
    holder.is_attempt(2, false, "the first one has failed");
    holder.fails_for(LEASE).await;
    let claim = producer.claim(0).await;
    claim.is_held("the next attempt is not due");
    producer.scene.advance(LEASE).await;
    let holder = producer.acquires(0).await;
    holder.is_attempt(3, false, "the second one has failed");
}

/// A producer that gives one number to two messages.
pub async fn other_content_under_a_number_is_key_reuse<H: SequenceHarness>(harness: &H) {
    let producer = Producer::new(harness, Rule::InSequence);
    let claim = producer.asks(0).content("one").claim().await;
    let holder = claim.is_acquired("nobody has the number");
    holder.complete("done").await.is_applied("the holder");
    let answer = producer.asks(0).content("other").claim().await;
    answer.is_key_reused("the number stands for other content");
}

/// Two producers, or two epochs of one.
pub async fn sequences_are_independent<H: SequenceHarness>(harness: &H) {
    let [one, other] = [0; 2].map(|_| Producer::new(harness, Rule::InSequence));
    one.works_on(0..20).await;
    other.works(0).await;
    other.mark_is(1, "it is its own sequence").await;
    one.mark_is(20, "the other has moved nothing").await;
    one.are_done(0..1, "it was passed").await;
    other.works(1).await;
}

/// Names of which one begins with the other, or a number.
pub async fn sequences_that_look_alike_are_kept_apart<H: SequenceHarness>(harness: &H) {
    let unique = unique();
    let names = ["", "1", "~", "~1", "{", "}", "%", "*", "A", "a"];
    let producers =
        names.map(|end| Producer::named(harness, Rule::InSequence, &format!("{unique}{end}")));
    for (number, producer) in (0..).zip(&producers) {
        producer.works(number % 8).await;
    }
    for (number, producer) in (0..).zip(&producers) {
        producer.hears(number % 8, "its own outcome").await;
        producer.mark_is(number % 8 + 1, "its own mark").await;
    }
}

/// One number too many: it waits until those before are done.
pub async fn a_number_beyond_the_window_is_ahead<H: SequenceHarness>(harness: &H) {
    let producer = Producer::new(harness, Rule::Window);
    producer.acquires(0).await;
    for number in [8, 9, 1000, u64::from(u32::MAX), FAR] {
        let answer = producer.claim(number).await;
        answer.is_ahead(0, "the window ends at 7");
        let replay = producer.replays(number).await;
        replay.is_ahead(0, "a replay is no way around the window");
    }
    producer.acquires(7).await;
}

/// What is ahead runs as soon as there is room, and is counted from then on.
pub async fn a_number_that_was_ahead_runs_when_it_is_its_turn<H: SequenceHarness>(harness: &H) {
    let producer = Producer::new(harness, Rule::Window);
    let first = producer.acquires(0).await;
    let owner = producer.asks(8);
    for _ in 0..3 {
        owner.claim().await.is_ahead(0, "0 is not done");
    }
    first.complete("done").await.is_applied("the holder");
    let holder = owner.claim().await.is_acquired("0 is done");
    holder.is_attempt(1, false, "to be ahead is no attempt");
}

/// Numbers as large as they can be.
pub async fn the_greatest_number_of_a_sequence_is_the_last<H: SequenceHarness>(harness: &H) {
    const LAST: u64 = SequencePlace::MAX_NUMBER;
    let producer = Producer::new(harness, Rule::Window);
    for number in [LAST + 1, u64::MAX] {
        let answer = producer.claim(number).await;
        answer.is_ahead(0, "there are no such numbers, and no sequence begins");
    }
    producer.works(LAST - 9).await;
    producer.works_on(LAST - 8..LAST + 1).await;
    producer.hears(LAST, "neighbours are told apart").await;
    let answer = producer.claim(LAST + 1).await;
    answer.is_ahead(LAST - 1, "there are no greater numbers");
}

/// A window of one runs number after number; the widest one lets a hundred thousand run.
pub async fn a_window_of_a_sequence_may_be_narrow_or_wide<H: SequenceHarness>(harness: &H) {
    let producer = Producer::new(harness, Rule::Window);
    for number in 0..4 {
        let narrow = |number| producer.asks_at(producer.place(number).window(1));
        let claim = narrow(number).claim().await;
        let holder = claim.is_acquired("it is its turn");
        let ahead = Claim::OutOfPlace(OutOfPlace::Ahead {
            mark: number,
            window: 1,
        });
        let claim = narrow(number + 1).claim().await;
        claim.is(&ahead, "its turn is the next");
        holder.complete("done").await.is_applied("the holder");
    }
    let wide = |number| producer.asks_at(producer.place(number).window(u32::MAX));
    let last = 4 + u64::from(SequencePlace::MAX_WINDOW) - 1;
    wide(last).claim().await.is_acquired("the window ends here");
    let answer = wide(last + 1).claim().await;
    let (mark, window) = (4, SequencePlace::MAX_WINDOW);
    answer.is(
        &Claim::OutOfPlace(OutOfPlace::Ahead { mark, window }),
        "it is wider than any",
    );
}

/// A message that names one place and asks for the key of another.
pub async fn a_message_under_another_key_is_refused<H: SequenceHarness>(harness: &H) {
    let producer = Producer::new(harness, Rule::InSequence);
    let mut claimant = producer.asks(0);
    claimant.request.key = key(&unique());
    let answer = claimant.store.claim(&claimant.request).await;
    producer.scene.holds(
        matches!(answer, Err(StoreError::Refused(_))),
        &format!("it is not the number's key, the store answered {answer:?}"),
    );
    producer.works(0).await;
}

/// The store has not heard of it, or no longer: of what came before nobody knows, so that nothing is
/// taken for done, and nothing for late.
pub async fn what_came_before_the_beginning_goes_by_the_ordinary_rules<H: SequenceHarness>(
    harness: &H,
) {
    let producer = Producer::new(harness, Rule::Begins);
    producer.works(1000).await;
    for number in [999, 0] {
        let holder = producer.works(number).await;
        holder.is_attempt(1, false, "it came before");
        producer.hears(number, "it keeps its record").await;
    }
    producer.releases(998, &Release::gave_up("no")).await;
    let holder = producer.acquires(998).await;
    holder.is_attempt(1, false, "copies of a dead letter run");
    producer.releases(3, &Release::Quarantined).await;
    let answer = producer.claim(3).await;
    answer.is_quarantined("it waits for a person");
    producer.works_on(1001..1020).await;
    producer.mark_is(1020, "nobody waits for them").await;
    producer.acquires(997).await;
    producer.hears(999, "it keeps its record").await;
}

/// A message that was delivered before, perhaps one of many that are done and forgotten: it runs by the
/// ordinary rules, and the producer goes on where it is.
pub async fn what_may_not_begin_a_sequence_does_not<H: SequenceHarness>(harness: &H) {
    let producer = Producer::new(harness, Rule::Begins);
    let again = |number| producer.asks_at(producer.place(number).begins(false));
    let holder = again(20).claim().await.is_acquired("nobody has it");
    holder.fails().await;
    let holder = again(20).claim().await.is_acquired("it has failed");
    holder.is_attempt(2, false, "it has failed");
    holder.complete("20").await.is_applied("it is the holder");
    producer.works(5000).await;
    producer.hears(20, "it is done").await;
    again(5001)
        .claim()
        .await
        .is_acquired("its sequence goes on");
    producer.mark_is(5001, "it began with 5000").await;
}

/// Days later, a person sends an old dead letter again: the producer goes on where it is.
pub async fn a_replay_begins_no_sequence<H: SequenceHarness>(harness: &H) {
    let producer = Producer::new(harness, Rule::Begins);
    let replay = producer.replays(20).await;
    let replay = replay.is_acquired("nobody has the number");
    producer.replays(20).await.is_held("a worker has it");
    replay.complete("20").await.is_applied("it is the holder");
    producer.works(5000).await;
    producer.mark_is(5001, "it began with 5000").await;
    producer.hears(20, "the replay has done it").await;
}
