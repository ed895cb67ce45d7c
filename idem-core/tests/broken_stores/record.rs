//! What the plain store keeps of a key, and for how long.

use std::time::Duration;

use idem_core::{
    Outcome,
    message::Fingerprint,
    store::{ClaimRequest, Owner, Release},
};

use crate::{flaw::Flaw, store::PlainStore};

/// What is known of a key. Times count from the store's making.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) token: i64,
    pub(crate) attempts: u32,
    pub(crate) in_doubt: bool,
    pub(crate) owner: Owner,
    pub(crate) fingerprint: Option<Fingerprint>,
    pub(crate) retention: Duration,
    pub(crate) forget_at: Duration,
    /// The first claim.
    pub(crate) created_at: Duration,
    /// The last write.
    pub(crate) written_at: Duration,
    pub(crate) lease: Duration,
    /// When the next attempt is due.
    pub(crate) not_before: Duration,
    pub(crate) state: State,
}

/// What became of the last claim.
#[derive(Debug, Clone)]
pub(crate) enum State {
    InProgress { lease_ends: Duration },
    Completed(Outcome),
    Released(Release),
}

impl Record {
    /// Of a key that never came.
    pub(crate) fn unknown(owner: Owner, token: i64) -> Self {
        Self {
            token,
            attempts: 0,
            in_doubt: false,
            owner,
            fingerprint: None,
            retention: Duration::ZERO,
            forget_at: Duration::ZERO,
            created_at: Duration::ZERO,
            written_at: Duration::ZERO,
            lease: Duration::ZERO,
            not_before: Duration::ZERO,
            state: State::Completed(Outcome::default()),
        }
    }
}

impl PlainStore {
    /// Whether a claim finds nothing more.
    pub(crate) fn forgotten(&self, record: &Record) -> bool {
        let over = record.forget_at <= self.now();
        match record.state {
            State::InProgress { .. } => over && !self.has(Flaw::NeverForgetsTheUnfinished),
            _ => over,
        }
    }

    /// When a key that is claimed, or was extended, now is forgotten.
    pub(crate) fn forgets_claim_at(&self, lease_ends: Duration, retention: Duration) -> Duration {
        let from_now = self.now() + self.unit(retention);
        match () {
            () if self.has(Flaw::ForgetsTheHeld) => from_now,
            () if self.has(Flaw::ForgetsTheVanished) => from_now.max(lease_ends),
            () => lease_ends + self.unit(retention),
        }
    }

    /// Whether a purge removes it.
    pub(crate) fn purges(&self, record: &Record) -> bool {
        let over = record.forget_at <= self.now();
        let completed = matches!(record.state, State::Completed(_));
        match () {
            () if self.has(Flaw::PurgesOnlyTheCompleted) => over && completed,
            () if self.has(Flaw::PurgesTheHeld) => record.forget_at <= self.now() + record.lease,
            () if self.has(Flaw::PurgesTooEarly) => {
                record.forget_at <= self.now() + Duration::from_mins(1)
            }
            () => self.forgotten(record),
        }
    }

    pub(crate) fn differs(&self, record: &Record, request: &ClaimRequest) -> bool {
        match record.fingerprint.zip(request.fingerprint) {
            _ if self.has(Flaw::IgnoresFingerprints) => false,
            Some(_) if self.has(Flaw::CutsFingerprints) => true,
            Some((known, told)) => known != told,
            None => self.has(Flaw::ComparesWithNothing) && request.fingerprint.is_some(),
        }
    }

    /// A retention as this store counts it.
    pub(crate) fn unit(&self, retention: Duration) -> Duration {
        if self.has(Flaw::RetentionInMillis) {
            retention / 1000
        } else {
            retention
        }
    }
}
