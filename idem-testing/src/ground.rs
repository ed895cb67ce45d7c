//! What a handler under test stands on: a store, and what its handlers write beside it.

use std::time::Duration;

use idem_core::{
    handler::OutgoingContent,
    store::{
        SessionStore,
        outbox::{OutboxListing, SharedOutbox},
    },
    stores::MemoryStore,
};

use super::{FaultyStore, clock::StandingStill};

#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod database;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub use database::Database;
#[cfg(feature = "postgres")]
pub use postgres::OnPostgres;
#[cfg(feature = "sqlite")]
pub use sqlite::OnSqlite;

/// The grounds are this crate's: a further method of [`Ground`] breaks nobody.
mod sealed {
    pub trait Ground {}
}

/// A store that a test can have any number of, each as new. Sealed.
pub trait Ground: sealed::Ground + Clone + 'static {
    /// The store.
    type Store: SessionStore + Clone;

    /// The store, by a link that can fail.
    fn store(&self) -> &FaultyStore<Self::Store>;

    /// Another one, as new.
    fn fresh(&self) -> impl Future<Output = Self>;

    /// What was written stays, and the store knows nothing of it.
    #[doc(hidden)]
    fn forgetful(&self) -> impl Future<Output = Self>;

    /// The same, where a handler may wait for so long before tokio's clock goes on.
    #[doc(hidden)]
    fn with_patience(self, patience: Option<Duration>) -> Self;

    /// What handlers have published is here when it is committed, and nobody takes it out.
    #[doc(hidden)]
    fn outbox(&self) -> Option<SharedOutbox> {
        None
    }
}

/// On the host's clock.
const LONGEST_LOOK: Duration = Duration::from_secs(30);

/// What handlers have published, and have committed, in its order.
///
/// # Panics
/// If the store cannot be read.
pub(super) async fn published(ground: &impl Ground) -> Vec<OutgoingContent> {
    let Some(outbox) = ground.outbox() else {
        return Vec::new();
    };
    let _still = StandingStill::for_at_most(LONGEST_LOOK);
    let all = OutboxListing {
        limit: u32::MAX,
        ..OutboxListing::default()
    };
    let listed = outbox.list(&all).await.expect("the store can be read");
    let mut published = Vec::new();
    for entry in listed {
        let shown = outbox.show(entry.id).await;
        let (_, content) = (shown.expect("the store can be read")).expect("nobody takes it out");
        published.push(content);
    }
    published
}

/// A [`MemoryStore`].
#[derive(Debug, Clone)]
pub struct InMemory(FaultyStore<MemoryStore>);

impl InMemory {
    pub(super) fn new() -> Self {
        Self(FaultyStore::new(MemoryStore::new()))
    }
}

impl sealed::Ground for InMemory {}

impl Ground for InMemory {
    type Store = MemoryStore;

    fn store(&self) -> &FaultyStore<MemoryStore> {
        &self.0
    }

    async fn fresh(&self) -> Self {
        Self::new().with_patience(self.0.patience())
    }

    /// It keeps keys alone.
    async fn forgetful(&self) -> Self {
        self.fresh().await
    }

    fn with_patience(self, patience: Option<Duration>) -> Self {
        Self(self.0.with_patience(patience))
    }
}
