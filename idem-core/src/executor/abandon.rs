//! Gives up the claim of a message that does not come again, if the store has one.
//!
//! A claim whose answer was lost may have been recorded. A queue delivers its message again, and the same owner has the
//! claim back. A request has no second delivery: what handles it calls [`Executor::abandon`], or the key would be held
//! for a whole lease, and the next attempt would find it in doubt although nothing ran.
//!
//! What must stay true:
//!
//! - Only what this owner has is given up.
//! - No lease is taken over for that.
//! - It counts as no attempt.
//! - It ends, whatever becomes of the store.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::{Executor, Prepared};
use crate::{
    error_chain::ErrorChain,
    handler::{Backoff, Operation},
    store::{Claim, ClaimRequest, Lease, Release, Store, StoreError},
};

/// The waits while the store is away. There may be one such task for each request that was turned away.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(2));

impl<S: Store> Executor<S> {
    /// Gives up what the store may have recorded of this message's claim: after
    /// [`Execution::StoreUnavailable`](crate::Execution::StoreUnavailable), or after a call of [`handle`](Self::handle)
    /// that was dropped before its handler ran. Then the key is free, and nothing counts as an attempt. For a message
    /// that is not handed over again.
    ///
    /// The store is asked again and again, for as long as a lease. What was recorded is over by then, as it is after a
    /// crash.
    ///
    /// # Cancel safety
    /// Dropped, it may leave the claim to its lease.
    pub fn abandon<H: Operation>(
        &self,
        message: Prepared<H>,
    ) -> impl Future<Output = ()> + Send + 'static + use<S, H> {
        let executor = self.clone();
        // Its body need not be kept for so long.
        let mut request = message.request;
        request.takes_over = false;
        request.replay = false;
        async move {
            if timeout(request.lease, executor.give_up_claim(&request))
                .await
                .is_err()
            {
                tracing::warn!(key = %request.key, "the store was away for too long to give a claim up: if it was recorded, its lease has to run out");
            }
        }
    }

    /// Claims as the owner whose claim may be recorded, and releases what it gets. What the first claim may come to:
    ///
    /// - It was recorded: the same owner has it back, under the same token, and releases that.
    /// - It was not, and does not arrive any more: this one is a claim of its own, and is released.
    /// - It arrives late, after the release: an owner whose lease was ended never acquires again. So this claims also
    ///   where nothing is recorded, rather than leave that alone.
    /// - It arrives late, and another owner has been there since: it finds the key held or completed. If that owner has
    ///   failed by then, it acquires, and its lease has to run out; a claim would have to be under way for longer than
    ///   that whole attempt.
    ///
    /// What another owner holds stays with it, also if its lease has run out: it may still complete.
    async fn give_up_claim(&self, request: &ClaimRequest) {
        let mut tries = 0;
        let lease = loop {
            match self.store.claim(request).await {
                Ok(Claim::Acquired(lease)) => break lease,
                // Nothing of this owner's is recorded, or not any more.
                Ok(_) => return,
                Err(error) => pause(&mut tries, request, &error).await,
            }
        };
        // Whoever waits here for the key need not wait for its next look at the store.
        let _working = self.working(request);
        while let Err(error) = self.abandon_lease(&lease).await {
            pause(&mut tries, request, &error).await;
        }
    }

    async fn abandon_lease(&self, lease: &Lease) -> Result<(), StoreError> {
        // Fenced: it is not this owner's any more.
        let released = self.store.release(lease, &Release::Abandoned).await;
        released.map(|_| ())
    }
}

async fn pause(tries: &mut u32, request: &ClaimRequest, error: &StoreError) {
    *tries += 1;
    tracing::debug!(key = %request.key, tries, error = %ErrorChain::of(error), "a claim that nobody needs is not given up yet");
    sleep(PAUSES.wait(*tries)).await;
}
