//! Looks at the whole outbox every so often: for gauges, and for whoever asks how the worker is.
//!
//! Each worker and each relay has one. What must stay true: a look costs about the same however much is in the outbox.

use std::{convert::Infallible, time::Duration};

use idem_core::{ErrorChain, store::outbox::OutboxGlance};
use tokio::time::sleep;

use super::{OutboxCounters, SharedOutbox};

const EVERY: Duration = Duration::from_secs(30);

/// What a look has told: or why the outbox cannot be read.
pub(crate) type Glance = Result<OutboxGlance, String>;

/// Looks until it is dropped.
pub(crate) async fn watch(
    outbox: SharedOutbox,
    counters: &OutboxCounters,
    tell: impl Fn(Glance),
) -> Infallible {
    loop {
        let glance = outbox.glance().await;
        let glance = glance.map_err(|error| ErrorChain::of(&error).to_string());
        if let Ok(OutboxGlance { counts, .. }) = &glance {
            let messages = [counts.waiting, counts.later, counts.dead];
            counters.meters.set_contents(messages, counts.oldest);
        }
        tell(glance);
        // Not all workers at the same time.
        sleep(EVERY.mul_f64(0.75 + fastrand::f64() / 4.0)).await;
    }
}
