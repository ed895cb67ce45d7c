//! What a cache knows about keys, and for how long.

#[cfg(any(test, feature = "testing"))]
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::{
    handler::{FencingToken, Outcome},
    message::{Fingerprint, Key},
    store::{Claim, ClaimRequest, Lease},
};

mod recent;

use super::shared::KnownKey;
use recent::Recent;

/// How much is known, and for how long.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) bytes: u64,
    pub(super) entries: usize,
    /// How long a completed key is known; never beyond its retention.
    pub(super) longest: Duration,
}

pub(super) struct Known {
    /// Held for one look or one change, never over an await.
    entries: Mutex<Recent>,
    longest: Duration,
    largest_outcome: u64,
    #[cfg(any(test, feature = "testing"))]
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
    /// The fingerprint of content that the store takes for this key's own.
    fingerprint: Option<Fingerprint>,
    /// When the store was asked: counted from then, nothing is known for longer than the store remembers it.
    asked: Instant,
    /// How much of the retention was left then.
    remaining: Duration,
}

/// Other content may or may not be key reuse: the record may have no fingerprint.
fn is_same_content(request: &ClaimRequest, known: Option<Fingerprint>) -> bool {
    request.fingerprint.is_none() || request.fingerprint == known
}

impl KnownKey {
    pub(super) fn is_answer_to(&self, request: &ClaimRequest) -> bool {
        is_same_content(request, self.fingerprint)
    }
}

/// What becomes of what is known of a key.
enum Change {
    Nothing,
    Put(Entry),
    Remove,
}

/// The weight of an entry beside its key and outcome: it takes 160 bytes, its place in the map up to 40, and what key
/// and outcome are allocated with the rest. Measured, where the store has the same key and outcome: 166 bytes.
const OVERHEAD: usize = 256;

/// An answer that was asked for longer ago is not remembered: what an operator has changed meanwhile is kept in mind
/// for as long.
const OLDEST_ANSWER: Duration = Duration::from_mins(1);

impl Known {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            // A copy comes soon or never: what was used last matters, not what is used often.
            entries: Mutex::new(Recent::new(limits)),
            longest: limits.longest,
            largest_outcome: limits.bytes / 64,
            #[cfg(any(test, feature = "testing"))]
            skew_micros: AtomicU64::default(),
        }
    }

    /// The answer to a claim, if it is known without the store: a duplicate.
    pub(super) fn answer(&self, request: &ClaimRequest) -> Option<Claim> {
        let now = self.now();
        let mut entries = self.entries();
        let Some(Entry::Completed(completed)) = entries.get(&request.key, now) else {
            return None;
        };
        let age = now.saturating_duration_since(completed.asked);
        (is_same_content(request, completed.fingerprint)
            && age < self.longest.min(completed.remaining))
        .then(|| Claim::Completed {
            outcome: completed.outcome.clone(),
            remaining: completed.remaining.saturating_sub(age),
        })
    }

    /// Learns from the store's answer to a claim that was asked for at this time, unless it is one in
    /// a session or a sequence, which is never answered from here.
    pub(super) fn learn(&self, request: &ClaimRequest, answer: &Claim, asked: Instant) {
        if !request.position.is_none() {
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
            Claim::KeyReused | Claim::OutOfPlace(_) => {}
        }
    }

    fn claimed(&self, request: &ClaimRequest, lease: &Lease, asked: Instant) {
        let claimed = Claimed {
            token: lease.token,
            fingerprint: request.fingerprint,
            asked,
        };
        self.change(&request.key, |known| match known {
            // A repeated claim; the store keeps the content of the first.
            Some(Entry::Claimed(first) | Entry::Completing(first))
                if first.token == lease.token =>
            {
                Change::Nothing
            }
            _ => Change::Put(Entry::Claimed(claimed)),
        });
    }

    /// If it was completed before, the store has forgotten that.
    fn not_completed(&self, key: &Key) {
        self.change(key, |known| match known {
            Some(Entry::Completed(_)) => Change::Remove,
            _ => Change::Nothing,
        });
    }

    /// A completion is about to be sent.
    pub(super) fn completing(&self, lease: &Lease) {
        self.change(&lease.key, |known| match known {
            Some(Entry::Claimed(claimed)) if claimed.token == lease.token => {
                Change::Put(Entry::Completing(*claimed))
            }
            // It is sent again: the store keeps the outcome of whichever it took first.
            Some(Entry::Completing(claimed)) if claimed.token == lease.token => Change::Remove,
            _ => Change::Nothing,
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
        self.change(&lease.key, |known| match known {
            Some(Entry::Completing(claimed)) if claimed.token == lease.token => {
                if self.is_too_large(outcome) {
                    return Change::Remove;
                }
                Change::Put(Entry::Completed(Completed {
                    outcome: outcome.clone(),
                    fingerprint: claimed.fingerprint,
                    asked,
                    remaining: retention,
                }))
            }
            _ => Change::Nothing,
        });
    }

    /// The store has told of a completed key.
    fn told(&self, key: &Key, completed: Completed) {
        if self.now().saturating_duration_since(completed.asked) >= OLDEST_ANSWER {
            return;
        }
        self.change(key, |known| match known {
            Some(Entry::Intervened(changed)) if completed.asked <= *changed => Change::Nothing,
            // It comes late: since it was given the key was free.
            Some(Entry::Claimed(claimed) | Entry::Completing(claimed))
                if completed.asked <= claimed.asked =>
            {
                Change::Nothing
            }
            _ if self.is_too_large(&completed.outcome) => Change::Remove,
            _ => Change::Put(Entry::Completed(completed)),
        });
    }

    /// Hands over what is known of a completed key, and knows it no longer.
    pub(super) fn take(&self, key: &Key) -> Option<KnownKey> {
        let mut taken = None;
        self.change(key, |known| match known {
            Some(Entry::Completed(completed)) => {
                taken = Some(KnownKey {
                    outcome: completed.outcome.clone(),
                    fingerprint: completed.fingerprint,
                    remaining: completed.remaining,
                });
                Change::Remove
            }
            _ => Change::Nothing,
        });
        taken
    }

    /// An operator has changed the key, or may have.
    pub(super) fn forget(&self, key: &Key) {
        let changed = Entry::Intervened(self.now());
        self.change(key, |_| Change::Put(changed));
    }

    /// Looks at what is known of the key, and changes it, before anybody else looks.
    fn change(&self, key: &Key, change: impl FnOnce(Option<&Entry>) -> Change) {
        let now = self.now();
        let mut entries = self.entries();
        match change(entries.peek(key, now)) {
            Change::Nothing => {}
            Change::Put(entry) => entries.put(key, entry, now),
            Change::Remove => entries.remove(key),
        }
    }

    fn entries(&self) -> MutexGuard<'_, Recent> {
        // Nothing panics under the lock but for want of memory, which ends the process.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_too_large(&self, outcome: &Outcome) -> bool {
        outcome.as_bytes().len() as u64 > self.largest_outcome
    }

    /// tokio's time, which a paused clock drives.
    #[cfg_attr(
        not(any(test, feature = "testing")),
        expect(clippy::unused_self, reason = "only tests move the clock")
    )]
    pub(super) fn now(&self) -> Instant {
        let now = Instant::now();
        #[cfg(any(test, feature = "testing"))]
        let now = now + Duration::from_micros(self.skew_micros.load(Relaxed));
        now
    }

    #[cfg(any(test, feature = "testing"))]
    pub(super) fn advance(&self, by: Duration) {
        let micros = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
        self.skew_micros.fetch_add(micros, Relaxed);
    }
}

fn weight(key: &Key, entry: &Entry) -> u64 {
    let outcome = match entry {
        Entry::Completed(completed) => completed.outcome.as_bytes().len(),
        Entry::Claimed(_) | Entry::Completing(_) | Entry::Intervened(_) => 0,
    };
    (OVERHEAD + key.as_str().len() + outcome) as u64
}
