//! Tells the store of one attempt that ran without it: claims as the same owner, then extends for
//! as long as it runs, and writes how it ended.

use std::time::Duration;

use tokio::time::Instant;

use super::within_heartbeat;
use crate::{
    error_chain::ErrorChain,
    executor::until_known::PATIENCE,
    handler::{Backoff, Outcome},
    store::{
        Claim, ClaimRequest, Lease, Owner, Release, Store, StoreError, Write,
        rules::record::{self, Record},
    },
};

/// How an attempt ended.
#[derive(Debug, Clone)]
pub(super) enum End {
    Completed {
        outcome: Outcome,
        retention: Duration,
    },
    Released(Release),
    /// Without a word: the store is told that it was claimed, so that the next one is in doubt.
    Vanished,
}

/// One attempt, and how far the store knows of it.
#[derive(Debug, Clone)]
pub(super) struct Report {
    /// The attempt's own: its claim may have been recorded though it was not answered.
    pub(super) request: ClaimRequest,
    /// Before it, the attempt may yet step back.
    has_started: bool,
    /// `None` while it runs.
    end: Option<End>,
    ended: Instant,
    /// Once the store has given it. The end may be repeated under it, a new claim would not tell
    /// one's own completion from another's.
    lease: Option<Lease>,
    /// Whether another worker's end was found at the key.
    pub(super) is_overtaken: bool,
    /// What became of it when it was sent last, and how often that was the same.
    last: Option<Sent>,
    tries: u32,
}

/// What became of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    /// The store knows how the attempt ended, or another worker's end stands.
    Told,
    /// The attempt still runs.
    Running,
    /// The key is not to be had for now.
    Held,
    /// The store has no room.
    Refused,
    /// The store has a record of the key that cannot be read.
    Unreadable,
    /// The store is away.
    Away,
}

/// The store needs room, or a person's help.
const RARELY: Backoff = Backoff::new(Duration::from_secs(5), Duration::from_mins(1));

impl Report {
    /// Of an attempt that begins, under the store's lease if that has given one.
    pub(super) fn new(request: ClaimRequest, lease: Option<Lease>) -> Self {
        Self {
            request,
            has_started: false,
            end: None,
            ended: Instant::now(),
            lease,
            is_overtaken: false,
            last: None,
            tries: 0,
        }
    }

    pub(super) fn end_with(&mut self, end: End) {
        self.end = Some(end);
        self.ended = Instant::now();
    }

    pub(super) fn start(&mut self) {
        self.has_started = true;
    }

    /// Whether the store may be told of it.
    pub(super) fn is_due(&self) -> bool {
        self.has_started || self.has_ended()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    pub(super) fn has_vanished(&self) -> bool {
        matches!(self.end, Some(End::Vanished))
    }

    pub(super) fn is_unreadable(&self) -> bool {
        self.last == Some(Sent::Unreadable)
    }

    pub(super) fn end_weight(&self) -> usize {
        self.end.as_ref().map_or(0, End::weight)
    }

    /// Takes over what its copy, sent meanwhile, has learnt; says how long to wait before it is
    /// sent again.
    pub(super) fn learn(&mut self, copy: Self, sent: Sent) -> Duration {
        let has_news = self.end.is_some() && copy.end.is_none();
        self.request = copy.request;
        self.lease = copy.lease;
        self.is_overtaken = copy.is_overtaken;
        self.tries = match self.last.replace(sent) {
            Some(last) if last == sent => self.tries + 1,
            _ => 1,
        };
        match sent {
            _ if has_news => Duration::ZERO,
            Sent::Told | Sent::Away => Duration::ZERO,
            Sent::Running => self.request.lease / 3,
            Sent::Held => PATIENCE.wait(self.tries),
            Sent::Refused | Sent::Unreadable => RARELY.wait(self.tries),
        }
    }

    pub(super) async fn send<S: Store>(&mut self, store: &S) -> Sent {
        let sent = match &self.lease {
            Some(lease) => self.tell(store, lease.clone()).await,
            None => self.claim(store).await,
        };
        sent.unwrap_or_else(|error| self.failed(&error))
    }

    fn failed(&self, error: &StoreError) -> Sent {
        let key = &self.request.key;
        match error {
            StoreError::Unavailable(_) => {
                tracing::debug!(%key, error = %ErrorChain::of(error), "not reported yet");
                Sent::Away
            }
            StoreError::Corrupt { .. } => {
                if !self.is_unreadable() {
                    tracing::error!(%key, error = %ErrorChain::of(error), "the store's record of this key cannot be read: mend or delete it; until then what was done without the store cannot be reported");
                }
                Sent::Unreadable
            }
            StoreError::Full(_) | StoreError::Refused(_) => {
                tracing::warn!(%key, %error, "what was done without the store cannot be reported yet");
                Sent::Refused
            }
        }
    }

    async fn claim<S: Store>(&mut self, store: &S) -> Result<Sent, StoreError> {
        let mut answer = within_heartbeat(&self.request, store.claim(&self.request)).await?;
        if let Claim::Held { remaining } = answer {
            if remaining.is_zero() {
                // An owner whose lease was ended never acquires again.
                self.request.owner = Owner::new();
            }
            if let Some(End::Completed { .. }) = self.end {
                // What is done need not wait until another attempt is due; a replay does not. It
                // does wait for a worker who is at it.
                let request = self.request.clone().replay(true);
                answer = within_heartbeat(&request, store.claim(&request)).await?;
            }
        }
        match answer {
            Claim::Acquired(lease) => {
                self.lease = Some(lease.clone());
                self.tell(store, lease).await
            }
            Claim::Held { .. } => Ok(Sent::Held),
            Claim::Completed { .. } => Ok(self.yields_to("completed")),
            Claim::KeyReused => Ok(self.yields_to("used for other content")),
            Claim::Quarantined => Ok(self.yields_to("quarantined")),
            Claim::OutOfPlace(_) => Ok(self.yields_to("out of its place")),
        }
    }

    async fn tell<S: Store>(&mut self, store: &S, lease: Lease) -> Result<Sent, StoreError> {
        let request = &self.request;
        let write = match &self.end {
            None => {
                let extend = store.extend(&lease, request.lease);
                within_heartbeat(request, extend).await?
            }
            Some(End::Completed { outcome, retention }) => {
                let complete = store.complete(&lease, outcome, *retention);
                within_heartbeat(request, complete).await?
            }
            Some(End::Released(reason)) => {
                let reason = self.by_now(reason);
                within_heartbeat(request, store.release(&lease, &reason)).await?
            }
            Some(End::Vanished) => Write::Applied,
        };
        Ok(match (write, &self.end) {
            (Write::Applied, None) => Sent::Running,
            (Write::Applied, Some(_)) => Sent::Told,
            (Write::Fenced, None | Some(End::Completed { .. })) => {
                // Whoever has taken it over may fail: then a completion here saves another run.
                self.lease = None;
                self.request.owner = Owner::new();
                Sent::Held
            }
            (Write::Fenced, Some(_)) => self.yields_to("taken over"),
        })
    }

    /// Another worker's word stands.
    fn yields_to(&mut self, what: &str) -> Sent {
        if !std::mem::replace(&mut self.is_overtaken, true) {
            tracing::warn!(key = %self.request.key, "the key was {what} by another worker while it was worked on here without the store: its effect may have happened twice");
        }
        if self.has_ended() {
            Sent::Told
        } else {
            Sent::Running
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

impl End {
    /// The record of the attempt, ended.
    pub(super) fn written(&self, record: Record, now: i64) -> Record {
        let token = record.token;
        let step = match self {
            Self::Completed { outcome, retention } => {
                record::complete(Some(&record), token, outcome, *retention, now)
            }
            Self::Released(reason) => record::release(Some(&record), token, reason, now),
            Self::Vanished => return record,
        };
        step.write.unwrap_or(record)
    }

    pub(super) fn weight(&self) -> usize {
        match self {
            Self::Completed { outcome, .. } => outcome.as_bytes().len(),
            Self::Released(Release::Failed { error, .. } | Release::GaveUp { error }) => {
                error.len()
            }
            Self::Released(_) | Self::Vanished => 0,
        }
    }
}
