//! A store chosen at run time, by its URL.

use std::{sync::Arc, time::Duration};

use crate::{
    handler::Outcome,
    message::{Key, PositionKind, SessionKey},
    store::{
        Claim, ClaimRequest, ConnectError, Lease, OpenSession, Opened, Owner, Purge, Release,
        SequenceStore, SessionStore, Store, StoreError, StreamClaim, StreamLease, StreamState,
        StreamStore, Touched, Write, operator::OperatorStore, outbox::SharedOutbox,
    },
    stores::MemoryStore,
};

mod erased;
mod operator;
#[cfg(test)]
mod tests;

use erased::{Erased, ErasedPurge, ErasedSessions, ErasedStreams};
use operator::ErasedOperator;

/// Any store, behind one type: what an application takes whose store is named by its
/// configuration.
///
/// It runs leased handlers. An atomic handler needs the type of its database's own store, because
/// that is what lends it a transaction.
///
/// ```no_run
/// # async fn example() -> Result<(), idem_core::store::ConnectError> {
/// use idem_core::AnyStore;
///
/// let url = std::env::var("IDEM_STORE_URL").unwrap_or_else(|_| "sqlite:orders.db".into());
/// let store = AnyStore::connect(&url).await?;
/// # drop(store);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct AnyStore {
    store: Arc<dyn Erased>,
    /// The same store, to purge it; `None` if it forgets by itself.
    purge: Option<Arc<dyn ErasedPurge>>,
    /// The same store, for its sessions; `None` if it keeps none.
    sessions: Option<Arc<dyn ErasedSessions>>,
    /// The same store, for operators; `None` if it shows nothing to them.
    operator: Option<Arc<dyn ErasedOperator>>,
    /// The same store, for marks of streams; `None` if it keeps none.
    streams: Option<Arc<dyn ErasedStreams>>,
    /// The outbox of the same store; `None` if it has none.
    outbox: Option<SharedOutbox>,
}

impl AnyStore {
    /// Hides a store's type.
    pub fn new(store: impl Purge) -> Self {
        let store = Arc::new(store);
        Self {
            purge: Some(Arc::clone(&store) as _),
            sessions: None,
            operator: None,
            streams: None,
            outbox: None,
            store,
        }
    }

    /// Hides the type of a store that keeps sessions.
    pub fn with_sessions(store: impl Purge + SessionStore) -> Self {
        let store = Arc::new(store);
        Self {
            purge: Some(Arc::clone(&store) as _),
            sessions: Some(Arc::clone(&store) as _),
            operator: None,
            streams: None,
            outbox: None,
            store,
        }
    }

    /// Hides the type of a store that forgets by itself: purging it does nothing.
    pub fn expiring(store: impl Store) -> Self {
        Self {
            store: Arc::new(store),
            purge: None,
            sessions: None,
            operator: None,
            streams: None,
            outbox: None,
        }
    }

    /// Hides the type of a store that keeps sessions and forgets by itself.
    pub fn expiring_with_sessions(store: impl SessionStore) -> Self {
        let store = Arc::new(store);
        Self {
            purge: None,
            sessions: Some(Arc::clone(&store) as _),
            operator: None,
            streams: None,
            outbox: None,
            store,
        }
    }

    /// Shows the keys of this clone of the store to operators, too.
    pub fn and_operator(mut self, store: impl OperatorStore) -> Self {
        self.operator = Some(Arc::new(store));
        self
    }

    /// Keeps marks of streams in this clone of the store, too.
    pub fn and_streams(mut self, store: impl StreamStore) -> Self {
        self.streams = Some(Arc::new(store));
        self
    }

    /// Has this outbox, too: that of the same store.
    pub fn and_outbox(mut self, outbox: SharedOutbox) -> Self {
        self.outbox = Some(outbox);
        self
    }

    /// What handlers have published and no broker has confirmed yet; `None` if the store keeps no outbox.
    pub fn outbox(&self) -> Option<SharedOutbox> {
        self.outbox.clone()
    }

    /// Whether records have to be purged: not those of a store that forgets by itself.
    pub fn is_purged(&self) -> bool {
        self.purge.is_some()
    }

    /// The store behind it, if it is of this type.
    pub fn downcast_ref<S: Store>(&self) -> Option<&S> {
        self.store.as_any().downcast_ref()
    }

    /// Opens the store that a URL names.
    ///
    /// | URL | store |
    /// |---|---|
    /// | `memory:` | [`MemoryStore`] |
    /// | `sqlite:FILE`, `sqlite://FILE` | `SqliteStore`, with the feature `sqlite` |
    /// | `postgres://USER@HOST/DATABASE`, `postgresql://…` | `PostgresStore`, with the feature `postgres` |
    /// | `redis://HOST`, `redis+cluster://HOST,HOST`, `redis+sentinel://HOST,HOST/NAME` | `RedisStore`, with the feature `redis` |
    /// | `rediss://HOST`, `rediss+cluster://HOST,HOST`, `rediss+sentinel://HOST,HOST/NAME` | the same through TLS, with the feature `rustls` |
    ///
    /// # Errors
    /// If no store has the URL's scheme, the store is not compiled in, or it cannot be opened.
    ///
    /// # Cancel safety
    /// A dropped call may have created the file and the tables. Call it again.
    pub async fn connect(url: &str) -> Result<Self, ConnectError> {
        let invalid = |reason: &str| ConnectError::InvalidUrl {
            reason: reason.into(),
        };
        let (scheme, rest) = url
            .split_once(':')
            .ok_or_else(|| invalid("it has no scheme; write `memory:` or `sqlite:FILE`"))?;
        match scheme {
            "memory" if rest.is_empty() => Ok(MemoryStore::new().into()),
            "memory" => Err(invalid("nothing comes after `memory:`")),
            "sqlite" => sqlite(url).await,
            "postgres" | "postgresql" => postgres(url).await,
            "redis" | "rediss" | "redis+cluster" | "rediss+cluster" | "redis+sentinel"
            | "rediss+sentinel" => redis(url).await,
            _ => Err(ConnectError::UnknownScheme {
                scheme: scheme.into(),
            }),
        }
    }
}

#[cfg(feature = "sqlite")]
async fn sqlite(url: &str) -> Result<AnyStore, ConnectError> {
    crate::stores::SqliteStore::connect(url)
        .await
        .map(Into::into)
}

#[cfg(not(feature = "sqlite"))]
#[expect(clippy::unused_async, reason = "as with the feature")]
async fn sqlite(_: &str) -> Result<AnyStore, ConnectError> {
    Err(ConnectError::NotCompiledIn {
        scheme: "sqlite".into(),
        feature: "sqlite",
    })
}

#[cfg(feature = "postgres")]
async fn postgres(url: &str) -> Result<AnyStore, ConnectError> {
    crate::stores::PostgresStore::connect(url)
        .await
        .map(Into::into)
}

#[cfg(not(feature = "postgres"))]
#[expect(clippy::unused_async, reason = "as with the feature")]
async fn postgres(_: &str) -> Result<AnyStore, ConnectError> {
    Err(ConnectError::NotCompiledIn {
        scheme: "postgres".into(),
        feature: "postgres",
    })
}

#[cfg(feature = "redis")]
async fn redis(url: &str) -> Result<AnyStore, ConnectError> {
    crate::stores::RedisStore::connect(url)
        .await
        .map(Into::into)
}

#[cfg(not(feature = "redis"))]
#[expect(clippy::unused_async, reason = "as with the feature")]
async fn redis(_: &str) -> Result<AnyStore, ConnectError> {
    Err(ConnectError::NotCompiledIn {
        scheme: "redis".into(),
        feature: "redis",
    })
}

impl From<MemoryStore> for AnyStore {
    fn from(store: MemoryStore) -> Self {
        let (operated, marks) = (store.clone(), store.clone());
        Self::with_sessions(store)
            .and_operator(operated)
            .and_streams(marks)
    }
}

#[cfg(feature = "postgres")]
impl From<crate::stores::PostgresStore> for AnyStore {
    fn from(store: crate::stores::PostgresStore) -> Self {
        let (operated, marks, outbox) = (store.clone(), store.clone(), store.outbox());
        Self::with_sessions(store)
            .and_operator(operated)
            .and_streams(marks)
            .and_outbox(outbox)
    }
}

#[cfg(feature = "sqlite")]
impl From<crate::stores::SqliteStore> for AnyStore {
    fn from(store: crate::stores::SqliteStore) -> Self {
        let (operated, marks, outbox) = (store.clone(), store.clone(), store.outbox());
        Self::with_sessions(store)
            .and_operator(operated)
            .and_streams(marks)
            .and_outbox(outbox)
    }
}

#[cfg(feature = "redis")]
impl From<crate::stores::RedisStore> for AnyStore {
    fn from(store: crate::stores::RedisStore) -> Self {
        let (operated, marks) = (store.clone(), store.clone());
        Self::expiring_with_sessions(store)
            .and_operator(operated)
            .and_streams(marks)
    }
}

impl Store for AnyStore {
    async fn claim(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        self.store.boxed_claim(request).await
    }

    async fn extend(&self, lease: &Lease, by: Duration) -> Result<Write, StoreError> {
        self.store.boxed_extend(lease, by).await
    }

    async fn complete(
        &self,
        lease: &Lease,
        outcome: &Outcome,
        retention: Duration,
    ) -> Result<Write, StoreError> {
        self.store.boxed_complete(lease, outcome, retention).await
    }

    async fn release(&self, lease: &Lease, reason: &Release) -> Result<Write, StoreError> {
        self.store.boxed_release(lease, reason).await
    }

    fn keeps(&self, kind: PositionKind) -> bool {
        self.store.erased_keeps(kind)
    }
}

/// Whether the store that is hidden keeps sequences, [`keeps`](Store::keeps) says.
impl SequenceStore for AnyStore {}

impl Purge for AnyStore {
    async fn purge(&self, batch: u32) -> Result<u32, StoreError> {
        match &self.purge {
            Some(store) => store.boxed_purge(batch).await,
            None => Ok(0),
        }
    }
}

/// On a store that keeps no sessions, all of these are [`StoreError::Refused`].
impl SessionStore for AnyStore {
    async fn open(&self, request: &OpenSession) -> Result<Opened, StoreError> {
        self.sessions()?.boxed_open(request).await
    }

    async fn touch(&self, session: &SessionKey) -> Result<Touched, StoreError> {
        self.sessions()?.boxed_touch(session).await
    }

    async fn close(&self, session: &SessionKey) -> Result<(), StoreError> {
        self.sessions()?.boxed_close(session).await
    }

    async fn expire(&self, batch: u32) -> Result<u32, StoreError> {
        self.sessions()?.boxed_expire(batch).await
    }
}

impl AnyStore {
    fn sessions(&self) -> Result<&dyn ErasedSessions, StoreError> {
        let refused = "this store keeps no sessions: hide one that does by \
                       `AnyStore::with_sessions`, or name it by its URL";
        self.sessions
            .as_deref()
            .ok_or_else(|| StoreError::Refused(refused.into()))
    }
    fn streams(&self) -> Result<&dyn ErasedStreams, StoreError> {
        let refused = "this store keeps no marks of streams: hide one that does with \
                       `AnyStore::and_streams`, or name it by its URL";
        self.streams
            .as_deref()
            .ok_or_else(|| StoreError::Refused(refused.into()))
    }
}

/// On a store that keeps no marks, all of these are [`StoreError::Refused`].
impl StreamStore for AnyStore {
    async fn claim_stream(
        &self,
        stream: &Key,
        owner: Owner,
        lease: Duration,
    ) -> Result<StreamClaim, StoreError> {
        self.streams()?
            .boxed_claim_stream(stream, owner, lease)
            .await
    }

    async fn extend_stream(
        &self,
        lease: &StreamLease,
        mark: Option<u64>,
        by: Duration,
    ) -> Result<Write, StoreError> {
        self.streams()?.boxed_extend_stream(lease, mark, by).await
    }

    async fn release_stream(
        &self,
        lease: &StreamLease,
        mark: Option<u64>,
    ) -> Result<Write, StoreError> {
        self.streams()?.boxed_release_stream(lease, mark).await
    }

    async fn look_at_stream(&self, stream: &Key) -> Result<Option<StreamState>, StoreError> {
        self.streams()?.boxed_look_at_stream(stream).await
    }

    async fn list_streams(&self) -> Result<Vec<(Key, StreamState)>, StoreError> {
        self.streams()?.boxed_list_streams().await
    }

    async fn set_mark(&self, stream: &Key, mark: Option<u64>) -> Result<(), StoreError> {
        self.streams()?.boxed_set_mark(stream, mark).await
    }
}
