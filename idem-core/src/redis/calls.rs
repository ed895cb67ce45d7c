//! The store's calls as scripts with their arguments, in the order in which the scripts take them.

use std::time::Duration;

use super::{
    Clock, Naming,
    script::{CLAIM, COMPLETE, EXTEND, Invocation, RELEASE},
};
use crate::{ClaimRequest, Lease, Outcome, Policy, Release, store::record};

/// Writes calls for one store.
#[derive(Debug, Clone)]
pub(super) struct Calls {
    pub(super) naming: Naming,
    pub(super) clock: Clock,
}

impl Calls {
    pub(super) fn claim(&self, request: &ClaimRequest) -> Invocation {
        let fingerprint = request.fingerprint.as_ref();
        Invocation::new(&CLAIM, &self.naming.record(&request.key))
            .arg(self.clock.skew())
            .arg(micros(request.lease))
            .arg(micros(request.retention))
            .arg(request.owner.as_bytes())
            .arg(u8::from(request.replay))
            .arg(fingerprint.map_or(&[][..], |digest| digest.as_bytes()))
    }

    pub(super) fn extend(&self, lease: &Lease, by: Duration) -> Invocation {
        Invocation::new(&EXTEND, &self.naming.record(&lease.key))
            .arg(self.clock.skew())
            .arg(lease.token.get())
            .arg(micros(by))
    }

    pub(super) fn complete(
        &self,
        lease: &Lease,
        outcome: &Outcome,
        retention: Duration,
    ) -> Invocation {
        Invocation::new(&COMPLETE, &self.naming.record(&lease.key))
            .arg(self.clock.skew())
            .arg(lease.token.get())
            .arg(micros(retention))
            .arg(outcome.as_bytes())
    }

    pub(super) fn release(&self, lease: &Lease, reason: &Release) -> Invocation {
        let (state, error, delay) = match reason {
            Release::Failed { error, retry_after } => ("f", error.as_str(), *retry_after),
            Release::Abandoned => ("a", "", Duration::ZERO),
            Release::GaveUp { error } => ("g", error.as_str(), Duration::ZERO),
            Release::Quarantined => ("q", "", Duration::ZERO),
        };
        Invocation::new(&RELEASE, &self.naming.record(&lease.key))
            .arg(self.clock.skew())
            .arg(lease.token.get())
            .arg(state)
            .arg(error)
            .arg(micros(delay))
    }
}

/// Microseconds, at most as many that sums of them with a time are exact in a double.
fn micros(duration: Duration) -> i64 {
    record::micros(duration.min(10 * Policy::MAX_RETENTION))
}
