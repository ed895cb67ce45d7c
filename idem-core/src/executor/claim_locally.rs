//! Claims that are made from this process's memory, while the store is away or has yet to be told of the key.
//!
//! [`Job::claim_enforced`] comes here, for policies that fail open. What must stay true:
//!
//! - Two copies of a message in this process never run side by side, whether each asked the store or not.
//! - Nothing runs whose end could not be remembered.
//! - The store is told of every attempt that starts here.

use super::{
    attempt::{Granted, Job},
    fail_open::SOON,
    heartbeat::Moment,
    leased_claim::{LeasedClaim, Protection},
    verdict::NotRun,
};
use crate::{
    error_chain::ErrorChain,
    handler::StoreOutage,
    store::{Claim, Release, Store, StoreError, Write},
};

impl<S: Store> Job<'_, S> {
    /// Decides about a key that this process has worked on without the store, and of which the store has yet to be
    /// told. `answer` is what the local memory says; the store is not asked.
    pub(super) fn claim_remembered(
        &self,
        answer: Claim,
    ) -> Result<Granted<LeasedClaim<S>, ()>, NotRun> {
        match answer {
            Claim::Acquired(_)
                if self.policy.store_outage() == StoreOutage::FailOpen
                    && self.executor.local.is_away() =>
            {
                let error = StoreError::unavailable("it was away when it was asked last");
                self.claim_locally(error)
            }
            // The next attempt is due, and the store is back, as far as is known. It is told of the last
            // attempt first: else it would not count that one, and would not know its error.
            Claim::Acquired(_) => {
                // Also if who was to tell it has ended before its time.
                self.executor.local.tell(&self.executor.store);
                Err(NotRun::Answered(Claim::Held { remaining: SOON }))
            }
            answer => Err(NotRun::Answered(answer)),
        }
    }

    /// Claims from this process's own memory, because of this outage, and grants the claim unless something speaks
    /// against running. It awaits nothing, so it is never dropped half way.
    pub(super) fn claim_locally(
        &self,
        outage: StoreError,
    ) -> Result<Granted<LeasedClaim<S>, ()>, NotRun> {
        let (executor, request) = (self.executor, &*self.request);
        let local = &executor.local;
        let claimed = Moment::now();
        let lease = match local.try_claim(request) {
            Ok(Claim::Acquired(lease)) => lease,
            // A copy runs here, or its end is remembered: by that this message ends, as by the store's answer.
            Ok(answer) => return Err(NotRun::Answered(answer)),
            // What could not be remembered might be done twice, and nobody would know: the message waits.
            Err(full) => {
                tracing::warn!(key = %request.key, error = %full, "no room to remember what is done while the store is away, the message waits");
                return Err(NotRun::Unavailable(outage));
            }
        };
        let watch = local.watch(&lease);
        // Another copy runs here that the store had let run before it went away; it tells the store by itself. Whoever
        // claims from the store marks the key as worked on and then looks into the local memory (`grant_or_give_back`).
        // Here it is the other way round, so at least one of two copies sees the other and steps back.
        if executor.in_flight.contains(&request.key) {
            let _ = local.write_release(&lease, &Release::Abandoned);
            let remaining = request.lease;
            return Err(NotRun::Answered(Claim::Held { remaining }));
        }
        let overtaken = NotRun::Answered(Claim::Held { remaining: SOON });
        // As for a lease of the store's: the attempts may be used up, or the executor closed. This comes before the
        // start: from there on the reporter may claim the key in the store, and nobody would give that claim back.
        if let Some(objection) = self.objection(&lease) {
            if local.write_release(&lease, &objection.release()) == Write::Fenced {
                return Err(overtaken);
            }
            local.tell(&executor.store);
            return Err(objection.into());
        }
        // Or that copy has ended by now, and the local memory has its end: this claim is not the current one
        // any more. Running would repeat what is done.
        if !local.start(&lease) {
            return Err(overtaken);
        }
        tracing::warn!(key = %request.key, attempt = lease.attempt, error = %ErrorChain::of(&outage), "the store cannot be asked, running unprotected");
        // The store is told while the handler runs: when it is back, no other process may begin the message.
        local.tell(&executor.store);
        let working = executor.in_flight.enter(&lease.key, None);
        Ok(self.granted(lease, claimed, Some(working), Protection::Local(watch)))
    }
}
