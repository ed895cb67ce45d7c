//! A batch of claims.

use super::{lane::Call, length::micros, row::Told, session::Statement, sql::Sql};
use crate::{
    Claim, ClaimRequest, FencingToken, Key, Lease,
    store::record::{self, Record},
};

/// A claim, and what its answer waits for.
#[derive(Debug)]
pub(super) struct ClaimCall {
    pub(super) request: ClaimRequest,
    pub(super) answered: Answered,
}

/// When a claim is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answered {
    /// When a crash of the server cannot undo it any more.
    Durable,
    /// When it is committed: a crash that undoes it undoes the work under it, too, because the
    /// two reach the disk in this order.
    Committed,
}

impl Call for ClaimCall {
    type Answer = Claim;
    const MAY_BE_DROPPED: bool = true;

    fn key(&self) -> &Key {
        &self.request.key
    }

    fn bytes(&self) -> usize {
        self.key().as_str().len()
    }

    fn statement(batch: &[&Self], sql: &Sql, skew: i64) -> Statement {
        let requests = || batch.iter().map(|call| &call.request);
        let durable = batch.iter().any(|call| call.answered == Answered::Durable);
        let keys: Vec<&str> = requests().map(|claim| claim.key.as_str()).collect();
        let owners: Vec<&[u8]> = requests()
            .map(|claim| claim.owner.as_bytes().as_slice())
            .collect();
        let fingerprints: Vec<Option<&[u8]>> = requests()
            .map(|claim| {
                claim
                    .fingerprint
                    .as_ref()
                    .map(|it| it.as_bytes().as_slice())
            })
            .collect();
        let leases: Vec<i64> = requests().map(|claim| micros(claim.lease)).collect();
        let retentions: Vec<i64> = requests().map(|claim| micros(claim.retention)).collect();
        let replayed: Vec<&str> = requests()
            .filter(|claim| claim.replay)
            .map(|claim| claim.key.as_str())
            .collect();
        sqlx::query(sql.claim.clone())
            .bind(skew)
            .bind(keys)
            .bind(owners)
            .bind(fingerprints)
            .bind(leases)
            .bind(retentions)
            .bind(replayed)
            .bind(!durable)
    }

    fn answer(&self, told: &Told) -> Option<Claim> {
        match &told.record {
            Ok(Some(record)) if told.written => Some(Claim::Acquired(lease(self.key(), record))),
            _ => self.answer_behind(told),
        }
    }

    /// Whatever the record's state allows to say without writing. `None` too if the snapshot saw
    /// a key that is free: another claim was first, and the next snapshot sees it.
    fn answer_behind(&self, told: &Told) -> Option<Claim> {
        let record = told.record.as_ref().ok()?.as_ref();
        let step = record::claim(record, &self.request, told.now, 0);
        step.write.is_none().then_some(step.answer)
    }
}

fn lease(key: &Key, record: &Record) -> Lease {
    Lease::new(
        key.clone(),
        FencingToken::new(record.token),
        record.attempts,
        record.in_doubt,
    )
}
