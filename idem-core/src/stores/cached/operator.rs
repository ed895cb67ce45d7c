//! What an operator sees is the store's, and what an operator changes is forgotten here, too.

use super::Cached;
use crate::{
    message::Key,
    store::{
        Look, Looked, StoreError,
        operator::{
            AuditEntry, Intervened, Intervention, Listing, OperatorStore, Page, ScopeCounts,
        },
    },
};

/// What the store behind it knows: nothing is told from memory.
impl<S: Look> Look for Cached<S> {
    async fn look(&self, key: &Key) -> Result<Option<Looked>, StoreError> {
        self.store().look(key).await
    }
}

impl<S: OperatorStore> OperatorStore for Cached<S> {
    async fn list(&self, listing: &Listing) -> Result<Page, StoreError> {
        self.store().list(listing).await
    }

    async fn audit(&self, key: &Key) -> Result<Vec<AuditEntry>, StoreError> {
        self.store().audit(key).await
    }

    async fn counts(&self) -> Result<Vec<ScopeCounts>, StoreError> {
        self.store().counts().await
    }

    /// Whatever the store says to it: also a change that is unknown may have been made. The caches of
    /// other processes learn of it when their time is up.
    async fn intervene(&self, intervention: &Intervention) -> Result<Intervened, StoreError> {
        let key = &intervention.key;
        // Before, in case this ends in between; after it, because the store may take long.
        self.forget_shared(key).await;
        let intervened = self.store().intervene(intervention).await;
        self.0.known.forget(key);
        self.forget_shared(key).await;
        intervened
    }

    async fn prepare(&self) -> Result<(), StoreError> {
        self.store().prepare().await
    }
}

impl<S> Cached<S> {
    async fn forget_shared(&self, key: &Key) {
        if let Some(shared) = &self.0.shared {
            shared.forget(key).await;
        }
    }
}
