//! Atomic handlers in sessions: who is lent a transaction, and what a commit leaves.

use idem_core::store::{Claim, Finished, OutOfPlace, Release};

use super::{
    Client, LEASE, LIFE, Rule, SessionHarness, TransactionalHarness,
    open::{Open, begin},
    scene::unique,
};

/// The answer and the handler's writes commit together, and the answer is repeated.
pub async fn a_transaction_in_a_session_commits_its_answer<
    H: SessionHarness + TransactionalHarness,
>(
    harness: &H,
) {
    let (client, effect) = (Client::new(harness, Rule::Placed).await, unique());
    let mut open = Open::<H>::of(&client.asks(0, 0)).await;
    let held = client.claim(0, 0).await;
    held.is_held("its transaction is open");
    open.write_effect(&effect).await;
    open.commits().await;
    let answer = client.claim(0, 0).await;
    answer.is_completed(b"done", "its transaction was committed");
    match begin::<H>(&client.asks(0, 0)).await {
        Err(Claim::Completed { .. }) => {}
        other => client.scene.did_not_expect(other, "Completed"),
    }
    client.scene.has_effects(&effect, 1, "it ran once").await;
}

/// Failed, rolled back, tried again: attempts count as outside of sessions.
pub async fn a_transaction_in_a_session_is_tried_again<H: SessionHarness + TransactionalHarness>(
    harness: &H,
) {
    let (client, effect) = (Client::new(harness, Rule::Placed).await, unique());
    let mut open = Open::<H>::of(&client.asks(0, 0)).await;
    open.write_effect(&effect).await;
    open.rolls_back(&Release::failed("no")).await;
    let mut open = Open::<H>::of(&client.asks(0, 0)).await;
    client
        .scene
        .holds(open.lease.attempt == 2, "the second attempt");
    open.write_effect(&effect).await;
    open.commits().await;
    client
        .scene
        .has_effects(&effect, 1, "one was rolled back")
        .await;
}

/// A request that does not run gets nothing to write through.
pub async fn no_transaction_is_opened_outside_of_the_session<
    H: SessionHarness + TransactionalHarness,
>(
    harness: &H,
) {
    let client = Client::new(harness, Rule::Mark).await;
    client.works(2, 2).await;
    let outside = [
        (0, Claim::OutOfPlace(OutOfPlace::Stale)),
        (7, Claim::OutOfPlace(OutOfPlace::BeyondWindow { window: 5 })),
    ];
    for (number, expected) in outside {
        not_begun(&client, number, &expected).await;
    }
    client.scene.advance(LIFE).await;
    not_begun(&client, 3, &Claim::OutOfPlace(OutOfPlace::SessionExpired)).await;
}

/// The mark passes an open transaction: it commits, because its work was begun in time.
pub async fn a_transaction_that_the_mark_passes_commits<
    H: SessionHarness + TransactionalHarness,
>(
    harness: &H,
) {
    let (client, effect) = (Client::new(harness, Rule::Answers).await, unique());
    let mut open = Open::<H>::of(&client.asks(0, 0)).await;
    client.works(1, 1).await;
    client.closes().await;
    open.write_effect(&effect).await;
    open.commits().await;
    client
        .scene
        .has_effects(&effect, 1, "it was committed")
        .await;
    client
        .claim(0, 0)
        .await
        .is_expired("the session was closed");
}

/// A zombie inside a session commits nothing.
pub async fn a_transaction_that_was_taken_over_in_a_session_commits_nothing<
    H: SessionHarness + TransactionalHarness,
>(
    harness: &H,
) {
    let (client, effect) = (Client::new(harness, Rule::Placed).await, unique());
    let zombie = Open::<H>::of(&client.asks(0, 0)).await;
    client.scene.advance(LEASE).await;
    let mut open = Open::<H>::of(&client.asks(0, 0)).await;
    open.write_effect(&effect).await;
    open.commits().await;
    let commit = zombie.commit("late").await;
    client.scene.holds(
        commit == Finished::Fenced,
        &format!("it was taken over, the store answered {commit:?}"),
    );
    client
        .scene
        .has_effects(&effect, 1, "the successor's")
        .await;
}

async fn not_begun<H: SessionHarness + TransactionalHarness>(
    client: &Client<'_, H>,
    number: u64,
    expected: &Claim,
) {
    match begin::<H>(&client.asks(number, 0)).await {
        Err(claim) if claim == *expected => {}
        other => client.scene.did_not_expect(other, &format!("{expected:?}")),
    }
}
