//! Work without a claim: its message has no key and is to run all the same, or its handler is plain.
//!
//! [`Job::claim_by_policy`](super::attempt::Job) grants it, and [`leased`](super::leased) ends it by [`unclaimed`]. It
//! runs as leased work does, under a lease that is made up, so that the story of an attempt is the same. What must stay
//! true:
//!
//! - No store is asked or told.
//! - A closed executor starts nothing all the same.
//! - What ran is never taken for what is remembered ([`Execution::Unclaimed`]).

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
        // With a claim, `objection` looks for this. Here nothing was claimed, and nothing is to be given back.
        if self.executor.is_closed() {
            return Err(NotRun::Abandoned);
        }
        let lease = self.made_up_lease();
        // `None`: the key is not marked as worked on. Copies of it do not wait for each other, because nothing that
        // this one does is remembered for them.
        Ok(self.granted(lease, Moment::now(), None, Protection::Nobody))
    }

    /// A lease that nobody gave: its token is 0, no store is ever told of it, and no heartbeat extends it. No record
    /// counts the attempt, so the transport's count has to do.
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
    // The next attempt at this delivery has the number behind this one. Without this count its attempts would never be
    // used up, because no record counts them.
    history.earlier = attempt;
    ended.if_executed(|output, outcome, attempt| Execution::Unclaimed {
        output,
        outcome,
        attempt,
    })
}
