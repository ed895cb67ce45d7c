//! One try at a claim: whose it is, and what of.

use std::{
    fmt,
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, SystemTime},
};

use super::StoreError;
use crate::{
    handler::Policy,
    message::{Fingerprint, Key, Position, SequencePlace, SessionPlace},
    random,
};

/// One try at a claim.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use idem_core::{
///     Execution, Executor, Failed, Key, MemoryStore, Policy, message::Fingerprint,
///     store::ClaimRequest,
/// };
///
/// let executor = Executor::new(MemoryStore::new());
/// for (body, runs) in [("500 cents", true), ("900 cents", false)] {
///     let request = ClaimRequest::new(Key::new("orders.charge", "o-17")?, &Policy::DEFAULT)
///         .fingerprint(Fingerprint::of(body.as_bytes()));
///     let work = executor.execute_request(&request, &Policy::DEFAULT, async |_| Ok::<_, Failed>(()));
///     assert_eq!(matches!(work.await, Execution::Executed { .. }), runs); // the second is `KeyReused`
/// }
/// # Ok::<_, idem_core::message::KeyError>(()) }).unwrap();
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ClaimRequest {
    /// What is to be worked on.
    pub key: Key,
    /// Whose try this is; the same owner may repeat it without harm.
    pub owner: Owner,
    /// The digest of the content, if it is to be compared.
    pub fingerprint: Option<Fingerprint>,
    /// How long the claim holds without being extended. [`Executor`](crate::Executor) refuses a request whose lease is
    /// shorter than [`Policy::MIN_LEASE`].
    pub lease: Duration,
    /// How long the record lives after its last write, and after its lease has ended.
    pub retention: Duration,
    /// Whether a person sent a dead letter again: it starts over, with attempts counted from 1,
    /// and is the only one that acquires a quarantined key.
    pub replay: bool,
    /// Whether it acquires a key of another owner whose lease has run out. One that only asks for what its own owner
    /// may have, to give it back, does not.
    pub takes_over: bool,
    /// Where it stands: nowhere, in a session, or in a sequence.
    pub position: Position,
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
            takes_over: true,
            position: Position::None,
        }
    }

    /// A try by a new owner for the key of this place, with the policy's lease, and its retention
    /// unless that is shorter than [`SessionPlace::MIN_RETENTION`].
    pub fn in_session(place: SessionPlace, policy: &Policy) -> Self {
        let request = Self::new(place.key(), policy);
        Self {
            position: Position::Session(place),
            retention: request.retention.max(SessionPlace::MIN_RETENTION),
            ..request
        }
    }

    /// A try by a new owner for the key of this place, with the policy's lease. The retention is eight
    /// sevenths of the policy's, so that what the mark has passed stays known for as long as the policy
    /// says: see [`SequenceStore`](crate::store::SequenceStore).
    pub fn in_sequence(place: SequencePlace, policy: &Policy) -> Self {
        let request = Self::new(place.key(), policy);
        Self {
            position: Position::Sequence(place),
            retention: request.retention.saturating_mul(8) / 7,
            ..request
        }
    }

    /// For stores that keep sessions or sequences: the position, once the key is known to be that of
    /// the place.
    ///
    /// # Errors
    /// [`StoreError::Refused`], if it is not.
    pub fn checked_position(&self) -> Result<&Position, StoreError> {
        let (key, kind) = match &self.position {
            Position::None => return Ok(&Position::None),
            Position::Session(place) => (place.key(), "session"),
            Position::Sequence(place) => (place.key(), "sequence"),
        };
        if key == self.key {
            return Ok(&self.position);
        }
        Err(StoreError::Refused(
            format!(
                "the key `{}` is not that of its place in the {kind}, `{key}`: make the request \
                 with `ClaimRequest::in_{kind}`",
                self.key,
            )
            .into(),
        ))
    }

    /// Refuses a lease into which no heartbeat fits: the key would be free for another worker while this one runs.
    /// A policy has no such lease, but a request may be made by hand.
    ///
    /// # Errors
    /// [`StoreError::Refused`], which is no outage: such work must not run without the store either.
    pub(crate) fn check_lease(&self) -> Result<(), StoreError> {
        if self.lease >= Policy::MIN_LEASE {
            return Ok(());
        }
        Err(StoreError::Refused(
            format!(
                "the lease of `{}` is {:?}, and must be at least {:?}: a heartbeat has to fit into it",
                self.key,
                self.lease,
                Policy::MIN_LEASE
            )
            .into(),
        ))
    }

    /// The policy as it is heeded for this: what has a place among others never runs without its
    /// claim, because the store alone knows of them.
    pub(crate) fn heeded_by(&self, policy: &Policy) -> Policy {
        if self.position.is_none() {
            return *policy;
        }
        policy.claimed_only()
    }

    /// Compares the content by this digest.
    pub fn fingerprint(mut self, fingerprint: impl Into<Option<Fingerprint>>) -> Self {
        self.fingerprint = fingerprint.into();
        self
    }

    /// Claims on behalf of an owner that has tried before.
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

/// One delivery's try at a claim: 128 bits that no other has.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner([u8; 16]);

impl Owner {
    /// An owner that nobody else is.
    #[expect(clippy::new_without_default, reason = "two new owners are never equal")]
    pub fn new() -> Self {
        let bits = u128::from(*THIS_PROCESS) << 64 | u128::from(own_moment());
        Self(bits.to_be_bytes())
    }

    /// An owner as a store has kept it.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bytes to keep in a store.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Owner({:032x})", u128::from_be_bytes(self.0))
    }
}

/// Random: the system is asked once, not with each message.
static THIS_PROCESS: LazyLock<u64> = LazyLock::new(|| u64::from_be_bytes(random::bytes()));

/// A moment that belongs to one owner of this process, in nanoseconds since 1970. The clock keeps apart
/// those of two copies of the process, as of a virtual machine that was cloned while it ran.
fn own_moment() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    let now = u64::try_from(since.as_nanos()).unwrap_or_default();
    let next = |last: u64| now.max(last + 1);
    let (Ok(last) | Err(last)) = LAST.fetch_update(Relaxed, Relaxed, |last| Some(next(last)));
    next(last)
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, thread};

    use super::*;

    #[test]
    fn no_two_owners_are_equal_though_threads_make_them_at_the_same_time() {
        let many = || (0..10_000).map(|_| Owner::new()).collect::<Vec<_>>();
        let threads: Vec<_> = (0..4).map(|_| thread::spawn(many)).collect();
        let owners = threads.into_iter().flat_map(|it| it.join().unwrap());
        assert_eq!(owners.collect::<HashSet<_>>().len(), 40_000);
    }

    #[test]
    fn owners_of_a_process_share_half_of_their_bits_and_differ_in_the_time() {
        let [one, other] = [(); 2].map(|()| u128::from_be_bytes(*Owner::new().as_bytes()));
        assert_eq!(one >> 64, other >> 64);
        assert!(one < other);
    }

    #[test]
    fn an_owner_is_shown_as_the_hexadecimal_digits_that_a_database_shows() {
        let owner = Owner::from_bytes([0xAB; 16]);
        assert_eq!(format!("{owner:?}"), format!("Owner({})", "ab".repeat(16)));
    }
}
