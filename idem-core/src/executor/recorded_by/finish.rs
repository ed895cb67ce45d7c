//! How a run ended that the handler's own table records, and what is made of it.
//!
//! [`recorded_by`](super) calls [`RecordedByFinisher::write`] once for each run. Two questions are asked here: is the
//! row there, committed, that the message names? And if the run has failed, which record counts it? What must stay
//! true:
//!
//! - Whether the work is done is asked of the handler's table, never concluded from an error.
//! - What has failed is rolled back before it is recorded.
//! - A failed attempt that no claim has counted is counted when it is recorded.

use super::{Ending, RecordedByClaim};
use crate::{
    executor::{
        Cause, Execution,
        attempt::Job,
        guarded,
        heartbeat::Ran,
        remembered::{self, Requester},
        verdict::{KeyEnd, NotRun, lease_lost, lease_or_not_run, unrememberable, unsuccessful},
    },
    handler::{Operation, Outcome, Policy, Refusal},
    store::{
        Finish, Finished, Lease, RecordedByStore, Store, StoreError, TransactionalStore, Write,
    },
};

/// How an attempt ends. Each method says what the message came to when that is recorded, or that nobody knows.
///
/// | the run | the row | the message |
/// |---|---|---|
/// | succeeded, and was committed | there, by this run | executed |
/// | violated the constraint | there | duplicate |
/// | violated the constraint | not there | failed: it was about another row |
/// | lost the answer to its commit | there | duplicate |
/// | lost the answer to its commit | not there | runs again, until it has lost too many |
/// | failed otherwise | not asked for | failed, rejected, exhausted |
pub(super) struct RecordedByFinisher<'a, S, Tx, H: Operation> {
    pub(super) job: &'a Job<'a, S>,
    pub(super) claim: &'a RecordedByClaim<Tx, H>,
}

impl<S, Tx, H> RecordedByFinisher<'_, S, Tx, H>
where
    S: RecordedByStore<Tx>,
    H: Operation,
{
    /// Makes of what the handler's future came to an end of the message.
    ///
    /// Dropped half way, it may have committed. The next delivery finds the row, and is a duplicate.
    pub(super) async fn write(
        &self,
        transaction: S::Transaction,
        ran: Ran<Result<H::Output, H::Error>>,
    ) -> Ending<H> {
        match ran {
            Ran::Returned(Ok(output)) => self.commit(transaction, output).await,
            Ran::Returned(Err(error)) => {
                // Before the error is described: of one that panics then, only the panic is left.
                let violated = self.is_violation(&error);
                let cause = guarded::cause(error);
                if violated {
                    // Rolled back first: whether the row is there is then asked of what others have committed.
                    self.job.executor.roll_back(transaction).await;
                    self.violated(cause).await
                } else {
                    self.fail(transaction, cause).await
                }
            }
            // Not by way of `fail`: its connection is not asked, because it has had its time whatever that says.
            Ran::Overdue(limit) => {
                self.job.executor.roll_back(transaction).await;
                self.failed(limit.into()).await
            }
            Ran::Panicked(message) => self.fail(transaction, Cause::Panicked(message)).await,
            // The transaction is dropped, which rolls it back. Nothing is written: the key is another worker's.
            Ran::LeaseLost => self.lost(),
        }
    }

    /// Commits the handler's writes, if the row that its key names is among them.
    async fn commit(&self, transaction: S::Transaction, output: H::Output) -> Ending<H> {
        let store = &self.job.executor.store;
        let outcome = match remembered::output(&output, self.job.policy) {
            Ok(outcome) => outcome,
            // Now, while the effect can still be undone: nothing is done whose output nobody could be told.
            Err(refusal) => {
                self.job.executor.roll_back(transaction).await;
                return self.unusable(refusal).await;
            }
        };
        // The commit looks for the row, because a handler that does not write it would run again with each copy. With a
        // claim its record is removed in the same transaction: from now on the row alone says that it is done.
        let record = Finish::Record {
            entity: &self.claim.entity,
            lease: self.claim.lease.as_ref(),
        };
        match store.finish(transaction, record).await {
            Ok(Finished::Committed) => Execution::Executed {
                output,
                outcome,
                attempt: self.number(),
            },
            // Only with a claim: without one there is nothing to compare.
            Ok(Finished::Fenced) => self.lost(),
            // A deferred constraint, which is looked at by the commit.
            Ok(Finished::Violated { error }) => self.violated(Cause::Refused(error)).await,
            Ok(Finished::Refused { error }) => self.failed(Cause::Refused(error)).await,
            // An answer that fits no commit is a bug of the store's, and says nothing.
            Ok(other) => {
                self.ask(other.is_no_answer("a commit with an entity"))
                    .await
            }
            Err(error) => self.ask(error).await,
        }
    }

    /// The commit's answer was lost. If the row is there, it is this run's or that of a copy, which had waited for this
    /// one: it is done, and nobody can say with which output.
    ///
    /// If it is not, the transaction was rolled back by nobody's fault, or is not committed yet: then the next run
    /// waits for it at the index.
    async fn ask(&self, error: StoreError) -> Ending<H> {
        let store = &self.job.executor.store;
        match store
            .is_recorded(&self.claim.entity, self.claim.lease.as_ref())
            .await
        {
            Ok(true) => self.duplicate(),
            // Lost each time: then the handler may be what breaks its connection.
            Ok(false) if self.job.history.losses.are_its_own() => {
                self.failed(Cause::Refused(error.to_string())).await
            }
            Ok(false) | Err(_) => Execution::StoreUnavailable { error },
        }
    }

    /// The constraint was violated: by this message's key, or by something else of the handler's?
    async fn violated(&self, cause: Cause<H::Error>) -> Ending<H> {
        let store = &self.job.executor.store;
        match store
            .is_recorded(&self.claim.entity, self.claim.lease.as_ref())
            .await
        {
            Ok(true) => self.duplicate(),
            // Another row of the handler's: its own failure, like any.
            Ok(false) => self.failed(cause).await,
            // Nothing is counted: another run is told the same.
            Err(error) => NotRun::Unavailable(error).into_execution(self.job.requester),
        }
    }

    /// Ends an attempt that failed of this, unless it failed because its connection broke: that is no attempt, as in
    /// other [`atomic`](crate::executor::atomic) work.
    async fn fail(&self, mut transaction: S::Transaction, cause: Cause<H::Error>) -> Ending<H> {
        let store = &self.job.executor.store;
        if self.job.history.losses.may_be_one(&cause) && !store.is_alive(&mut transaction).await {
            // It runs again when the store is back.
            let error = StoreError::unavailable(cause.to_string());
            return Execution::StoreUnavailable { error };
        }
        self.job.executor.roll_back(transaction).await;
        self.failed(cause).await
    }

    /// The attempt has failed of this, and was rolled back: it is recorded.
    async fn failed(&self, cause: Cause<H::Error>) -> Ending<H> {
        self.record(|lease| unsuccessful(cause, lease, self.job.policy, self.job.requester))
            .await
    }

    /// The output can be told nobody, and no further attempt would change that.
    async fn unusable(&self, refusal: Refusal) -> Ending<H> {
        self.record(|lease| unrememberable(refusal, lease, self.job.policy, self.job.requester))
            .await
    }

    /// Records how an attempt ended, after it was rolled back. A rejection for good is repeated to those copies that
    /// look for a record.
    async fn record(&self, ended: impl FnOnce(&Lease) -> (KeyEnd, Ending<H>) + Send) -> Ending<H> {
        let lease = match self.counted().await {
            Ok(lease) => lease,
            // Another worker has claimed the key meanwhile, or the store is away. This attempt is counted by nobody,
            // and its message comes again.
            Err(ended) => return ended.into_execution(self.job.requester),
        };
        // Decided by the record's own count of attempts.
        let (end, ended) = ended(&lease);
        let (executor, retention) = (self.job.executor, self.job.request.retention);
        match executor.write_end_of_undone(&lease, &end, retention).await {
            Write::Applied => ended,
            // Somebody else has the key: what failed here may succeed there, and must not be dead-lettered.
            Write::Fenced => lease_lost(&lease),
        }
    }

    /// The record that counts this attempt, made after it if not before.
    async fn counted(&self) -> Result<Lease, NotRun> {
        match self.claim.lease.as_ref() {
            Some(lease) => Ok(lease.clone()),
            // A first delivery: this claim makes the record, and its first attempt is the one that has ended already.
            None => lease_or_not_run(self.job.executor.store.claim(self.job.request).await),
        }
    }

    /// Whether the handler failed because its row was there. The database's error is looked for in what the user's own
    /// code tells.
    fn is_violation(&self, error: &H::Error) -> bool {
        let store = &self.job.executor.store;
        let violates = || {
            let cause = self.claim.by.cause(error);
            cause.is_some_and(|cause| store.violates(cause, &self.claim.entity))
        };
        // If it panics, the error is described next, and found out to be one that cannot.
        guarded::caught(violates).unwrap_or(false)
    }

    /// The number of the attempt, 1 without a claim.
    fn number(&self) -> u32 {
        self.claim.to_attempt(self.job.policy).number()
    }

    /// Another worker has the key, which only an attempt with a claim can find.
    fn lost(&self) -> Ending<H> {
        Execution::LeaseLost {
            attempt: self.number(),
        }
    }

    /// It was done before. What was returned then nobody knows: a requester is told so.
    fn duplicate(&self) -> Ending<H> {
        // To whoever does not wait, an empty outcome is as good as any: it is acknowledged.
        let outcome = if self.job.requester == Requester::Waits {
            Outcome::forgotten(&Refusal::new(
                Refusal::OUTCOME_OUTDATED,
                "it was done before; what came of it is recorded in a table of the handler's own, \
                 and the answer is not",
            ))
        } else {
            Outcome::default()
        };
        Execution::Duplicate {
            outcome,
            // For as long as the row is there.
            remaining: Policy::MAX_RETENTION,
        }
    }
}
