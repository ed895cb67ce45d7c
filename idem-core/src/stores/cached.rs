//! A cache of completed keys in front of a store, so that copies need not ask it.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use crate::store::Store;

mod batch;
mod group;
mod known;
mod operator;
mod recorded_by;
pub(crate) mod shared;
mod store;
#[cfg(test)]
mod tests;
mod transactional;

use known::{Known, Limits};
pub use shared::SharedCache;

/// A store that answers for completed keys from this process's memory, for a minute unless set otherwise.
///
/// Copies of a message often come soon after one another. The store answers the first, this the
/// rest. Clones share what they know.
///
/// | | |
/// |---|---|
/// | knows | completed keys, from the store's answers and from completions that it passed on |
/// | never knows | that a key is free, in progress, failed or quarantined: the store is asked |
/// | for how long | 60 s unless [set otherwise](CachedBuilder::longest), and never beyond the retention |
/// | how much | 32 MiB unless [set otherwise](CachedBuilder::capacity), and no more keys than are [allowed](CachedBuilder::entries); what was not asked for longest is dropped first |
/// | other content under a known key | the store decides |
/// | a replay | the store decides |
///
/// So a key that an operator deletes from the store runs again after that time at most, whatever the process; at once
/// in this one, if it is changed through the cache, as an [`OperatorStore`](crate::store::operator::OperatorStore). The
/// rest of the contract is the store's own: every other call passes through. A lease is to be completed through the
/// cache that it was claimed through.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use idem_core::{Executor, Failed, Key, MemoryStore, Policy, stores::Cached};
///
/// let store = Cached::new(MemoryStore::new());
/// let executor = Executor::new(store.clone());
/// for _ in 0..3 {
///     let key = Key::new("orders.charge", "o-17")?;
///     executor.execute(key, &Policy::DEFAULT, async |_| Ok::<_, Failed>("charged")).await;
/// }
/// assert_eq!((store.stats().lookups(), store.stats().hits()), (3, 2));
/// # Ok::<_, idem_core::message::KeyError>(()) }).unwrap();
/// ```
pub struct Cached<S>(Arc<Inner<S>>);

struct Inner<S> {
    store: S,
    known: Known,
    /// Where completed keys are known then, instead of in `known`.
    shared: Option<SharedCache>,
    longest: Duration,
    lookups: AtomicU64,
    hits: AtomicU64,
}

/// A [`Cached`] store in the making.
///
/// ```
/// use std::time::Duration;
/// use idem_core::{MemoryStore, stores::Cached};
///
/// let store = Cached::builder(MemoryStore::new())
///     .capacity(8 * 1024 * 1024)
///     .entries(20_000)
///     .longest(Duration::from_hours(1))
///     .build();
/// # drop(store);
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct CachedBuilder<S> {
    store: S,
    limits: Limits,
    shared: Option<SharedCache>,
}

/// How often a cache was asked, and could answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheStats {
    lookups: u64,
    hits: u64,
}

impl<S: Store> Cached<S> {
    /// A cache in front of this store, with the defaults of the table above.
    pub fn new(store: S) -> Self {
        Self::builder(store).build()
    }

    /// Starts from the defaults.
    pub fn builder(store: S) -> CachedBuilder<S> {
        CachedBuilder {
            store,
            limits: Limits {
                bytes: CachedBuilder::<S>::DEFAULT_CAPACITY,
                entries: usize::MAX,
                longest: CachedBuilder::<S>::DEFAULT_LONGEST,
            },
            shared: None,
        }
    }
}

impl<S> Cached<S> {
    /// The store behind the cache.
    pub fn store(&self) -> &S {
        &self.0.store
    }

    /// What was counted since it was built.
    pub fn stats(&self) -> CacheStats {
        CacheStats {
            lookups: self.0.lookups.load(Relaxed),
            hits: self.0.hits.load(Relaxed),
        }
    }

    /// Moves this cache's clock forward, and that of its clones; not the store's.
    #[cfg(any(test, feature = "testing"))]
    #[doc(hidden)]
    pub fn advance(&self, by: Duration) {
        self.0.known.advance(by);
    }
}

impl<S> CachedBuilder<S> {
    /// 32 MiB: some 100,000 keys with small outcomes.
    pub const DEFAULT_CAPACITY: u64 = 32 * 1024 * 1024;

    /// How long a key is known, unless set otherwise: 60 s.
    pub const DEFAULT_LONGEST: Duration = Duration::from_mins(1);

    /// How many bytes the keys and outcomes may take, their administration included; 32 MiB
    /// unless set. An outcome that would take more than a sixty-fourth of it is not kept.
    pub fn capacity(mut self, bytes: u64) -> Self {
        self.limits.bytes = bytes;
        self
    }

    /// How many keys may be known, those that are being handled included; as many as the bytes allow unless set.
    pub fn entries(mut self, entries: usize) -> Self {
        self.limits.entries = entries;
        self
    }

    /// How long a completed key is known; 60 s unless set. It is never known beyond its retention, so
    /// [`Duration::MAX`] means: up to that.
    ///
    /// For as long as this, a key stays a duplicate here whose record the store has lost, or an operator has removed
    /// from it without this cache. A process that was suspended has not counted that time.
    pub fn longest(mut self, longest: Duration) -> Self {
        self.limits.longest = longest;
        self
    }

    /// Keeps completed keys there instead of in this process, so that workers know what others have completed.
    ///
    /// It is only asked first: the store decides whatever it does not know, and it may be slow, empty, behind or gone
    /// at any time. What is told to it is true, because the store has said it.
    ///
    /// | | |
    /// |---|---|
    /// | it does not answer [in time](SharedCache::within), or not at all | the store is asked; it is left alone for a second |
    /// | it has lost keys | the store is asked |
    /// | an operator changes a key through this, in any process | it forgets the key, for all |
    /// | … in the store alone, or while it cannot be told; or it has lost that | copies stay duplicates for [`longest`](Self::longest) at most |
    /// | the store has lost completions, in a fail-over | their copies stay duplicates as long: empty it |
    ///
    /// ```no_run
    /// # #[cfg(all(feature = "postgres", feature = "redis"))]
    /// # async fn example() -> Result<(), idem_core::store::ConnectError> {
    /// use idem_core::{PostgresStore, RedisStore, stores::Cached};
    ///
    /// let first = RedisStore::builder("redis://cache.internal").cache("orders-production")?;
    /// let second = PostgresStore::connect("postgres://db.internal/orders").await?;
    /// let store = Cached::builder(second).shared(first).build();
    /// # drop(store);
    /// # Ok(()) }
    /// ```
    #[doc(alias = "tiered")]
    pub fn shared(mut self, cache: SharedCache) -> Self {
        self.shared = Some(cache);
        self
    }

    /// Ends the store.
    pub fn build(self) -> Cached<S> {
        Cached(Arc::new(Inner {
            store: self.store,
            known: Known::new(self.limits),
            shared: self.shared,
            longest: self.limits.longest,
            lookups: AtomicU64::default(),
            hits: AtomicU64::default(),
        }))
    }
}

impl CacheStats {
    /// How many claims were looked up; those of replays are not.
    pub fn lookups(&self) -> u64 {
        self.lookups
    }

    /// How many of them were answered without the store.
    pub fn hits(&self) -> u64 {
        self.hits
    }
}

impl<S> Clone for Cached<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S: fmt::Debug> fmt::Debug for Cached<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cached")
            .field("store", &self.0.store)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
