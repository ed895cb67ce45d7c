//! Claims that are made without the store, while it is away.

use super::{
    attempt::{Begun, Job},
    fail_open::SOON,
    grant::{Grant, Protection},
    heartbeat::Moment,
    verdict::{Ended, ended_by},
};
use crate::{
    error_chain::ErrorChain,
    handler::StoreOutage,
    store::{Claim, Release, Store, StoreError},
};

impl<S: Store> Job<'_, S> {
    /// Decides about a key that this process has worked on while the store was away, and that the
    /// store has not been told of.
    pub(super) fn claim_remembered(&self, answer: Claim) -> Result<Begun<Grant<S>, ()>, Ended> {
        match answer {
            Claim::Acquired(_)
                if self.policy.store_outage() == StoreOutage::FailOpen
                    && self.executor.local.is_away() =>
            {
                let error = StoreError::unavailable("it was away when it was asked last");
                self.claim_locally(error)
            }
            // The next attempt is due. The store is told of the last one first.
            Claim::Acquired(_) => Err(Ended::Answered(Claim::Held { remaining: SOON })),
            answer => Err(Ended::Answered(answer)),
        }
    }

    /// Claims from this process's own memory.
    pub(super) fn claim_locally(&self, outage: StoreError) -> Result<Begun<Grant<S>, ()>, Ended> {
        let (executor, request) = (self.executor, &*self.request);
        let local = &executor.local;
        let claimed = Moment::now();
        let lease = match local.try_claim(request) {
            Ok(Claim::Acquired(lease)) => lease,
            Ok(answer) => return Err(Ended::Answered(answer)),
            Err(full) => {
                tracing::warn!(key = %request.key, error = %full, "no room to remember what is done while the store is away, the message waits");
                return Err(Ended::Unavailable(outage));
            }
        };
        let watch = local.watch(&lease);
        // Claimed when the store was not away yet; that run tells the store by itself. Whoever
        // claims there marks the key as worked on and then looks here, so that one of both sees
        // the other.
        if executor.in_flight.contains(&request.key) {
            let _ = local.write_release(&lease, &Release::Abandoned);
            let remaining = request.lease;
            return Err(Ended::Answered(Claim::Held { remaining }));
        }
        // Or it has handed its end over to this memory by now.
        if !local.start(&lease) {
            let remaining = SOON;
            return Err(Ended::Answered(Claim::Held { remaining }));
        }
        if let Some(objection) = self.objection(&lease) {
            let _ = local.write_release(&lease, &objection);
            local.tell(&executor.store);
            return Err(ended_by(&objection, &lease));
        }
        tracing::warn!(key = %request.key, attempt = lease.attempt, error = %ErrorChain::of(&outage), "the store cannot be asked, running unprotected");
        local.tell(&executor.store);
        let working = executor.in_flight.enter(&lease.key, None);
        Ok(self.granted(lease, claimed, Some(working), Protection::Local(watch)))
    }
}
