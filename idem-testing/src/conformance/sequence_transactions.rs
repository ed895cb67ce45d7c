//! Atomic handlers of numbered messages: who is lent a transaction, and what a commit leaves.

use idem_core::store::{Claim, Finished, OutOfPlace, Release};

use super::{
    LEASE, Producer, Rule, SequenceHarness, TransactionalHarness,
    open::{Open, begin},
    scene::unique,
};

/// The completion and the handler's writes commit together, and the mark passes them.
pub async fn a_numbered_transaction_commits_once<H: SequenceHarness + TransactionalHarness>(
    harness: &H,
) {
    let (producer, effect) = (Producer::new(harness, Rule::InSequence), unique());
    let mut open = Open::<H>::of(&producer.asks(0)).await;
    producer.claim(0).await.is_held("its transaction is open");
    producer.mark_is(0, "its transaction is open").await;
    open.write_effect(&effect).await;
    open.commits().await;
    producer.mark_is(1, "it was committed").await;
    match begin::<H>(&producer.asks(0)).await {
        Err(Claim::Completed { .. }) => {}
        other => producer.scene.did_not_expect(other, "Completed"),
    }
    producer.scene.has_effects(&effect, 1, "it ran once").await;
}

/// Failed, rolled back: the mark waits for the next attempt.
pub async fn a_numbered_transaction_is_tried_again<H: SequenceHarness + TransactionalHarness>(
    harness: &H,
) {
    let (producer, effect) = (Producer::new(harness, Rule::InSequence), unique());
    let mut open = Open::<H>::of(&producer.asks(0)).await;
    open.write_effect(&effect).await;
    open.rolls_back(&Release::failed("no")).await;
    producer.mark_is(0, "it is to be tried again").await;
    let mut open = Open::<H>::of(&producer.asks(0)).await;
    let second = open.lease.attempt == 2;
    producer.scene.holds(second, "the second attempt");
    open.write_effect(&effect).await;
    open.commits().await;
    let scene = &producer.scene;
    scene.has_effects(&effect, 1, "one was rolled back").await;
}

/// A message that does not run gets nothing to write through.
pub async fn no_transaction_is_opened_for_what_does_not_run<
    H: SequenceHarness + TransactionalHarness,
>(
    harness: &H,
) {
    let producer = Producer::new(harness, Rule::Window);
    producer.works(0).await;
    producer.releases(1, &Release::gave_up("no")).await;
    producer.works_on(2..4).await;
    producer.mark_is(4, "nobody waits for a dead letter").await;
    let (mark, window) = (4, 8);
    for (number, expected) in [
        (1, Claim::OutOfPlace(OutOfPlace::Late)),
        (12, Claim::OutOfPlace(OutOfPlace::Ahead { mark, window })),
    ] {
        match begin::<H>(&producer.asks(number)).await {
            Err(claim) if claim == expected => {}
            other => producer
                .scene
                .did_not_expect(other, &format!("{expected:?}")),
        }
    }
    match begin::<H>(&producer.asks(0)).await {
        Err(Claim::Completed { .. }) => {}
        other => producer.scene.did_not_expect(other, "Completed"),
    }
}

/// A zombie commits nothing, also when the mark has passed its number.
pub async fn a_transaction_that_the_mark_has_passed_commits_nothing<
    H: SequenceHarness + TransactionalHarness,
>(
    harness: &H,
) {
    let (producer, effect) = (Producer::new(harness, Rule::Done), unique());
    let mut zombie = Open::<H>::of(&producer.asks(0)).await;
    producer.scene.advance(LEASE).await;
    producer.works(0).await;
    producer.mark_is(1, "its successor is done").await;
    zombie.write_effect(&effect).await;
    let commit = zombie.commit("late").await;
    producer.scene.holds(
        commit == Finished::Fenced,
        &format!("it was taken over, the store answered {commit:?}"),
    );
    let scene = &producer.scene;
    scene.has_effects(&effect, 0, "it was fenced").await;
    producer.are_done(0..1, "its successor has done it").await;
}
