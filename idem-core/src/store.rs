//! The store contract: who may work on a key, and what became of it.

use std::{error::Error, fmt::Debug, time::Duration};

use bytes::Bytes;
use uuid::Uuid;

use crate::{FencingToken, Fingerprint, Key, Policy};

mod error;
pub(crate) mod record;
mod transactional;

pub use error::{ConnectError, StoreError};
pub use transactional::{Begun, Commit, TransactionalStore};

/// Decides, once per key, who works, and remembers what came of it.
///
/// An implementation keeps these rules; the conformance suite (feature `conformance`) holds it
/// to them.
///
/// 1. [`claim`](Self::claim) is one atomic step in one round trip, and the only call that looks
///    at expiry.
/// 2. The fencing tokens of a key grow strictly: over release, takeover, completion, purge and
///    re-creation.
/// 3. A write takes effect if and only if the key is still claimed under that token. A lease that
///    ran out but that nobody took over may still complete or be extended; a released, completed,
///    taken-over or purged key is never revived. Repeating the very write that ended a lease,
///    with its token, answers [`Write::Applied`] again.
/// 4. [`Claim::Completed`] wins until its retention ends. Only an observed, committed completion
///    ever makes a duplicate.
/// 5. Attempts survive release and takeover; [`Lease::in_doubt`] says whether the previous
///    attempt ended without a word. A key that failed is [`Claim::Held`] until its `retry_after`
///    has passed: copies of the message neither run nor count as attempts before, only a replay
///    does.
/// 6. Time is the store's own clock, never a worker's.
/// 7. `Err` means *unknown*: the write may have happened. The same owner claiming again gets the
///    same token and attempt while it holds the key, and does not acquire again after its lease
///    was ended.
/// 8. Every state a record can be in has an exit: takeover, completion, release or purge.
///    An unfinished record lives as long as the retention after its lease has ended, or after
///    its next attempt is due.
/// 9. [`Claim::KeyReused`] is decided only against a completed key, or a failed one that was not
///    given up; other content while a worker holds the key is [`Claim::Held`].
/// 10. No answer is decided from another transaction that may still roll back.
///
/// # Cancel safety
/// A dropped future leaves the write unknown, as an `Err` does.
pub trait Store: Debug + Send + Sync + 'static {
    /// Tries to become the one who works on a key.
    ///
    /// # Errors
    /// If the store cannot tell; the claim may have been recorded.
    fn claim(
        &self,
        request: &ClaimRequest,
    ) -> impl Future<Output = Result<Claim, StoreError>> + Send;

    /// Makes the lease end `by` from now.
    ///
    /// # Errors
    /// If the store cannot tell; the lease may have been extended.
    fn extend(
        &self,
        lease: &Lease,
        by: Duration,
    ) -> impl Future<Output = Result<Write, StoreError>> + Send;

    /// Records the final outcome and remembers it for the retention from now.
    ///
    /// # Errors
    /// If the store cannot tell; the outcome may have been recorded.
    fn complete(
        &self,
        lease: &Lease,
        outcome: &Outcome,
        retention: Duration,
    ) -> impl Future<Output = Result<Write, StoreError>> + Send;

    /// Gives the key back.
    ///
    /// # Errors
    /// If the store cannot tell; the key may have been given back.
    fn release(
        &self,
        lease: &Lease,
        reason: &Release,
    ) -> impl Future<Output = Result<Write, StoreError>> + Send;
}

/// A store that must be told to drop what its retention has ended for.
pub trait Purge: Store {
    /// Removes at most `batch` records, completed or not, whose retention has ended, and says how
    /// many. Fewer than `batch` means that none are left for now but those that somebody else is removing.
    ///
    /// # Errors
    /// If the store cannot tell; records may have been removed.
    fn purge(&self, batch: u32) -> impl Future<Output = Result<u32, StoreError>> + Send;
}

/// One try at a claim.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ClaimRequest {
    /// What is to be worked on.
    pub key: Key,
    /// Whose try this is; the same owner may repeat it without harm.
    pub owner: Owner,
    /// The digest of the content, if it is to be compared.
    pub fingerprint: Option<Fingerprint>,
    /// How long the claim holds without being extended.
    pub lease: Duration,
    /// How long the record lives after its last write, and after its lease has ended.
    pub retention: Duration,
    /// Whether a person sent a dead letter again: it starts over, with attempts counted from 1,
    /// and is the only one that acquires a quarantined key.
    pub replay: bool,
}

impl ClaimRequest {
    /// A try by a new owner, with the policy's lease and retention.
    pub fn new(key: Key, policy: &Policy) -> Self {
        Self {
            key,
            owner: Owner::new(),
            fingerprint: None,
            lease: policy.lease(),
            retention: policy.retention(),
            replay: false,
        }
    }

    /// Compares the content by this digest.
    pub fn fingerprint(mut self, fingerprint: impl Into<Option<Fingerprint>>) -> Self {
        self.fingerprint = fingerprint.into();
        self
    }

    /// On behalf of an owner that has tried before.
    pub fn owner(mut self, owner: Owner) -> Self {
        self.owner = owner;
        self
    }

    /// Says whether this is a dead letter that a person sent again.
    pub fn replay(mut self, replay: bool) -> Self {
        self.replay = replay;
        self
    }
}

/// One delivery's try at a claim: 128 random bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner(Uuid);

impl Owner {
    /// An owner that nobody else is.
    #[expect(clippy::new_without_default, reason = "two new owners are never equal")]
    pub fn new() -> Self {
        Self(Uuid::new_v4())
    }

    /// An owner as a store has kept it.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }

    /// The bytes to keep in a store.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }
}

/// The store's answer to a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Claim {
    /// The claimant works, under this lease.
    Acquired(Lease),
    /// Another worker holds the key, and its lease ends in `remaining` unless it is extended; or
    /// the last attempt failed, and the next one is due in `remaining`.
    Held {
        /// May be zero.
        remaining: Duration,
    },
    /// The work is done and committed.
    Completed {
        /// What the handler returned.
        outcome: Outcome,
        /// How long it will be remembered.
        remaining: Duration,
    },
    /// The key stands for other content.
    KeyReused,
    /// An attempt ended in doubt and waits for a person: only a replay runs.
    Quarantined,
}

/// Proof of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lease {
    /// What is being worked on.
    pub key: Key,
    /// The fencing token of this claim.
    pub token: FencingToken,
    /// How often the key has been claimed and not abandoned, this time included.
    pub attempt: u32,
    /// Whether the attempt before ended without a word.
    pub in_doubt: bool,
}

impl Lease {
    /// For store implementations: the proof of a claim just recorded.
    pub fn new(key: Key, token: FencingToken, attempt: u32, in_doubt: bool) -> Self {
        Self {
            key,
            token,
            attempt,
            in_doubt,
        }
    }
}

/// Whether a write under a lease took effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a fenced write had no effect"]
pub enum Write {
    /// It did, now or when it was first tried.
    Applied,
    /// The lease is no longer the current one; nothing was changed.
    Fenced,
}

/// Why a key is given back.
///
/// A store takes two releases for the very same write if their reasons are the same: a repeat
/// changes neither the error nor the time of the retry.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Release {
    /// The attempt failed; the key is free for the next one as soon as that is due.
    Failed {
        /// In one line, at most [`Release::MAX_ERROR_LEN`] bytes.
        error: String,
        /// How long from now, on the store's clock, the key is held for everybody but a replay;
        /// other content is refused meanwhile. Zero frees it at once.
        retry_after: Duration,
    },
    /// The handler was never polled: this was not an attempt.
    Abandoned,
    /// The message is being dead-lettered: attempts restart and the fingerprint is dropped, so
    /// that a replay runs.
    GaveUp {
        /// In one line, at most [`Release::MAX_ERROR_LEN`] bytes.
        error: String,
    },
    /// The message is being dead-lettered in doubt: other copies are quarantined too, only a
    /// replay runs.
    Quarantined,
}

impl Release {
    /// The longest error that is kept, in bytes.
    pub const MAX_ERROR_LEN: usize = 1024;

    /// The attempt failed, and the next one is due at once; the error is cut to its maximum
    /// length.
    pub fn failed(error: impl Into<String>) -> Self {
        Self::retry_after(Duration::ZERO, error)
    }

    /// The attempt failed, and the next one is due after a delay; the error is cut to its maximum
    /// length.
    pub fn retry_after(delay: Duration, error: impl Into<String>) -> Self {
        Self::Failed {
            error: Self::cut(error.into()),
            retry_after: delay,
        }
    }

    /// The message is given up; the error is cut to its maximum length.
    pub fn gave_up(error: impl Into<String>) -> Self {
        Self::GaveUp {
            error: Self::cut(error.into()),
        }
    }

    fn cut(mut error: String) -> String {
        error.truncate(error.floor_char_boundary(Self::MAX_ERROR_LEN));
        error
    }
}

/// The remembered result of a handler, as bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Outcome(Bytes);

impl Outcome {
    /// Remembers these bytes.
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        Self(bytes.into())
    }

    /// Remembers a value as JSON.
    ///
    /// # Errors
    /// If JSON cannot express it.
    pub fn json(value: &impl serde::Serialize) -> Result<Self, Box<dyn Error + Send + Sync>> {
        Ok(Self::new(serde_json::to_vec(value)?))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}
