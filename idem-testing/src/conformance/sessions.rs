//! Requests of a session: what runs, what is repeated, and what a session is opened with.

use idem_core::{
    message::PositionKind,
    store::{Claim, Opened, OutOfPlace, Store, StoreError},
};

use super::{
    Client, LEASE, LIFE, Rule, SessionHarness, WINDOW,
    scene::{key, unique},
};

/// The first request: attempt 1, under the key of its place.
pub async fn a_request_of_a_living_session_is_acquired<H: SessionHarness>(harness: &H) {
    let client = Client::new(harness, Rule::Placed).await;
    let holder = client.acquires(0, 0).await;
    holder.is_attempt(1, false, "nobody has asked before");
    client.scene.holds(
        client.scene.store().keeps(PositionKind::Session),
        "it says that it keeps sessions, or the executor never asks it",
    );
    client.scene.holds(
        holder.lease.key == client.session.request(0),
        "the lease names the key of the place",
    );
    holder.extend(LEASE).await.is_applied("it is the holder");
}

/// No session, no work.
pub async fn a_request_of_an_unknown_session_never_runs<H: SessionHarness>(harness: &H) {
    let client = Client::unknown(harness, Rule::SessionEnds);
    for number in [0, 3, 99] {
        let answer = client.claim(number, 0).await;
        answer.is_expired("nobody has opened the session");
    }
    client
        .touches(
            idem_core::store::Touched::Expired,
            "nobody has opened the session",
        )
        .await;
}

/// The reply was lost: the answer is there, for another owner too.
pub async fn an_answer_is_repeated<H: SessionHarness>(harness: &H) {
    let client = Client::new(harness, Rule::Placed).await;
    client.works(0, 0).await;
    client.works(1, 0).await;
    for _ in 0..2 {
        client.hears(0, 0, "it was answered").await;
        client.hears(1, 0, "it was answered").await;
    }
}

/// Two clients use the same numbers.
pub async fn sessions_are_independent<H: SessionHarness>(harness: &H) {
    let one = Client::new(harness, Rule::Placed).await;
    let other = Client::new(harness, Rule::Placed).await;
    let holder = one.acquires(3, 3).await;
    holder.complete("one").await.is_applied("it is the holder");
    other.works(3, 0).await;
    other.works(0, 0).await;
    let answer = one.claim(3, 3).await;
    answer.is_completed(b"one", "the other client's request is its own");
    one.closes().await;
    other
        .hears(0, 0, "it was the other session that was closed")
        .await;
}

/// Keys of sessions that differ only in what is beyond the length of a key, or look like numbers.
pub async fn sessions_that_look_alike_are_kept_apart<H: SessionHarness>(harness: &H) {
    let unique = unique();
    let long = "x".repeat(400);
    let names = [
        unique.clone(),
        format!("{unique}~1"),
        format!("{unique}{{a}}"),
        format!("{unique}{{b}}"),
        format!("{unique}%"),
        format!("{unique}{long}1"),
        format!("{unique}{long}2"),
    ];
    let mut clients = Vec::new();
    for name in names {
        let mut client = Client::unknown(harness, Rule::Placed);
        client.session = key(&name).into();
        client.opens(&client.opening(), Opened::New).await;
        clients.push(client);
    }
    for client in &clients {
        let holder = client.acquires(1, 0).await;
        let written = holder.complete(client.session.as_str()).await;
        written.is_applied("it is the holder");
    }
    for client in &clients {
        let answer = client.claim(1, 0).await;
        answer.is_completed(client.session.as_str().as_bytes(), "its own answer");
    }
}

/// The answer to the claim was lost: the same owner has its lease.
pub async fn a_repeated_request_gets_the_same_lease<H: SessionHarness>(harness: &H) {
    let client = Client::new(harness, Rule::Placed).await;
    client.works(0, 0).await;
    let owner = client.asks(2, 2);
    let first = owner.claim().await.is_acquired("nobody has the number");
    let again = client.asks(2, 2).owner(owner.request.owner).claim().await;
    let again = again.is_acquired("it is the same owner's");
    client.scene.holds(first.lease == again.lease, "one lease");
    again.complete("done").await.is_applied("it is the holder");
    let answer = owner.claim().await;
    answer.is_completed(b"done", "an owner that completed is told so");
}

/// A copy of the request while it runs.
pub async fn a_request_is_held_while_another_works_on_it<H: SessionHarness>(harness: &H) {
    let client = Client::new(harness, Rule::Placed).await;
    let holder = client.acquires(0, 0).await;
    let told = client.claim(0, 0).await.is_held("another works on it");
    client.scene.lasts(told, LEASE, "the whole lease remains");
    holder.fails_for(LEASE).await;
    let told = client.claim(0, 0).await.is_held("the retry is not due");
    client.scene.lasts(told, LEASE, "the whole delay remains");
    client.scene.advance(LEASE).await;
    let retry = client.acquires(0, 0).await;
    retry.is_attempt(2, false, "one has failed");
}

/// A worker vanishes inside a session: another takes over, and the first is fenced.
pub async fn a_request_is_taken_over_when_its_lease_has_run_out<H: SessionHarness>(harness: &H) {
    let client = Client::new(harness, Rule::Placed).await;
    let zombie = client.acquires(0, 0).await;
    client.scene.advance(LEASE).await;
    let successor = client.acquires(0, 0).await;
    successor.is_attempt(2, true, "the first ended without a word");
    client.scene.holds(
        successor.token() > zombie.token(),
        "the token of a takeover grows",
    );
    zombie.complete("late").await.is_fenced("taken over");
    let written = successor.complete("0").await;
    written.is_applied("it is the holder");
    client.hears(0, 0, "the successor has answered").await;
}

/// A client that uses a number twice.
pub async fn other_content_under_the_same_number_is_key_reuse<H: SessionHarness>(harness: &H) {
    let client = Client::new(harness, Rule::Placed).await;
    let first = client.asks(0, 0).content("ten euros").claim().await;
    let holder = first.is_acquired("nobody has the number");
    holder.complete("0").await.is_applied("it is the holder");
    let other = client.asks(0, 0).content("a million").claim().await;
    other.is_key_reused("the number stands for ten euros");
    let same = client.asks(0, 0).content("ten euros").claim().await;
    same.is_completed(b"0", "it is the same content");
}

/// The answer to the opening was lost: nothing is started over.
pub async fn a_session_is_opened_once<H: SessionHarness>(harness: &H) {
    let client = Client::new(harness, Rule::OpenedOnce).await;
    client.works(3, 3).await;
    client.opens(&client.opening(), Opened::Known).await;
    let answer = client.claim(2, 0).await;
    answer.is_stale("the mark is where it was");
    client.hears(3, 0, "the answer is where it was").await;
}

/// Whatever a second opening asks for.
pub async fn a_second_opening_changes_neither_window_nor_life<H: SessionHarness>(harness: &H) {
    let client = Client::new(harness, Rule::OpenedOnce).await;
    let other = client.opening().window(2 * WINDOW).life(9 * LIFE);
    client.opens(&other, Opened::Known).await;
    let answer = client.claim(u64::from(WINDOW), 0).await;
    answer.is_beyond("the window is that of the first opening");
    client.scene.advance(LIFE).await;
    let answer = client.claim(0, 0).await;
    answer.is_expired("the life is that of the first opening");
}

/// A session's window may be as narrow as one request at a time, or as wide as a store takes.
pub async fn a_window_may_be_narrow_or_wide<H: SessionHarness>(harness: &H) {
    for window in [1, idem_core::store::OpenSession::MAX_WINDOW] {
        let client = Client::unknown(harness, Rule::Mark);
        client
            .opens(&client.opening().window(window), Opened::New)
            .await;
        client.works(u64::from(window) - 1, 0).await;
        let answer = client.claim(u64::from(window), 0).await;
        answer.is(
            &Claim::OutOfPlace(OutOfPlace::BeyondWindow { window }),
            "one too many",
        );
        client.works(u64::from(window), u64::from(window)).await;
        let answer = client.claim(u64::from(window) - 1, 0).await;
        answer.is_stale("the mark has passed it");
    }
}

/// A request that names another key than its place's would escape the session.
pub async fn a_request_under_another_key_is_refused<H: SessionHarness>(harness: &H) {
    let client = Client::new(harness, Rule::Placed).await;
    let mut asks = client.asks(0, 0);
    for other in [key(&unique()), client.session.request(1)] {
        asks.request.key = other;
        let answer = client.scene.store().claim(&asks.request).await;
        client.scene.holds(
            matches!(answer, Err(StoreError::Refused(_))),
            &format!("the key is not the place's, the store answered {answer:?}"),
        );
    }
}
