//! Tells the store of one attempt that ran without it: claims as the same owner, then extends for as long as it runs,
//! and writes how it ended.
//!
//! [`Entries`](super::entries::Entries) keeps the reports, and the reporter sends copies of them. What must stay true:
//!
//! - What another worker has completed stands.
//! - A completion is told as long as nobody else has completed.
//! - Each call may be repeated, because an answer may be lost.
//! - A report is done with only when the store has its end, or an end of another worker's that stands.

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
    /// It is done.
    Completed {
        /// What copies are answered with once the store has been told.
        outcome: Outcome,
        retention: Duration,
    },
    /// It failed, or was given up.
    Released(Release),
    /// It was dropped before it had ended. The store is told only that the key was claimed: the lease runs out,
    /// and the next attempt is in doubt.
    Vanished,
}

/// One attempt, and how far the store knows of it.
///
/// It is opened when the attempt is claimed here, or ends here; it is due from when the attempt [starts](Self::start)
/// or has ended. Then it claims in the store, extends for as long as the attempt runs, and tells its end. One that
/// begins with the store's lease only tells its end.
#[derive(Debug, Clone)]
pub(super) struct Report {
    /// The attempt's own claim. It may have been recorded though it was not answered; the same owner gets it back.
    pub(super) request: ClaimRequest,
    /// Whether an attempt that was claimed here runs, or has run. Until then it may step back, and the store is
    /// not told of it.
    has_started: bool,
    /// `None` while it runs.
    end: Option<End>,
    /// When it ended; before that, when it began.
    ended: Instant,
    /// The store's lease, once it has given one. The end is told, and repeated, under it: a new claim would
    /// find the key completed, and could not tell this attempt's completion from another worker's.
    lease: Option<Lease>,
    /// Whether another worker's end was found at the key.
    pub(super) is_overtaken: bool,
    /// What became of it when it was sent last.
    last: Option<Sent>,
    /// How often in succession that was the same: the waits grow with it.
    tries: u32,
}

/// What became of a report when it was sent. Only after `Told` it is done with; after anything else it is sent again,
/// at once or after a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    /// The store knows how the attempt ended, or another worker's end stands.
    Told,
    /// The store has given its lease; it is told the rest under that.
    Claimed,
    /// The attempt still runs.
    Running,
    /// The key cannot be claimed for now: another worker has it, or its next attempt is not due.
    Held,
    /// The store has no room.
    Refused,
    /// The store has a record of the key that cannot be read.
    Unreadable,
    /// The store is away.
    Away,
}

/// The waits while the store needs room, or a person's help: minutes, not moments.
const RARELY: Backoff = Backoff::new(Duration::from_secs(5), Duration::from_mins(1));

impl Report {
    /// The report of an attempt that begins, with the store's lease if the attempt began under one.
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

    /// The attempt ends now, like this.
    pub(super) fn end_with(&mut self, end: End) {
        self.end = Some(end);
        self.ended = Instant::now();
    }

    /// The attempt runs from now on.
    pub(super) fn start(&mut self) {
        self.has_started = true;
    }

    /// Whether the store may be told of it.
    pub(super) fn is_due(&self) -> bool {
        self.has_started || self.has_ended()
    }

    /// Whether the attempt has ended, or vanished.
    pub(super) fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    /// Whether the attempt was dropped before it had ended.
    pub(super) fn has_vanished(&self) -> bool {
        matches!(self.end, Some(End::Vanished))
    }

    /// Whether the store could not read its record of the key when this was sent last.
    pub(super) fn is_unreadable(&self) -> bool {
        self.last == Some(Sent::Unreadable)
    }

    /// The bytes of its outcome or error.
    pub(super) fn end_weight(&self) -> usize {
        self.end.as_ref().map_or(0, End::weight)
    }

    /// Takes over what its copy has learnt from the store, and says how long to wait before it is sent again.
    /// The end is not taken over: the attempt may have ended while the copy was on its way.
    pub(super) fn learn(&mut self, copy: Self, sent: Sent) -> Duration {
        // It has ended since the copy was made, so the store is to be told at once.
        let has_news = self.end.is_some() && copy.end.is_none();
        self.request = copy.request;
        self.lease = copy.lease;
        self.is_overtaken = copy.is_overtaken;
        // A claim is the first half of a try. The waits of a report that is held after each claim go on growing.
        if sent != Sent::Claimed {
            self.tries = match self.last.replace(sent) {
                Some(last) if last == sent => self.tries + 1,
                _ => 1,
            };
        }
        match sent {
            _ if has_news => Duration::ZERO,
            // Of a store that is away the reporter itself waits, for all reports together.
            Sent::Told | Sent::Claimed | Sent::Away => Duration::ZERO,
            // This is the attempt's heartbeat in the store.
            Sent::Running => self.request.lease / 3,
            Sent::Held => PATIENCE.wait(self.tries),
            Sent::Refused | Sent::Unreadable => RARELY.wait(self.tries),
        }
    }

    /// Makes the next call to the store, and says what became of it: the claim, or what the attempt came to. Dropped
    /// half way, the call may have had its effect: it is repeated by the same owner, or under the same lease.
    pub(super) async fn send<S: Store>(&mut self, store: &S) -> Sent {
        let sent = match &self.lease {
            Some(lease) => self.tell(store, lease.clone()).await,
            None => self.claim(store).await,
        };
        sent.unwrap_or_else(|error| self.failed(&error))
    }

    /// What an error of the store's means for the report; the log says so where a person has to help.
    fn failed(&self, error: &StoreError) -> Sent {
        let key = &self.request.key;
        match error {
            StoreError::Unavailable(_) => {
                tracing::debug!(%key, error = %ErrorChain::of(error), "not reported yet");
                Sent::Away
            }
            StoreError::Corrupt { .. } => {
                // Logged once, not with each try.
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

    /// Claims the key in the store. The rest is told when the lease is noted.
    async fn claim<S: Store>(&mut self, store: &S) -> Result<Sent, StoreError> {
        let mut answer = within_heartbeat(&self.request, store.claim(&self.request)).await?;
        if let Claim::Held { remaining } = answer {
            if remaining.is_zero() {
                // It may be this owner whose lease was ended (the answer to a release was lost, say): such an
                // owner never acquires again, and the report would be held for ever.
                self.request.owner = Owner::new();
            }
            if let Some(End::Completed { .. }) = self.end {
                // The key may be held because a failed attempt's next one is not due yet. What is done need not
                // wait for that, and a replay does not. It does wait for a worker that holds the key.
                let request = self.request.clone().replay(true);
                answer = within_heartbeat(&request, store.claim(&request)).await?;
            }
        }
        match answer {
            Claim::Acquired(lease) => {
                // Noted before the end is told. If that answer is lost, or the reporter ends before it has noted it,
                // the end is repeated under this lease.
                self.lease = Some(lease);
                Ok(Sent::Claimed)
            }
            Claim::Held { .. } => Ok(Sent::Held),
            Claim::Completed { .. } => Ok(self.yields_to("completed")),
            Claim::KeyReused => Ok(self.yields_to("used for other content")),
            Claim::Quarantined => Ok(self.yields_to("quarantined")),
            Claim::OutOfPlace(_) => Ok(self.yields_to("out of its place")),
        }
    }

    /// Tells the store under its lease how the attempt stands: it runs, or has ended like this.
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
            // The claim has said all: nobody extends it.
            Some(End::Vanished) => Write::Applied,
        };
        Ok(match (write, &self.end) {
            (Write::Applied, None) => Sent::Running,
            (Write::Applied, Some(_)) => Sent::Told,
            (Write::Fenced, None | Some(End::Completed { .. })) => {
                // Another worker has taken the key over, and may fail: then this completion saves another run.
                // So it is claimed anew, as another owner, when that worker has ended.
                self.lease = None;
                self.request.owner = Owner::new();
                Sent::Held
            }
            // A failure says less than whatever the other worker does.
            (Write::Fenced, Some(_)) => self.yields_to("taken over"),
        })
    }

    /// What another worker wrote stands, and is logged once. The report of an attempt that has ended is done
    /// with; that of one that still runs is sent again until it has ended.
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

    /// The release as it is told now: a delay counts from the failure, not from the report of it.
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
    /// The record of an attempt in progress, as it is after this end; `now` is in microseconds of the local clock. An
    /// attempt that vanished leaves it as it is: the lease runs out.
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

    /// The bytes of its outcome or error.
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
