//! What is removed of sessions that have ended. The cases count sessions, and want data that no
//! other case touches.

use futures_util::FutureExt as _;
use idem_core::store::SessionStore;

use super::{Client, LIFE, Rule, SessionHarness, race::race};

/// The session and its answers, a life after its end and not before.
pub async fn a_session_is_removed_a_life_after_its_end<H: SessionHarness>(harness: &H) {
    let client = Client::new(harness, Rule::Expiry).await;
    let answered = client.works(0, 0).await;
    let failed = client.acquires(1, 0).await;
    failed.fails().await;
    client.scene.advance(LIFE).await;
    removes(&client, 100, 0, "it has just ended").await;
    client.scene.advance(LIFE).await;
    removes(&client, 100, 1, "it ended a life ago").await;
    removes(&client, 100, 0, "it was removed").await;
    let written = answered.complete("again").await;
    written.is_fenced("its answer was removed");
    let again = idem_core::store::Release::failed("it did not work");
    let written = failed.release(&again).await;
    written.is_fenced("its failure was removed");
}

/// However long ago they began.
pub async fn living_sessions_are_not_removed<H: SessionHarness>(harness: &H) {
    let client = Client::new(harness, Rule::Expiry).await;
    client.works(0, 0).await;
    for _ in 0..4 {
        client.scene.advance(LIFE * 3 / 4).await;
        client
            .touches(idem_core::store::Touched::Living, "in time")
            .await;
        removes(&client, 100, 0, "it lives").await;
    }
    client.hears(0, 0, "the session lives").await;
}

/// A worker still works on one of its requests.
pub async fn a_request_in_progress_is_not_removed<H: SessionHarness>(harness: &H) {
    let client = Client::new(harness, Rule::Expiry).await;
    let holder = client.acquires(0, 0).await;
    client.scene.advance(2 * LIFE).await;
    removes(&client, 100, 1, "it ended a life ago").await;
    let written = holder.complete("done").await;
    written.is_applied("nobody took over");
}

/// So that nobody waits long.
pub async fn at_most_a_batch_of_sessions_is_removed<H: SessionHarness>(harness: &H) {
    let clients = several(harness, 5).await;
    clients[0].scene.advance(2 * LIFE).await;
    for (batch, expected) in [(0, 0), (2, 2), (2, 2), (2, 1), (2, 0)] {
        removes(&clients[0], batch, expected, "five ended a life ago").await;
    }
}

/// Ordinary keys, and the answers of others.
pub async fn nothing_else_is_removed<H: SessionHarness>(harness: &H) {
    let gone = Client::new(harness, Rule::Expiry).await;
    let ordinary = gone.scene.acquired().await;
    ordinary.complete("done").await.is_applied("the holder");
    gone.works(0, 0).await;
    gone.scene.advance(LIFE).await;
    let living = Client::new(harness, Rule::Expiry).await;
    living.works(0, 0).await;
    gone.scene.advance(LIFE * 3 / 4).await;
    living.hears(0, 0, "in time").await;
    gone.scene.advance(LIFE / 4).await;
    removes(&gone, 100, 1, "one has ended a life ago").await;
    living.hears(0, 0, "another has ended").await;
    let answer = gone.scene.claimant().claim().await;
    answer.is_completed(b"done", "it belongs to no session");
}

/// Two that remove at once remove each session once, and neither fails.
pub async fn several_that_remove_share_the_work<H: SessionHarness>(harness: &H) {
    const SESSIONS: u32 = 20;
    let clients = several(harness, SESSIONS).await;
    clients[0].scene.advance(2 * LIFE).await;
    let expirers = (0..6).map(|_| {
        let store = clients[0].scene.store();
        async move {
            let mut removed = 0;
            for _ in 0..SESSIONS {
                removed += Rule::Expiry.answer(store.expire(3).await);
            }
            removed
        }
        .boxed()
    });
    let removed: u32 = race(expirers.collect()).await.into_iter().sum();
    clients[0].scene.holds(
        removed == SESSIONS,
        &format!("{removed} removals of {SESSIONS} sessions"),
    );
}

async fn several<H: SessionHarness>(harness: &H, count: u32) -> Vec<Client<'_, H>> {
    let mut clients = Vec::new();
    for _ in 0..count {
        let client = Client::new(harness, Rule::Expiry).await;
        client.works(0, 0).await;
        clients.push(client);
    }
    clients
}

async fn removes<H: SessionHarness>(client: &Client<'_, H>, batch: u32, expected: u32, why: &str) {
    let removed = Rule::Expiry.answer(client.scene.store().expire(batch).await);
    client.scene.holds(
        removed == expected,
        &format!("{why}: expected {expected} removed, the store says {removed}"),
    );
}
