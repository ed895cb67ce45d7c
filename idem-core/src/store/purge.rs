//! The background task that drops what a store need not remember any longer.

use std::{error::Error, time::Duration};

use tokio::{
    task::{JoinHandle, yield_now},
    time::sleep,
};

use crate::store::{Purge, SessionStore, StoreError};

#[cfg(test)]
mod tests;

/// Purges a store now and then, until it is dropped.
///
/// A claim pays no heed to records whose retention has ended: purging them is about space.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use std::time::Duration;
/// use idem_core::{MemoryStore, store::PurgeTask};
///
/// let store = MemoryStore::new();
/// let purging = PurgeTask::spawn(store.clone(), Duration::from_mins(10));
/// // … until the application ends
/// drop(purging);
/// # });
/// ```
#[derive(Debug)]
#[must_use = "the task ends when this is dropped"]
pub struct PurgeTask(JoinHandle<()>);

impl PurgeTask {
    /// How many records one call to the store removes at most: calls of workers come between.
    pub const BATCH: u32 = 1_000;

    /// The shortest interval.
    pub const MIN_INTERVAL: Duration = Duration::from_secs(1);

    /// Starts the task. It purges for the first time within `every`, at a random moment, so that
    /// workers that start together do not purge together. What a store could not do is logged,
    /// and tried again the next time.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn spawn(store: impl Purge, every: Duration) -> Self {
        let every = every.max(Self::MIN_INTERVAL);
        Self(tokio::spawn(run(Records(store), every)))
    }

    /// Starts a task that removes sessions that have ended, and their answers, likewise: every
    /// minute, say. It and a task that purges are not in each other's way.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn spawn_for_sessions(store: impl SessionStore, every: Duration) -> Self {
        let every = every.max(Self::MIN_INTERVAL);
        Self(tokio::spawn(run(Sessions(store), every)))
    }
}

/// What is removed, and how much of it in one call.
trait Forget: Send + Sync + 'static {
    const BATCH: u32;

    fn forget(&self) -> impl Future<Output = Result<u32, StoreError>> + Send;
}

struct Records<S>(S);

impl<S: Purge> Forget for Records<S> {
    const BATCH: u32 = PurgeTask::BATCH;

    async fn forget(&self) -> Result<u32, StoreError> {
        self.0.purge(Self::BATCH).await
    }
}

struct Sessions<S>(S);

impl<S: SessionStore> Forget for Sessions<S> {
    /// Each has a few answers.
    const BATCH: u32 = 100;

    async fn forget(&self) -> Result<u32, StoreError> {
        self.0.expire(Self::BATCH).await
    }
}

impl Drop for PurgeTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn run(store: impl Forget, every: Duration) {
    sleep(every.mul_f64(fastrand::f64())).await;
    loop {
        purge_all(&store).await;
        sleep(every).await;
    }
}

/// Batch after batch, until one finds too little to fill it.
async fn purge_all<F: Forget>(store: &F) {
    loop {
        match store.forget().await {
            Ok(removed) if removed < F::BATCH => return,
            Ok(_) => yield_now().await,
            Err(error) => {
                let error: &(dyn Error + 'static) = &error;
                tracing::warn!(error, "the store could not purge");
                return;
            }
        }
    }
}
