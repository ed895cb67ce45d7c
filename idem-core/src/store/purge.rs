//! The background task that drops what a store need not remember any longer.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    task::{JoinHandle, yield_now},
    time::{Instant, sleep},
};

use crate::{
    error_chain::ErrorChain,
    store::{Purge, SessionStore, StoreError},
    telemetry::Purged,
};

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
pub struct PurgeTask {
    task: JoinHandle<()>,
    runs: PurgeRuns,
}

/// What a [`PurgeTask`] has done; clones look at the same task.
#[derive(Debug, Clone, Default)]
pub struct PurgeRuns(Arc<Mutex<Option<(Instant, PurgeRun)>>>);

/// One run of a [`PurgeTask`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PurgeRun {
    /// How long ago it ended.
    pub ago: Duration,
    /// How many records it removed, or sessions.
    pub removed: u64,
    /// What the store said, if it could not purge, or not all.
    pub error: Option<String>,
}

impl PurgeRuns {
    /// The last run; `None` before the first has ended.
    pub fn last(&self) -> Option<PurgeRun> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (ended, run) = last.as_ref()?;
        Some(PurgeRun {
            ago: ended.elapsed(),
            ..run.clone()
        })
    }

    fn note(&self, run: PurgeRun) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some((Instant::now(), run));
    }
}

impl PurgeTask {
    /// How many records one call to the store removes at most: calls of workers come between.
    pub const BATCH: u32 = 1_000;

    /// The shortest interval.
    pub const MIN_INTERVAL: Duration = Duration::from_secs(1);

    /// Starts the task. It purges for the first time within `every`, at a random moment, so that
    /// workers that start together do not purge together. What a run has removed is counted, and logged
    /// at `INFO`. What a store could not do is logged, and tried again the next time.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn spawn(store: impl Purge, every: Duration) -> Self {
        let every = every.max(Self::MIN_INTERVAL);
        Self::of(Records(store), every)
    }

    /// Starts a task that removes sessions that have ended, and their answers, likewise: every
    /// minute, say. It and a task that purges are not in each other's way.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn spawn_for_sessions(store: impl SessionStore, every: Duration) -> Self {
        let every = every.max(Self::MIN_INTERVAL);
        Self::of(Sessions(store), every)
    }

    fn of(store: impl Forget, every: Duration) -> Self {
        let runs = PurgeRuns::default();
        Self {
            task: tokio::spawn(run(store, every, runs.clone())),
            runs,
        }
    }

    /// What it has done.
    pub fn runs(&self) -> PurgeRuns {
        self.runs.clone()
    }
}

/// What is removed, and how much of it in one call.
trait Forget: Send + Sync + 'static {
    const BATCH: u32;
    const WHAT: &'static str;

    fn forget(&self) -> impl Future<Output = Result<u32, StoreError>> + Send;
}

struct Records<S>(S);

impl<S: Purge> Forget for Records<S> {
    const BATCH: u32 = PurgeTask::BATCH;
    const WHAT: &'static str = "records";

    async fn forget(&self) -> Result<u32, StoreError> {
        self.0.purge(Self::BATCH).await
    }
}

struct Sessions<S>(S);

impl<S: SessionStore> Forget for Sessions<S> {
    /// Each has a few answers.
    const BATCH: u32 = 100;
    const WHAT: &'static str = "sessions";

    async fn forget(&self) -> Result<u32, StoreError> {
        self.0.expire(Self::BATCH).await
    }
}

impl Drop for PurgeTask {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn run<F: Forget>(store: F, every: Duration, runs: PurgeRuns) {
    let counted = Purged::of(F::WHAT);
    sleep(every.mul_f64(fastrand::f64())).await;
    loop {
        runs.note(purge_all(&store, &counted).await);
        sleep(every).await;
    }
}

/// Batch after batch, until one finds too little to fill it.
async fn purge_all<F: Forget>(store: &F, counted: &Purged) -> PurgeRun {
    let mut run = PurgeRun {
        ago: Duration::ZERO,
        removed: 0,
        error: None,
    };
    loop {
        match store.forget().await {
            Ok(removed) => {
                run.removed += u64::from(removed);
                counted.removed(removed);
                if removed < F::BATCH {
                    break;
                }
                yield_now().await;
            }
            Err(error) => {
                let error = ErrorChain::of(&error).to_string();
                tracing::warn!(what = F::WHAT, error, "the store could not purge");
                run.error = Some(error);
                break;
            }
        }
    }
    if run.removed > 0 {
        tracing::info!(what = F::WHAT, removed = run.removed, "purged");
    }
    run
}
