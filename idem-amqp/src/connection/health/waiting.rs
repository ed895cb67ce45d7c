//! What waits because of a problem: the problem lasts for as long as anything does.

use std::sync::Arc;

use tokio::time::Instant;

use super::Vitals;

/// One that waits because of a problem, until it is dropped.
#[derive(Debug)]
#[must_use = "the problem is over when nothing waits"]
pub(crate) struct Waiting {
    vitals: Arc<Vitals>,
    what_for: WhatFor,
}

/// What is waited for.
#[derive(Debug)]
pub(super) enum WhatFor {
    /// The store's answer.
    Store,
    /// The broker's alarm to end.
    Alarm,
    /// The confirmation of a retry, a dead letter or a reply of this queue.
    Confirm(String),
}

impl Waiting {
    pub(super) fn start(vitals: &Arc<Vitals>, what_for: WhatFor, error: String) -> Self {
        if let Some(condition) = vitals.state().condition(&what_for) {
            condition.wait(Instant::now(), error);
        }
        Self {
            vitals: Arc::clone(vitals),
            what_for,
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(condition) = self.vitals.state().condition(&self.what_for) {
            condition.end_wait(Instant::now());
        }
    }
}
