//! How a run ended, and what is made of it.

use super::{Ending, RecordedByAttempt, acquired};
use crate::{
    executor::{
        Cause, Execution,
        atomic::Overdue,
        grant::{Ended, judge},
        guarded,
        heartbeat::Ran,
        remembered::{self, Requester},
        until_known::until_known,
    },
    handler::{Operation, Outcome, Policy, Refusal},
    store::{EntityStore, Lease, Recording, Release, Store, StoreError, TransactionalStore, Write},
};

/// What came of a handler that was not dropped before it returned, unless it took too long.
type Returned<H> = Result<Result<<H as Operation>::Output, <H as Operation>::Error>, Overdue>;

impl<S, H: Operation> RecordedByAttempt<'_, S, H> {
    pub(super) async fn settle<Tx>(
        &self,
        transaction: S::Transaction,
        ran: Ran<Returned<H>>,
    ) -> Ending<H>
    where
        S: EntityStore<Tx>,
    {
        match ran {
            Ran::Returned(Ok(Ok(output))) => self.commit(transaction, output).await,
            Ran::Returned(Ok(Err(error))) => {
                let violated = self.is_violation(&error);
                let cause = guarded::cause(error);
                if violated {
                    self.executor.store.roll_back(transaction).await;
                    self.violated(cause).await
                } else {
                    self.fail(transaction, cause).await
                }
            }
            Ran::Returned(Err(overdue)) => {
                self.executor.store.roll_back(transaction).await;
                self.failed(Cause::Refused(overdue.to_string())).await
            }
            Ran::Panicked(message) => self.fail(transaction, Cause::Panicked(message)).await,
            Ran::LeaseLost => self.lost(),
        }
    }

    async fn commit<Tx>(&self, transaction: S::Transaction, output: H::Output) -> Ending<H>
    where
        S: EntityStore<Tx>,
    {
        let store = &self.executor.store;
        let outcome = match remembered::output(&output, &self.policy) {
            Ok(outcome) => outcome,
            Err(refusal) => {
                store.roll_back(transaction).await;
                return self.unusable(refusal).await;
            }
        };
        let committed = store.commit_entity(transaction, &self.entity, self.lease());
        match committed.await {
            Ok(Recording::Committed) => Execution::Executed {
                output,
                outcome,
                attempt: self.attempt().number(),
            },
            Ok(Recording::Fenced) => self.lost(),
            Ok(Recording::Violated { error }) => self.violated(Cause::Refused(error)).await,
            Ok(Recording::Refused { error }) => self.failed(Cause::Refused(error)).await,
            Err(error) => self.ask(error).await,
        }
    }

    /// The commit's answer was lost. If it is there, it is this run's or that of a copy, which had
    /// waited for this one: it is done, and nobody can say with which output.
    ///
    /// If it is not, it was rolled back by nobody's fault, or is not committed yet: then the next
    /// run waits for it at the index.
    async fn ask<Tx>(&self, error: StoreError) -> Ending<H>
    where
        S: EntityStore<Tx>,
    {
        let store = &self.executor.store;
        match store.is_recorded(&self.entity, self.lease()).await {
            Ok(true) => self.duplicate(),
            Ok(false) if self.losses.are_its_own() => {
                self.failed(Cause::Refused(error.to_string())).await
            }
            Ok(false) | Err(_) => Execution::StoreUnavailable { error },
        }
    }

    /// The constraint was violated: by this message's key, or by something else of the handler's?
    async fn violated<Tx>(&self, cause: Cause<H::Error>) -> Ending<H>
    where
        S: EntityStore<Tx>,
    {
        let store = &self.executor.store;
        match store.is_recorded(&self.entity, self.lease()).await {
            Ok(true) => self.duplicate(),
            Ok(false) => self.failed(cause).await,
            // Nothing is counted: another run is told the same.
            Err(error) => Ended::Unavailable(error).into_execution(self.requester),
        }
    }

    async fn fail<Tx>(&self, mut transaction: S::Transaction, cause: Cause<H::Error>) -> Ending<H>
    where
        S: EntityStore<Tx>,
    {
        let store = &self.executor.store;
        if !cause.is_for_good()
            && !self.losses.are_its_own()
            && !store.is_alive(&mut transaction).await
        {
            let error = StoreError::unavailable(cause.to_string());
            return Execution::StoreUnavailable { error };
        }
        store.roll_back(transaction).await;
        self.failed(cause).await
    }

    /// The attempt has failed of this, and was rolled back: it is recorded.
    async fn failed<Tx>(&self, cause: Cause<H::Error>) -> Ending<H>
    where
        S: EntityStore<Tx>,
    {
        if self.requester == Requester::Waits && cause.is_for_good() {
            return self.refuse(guarded::refusal(&cause)).await;
        }
        self.record(|lease, policy| judge(cause, lease, policy))
            .await
    }

    /// The output can be told nobody, and no further attempt would change that.
    async fn unusable<Tx>(&self, refusal: Refusal) -> Ending<H>
    where
        S: EntityStore<Tx>,
    {
        if self.requester == Requester::Waits {
            return self.refuse(refusal).await;
        }
        let cause = Cause::Refused(refusal.to_string());
        let release = Release::gave_up(cause.to_string());
        self.record(|lease, _| {
            let attempt = lease.attempt;
            (release, Execution::Rejected { cause, attempt })
        })
        .await
    }

    async fn record<Tx>(
        &self,
        judge: impl FnOnce(&Lease, &Policy) -> (Release, Ending<H>) + Send,
    ) -> Ending<H>
    where
        S: EntityStore<Tx>,
    {
        let lease = match self.counted().await {
            Ok(lease) => lease,
            Err(ended) => return ended.into_execution(self.requester),
        };
        let (release, ended) = judge(&lease, &self.policy);
        match self.executor.release(&lease, &release).await {
            Write::Applied => ended,
            Write::Fenced => Execution::LeaseLost {
                attempt: lease.attempt,
            },
        }
    }

    /// A rejection for good, to be repeated to those copies that look for a record.
    async fn refuse<Tx>(&self, refusal: Refusal) -> Ending<H>
    where
        S: EntityStore<Tx>,
    {
        let lease = match self.counted().await {
            Ok(lease) => lease,
            Err(ended) => return ended.into_execution(self.requester),
        };
        let (store, attempt) = (&self.executor.store, lease.attempt);
        let (refusal, outcome) = remembered::rejection(refusal, &self.policy, &lease.key);
        let complete = || store.complete(&lease, &outcome, self.request.retention);
        match until_known("complete", &lease.key, complete).await {
            Write::Applied => Execution::Refused { refusal, attempt },
            Write::Fenced => Execution::LeaseLost { attempt },
        }
    }

    /// The record that counts this attempt, made after it if not before.
    async fn counted<Tx>(&self) -> Result<Lease, Ended>
    where
        S: EntityStore<Tx>,
    {
        match self.lease() {
            Some(lease) => Ok(lease.clone()),
            None => acquired(self.executor.store.claim(&self.request).await),
        }
    }

    pub(super) async fn undecodable<Tx>(
        &self,
        transaction: S::Transaction,
        error: String,
    ) -> Ending<H>
    where
        S: EntityStore<Tx>,
    {
        self.executor.store.roll_back(transaction).await;
        if let Some(lease) = self.lease() {
            // Nothing ran: a lost lease changes nothing.
            let _ = self
                .executor
                .release(lease, &Release::gave_up(&error))
                .await;
        }
        Execution::Undecodable { error }
    }

    /// The database's error is looked for in what the user's own code tells.
    fn is_violation<Tx>(&self, error: &H::Error) -> bool
    where
        S: EntityStore<Tx>,
    {
        let store = &self.executor.store;
        let violates = || {
            let cause = self.by.cause(error);
            cause.is_some_and(|cause| store.violates(cause, &self.entity))
        };
        guarded::caught(violates).unwrap_or(false)
    }

    fn lost(&self) -> Ending<H> {
        Execution::LeaseLost {
            attempt: self.attempt().number(),
        }
    }

    /// It was done before. What was returned then nobody knows: a requester is told so.
    fn duplicate(&self) -> Ending<H> {
        let outcome = if self.requester == Requester::Waits {
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
