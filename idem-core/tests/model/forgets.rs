//! How a store forgets: when it is purged, or by itself.

use idem_core::{Purge, Store, StoreError};

pub(crate) trait Forgets<S> {
    /// How many records were removed; `None` if nobody can tell.
    async fn purge(&self, store: &S, batch: u32) -> Option<Result<u32, StoreError>>;
}

/// A store that has to be told.
pub(crate) struct WhenPurged;

impl<S: Purge> Forgets<S> for WhenPurged {
    async fn purge(&self, store: &S, batch: u32) -> Option<Result<u32, StoreError>> {
        Some(store.purge(batch).await)
    }
}

/// A store whose records expire.
#[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "no such store"))]
pub(crate) struct ByItself;

impl<S: Store> Forgets<S> for ByItself {
    async fn purge(&self, _: &S, _: u32) -> Option<Result<u32, StoreError>> {
        None
    }
}
