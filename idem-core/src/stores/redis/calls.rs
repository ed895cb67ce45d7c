//! The store's calls as the script takes them.

use std::time::Duration;

use redis::Value;

use super::{Naming, fault::Fault};
use crate::{
    handler::{Outcome, Policy},
    message::Key,
    store::{ClaimRequest, Lease, Release, rules::record},
    stores::batcher,
};

/// A call, as often as it takes.
#[derive(Debug)]
pub(super) struct Call {
    /// What the record is called.
    pub(super) record: Vec<u8>,
    /// The call's letter, and what it takes: packed, as `script/*.lua` says.
    pub(super) request: Vec<u8>,
    /// Nobody would work under a claim that nobody waits for, and its key would wait for the lease
    /// to end.
    pub(super) may_be_dropped: bool,
}

impl Call {
    fn write(naming: &Naming, key: &Key, request: Vec<u8>) -> Self {
        Self {
            record: naming.record(key),
            request,
            may_be_dropped: false,
        }
    }
}

pub(super) type Answer = Result<Value, Fault>;

impl batcher::Call for Call {
    type Answer = Answer;

    fn bytes(&self) -> usize {
        self.record.len() + self.request.len()
    }

    fn may_be_dropped(&self) -> bool {
        self.may_be_dropped
    }
}

/// Writes calls for one store.
#[derive(Debug, Clone)]
pub(super) struct Calls {
    pub(super) naming: Naming,
}

impl Calls {
    pub(super) fn claim(&self, request: &ClaimRequest) -> Call {
        let fingerprint = request.fingerprint.as_ref();
        let fingerprint = fingerprint.map_or(&[][..], |digest| digest.as_bytes());
        Call {
            record: self.naming.record(&request.key),
            request: packed(&[
                b"C",
                &micros(request.lease),
                &micros(request.retention),
                &[u8::from(request.replay) | u8::from(!request.takes_over) << 1],
                request.owner.as_bytes(),
                &[u8::try_from(fingerprint.len()).unwrap_or(0)],
                fingerprint,
            ]),
            may_be_dropped: true,
        }
    }

    pub(super) fn extend(&self, lease: &Lease, by: Duration) -> Call {
        let request = packed(&[b"E", &token(lease), &micros(by)]);
        Call::write(&self.naming, &lease.key, request)
    }

    pub(super) fn complete(&self, lease: &Lease, outcome: &Outcome, retention: Duration) -> Call {
        let outcome = outcome.as_bytes();
        let request = packed(&[b"D", &token(lease), &micros(retention), outcome]);
        Call::write(&self.naming, &lease.key, request)
    }

    pub(super) fn release(&self, lease: &Lease, reason: &Release) -> Call {
        let (state, error, delay) = match reason {
            Release::Failed { error, retry_after } => (b"f", error.as_str(), *retry_after),
            Release::Abandoned => (b"a", "", Duration::ZERO),
            Release::GaveUp { error } => (b"g", error.as_str(), Duration::ZERO),
            Release::Quarantined => (b"q", "", Duration::ZERO),
        };
        let request = packed(&[b"R", &token(lease), state, &micros(delay), error.as_bytes()]);
        Call::write(&self.naming, &lease.key, request)
    }
}

fn packed(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

fn token(lease: &Lease) -> [u8; 8] {
    lease.token.get().to_be_bytes()
}

/// Microseconds, at most as many that sums of them with a time are exact in a double.
pub(super) fn micros(duration: Duration) -> [u8; 8] {
    record::micros(duration.min(10 * Policy::MAX_RETENTION)).to_be_bytes()
}
