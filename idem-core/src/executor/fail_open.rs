//! Running without the store, for policies that say so: claim from this process's own memory, or hand the end over to
//! it, and tell the store as soon as that is back.
//!
//! [`leased`](super::leased) asks the store by [`Executor::claim_while_it_answers`], and claims from [`LocalMemory`]
//! while it is away; [`OrLocal`] hands the end of a protected attempt over; a task in the background reports
//! (`reporter.rs`). What must stay true:
//!
//! - Nothing is forgotten before the store has been told of it.
//! - What another worker has completed in the store stands.
//! - A message of a session or a sequence, or of an atomic handler, never runs without its store.
// docs/decisions/0010

use std::time::Duration;

use tokio::time::timeout;

use super::Executor;
use crate::{
    futures::FutureExt as _,
    handler::Policy,
    store::{Claim, ClaimRequest, Store, StoreError},
};

mod agenda;
mod entries;
mod local;
mod or_local;
mod report;
mod reporter;
mod reporter_guard;

pub(super) use local::{LocalMemory, Watch};
pub(super) use or_local::OrLocal;

/// What became of work that was done unprotected: see [`StoreOutage::FailOpen`](crate::handler::StoreOutage::FailOpen).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UnprotectedStats {
    told: u64,
    overtaken: u64,
    pending: u64,
}

impl UnprotectedStats {
    /// How many attempts the store has been told of.
    pub fn told(&self) -> u64 {
        self.told
    }

    /// How many found, when the store was told, that the key had ended without them: it was completed, quarantined or
    /// used for other content, or another worker had taken it over. The other end stands, and the effect may have
    /// happened twice. It may be another worker's, or one from before the outage, also of this process. Each is
    /// logged as a warning with its key.
    pub fn overtaken(&self) -> u64 {
        self.overtaken
    }

    /// How many the store is still to be told of.
    pub fn pending(&self) -> u64 {
        self.pending
    }
}

/// For how long a key that is about to be reported counts as held: its message looks again then.
pub(super) const SOON: Duration = Duration::from_secs(1);

/// How long a claim waits for a store that did not answer when it was asked last, so that a frozen store delays
/// only the first message by a heartbeat. It is asked at all, because a cache in front of it may answer at
/// once.
const SHORTLY: Duration = Duration::from_millis(200);

impl<S: Store> Executor<S> {
    /// 64 MiB: some 70,000 keys with small outcomes.
    pub const DEFAULT_LOCAL_MEMORY: usize = 64 * 1024 * 1024;

    /// How many bytes may be remembered of what was done unprotected, until the store is told of
    /// it; [`DEFAULT_LOCAL_MEMORY`](Self::DEFAULT_LOCAL_MEMORY) unless set. Clones share it. When
    /// it is full, further messages wait for the store: nothing is forgotten before it is told. Only
    /// the outcomes of those that run at that moment come on top.
    pub fn local_memory(self, bytes: usize) -> Self {
        self.local.set_capacity(bytes);
        self
    }

    /// What was done unprotected, and how much of it the store has been told.
    pub fn unprotected(&self) -> UnprotectedStats {
        self.local.unprotected()
    }

    /// Waits until the store has been told of everything that was done unprotected, at most for
    /// `patience`, and not for keys whose record it cannot read. Logs the keys that it could not be
    /// told of: copies of these may run again.
    ///
    /// # Cancel safety
    /// Nothing is lost: the store is told by a task in the background.
    pub async fn report(&self, patience: Duration) -> UnprotectedStats {
        // The reporter may have ended with its runtime, while something was still to be told.
        self.local.tell(&self.store);
        // Whatever is left then is logged below, so a timeout is no error.
        let _ = timeout(patience, self.local.all_told()).await;
        for key in self.local.unreported() {
            tracing::error!(%key, "done while the store was away, and the store could not be told: a copy may run again");
        }
        self.unprotected()
    }

    /// Claims from the store for work that may run without it: a store that does not answer in time counts as
    /// away. It has a third of the lease, or [`SHORTLY`] if it was away before.
    ///
    /// A claim that was not answered may have been recorded. The report has the same owner, and gets it back.
    pub(super) async fn claim_while_it_answers(
        &self,
        request: &ClaimRequest,
    ) -> Result<Claim, StoreError> {
        let patience = if self.local.is_away() {
            SHORTLY.min(a_heartbeat(request))
        } else {
            a_heartbeat(request)
        };
        let answer = Box::pin(within(patience, self.store.claim(request))).await;
        // The store is there, and the next claim waits for it as long as ever. A cache in front of it answers by itself
        // that a key is completed.
        if matches!(&answer, Ok(claim) if !matches!(claim, Claim::Completed { .. })) {
            self.local.store_answered();
        }
        answer
    }
}

/// The call; if it takes longer than a heartbeat may, the store is away. Without this limit, a store that is
/// frozen would keep finished work waiting for ever.
fn within_heartbeat<T>(
    request: &ClaimRequest,
    call: impl Future<Output = Result<T, StoreError>>,
) -> impl Future<Output = Result<T, StoreError>> {
    within(a_heartbeat(request), call)
}

/// The time between two heartbeats: a third of the lease. A request made by hand may ask for a lease that is more than
/// a clock can add.
fn a_heartbeat(request: &ClaimRequest) -> Duration {
    request.lease.min(Policy::MAX_RETENTION) / 3
}

/// The call, or an outage if it takes longer than this. The call is dropped then, and may have had its effect.
///
/// Not an `async fn`: that would have room for the call twice.
fn within<T>(
    patience: Duration,
    call: impl Future<Output = Result<T, StoreError>>,
) -> impl Future<Output = Result<T, StoreError>> {
    timeout(patience, call)
        .map(|answer| answer.unwrap_or_else(|_| Err(StoreError::unavailable("it did not answer"))))
}
