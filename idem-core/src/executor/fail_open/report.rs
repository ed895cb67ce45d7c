//! Tells the store of one attempt that ran without it: claims as the same owner, then writes how
//! it ended.

use tokio::time::Instant;

use super::{entries::End, within_heartbeat};
use crate::{Claim, ClaimRequest, Lease, Owner, Release, Store, StoreError, Write};

/// One attempt, and how far the store knows of it.
#[derive(Debug, Clone)]
pub(super) struct Report {
    /// The attempt's own: its claim may have been recorded though it was not answered.
    pub(super) request: ClaimRequest,
    pub(super) end: End,
    ended: Instant,
    /// Once the store has given it. The end may be repeated under it, a new claim would not tell
    /// one's own completion from another's.
    lease: Option<Lease>,
    /// Whether another worker was found at the key.
    pub(super) is_overtaken: bool,
}

/// What became of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    /// The store knows how the attempt ended, or another worker's end stands.
    Told,
    /// The key is not to be had for now.
    Later,
    /// The store is away.
    Away,
}

impl Report {
    pub(super) fn new(request: ClaimRequest, end: End) -> Self {
        Self {
            request,
            end,
            ended: Instant::now(),
            lease: None,
            is_overtaken: false,
        }
    }

    pub(super) async fn send<S: Store>(&mut self, store: &S) -> Sent {
        match self.try_send(store).await {
            Ok(sent) => sent,
            Err(error @ StoreError::Corrupt { .. }) => {
                tracing::error!(key = %self.request.key, error = super::super::until_known::error_chain(&error), "work done while the store was away cannot be reported");
                Sent::Later
            }
            Err(error) => {
                tracing::debug!(key = %self.request.key, %error, "not reported yet");
                Sent::Away
            }
        }
    }

    async fn try_send<S: Store>(&mut self, store: &S) -> Result<Sent, StoreError> {
        let lease = match self.lease.clone() {
            Some(lease) => lease,
            None => match within_heartbeat(&self.request, store.claim(&self.request)).await? {
                Claim::Acquired(lease) => self.lease.insert(lease).clone(),
                Claim::Held { remaining } => {
                    if remaining.is_zero() {
                        // An owner whose lease was ended never acquires again.
                        self.request.owner = Owner::new();
                    }
                    self.overtaken("held");
                    return Ok(Sent::Later);
                }
                answer => return Ok(self.yields_to(&answer)),
            },
        };
        let write = match &self.end {
            End::Completed { outcome, retention } => {
                let complete = store.complete(&lease, outcome, *retention);
                within_heartbeat(&self.request, complete).await?
            }
            End::Released(reason) => {
                let reason = self.by_now(reason);
                within_heartbeat(&self.request, store.release(&lease, &reason)).await?
            }
            End::Vanished => Write::Applied,
        };
        if write == Write::Fenced {
            self.overtaken("taken over");
        }
        Ok(Sent::Told)
    }

    /// Another worker's word stands.
    fn yields_to(&mut self, answer: &Claim) -> Sent {
        self.overtaken(match answer {
            Claim::Completed { .. } => "completed",
            Claim::KeyReused => "used for other content",
            _ => "quarantined",
        });
        Sent::Told
    }

    fn overtaken(&mut self, what: &str) {
        if !std::mem::replace(&mut self.is_overtaken, true) {
            tracing::warn!(key = %self.request.key, "the key was {what} by another worker while it was worked on here without the store: its effect may have happened twice");
        }
    }

    /// A delay counts from the failure, not from the report of it.
    fn by_now(&self, reason: &Release) -> Release {
        match reason {
            Release::Failed { error, retry_after } => {
                let left = retry_after.saturating_sub(self.ended.elapsed());
                Release::retry_after(left, error.clone())
            }
            reason => reason.clone(),
        }
    }
}
