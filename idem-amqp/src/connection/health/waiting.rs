//! What waits because of a problem: the problem lasts for as long as anything does.

use std::sync::Arc;

use idem_core::{ErrorChain, Execution, Failure, executor::ExecutionKind};
use tokio::time::Instant;

use super::{HealthState, state::WhatFor};

/// One that waits because of a problem, until it is dropped.
#[derive(Debug)]
#[must_use = "the problem is over when nothing waits"]
pub(crate) struct Waiting {
    health: Arc<HealthState>,
    what_for: WhatFor,
}

impl Waiting {
    fn start(health: &Arc<HealthState>, what_for: WhatFor, error: String) -> Self {
        if let Some(condition) = health.state().condition(&what_for) {
            condition.wait(Instant::now(), error);
        }
        Self {
            health: Arc::clone(health),
            what_for,
        }
    }
}

impl HealthState {
    /// A connection is blocked, until what this returns is dropped.
    pub(crate) fn blocked(self: &Arc<Self>, reason: &str) -> Waiting {
        Waiting::start(self, WhatFor::Alarm, reason.into())
    }

    /// A retry, a dead letter or a reply of this queue cannot be published, until what this returns
    /// is dropped.
    pub(crate) fn unpublished(self: &Arc<Self>, queue: &str, error: String) -> Waiting {
        Waiting::start(self, WhatFor::Confirm(queue.into()), error)
    }

    /// What an execution tells of the store: that it answers, that it does not, or nothing. If its
    /// message waits for the store now, it does so until what this returns is dropped. A message that is
    /// only observed runs to its own end, whatever it would have been.
    pub(crate) fn saw<T, E: Failure>(
        self: &Arc<Self>,
        execution: &Execution<T, E>,
        would_have_been: Option<ExecutionKind>,
    ) -> Option<Waiting> {
        let now = Instant::now();
        match execution {
            Execution::StoreUnavailable { error } => {
                return Some(Waiting::start(
                    self,
                    WhatFor::Store,
                    ErrorChain::of(error).to_string(),
                ));
            }
            Execution::Unprotected { .. } => self.state().protection.fail(now, None),
            _ if would_have_been == Some(ExecutionKind::StoreUnavailable) => {
                self.state().protection.fail(now, None);
            }
            Execution::Undecodable { .. }
            | Execution::Invalid { .. }
            | Execution::Keyless { .. }
            | Execution::LeaseLost { .. }
            | Execution::Abandoned => {}
            _ if would_have_been.is_some_and(|it| {
                matches!(it, ExecutionKind::Keyless | ExecutionKind::LeaseLost)
            }) => {}
            _ => {
                let mut state = self.state();
                state.store.recover(now);
                state.registrations.answered(now);
                state.protection.recover(now);
            }
        }
        None
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(condition) = self.health.state().condition(&self.what_for) {
            condition.end_wait(Instant::now());
        }
    }
}
