//! What a worker asks of its executor, whatever its store.

use std::time::Duration;

use futures_util::future::BoxFuture;
use idem_core::{Executor, Store, executor::UnprotectedStats, store::Finding};

use crate::doctor;

/// An executor without the type of its store. The handlers have been given theirs.
pub(super) trait Engine: Send + Sync {
    /// Lets no further handler start.
    fn close(&self);

    /// Tells the store what was done while it was away, for at most so long.
    fn report(&self, patience: Duration) -> BoxFuture<'_, UnprotectedStats>;

    /// Brings its metrics up to date.
    fn sample(&self);

    /// What the store finds out about its own server.
    fn store_findings(&self) -> BoxFuture<'_, Vec<Finding>>;
}

impl<S: Store> Engine for Executor<S> {
    fn close(&self) {
        Executor::close(self);
    }

    fn report(&self, patience: Duration) -> BoxFuture<'_, UnprotectedStats> {
        Box::pin(Executor::report(self, patience))
    }

    fn sample(&self) {
        Executor::sample(self);
    }

    fn store_findings(&self) -> BoxFuture<'_, Vec<Finding>> {
        doctor::store::findings(self.store())
    }
}
