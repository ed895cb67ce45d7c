//! What was answered about a session is still true after the store was opened again.

use idem_core::store::{Opened, Touched};

use super::{Client, DurableHarness, LIFE, Rule, SessionHarness};

/// Mark, window, answers and the time of its end.
pub async fn a_session_survives_a_restart<H: DurableHarness + SessionHarness>(harness: &H) {
    let client = Client::new(harness, Rule::SessionEnds).await;
    client.works(3, 3).await;
    client.scene.advance(LIFE / 2).await;
    harness.reopen().await;
    client.claim(2, 0).await.is_stale("the mark is at 3");
    client.claim(8, 3).await.is_beyond("the window ends at 7");
    client.hears(3, 3, "it was answered").await;
    client.opens(&client.opening(), Opened::Known).await;
    client.scene.advance(LIFE * 3 / 4).await;
    client.touches(Touched::Living, "it was asked since").await;
    client.scene.advance(LIFE).await;
    client.claim(3, 3).await.is_expired("its life is over");
}

/// Its end, too.
pub async fn the_end_of_a_session_survives_a_restart<H: DurableHarness + SessionHarness>(
    harness: &H,
) {
    let client = Client::new(harness, Rule::SessionEnds).await;
    client.works(0, 0).await;
    client.closes().await;
    harness.reopen().await;
    client.claim(0, 0).await.is_expired("it was closed");
    client.opens(&client.opening(), Opened::Known).await;
}
