//! The mark and the window: what is stale, what is too far ahead, and which answers are dropped.

use std::time::Duration;

use idem_core::{
    message::SessionPlace,
    store::{OpenSession, Release},
};

use super::{Client, LEASE, RETENTION, Rule, SessionHarness, WINDOW};

/// A client with several requests in flight: the broker may mix them.
pub async fn numbers_inside_the_window_run_in_any_order<H: SessionHarness>(harness: &H) {
    let client = Client::new(harness, Rule::Mark).await;
    for number in [4, 1, 3, 0, 2] {
        client.works(number, 0).await;
    }
    for number in 0..5 {
        client.hears(number, 0, "its answer is awaited").await;
    }
}

/// One number too far: refused, until the client has heard more answers.
pub async fn a_number_beyond_the_window_does_not_run<H: SessionHarness>(harness: &H) {
    let client = Client::new(harness, Rule::Mark).await;
    for number in [5, 6, 1000, u64::from(u32::MAX), u64::MAX] {
        client.claim(number, 0).await.is_beyond("the window is 5");
    }
    client.works(4, 0).await;
    client.works(5, 1).await;
    let answer = client.claim(6, 1).await;
    answer.is_beyond("the window has moved on by one");
}

/// What is refused moves nothing.
pub async fn a_number_beyond_the_window_does_not_move_the_mark<H: SessionHarness>(harness: &H) {
    let client = Client::new(harness, Rule::Mark).await;
    client.works(0, 0).await;
    let answer = client.claim(15, 10).await;
    answer.is_beyond("it is 5 above the number that it awaits");
    client.hears(0, 0, "the mark has not moved").await;
    client.works(1, 0).await;
}

/// An answer that was heard is not asked for again, unless by a late copy.
pub async fn a_number_below_the_mark_is_stale<H: SessionHarness>(harness: &H) {
    let client = Client::new(harness, Rule::Mark).await;
    client.works(0, 0).await;
    client.works(2, 2).await;
    for number in [0, 1] {
        for awaited in [0, number] {
            let answer = client.claim(number, awaited).await;
            answer.is_stale("the client awaits nothing below 2");
        }
        let replay = client.asks(number, 0).replay().claim().await;
        replay.is_stale("a replay is no way around the mark");
    }
}

/// Late copies carry the marks of their time.
pub async fn the_mark_never_moves_back<H: SessionHarness>(harness: &H) {
    let client = Client::new(harness, Rule::Mark).await;
    client.works(4, 4).await;
    client.works(5, 1).await;
    let answer = client.claim(3, 1).await;
    answer.is_stale("the mark was at 4 before");
    client.works(8, 0).await;
    let answer = client.claim(9, 0).await;
    answer.is_beyond("the window is from 4 to 8");
}

/// The answers that nobody awaits any more are gone: a completion has nothing to repeat.
pub async fn answers_that_the_mark_passes_are_removed<H: SessionHarness>(harness: &H) {
    let client = Client::new(harness, Rule::Answers).await;
    let passed = [
        client.works(0, 0).await,
        client.works(1, 0).await,
        client.works(3, 0).await,
    ];
    for holder in &passed {
        let written = holder.complete("again").await;
        written.is_applied("its answer is still there");
    }
    client.works(4, 4).await;
    for holder in &passed {
        let written = holder.complete("again").await;
        written.is_fenced("its answer was dropped");
    }
}

/// Also those of a client that has heard more than a window of answers since.
pub async fn a_mark_that_leaps_removes_all_answers_below<H: SessionHarness>(harness: &H) {
    let client = Client::new(harness, Rule::Answers).await;
    let first = client.works(0, 0).await;
    let last = client.works(4, 0).await;
    client.works(1_000_000, 1_000_000).await;
    for holder in [first, last] {
        let written = holder.complete("again").await;
        written.is_fenced("its answer was dropped");
    }
    client.claim(4, 0).await.is_stale("the mark has leapt");
}

/// What is still awaited stays, the first of it included.
pub async fn answers_from_the_mark_on_stay<H: SessionHarness>(harness: &H) {
    let client = Client::new(harness, Rule::Answers).await;
    for number in 0..5 {
        client.works(number, 0).await;
    }
    client.works(5, 3).await;
    for number in 3..=5 {
        client.hears(number, 3, "its answer is awaited").await;
    }
}

/// The client has given up on a request that runs: it runs to its end, and counts.
pub async fn a_request_that_the_mark_passes_completes<H: SessionHarness>(harness: &H) {
    let client = Client::new(harness, Rule::Answers).await;
    let passed = client.acquires(0, 0).await;
    client.works(1, 1).await;
    passed.extend(LEASE).await.is_applied("it is the holder");
    let written = passed.complete("done").await;
    written.is_applied("nobody took over");
    let again = passed.complete("done").await;
    again.is_applied("the same write once more");
    client
        .claim(0, 0)
        .await
        .is_stale("nobody awaits its answer");
}

/// A worker that vanished below the mark leaves nothing for a successor.
pub async fn a_request_that_the_mark_has_passed_is_not_taken_over<H: SessionHarness>(harness: &H) {
    let client = Client::new(harness, Rule::Mark).await;
    let owner = client.asks(0, 0);
    owner.claim().await.is_acquired("nobody has the number");
    client.works(1, 1).await;
    client.scene.advance(LEASE).await;
    client.claim(0, 0).await.is_stale("the mark has passed it");
    let answer = owner.claim().await;
    answer.is_stale("not even its own owner has it back");
}

/// An attempt failed, and the client has given up on it.
pub async fn a_failure_that_the_mark_passes_is_not_retried<H: SessionHarness>(harness: &H) {
    let client = Client::new(harness, Rule::Mark).await;
    for (number, reason) in [
        (0, Release::failed("it did not work")),
        (1, Release::Abandoned),
        (2, Release::gave_up("it will not work")),
    ] {
        let holder = client.acquires(number, 0).await;
        holder.release(&reason).await.is_applied("the holder");
    }
    client.works(3, 3).await;
    for number in 0..3 {
        let answer = client.claim(number, 0).await;
        answer.is_stale("the client awaits nothing below 3");
    }
}

/// A request that does not await its own answer is one that nobody needs; it moves nothing.
pub async fn a_number_below_what_it_awaits_itself_is_stale<H: SessionHarness>(harness: &H) {
    let client = Client::new(harness, Rule::Mark).await;
    client.works(0, 0).await;
    let answer = client.claim(1, 4).await;
    answer.is_stale("it awaits nothing below 4");
    client.hears(0, 0, "the mark has not moved").await;
    client.works(1, 1).await;
}

/// Numbers as large as they can be.
pub async fn the_greatest_number_is_the_last<H: SessionHarness>(harness: &H) {
    const LAST: u64 = SessionPlace::MAX_NUMBER;
    let client = Client::new(harness, Rule::Mark).await;
    client.works(LAST - 1, LAST - 1).await;
    let answer = client.claim(LAST - 2, 0).await;
    answer.is_stale("neighbours are told apart");
    client.works(LAST, LAST).await;
    for number in [LAST + 1, LAST + u64::from(WINDOW) - 1] {
        let answer = client.claim(number, LAST).await;
        answer.is_beyond("there are no greater numbers");
    }
    let answer = client.claim(LAST - 1, 0).await;
    answer.is_stale("the mark is at the last number");
}

/// What is forgotten would run again; who still awaits the answer may ask for it.
pub async fn no_record_is_forgotten_while_its_session_lives<H: SessionHarness>(harness: &H) {
    let client = Client::unknown(harness, Rule::Answers);
    let opening = client.opening().life(OpenSession::MAX_LIFE);
    client.opens(&opening, idem_core::store::Opened::New).await;
    client.works(0, 0).await;
    client.acquires(1, 0).await.fails().await;
    let outside = client.scene.acquired().await;
    outside.complete("done").await.is_applied("the holder");
    let mut passed = Duration::ZERO;
    while passed < 2 * RETENTION {
        let pause = OpenSession::MAX_LIFE * 3 / 4;
        client.scene.advance(pause).await;
        client
            .touches(idem_core::store::Touched::Living, "it came in time")
            .await;
        client.scene.advance(pause).await;
        client.hears(0, 0, "its session lives").await;
        passed += 2 * pause;
    }
    let again = client.acquires(1, 0).await;
    again.is_attempt(2, false, "its session lives");
    let outside = client.scene.acquired().await;
    outside.is_attempt(1, false, "a record outside of the session is forgotten");
}
