//! Work without a claim: its message has no key and is to run all the same, or its handler is plain.
//!
//! [`Job::claim_by_policy`](super::attempt::Job) grants it. What must stay true: no store is asked or told; a closed executor
//! starts nothing all the same; what ran is never taken for what is remembered ([`Execution::Unclaimed`]).

use super::{
    attempt::{Granted, Job},
    heartbeat::Moment,
    history::History,
    leased_claim::{LeasedClaim, Protection},
    verdict::NotRun,
};
use crate::{
    executor::Execution,
    handler::FencingToken,
    store::{Lease, Store},
};

impl<S: Store> Job<'_, S> {
    /// Grants work for which nothing is claimed.
    pub(super) fn grant_unclaimed(&self) -> Result<Granted<LeasedClaim<S>, ()>, NotRun> {
        if self.executor.is_closed() {
            return Err(NotRun::Abandoned);
        }
        let lease = self.made_up_lease();
        Ok(self.granted(lease, Moment::now(), None, Protection::Nobody))
    }

    /// A lease that nobody gave: its token is 0, no store is ever told of it, and no heartbeat extends it. No record counts
    /// the attempt, so the transport's count has to do.
    pub(super) fn made_up_lease(&self) -> Lease {
        let attempt = self.history.earlier.saturating_add(1);
        Lease::new(
            self.request.key.clone(),
            FencingToken::new(0),
            attempt,
            false,
        )
    }
}

/// How a message ends that nothing was claimed for.
pub(super) fn unclaimed<T, E>(
    ended: Execution<T, E>,
    attempt: u32,
    history: &mut History,
) -> Execution<T, E> {
    // Without this count the attempts of one delivery would never be used up.
    history.earlier = attempt;
    ended.if_executed(|output, outcome, attempt| Execution::Unclaimed {
        output,
        outcome,
        attempt,
    })
}
