//! How a store forgets: when it is purged, or otherwise.

use idem_core::{StoreError, store::Purge};

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
