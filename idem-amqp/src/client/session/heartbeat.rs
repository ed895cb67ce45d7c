//! A session's signs of life.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep_until};

use idem_core::ErrorChain;

use super::{
    super::Client,
    control::{self, Pulse},
    state::{EndReason, SessionState},
};

/// Gives a session's signs of life. It has nothing of what is kept: that is free for another one as soon
/// as the session is dropped.
pub(super) struct Heart {
    pub(super) client: Client,
    pub(super) session: String,
    pub(super) life: Duration,
    pub(super) state: Arc<SessionState>,
}

/// A shorter one would make it a hot loop.
const SHORTEST: Duration = Duration::from_millis(50);

/// After a sign of life without an answer the next one comes this soon at the latest.
const SOON: Duration = Duration::from_secs(5);

impl Heart {
    /// Gives a sign of life every third of the session's life, and soon again one that is not answered,
    /// until it has ended or nobody has it any more.
    pub(super) async fn beat(self) {
        let over = self.state.over();
        over.run_until_cancelled(self.keep_alive()).await;
    }

    async fn keep_alive(&self) {
        let interval = (self.life / 3).max(SHORTEST);
        let soon = (self.life / 30).clamp(SHORTEST, SOON);
        let mut next = Instant::now() + interval;
        loop {
            sleep_until(next).await;
            next = Instant::now() + interval;
            // Not much longer than an answer may take: what is silent now may answer in a moment.
            let retry_interval = (interval / 2).min(2 * SOON);
            match control::heartbeat(&self.client, &self.session, retry_interval).await {
                Ok(Pulse::Living) => {}
                Ok(Pulse::Expired) => {
                    tracing::warn!(session = self.session, "the session has ended");
                    return self.state.end(EndReason::Expired);
                }
                Err(error) => {
                    let (session, error) = (&self.session, ErrorChain::of(&error).to_string());
                    tracing::warn!(
                        session,
                        error,
                        "no answer to a sign of life, giving another one"
                    );
                    next = Instant::now() + soon;
                }
            }
        }
    }
}
