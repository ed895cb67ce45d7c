//! What a cache knows about keys, and for how long.

#[cfg(any(test, feature = "conformance"))]
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use moka::{ops::compute::Op, policy::EvictionPolicy, sync::Cache};
use tokio::time::Instant;

use crate::{
    handler::{FencingToken, Outcome},
    message::{Fingerprint, Key},
    store::{Claim, ClaimRequest, Lease},
};

/// Bounded by weight; in the order of use.
pub(super) struct Known {
    // Its own clock only gives memory back: a paused or moved clock of a test is not its.
    entries: Cache<Key, Entry>,
    longest: Duration,
    largest_outcome: u64,
    #[cfg(any(test, feature = "conformance"))]
    skew_micros: AtomicU64,
}

/// Only a completed key is ever answered for. The others remember what its completion will be
/// known by.
#[derive(Debug, Clone)]
enum Entry {
    Claimed(Claimed),
    /// The completion was sent once. Its answer tells which outcome the store has, unless it is
    /// sent again meanwhile.
    Completing(Claimed),
    Completed(Completed),
    /// An operator has changed it at this time: no earlier answer of the store's counts any more.
    Intervened(Instant),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Claimed {
    token: FencingToken,
    fingerprint: Option<Fingerprint>,
    /// When the store was asked for it.
    asked: Instant,
}

#[derive(Debug, Clone)]
struct Completed {
    outcome: Outcome,
    /// Of content that the store is known to take for this key's own.
    fingerprint: Option<Fingerprint>,
    /// When the store was asked that told; so nothing is known for longer than it remembers.
    asked: Instant,
    /// Of the retention, then.
    remaining: Duration,
}

/// Beside key and outcome, as measured: 473 bytes per key of 34 bytes with an outcome of 4.
const OVERHEAD: usize = 448;

impl Known {
    pub(super) fn new(capacity: u64, longest: Duration) -> Self {
        let entries = Cache::builder()
            .max_capacity(capacity)
            .weigher(weight)
            // A copy comes soon or never: what was used last matters, not what is used often.
            .eviction_policy(EvictionPolicy::lru())
            .time_to_live(longest)
            .build();
        Self {
            entries,
            longest,
            largest_outcome: capacity / 64,
            #[cfg(any(test, feature = "conformance"))]
            skew_micros: AtomicU64::default(),
        }
    }

    /// The answer to a claim, if it is known without the store: a duplicate.
    pub(super) fn answer(&self, request: &ClaimRequest) -> Option<Claim> {
        let Some(Entry::Completed(completed)) = self.entries.get(&request.key) else {
            return None;
        };
        let age = self.now().saturating_duration_since(completed.asked);
        // Other content may or may not be key reuse: the record may have no fingerprint.
        let same_content =
            request.fingerprint.is_none() || request.fingerprint == completed.fingerprint;
        (same_content && age < self.longest.min(completed.remaining)).then(|| Claim::Completed {
            outcome: completed.outcome,
            remaining: completed.remaining.saturating_sub(age),
        })
    }

    /// Learns from the store's answer to a claim that was asked for at this time, unless it is one in
    /// a session or a sequence, which is never answered from here.
    pub(super) fn learn(&self, request: &ClaimRequest, answer: &Claim, asked: Instant) {
        if request.session.is_some() || request.sequence.is_some() {
            return;
        }
        match answer {
            Claim::Acquired(lease) => self.claimed(request, lease, asked),
            Claim::Completed { outcome, remaining } => {
                let completed = Completed {
                    outcome: outcome.clone(),
                    fingerprint: request.fingerprint,
                    asked,
                    remaining: *remaining,
                };
                self.told(&request.key, completed);
            }
            Claim::Held { .. } | Claim::Quarantined => self.not_completed(&request.key),
            Claim::KeyReused
            | Claim::Stale
            | Claim::SessionExpired
            | Claim::BeyondWindow { .. }
            | Claim::Late
            | Claim::Ahead { .. } => {}
        }
    }

    fn claimed(&self, request: &ClaimRequest, lease: &Lease, asked: Instant) {
        let claimed = Claimed {
            token: lease.token,
            fingerprint: request.fingerprint,
            asked,
        };
        let entry = self.entries.entry_by_ref(&request.key);
        entry.and_compute_with(|known| match known.map(moka::Entry::into_value) {
            // A repeated claim; the store keeps the content of the first.
            Some(Entry::Claimed(first) | Entry::Completing(first))
                if first.token == lease.token =>
            {
                Op::Nop
            }
            _ => Op::Put(Entry::Claimed(claimed)),
        });
    }

    /// If it was completed before, the store has forgotten that.
    fn not_completed(&self, key: &Key) {
        let entry = self.entries.entry_by_ref(key);
        entry.and_compute_with(|known| match known.map(moka::Entry::into_value) {
            Some(Entry::Completed(_)) => Op::Remove,
            _ => Op::Nop,
        });
    }

    /// A completion is about to be sent.
    pub(super) fn completing(&self, lease: &Lease) {
        let entry = self.entries.entry_by_ref(&lease.key);
        entry.and_compute_with(|known| match known.map(moka::Entry::into_value) {
            Some(Entry::Claimed(claimed)) if claimed.token == lease.token => {
                Op::Put(Entry::Completing(claimed))
            }
            // It is sent again: the store keeps the outcome of whichever it took first.
            Some(Entry::Completing(claimed)) if claimed.token == lease.token => Op::Remove,
            _ => Op::Nop,
        });
    }

    /// The completion that was sent at this time has taken effect.
    pub(super) fn completed(
        &self,
        lease: &Lease,
        outcome: &Outcome,
        retention: Duration,
        asked: Instant,
    ) {
        let entry = self.entries.entry_by_ref(&lease.key);
        entry.and_compute_with(|known| match known.map(moka::Entry::into_value) {
            Some(Entry::Completing(Claimed {
                token, fingerprint, ..
            })) if token == lease.token => {
                if self.is_too_large(outcome) {
                    return Op::Remove;
                }
                Op::Put(Entry::Completed(Completed {
                    outcome: outcome.clone(),
                    fingerprint,
                    asked,
                    remaining: retention,
                }))
            }
            _ => Op::Nop,
        });
    }

    /// The store has told of a completed key.
    fn told(&self, key: &Key, completed: Completed) {
        let entry = self.entries.entry_by_ref(key);
        entry.and_compute_with(|known| match known.map(moka::Entry::into_value) {
            Some(Entry::Intervened(changed)) if completed.asked <= changed => Op::Nop,
            // It comes late: since it was given the key was free.
            Some(Entry::Claimed(claimed) | Entry::Completing(claimed))
                if completed.asked <= claimed.asked =>
            {
                Op::Nop
            }
            _ if self.is_too_large(&completed.outcome) => Op::Remove,
            _ => Op::Put(Entry::Completed(completed)),
        });
    }

    /// An operator has changed the key, or may have.
    pub(super) fn forget(&self, key: &Key) {
        let changed = Entry::Intervened(self.now());
        self.entries.insert(key.clone(), changed);
    }

    fn is_too_large(&self, outcome: &Outcome) -> bool {
        outcome.as_bytes().len() as u64 > self.largest_outcome
    }

    /// tokio's time, which a paused clock drives.
    #[cfg_attr(
        not(any(test, feature = "conformance")),
        expect(clippy::unused_self, reason = "only tests move the clock")
    )]
    pub(super) fn now(&self) -> Instant {
        let now = Instant::now();
        #[cfg(any(test, feature = "conformance"))]
        let now = now + Duration::from_micros(self.skew_micros.load(Relaxed));
        now
    }

    #[cfg(any(test, feature = "conformance"))]
    pub(super) fn advance(&self, by: Duration) {
        let micros = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
        self.skew_micros.fetch_add(micros, Relaxed);
    }
}

fn weight(key: &Key, entry: &Entry) -> u32 {
    let outcome = match entry {
        Entry::Completed(completed) => completed.outcome.as_bytes().len(),
        Entry::Claimed(_) | Entry::Completing(_) | Entry::Intervened(_) => 0,
    };
    u32::try_from(OVERHEAD + key.as_str().len() + outcome).unwrap_or(u32::MAX)
}
