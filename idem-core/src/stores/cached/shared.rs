//! Completed keys that processes know together, and how long one of them waits for that.
//!
//! `Cached` asks it before the store, and tells it of what the store has said. Nothing here ever keeps a call from the
//! store: what does not answer in time knows nothing, and is left alone for a while. What must stay true: nothing is
//! told that is not known from the store, and nothing that was asked for before an operator changed it.
// docs/decisions/0043

use std::{
    error::Error,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::Semaphore,
    time::{Instant, timeout},
};

use crate::{
    error_chain::ErrorChain,
    futures::BoxFuture,
    handler::Outcome,
    message::{Fingerprint, Key},
    store::StoreError,
};

/// Where completed keys are known that several processes share; its time is its own.
pub(crate) trait SharedKeys: fmt::Debug + Send + Sync {
    /// What is known of the key.
    fn look<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<KnownKey>, Refusal>>;

    /// Lets others know what the store has said of a key that was asked for at this moment, for so long from then on.
    fn tell<'a>(
        &'a self,
        key: &'a Key,
        known: &'a KnownKey,
        asked: Moment,
        longest: Duration,
    ) -> BoxFuture<'a, Result<(), Refusal>>;

    /// Removes what is known of the key, and takes for a minute no answer about it.
    fn forget<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<(), Refusal>>;

    /// Its time now, or somewhat earlier; `None` as long as it has not told its time.
    fn now(&self) -> Option<Moment>;

    /// Moves its clock forward.
    #[cfg(any(test, feature = "testing"))]
    fn advance(&self, by: Duration);
}

pub(crate) type Refusal = Box<dyn Error + Send + Sync>;

/// A time in microseconds, by the clock of the shared cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(pub(crate) i64);

/// A completed key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KnownKey {
    pub(crate) outcome: Outcome,
    /// The fingerprint of content that the store takes for this key's own.
    pub(crate) fingerprint: Option<Fingerprint>,
    /// How much of the retention is left.
    pub(crate) remaining: Duration,
}

/// Completed keys that several processes know together, for [`CachedBuilder::shared`](super::CachedBuilder::shared): in
/// Redis, by [`RedisStoreBuilder::cache`](crate::stores::RedisStoreBuilder::cache). Clones are the same.
#[derive(Clone)]
pub struct SharedCache(Arc<Asked>);

struct Asked {
    keys: Arc<dyn SharedKeys>,
    within: Duration,
    /// The shared cache is not asked before this time.
    rests_until: Mutex<Option<Instant>>,
    /// One permit for each answer that may be on its way to the shared cache.
    telling: Arc<Semaphore>,
}

impl SharedCache {
    /// How long a claim waits for it unless told otherwise: 50 ms.
    pub const DEFAULT_WITHIN: Duration = Duration::from_millis(50);

    /// How long it is left alone after it did not answer.
    const REST: Duration = Duration::from_secs(1);

    /// More are not told: the store knows them.
    const TELLING: usize = 1024;

    #[cfg_attr(
        not(feature = "redis"),
        allow(dead_code, reason = "none is compiled in")
    )]
    pub(crate) fn new(keys: impl SharedKeys + 'static) -> Self {
        Self::of(Arc::new(keys), Self::DEFAULT_WITHIN)
    }

    /// How long a claim waits for it, before it asks the store: 50 ms unless set.
    #[must_use]
    pub fn within(self, within: Duration) -> Self {
        Self::of(Arc::clone(&self.0.keys), within)
    }

    /// Whether it knows this key, so that copies are duplicates: for operators. However long it takes.
    ///
    /// # Errors
    /// If it cannot be asked.
    pub async fn knows(&self, key: &Key) -> Result<bool, StoreError> {
        let known = self.0.keys.look(key).await;
        Ok(known.map_err(StoreError::Unavailable)?.is_some())
    }

    /// Makes it forget a key, for all workers: for operators, who have changed the key in the store. What the store was
    /// asked before that is not taken for a while. However long it takes.
    ///
    /// A [`Cached`](super::Cached) store does it whenever a key is changed through it.
    ///
    /// # Errors
    /// If it cannot be told.
    pub async fn remove(&self, key: &Key) -> Result<(), StoreError> {
        self.0
            .keys
            .forget(key)
            .await
            .map_err(StoreError::Unavailable)
    }

    /// Moves its clock forward, and that of its clones.
    #[cfg(any(test, feature = "testing"))]
    #[doc(hidden)]
    pub fn advance(&self, by: Duration) {
        self.0.keys.advance(by);
    }

    fn of(keys: Arc<dyn SharedKeys>, within: Duration) -> Self {
        Self(Arc::new(Asked {
            keys,
            within,
            rests_until: Mutex::default(),
            telling: Arc::new(Semaphore::new(Self::TELLING)),
        }))
    }

    /// What is known of the key; nothing if it does not say so in time.
    pub(super) async fn look(&self, key: &Key) -> Option<KnownKey> {
        if self.is_resting() {
            return None;
        }
        match timeout(self.0.within, self.0.keys.look(key)).await {
            Ok(Ok(known)) => {
                self.is_there();
                known
            }
            Ok(Err(error)) => {
                self.rest(&*error);
                None
            }
            Err(_) => {
                self.rest(&Late(self.0.within));
                None
            }
        }
    }

    /// Its time, to say later when the store was asked.
    pub(super) fn now(&self) -> Option<Moment> {
        self.0.keys.now()
    }

    /// Tells it what the store has said, without waiting for it.
    pub(super) fn tell(&self, key: Key, known: KnownKey, asked: Moment, longest: Duration) {
        if self.is_resting() {
            return;
        }
        let cache = self.clone();
        self.by_and_by(async move {
            if let Err(error) = cache.0.keys.tell(&key, &known, asked, longest).await {
                cache.rest(&*error);
            }
        });
    }

    /// Makes it forget a key that the store has forgotten, without waiting for it.
    pub(super) fn forget_soon(&self, key: Key) {
        let cache = self.clone();
        self.by_and_by(async move { cache.forget(&key).await });
    }

    /// Makes it forget a key that an operator changes.
    pub(super) async fn forget(&self, key: &Key) {
        if let Err(error) = self.0.keys.forget(key).await {
            tracing::warn!(
                key = key.as_str(),
                error = %ErrorChain::of(&*error),
                "the shared cache was not told that this key has changed: if it was completed, copies may be taken for \
                 duplicates until the cache forgets it by itself"
            );
            self.rest(&*error);
        }
    }

    fn by_and_by(&self, work: impl Future<Output = ()> + Send + 'static) {
        let Ok(permit) = Arc::clone(&self.0.telling).try_acquire_owned() else {
            return;
        };
        tokio::spawn(async move {
            work.await;
            drop(permit);
        });
    }

    fn is_resting(&self) -> bool {
        let until = *self.rests_until();
        until.is_some_and(|until| Instant::now() < until)
    }

    fn rest(&self, error: &(dyn Error + 'static)) {
        let until = Instant::now() + Self::REST;
        if self.rests_until().replace(until).is_none() {
            tracing::warn!(
                error = %ErrorChain::of(error),
                "the shared cache does not answer: the store is asked meanwhile"
            );
        }
    }

    fn is_there(&self) {
        if self.rests_until().take().is_some() {
            tracing::info!("the shared cache answers again");
        }
    }

    fn rests_until(&self) -> MutexGuard<'_, Option<Instant>> {
        let until = self.0.rests_until.lock();
        until.unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for SharedCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedCache")
            .field("keys", &self.0.keys)
            .field("within", &self.0.within)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, thiserror::Error)]
#[error("no answer within {0:?}")]
struct Late(Duration);
