//! Claims that are made without the store, while it is away.

use super::{
    Executor,
    fail_open::SOON,
    grant::{Ended, Grant, ended_by},
    heartbeat::Moment,
};
use crate::{
    error_chain::ErrorChain,
    handler::{Policy, StoreOutage},
    store::{Claim, ClaimRequest, Release, Store, StoreError},
};

impl<S: Store> Executor<S> {
    /// Decides about a key that this process has worked on while the store was away, and that the
    /// store has not been told of.
    pub(super) fn claim_remembered<'a>(
        &'a self,
        request: &'a ClaimRequest,
        policy: &'a Policy,
        answer: Claim,
    ) -> Result<Grant<'a>, Ended> {
        match answer {
            Claim::Acquired(_)
                if policy.store_outage() == StoreOutage::FailOpen && self.local.is_away() =>
            {
                let error = StoreError::unavailable("it was away when it was asked last");
                self.claim_locally(request, policy, error)
            }
            // The next attempt is due. The store is told of the last one first.
            Claim::Acquired(_) => Err(Ended::Answered(Claim::Held { remaining: SOON })),
            answer => Err(Ended::Answered(answer)),
        }
    }

    /// Claims from this process's own memory.
    pub(super) fn claim_locally<'a>(
        &'a self,
        request: &'a ClaimRequest,
        policy: &'a Policy,
        outage: StoreError,
    ) -> Result<Grant<'a>, Ended> {
        let claimed = Moment::now();
        let lease = match self.local.try_claim(request) {
            Ok(Claim::Acquired(lease)) => lease,
            Ok(answer) => return Err(Ended::Answered(answer)),
            Err(full) => {
                tracing::warn!(key = %request.key, error = %full, "no room to remember what is done while the store is away, the message waits");
                return Err(Ended::Unavailable(outage));
            }
        };
        let watch = self.local.watch(&lease);
        // Claimed when the store was not away yet; that run tells the store by itself. Whoever
        // claims there marks the key as worked on and then looks here, so that one of both sees
        // the other.
        if self.in_flight.contains(&request.key) {
            let _ = self.local.write_release(&lease, &Release::Abandoned);
            let remaining = request.lease;
            return Err(Ended::Answered(Claim::Held { remaining }));
        }
        // Or it has handed its end over to this memory by now.
        if !self.local.start(&lease) {
            let remaining = SOON;
            return Err(Ended::Answered(Claim::Held { remaining }));
        }
        if let Some(objection) = self.objection(&lease, policy) {
            let _ = self.local.write_release(&lease, &objection);
            self.local.tell(&self.store);
            return Err(ended_by(&objection, &lease));
        }
        tracing::warn!(key = %request.key, attempt = lease.attempt, error = %ErrorChain::of(&outage), "the store cannot be asked, running unprotected");
        self.local.tell(&self.store);
        Ok(Grant {
            working: self.in_flight.enter(&lease.key, None),
            heartbeats: &self.heartbeats,
            unprotected: Some(watch),
            lease,
            request,
            policy,
            claimed,
        })
    }
}
