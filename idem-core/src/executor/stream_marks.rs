//! The marks of one stream, for the transport that reads it.
//!
//! A transport gets them from [`Executor::stream_marks`], where the types of a handler's store are known. It decides
//! what it reads; what it asks the store, and how long it waits for the answer, is the same for all transports.

use std::{fmt, sync::Arc, time::Duration};

use tokio::time::timeout;

use super::Executor;
use crate::{
    futures::{BoxFuture, FutureExt as _},
    handler::Backoff,
    message::Key,
    store::{Owner, StoreError, StreamClaim, StreamLease, StreamState, StreamStore, Write},
};

/// How long a store that does not answer is waited for. It is longer than a store waits for its server by default, so
/// that the store has noticed the silence by then.
const ANSWER: Duration = Duration::from_secs(12);

/// The same where the stream is given back: its lease ends by itself, too.
const GIVE_BACK: Duration = Duration::from_secs(2);

/// How soon what the store says of the stream is asked again, at the latest.
const STANDBY: Duration = Duration::from_secs(1);
const BARRED_STANDBY: Duration = Duration::from_mins(1);

/// How long a stream may be silent or stand still before something is said to be wrong with it, in multiples of its
/// `takeover_after`.
const PATIENCE: u32 = 20;

/// One handler in one stream, as its store keeps it.
#[derive(Clone)]
pub struct StreamMarks {
    store: Arc<dyn AnyStreamStore>,
    takeover: Duration,
}

/// What a claim of the stream found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimedStream {
    /// The claimant reads from this mark on; `None` if the handler begins.
    Acquired {
        /// Proof of the claim.
        lease: StreamLease,
        /// The lowest offset that is not done.
        mark: Option<u64>,
    },
    /// A worker has found the stream to end before this mark. The claimant reads nothing before a person has set it.
    Barred {
        /// Proof of the claim.
        lease: StreamLease,
        /// The mark that the stream does not reach.
        mark: u64,
        /// When to ask again.
        again: Duration,
    },
    /// Another worker reads it.
    Held {
        /// When to ask again.
        again: Duration,
    },
}

impl fmt::Debug for StreamMarks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamMarks")
            .field("takeover", &self.takeover)
            .finish_non_exhaustive()
    }
}

impl ClaimedStream {
    /// The claim's lease, if it has one: a barred stream is the claimant's, too.
    pub fn lease(&self) -> Option<&StreamLease> {
        match self {
            Self::Acquired { lease, .. } | Self::Barred { lease, .. } => Some(lease),
            Self::Held { .. } => None,
        }
    }
}

#[expect(
    clippy::missing_errors_doc,
    reason = "each fails as the store does, or if the store does not answer"
)]
impl StreamMarks {
    /// The pause between two tries to claim.
    pub const AGAIN: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(5));

    /// Marks in a store whose leases last as long as `takeover`.
    pub fn new(store: Arc<dyn AnyStreamStore>, takeover: Duration) -> Self {
        Self { store, takeover }
    }

    /// How long a lease lasts: after that, another worker takes the stream over.
    pub fn takeover(&self) -> Duration {
        self.takeover
    }

    /// For how long the stream may be silent, or stand still: 5 minutes unless `takeover_after` is set.
    pub fn patience(&self) -> Duration {
        self.takeover * PATIENCE
    }

    /// When to ask again what another worker does with the stream.
    pub fn standby(&self) -> Duration {
        STANDBY.min(self.takeover / 4)
    }

    /// Claims the stream.
    pub async fn claim(&self, owner: Owner) -> Result<ClaimedStream, StoreError> {
        let claim = answered(self.store.claim(owner, self.takeover)).await?;
        Ok(match claim {
            StreamClaim::Acquired { lease, mark } => {
                match mark.and_then(|mark| mark.checked_sub(StreamState::BEYOND_END)) {
                    Some(mark) => ClaimedStream::Barred {
                        lease,
                        mark,
                        again: BARRED_STANDBY.min(self.takeover / 3),
                    },
                    None => ClaimedStream::Acquired { lease, mark },
                }
            }
            StreamClaim::Held { remaining } => ClaimedStream::Held {
                again: remaining.clamp(Duration::from_millis(50), self.standby()),
            },
        })
    }

    /// Extends the lease, and moves the mark if there is one.
    pub async fn extend(
        &self,
        lease: &StreamLease,
        mark: Option<u64>,
    ) -> Result<Write, StoreError> {
        answered(self.store.extend(lease, mark, self.takeover)).await
    }

    /// Keeps that the stream ends before this mark, for whoever claims it next.
    pub async fn bar(&self, lease: &StreamLease, mark: u64) -> Result<Write, StoreError> {
        self.extend(lease, Some(StreamState::BEYOND_END + mark))
            .await
    }

    /// Ends the lease, and waits until the store has said so.
    pub async fn end(&self, lease: &StreamLease, mark: Option<u64>) -> Result<Write, StoreError> {
        answered(self.store.release(lease, mark)).await
    }

    /// Ends the lease so that the next worker need not wait for it. A silent store is not waited for.
    pub async fn give_back(
        &self,
        lease: &StreamLease,
        mark: Option<u64>,
    ) -> Result<Write, StoreError> {
        within(GIVE_BACK, self.store.release(lease, mark)).await
    }

    /// What the store knows of the stream.
    pub async fn look(&self) -> Result<Option<StreamState>, StoreError> {
        answered(self.store.look()).await
    }
}

async fn answered<T>(call: Answer<'_, T>) -> Result<T, StoreError> {
    within(ANSWER, call).await
}

async fn within<T>(longest: Duration, call: Answer<'_, T>) -> Result<T, StoreError> {
    let silent = |_| StoreError::unavailable("it did not answer");
    timeout(longest, call).await.map_err(silent).flatten()
}

/// The answer of a store.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// The calls of a [`StreamStore`] for one handler in one stream, without the store's type.
pub trait AnyStreamStore: Send + Sync {
    /// [`StreamStore::claim_stream`].
    fn claim(&self, owner: Owner, lease: Duration) -> Answer<'_, StreamClaim>;

    /// [`StreamStore::extend_stream`].
    fn extend<'a>(
        &'a self,
        lease: &'a StreamLease,
        mark: Option<u64>,
        by: Duration,
    ) -> Answer<'a, Write>;

    /// [`StreamStore::release_stream`].
    fn release<'a>(&'a self, lease: &'a StreamLease, mark: Option<u64>) -> Answer<'a, Write>;

    /// [`StreamStore::look_at_stream`].
    fn look(&self) -> Answer<'_, Option<StreamState>>;
}

impl<S: StreamStore> Executor<S> {
    /// The marks of a stream in this executor's store. The key has the handler's scope and the stream's name; another
    /// worker takes the stream over when nothing was heard of its reader for as long as `takeover`.
    #[doc(hidden)]
    pub fn stream_marks(&self, stream: Key, takeover: Duration) -> StreamMarks {
        StreamMarks::new(self.stream_store(stream), takeover)
    }

    /// The store of this executor, for one stream.
    #[doc(hidden)]
    pub fn stream_store(&self, stream: Key) -> Arc<dyn AnyStreamStore> {
        Arc::new(OneStream {
            executor: self.clone(),
            stream,
        })
    }
}

struct OneStream<S> {
    executor: Executor<S>,
    /// Scope and stream.
    stream: Key,
}

impl<S: StreamStore> AnyStreamStore for OneStream<S> {
    fn claim(&self, owner: Owner, lease: Duration) -> Answer<'_, StreamClaim> {
        let store = self.executor.store();
        store.claim_stream(&self.stream, owner, lease).boxed()
    }

    fn extend<'a>(
        &'a self,
        lease: &'a StreamLease,
        mark: Option<u64>,
        by: Duration,
    ) -> Answer<'a, Write> {
        self.executor.store().extend_stream(lease, mark, by).boxed()
    }

    fn release<'a>(&'a self, lease: &'a StreamLease, mark: Option<u64>) -> Answer<'a, Write> {
        self.executor.store().release_stream(lease, mark).boxed()
    }

    fn look(&self) -> Answer<'_, Option<StreamState>> {
        self.executor.store().look_at_stream(&self.stream).boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::time::Instant;

    use super::*;
    use crate::MemoryStore;

    const TAKEOVER: Duration = Duration::from_secs(15);

    fn key() -> Key {
        Key::new("books.book", "ledger").unwrap()
    }

    fn marks() -> StreamMarks {
        Executor::new(MemoryStore::new()).stream_marks(key(), TAKEOVER)
    }

    async fn lease_of(marks: &StreamMarks, owner: Owner) -> StreamLease {
        match marks.claim(owner).await.unwrap() {
            ClaimedStream::Acquired { lease, .. } => lease,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_barred_stream_is_claimed_and_not_read() {
        let marks = marks();
        let lease = lease_of(&marks, Owner::new()).await;
        assert_eq!(marks.bar(&lease, 1000).await.unwrap(), Write::Applied);
        assert_eq!(marks.give_back(&lease, None).await.unwrap(), Write::Applied);

        let claimed = marks.claim(Owner::new()).await.unwrap();
        assert!(claimed.lease().is_some_and(|its| its.token > lease.token));
        let ClaimedStream::Barred { mark, again, .. } = claimed else {
            panic!("{claimed:?}")
        };
        assert_eq!((mark, again), (1000, TAKEOVER / 3));
        let state = marks.look().await.unwrap().unwrap();
        assert_eq!(state.beyond_end(), Some(1000));
    }

    #[tokio::test]
    async fn who_stands_by_asks_again_each_second() {
        let marks = marks();
        lease_of(&marks, Owner::new()).await;
        let claimed = marks.claim(Owner::new()).await.unwrap();
        assert_eq!(claimed.lease(), None);
        let again = Duration::from_secs(1);
        assert_eq!(claimed, ClaimedStream::Held { again });
    }

    /// A store that never answers.
    struct Silent;

    impl AnyStreamStore for Silent {
        fn claim(&self, _: Owner, _: Duration) -> Answer<'_, StreamClaim> {
            pending().boxed()
        }

        fn extend<'a>(
            &'a self,
            _: &'a StreamLease,
            _: Option<u64>,
            _: Duration,
        ) -> Answer<'a, Write> {
            pending().boxed()
        }

        fn release<'a>(&'a self, _: &'a StreamLease, _: Option<u64>) -> Answer<'a, Write> {
            pending().boxed()
        }

        fn look(&self) -> Answer<'_, Option<StreamState>> {
            pending().boxed()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_does_not_answer_is_given_up() {
        let lease = lease_of(&marks(), Owner::new()).await;
        let marks = StreamMarks::new(Arc::new(Silent), TAKEOVER);
        let begun = Instant::now();
        assert!(marks.claim(Owner::new()).await.is_err());
        assert!(marks.extend(&lease, None).await.is_err());
        assert!(marks.end(&lease, None).await.is_err());
        assert!(marks.look().await.is_err());
        assert_eq!(begun.elapsed(), 4 * ANSWER);

        let begun = Instant::now();
        assert!(marks.give_back(&lease, None).await.is_err());
        assert_eq!(begun.elapsed(), GIVE_BACK);
    }
}
