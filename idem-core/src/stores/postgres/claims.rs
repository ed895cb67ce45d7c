//! The statement of a batch of claims (`claim_new.sql` or `claim.sql`), and what its rows answer.

use sqlx::{PgConnection, postgres::PgRow};

use super::{
    call::{Ask, KeyCall},
    length::micros,
    link::Statement,
    row::{self, BatchRow},
    sql::Sql,
};
use crate::{
    handler::FencingToken,
    message::Key,
    store::{
        Claim, ClaimRequest, Lease, StoreError,
        rules::record::{self, Record},
    },
    stores::batcher::{self, ASKED_AT_MOST},
};

/// A claim, and what its answer waits for.
#[derive(Debug)]
pub(super) struct ClaimCall {
    pub(super) request: ClaimRequest,
    pub(super) answered: AnswerWhen,
}

/// When a claim is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnswerWhen {
    /// When a crash of the server cannot undo it any more.
    Durable,
    /// When it is committed: a crash that undoes it undoes the work under it, too, because the
    /// two reach the disk in this order.
    Committed,
}

impl batcher::Call for ClaimCall {
    type Answer = Result<Claim, StoreError>;

    fn bytes(&self) -> usize {
        self.key().as_str().len()
    }

    fn may_be_dropped(&self) -> bool {
        true
    }
}

impl KeyCall for ClaimCall {
    type Reply = Claim;
    const METRIC: &str = "claims";

    fn key(&self) -> &Key {
        &self.request.key
    }

    fn statement(batch: &[&Self], ask: Ask, sql: &Sql, skew: i64) -> Statement {
        let requests = || batch.iter().map(|call| &call.request);
        // Most messages are new, so the first try is the shorter statement, `claim_new.sql`. One call that is asked
        // again, or one replay, turns the whole batch to `claim.sql`.
        let only_new = ask == Ask::First && !requests().any(|claim| claim.replay);
        // One call that must be durable makes the commit of all durable.
        let durable = batch
            .iter()
            .any(|call| call.answered == AnswerWhen::Durable);
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
        let keys_of = |those: fn(&ClaimRequest) -> bool| -> Vec<&str> {
            let those = requests().filter(|claim| those(claim));
            those.map(|claim| claim.key.as_str()).collect()
        };
        let replayed = keys_of(|claim| claim.replay);
        let not_taken_over = keys_of(|claim| !claim.takes_over);
        let text = if only_new { &sql.claim_new } else { &sql.claim };
        let statement = sqlx::query(text.clone())
            .bind(skew)
            .bind(keys)
            .bind(owners)
            .bind(fingerprints)
            .bind(leases)
            .bind(retentions)
            .bind(!durable);
        if only_new {
            statement
        } else {
            statement.bind(replayed).bind(not_taken_over)
        }
    }

    fn read(&self, row: &BatchRow) -> Option<Claim> {
        match &row.record {
            Ok(Some(record)) if row.written => Some(Claim::Acquired(lease(self.key(), record))),
            _ => self.read_unwritten(row),
        }
    }

    /// What the record's state allows to say without writing. `None` if the record could be acquired and was
    /// not: another claim came first, or the statement was for new keys only.
    fn read_unwritten(&self, row: &BatchRow) -> Option<Claim> {
        let record = row.record.as_ref().ok()?.as_ref();
        // The floor (0) matters to tokens alone, and nothing of this is written.
        let step = record::claim(record, &self.request, row.now, 0);
        step.write.is_none().then_some(step.answer)
    }
}

/// Sends `claim.sql` for one claim of a session, inside its step's transaction. The inner error is the claim's own, the
/// outer one the connection's.
pub(super) async fn claim_alone(
    connection: &mut PgConnection,
    (request, answered): (&ClaimRequest, AnswerWhen),
    sql: &Sql,
    skew: i64,
) -> Result<Result<Claim, StoreError>, sqlx::Error> {
    let call = ClaimCall {
        request: request.clone(),
        answered,
    };
    for _ in 0..ASKED_AT_MOST {
        let statement = ClaimCall::statement(&[&call], Ask::Again, sql, skew);
        let rows: Vec<PgRow> = statement.fetch_all(&mut *connection).await?;
        let row = match rows.first() {
            Some(row) => row::of_call(row)?.1,
            None => BatchRow::NOTHING,
        };
        if let Err(source) = row.record {
            let key = request.key.to_string();
            return Ok(Err(StoreError::Corrupt { key, source }));
        }
        if let Some(claim) = call.read(&row) {
            return Ok(Ok(claim));
        }
    }
    let crowded = format!(
        "others were in the way at every try to reach `{}`",
        request.key
    );
    Ok(Err(StoreError::unavailable(crowded)))
}

fn lease(key: &Key, record: &Record) -> Lease {
    Lease::new(
        key.clone(),
        FencingToken::new(record.token),
        record.attempts,
        record.in_doubt,
    )
}
