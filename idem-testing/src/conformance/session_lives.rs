//! How long a session lives, and what comes after its end.

use std::time::Duration;

use idem_core::store::{Opened, Touched};

use super::{Client, LIFE, Rule, SessionHarness};

/// Nothing was heard for a whole life.
pub async fn a_session_ends_with_its_life<H: SessionHarness>(harness: &H) {
    let client = Client::new(harness, Rule::SessionEnds).await;
    client.works(0, 0).await;
    client.scene.advance(LIFE).await;
    for number in [0, 1, 99] {
        let answer = client.claim(number, 0).await;
        answer.is_expired("its life is over");
    }
    client.touches(Touched::Expired, "its life is over").await;
}

/// Up to the last moment.
pub async fn a_session_lives_until_its_end<H: SessionHarness>(harness: &H) {
    let client = Client::new(harness, Rule::SessionEnds).await;
    client.works(0, 0).await;
    client.scene.advance_nearly(LIFE).await;
    client.hears(0, 0, "some of its life is left").await;
}

/// A client that only waits says that it is there.
pub async fn a_touch_prolongs_a_session<H: SessionHarness>(harness: &H) {
    let client = Client::new(harness, Rule::SignOfLife).await;
    client.works(0, 0).await;
    for _ in 0..5 {
        client.scene.advance(LIFE * 3 / 4).await;
        client.touches(Touched::Living, "it came in time").await;
    }
    client
        .hears(0, 0, "answers live as long as the session")
        .await;
    client.scene.advance(LIFE).await;
    client.touches(Touched::Expired, "this is too late").await;
}

/// Whatever the answer: it was asked.
pub async fn every_claim_prolongs_a_session<H: SessionHarness>(harness: &H) {
    let client = Client::new(harness, Rule::SignOfLife).await;
    client.works(2, 2).await;
    client.scene.advance(LIFE * 3 / 4).await;
    client.works(3, 2).await;
    client.scene.advance(LIFE * 3 / 4).await;
    client.hears(3, 2, "the last claim was in time").await;
    client.scene.advance(LIFE * 3 / 4).await;
    client.claim(0, 0).await.is_stale("the mark is at 2");
    client.scene.advance(LIFE * 3 / 4).await;
    client.claim(7, 2).await.is_beyond("the window ends at 6");
    client.scene.advance(LIFE * 3 / 4).await;
    client.hears(2, 2, "the session lives").await;
}

/// Neither a touch nor a claim nor another opening brings it back.
pub async fn a_session_that_has_ended_never_lives_again<H: SessionHarness>(harness: &H) {
    let client = Client::new(harness, Rule::SessionEnds).await;
    client.scene.advance(LIFE).await;
    client.touches(Touched::Expired, "its life is over").await;
    client.claim(0, 0).await.is_expired("its life is over");
    client.opens(&client.opening(), Opened::Known).await;
    client.claim(0, 0).await.is_expired("its life is over");
    client.touches(Touched::Expired, "its life is over").await;
    client.closes().await;
    client.claim(0, 0).await.is_expired("its life is over");
}

/// The client says that it needs no more.
pub async fn a_closed_session_has_ended<H: SessionHarness>(harness: &H) {
    let client = Client::new(harness, Rule::SessionEnds).await;
    let answered = client.works(0, 0).await;
    client.closes().await;
    client.claim(0, 0).await.is_expired("it was closed");
    client.claim(1, 0).await.is_expired("it was closed");
    client.touches(Touched::Expired, "it was closed").await;
    let written = answered.complete("again").await;
    written.is_fenced("its answers were removed");
    client.closes().await;
    client.claim(0, 0).await.is_expired("closed twice");
}

/// There is nothing to close, and nothing is left of it.
pub async fn closing_an_unknown_session_does_nothing<H: SessionHarness>(harness: &H) {
    let client = Client::unknown(harness, Rule::SessionEnds);
    client.closes().await;
    client.opens(&client.opening(), Opened::New).await;
    client.works(0, 0).await;
}

/// The first copy of the opening was slow: it arrives when all is over, or so it seems.
pub async fn a_late_opening_does_not_revive_a_closed_session<H: SessionHarness>(harness: &H) {
    let client = Client::new(harness, Rule::NeverAgain).await;
    client.works(0, 0).await;
    client.closes().await;
    client.all_that_ended_is_removed().await;
    client.opens(&client.opening(), Opened::Known).await;
    client.claim(0, 0).await.is_expired("it was closed");
    client.scene.advance_nearly(LIFE).await;
    client.all_that_ended_is_removed().await;
    client.opens(&client.opening(), Opened::Known).await;
    client.claim(0, 0).await.is_expired("it was closed");
}

/// A life may be shorter than a call to the store takes.
pub async fn a_late_opening_does_not_revive_a_short_session<H: SessionHarness>(harness: &H) {
    let client = Client::unknown(harness, Rule::NeverAgain);
    let opening = client.opening().life(Duration::from_secs(5));
    client.opens(&opening, Opened::New).await;
    client.scene.advance_nearly(Duration::from_mins(1)).await;
    client.all_that_ended_is_removed().await;
    client.opens(&opening, Opened::Known).await;
    client.claim(0, 0).await.is_expired("it has ended");
}

/// The worker outlives the session: what it did counts.
pub async fn a_request_completes_after_its_session_was_closed<H: SessionHarness>(harness: &H) {
    let client = Client::new(harness, Rule::Answers).await;
    let holder = client.acquires(0, 0).await;
    client.closes().await;
    client.claim(0, 0).await.is_expired("it was closed");
    let written = holder.complete("done").await;
    written.is_applied("nobody took over");
    client.claim(0, 0).await.is_expired("it was closed");
}

/// Also after the session was removed: the lease is the worker's, not the session's.
pub async fn a_request_completes_after_its_session_is_gone<H: SessionHarness>(harness: &H) {
    let client = Client::new(harness, Rule::Expiry).await;
    let holder = client.acquires(0, 0).await;
    client.is_gone().await;
    client.claim(0, 0).await.is_expired("it is gone");
    let written = holder.complete("done").await;
    written.is_applied("nobody took over");
}

/// Removed or not: nothing of it ever runs again, for its own owner neither.
pub async fn a_session_that_is_gone_runs_nothing<H: SessionHarness>(harness: &H) {
    let client = Client::new(harness, Rule::NeverAgain).await;
    client.works(0, 0).await;
    client.acquires(1, 0).await.fails().await;
    let owner = client.asks(2, 0);
    owner.claim().await.is_acquired("nobody has the number");
    client.is_gone().await;
    for number in 0..5 {
        let answer = client.claim(number, 0).await;
        answer.is_expired("the session is gone");
        let replay = client.asks(number, 0).replay().claim().await;
        replay.is_expired("a replay is no way around it");
    }
    owner.claim().await.is_expired("the session is gone");
}
