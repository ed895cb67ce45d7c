//! Atomic execution: the handler's writes and the completion commit together.

use std::{pin::pin, time::Duration};

use futures_util::{FutureExt as _, TryFutureExt as _, future::Either};
use tokio::time::timeout;

use super::{
    Executor, Prepared, Requester, RunsOn,
    grant::judge,
    guarded,
    heartbeat::{Moment, Ran, WhileUnknown, extend_open, run_under_heartbeat},
    losses::Losses,
    remembered,
    until_known::until_known,
};
use crate::{
    executor::{Cause, Execution},
    handler::{Atomic, Context, Failure, Handler, Mode, Outcome, Policy, Refusal},
    store::{
        Claim, ClaimRequest, Commit, Lease, Release, Store, StoreError, TransactionalStore, Write,
    },
};

mod opening;

pub(super) use opening::HeldClaim;

impl<S, Tx> RunsOn<S> for Atomic<Tx>
where
    S: TransactionalStore<Tx>,
    Tx: Send + 'static,
{
    fn limit(executor: &Executor<S>) -> Option<usize> {
        Some(executor.store.transactions())
    }

    async fn run<H, St>(
        executor: &Executor<S>,
        message: &mut Prepared<H>,
        state: &St,
    ) -> Execution<H::Output, H::Error>
    where
        H: Handler<St, Mode = Self>,
        St: Send + Sync + 'static,
    {
        alone::<S, Tx, H, St>(executor, message, state, None).await
    }
}

/// Runs one message in a transaction of its own.
pub(super) async fn alone<S, Tx, H, St>(
    executor: &Executor<S>,
    message: &mut Prepared<H>,
    state: &St,
    held: Option<HeldClaim>,
) -> Execution<H::Output, H::Error>
where
    S: TransactionalStore<Tx>,
    Tx: Send + 'static,
    H: Handler<St>,
    H::Mode: for<'a> Mode<Lent<'a> = &'a mut Tx>,
    St: Send + Sync + 'static,
{
    let body = match message.take() {
        Ok(body) => body,
        Err(error) => return Execution::Undecodable { error },
    };
    let requester = Requester::of(&message.envelope);
    let claimed = Moment::now();
    let begun = match held {
        None => {
            // What was delivered before may be what ended its worker, together with all who had claimed.
            // Nor is an only attempt to be lost while it waits.
            let may_claim_ahead = !message.attempted && message.policy.max_attempts() > 1;
            let opened = if may_claim_ahead && executor.store.is_busy() {
                let ahead = executor.begin_ahead(&mut message.request, &message.policy);
                ahead.await
            } else {
                None
            };
            match opened {
                Some(opened) => opened,
                None => executor.begin(&message.request, &message.policy).await,
            }
        }
        // What few messages come to is a future of its own, so that the others' are small.
        Some(held) => {
            let held = executor.begin_keeping(held, &message.request, &message.policy);
            Box::pin(held).await
        }
    };
    let (lease, mut transaction, working) = match begun {
        Ok(begun) => begun,
        Err(ended) => {
            message.put_back(body);
            return ended.into_execution(requester);
        }
    };
    let open = Open {
        executor,
        request: &message.request,
        policy: &message.policy,
        lease,
        requester,
        losses: message.losses,
    };
    let context = Context {
        state,
        envelope: &message.envelope,
        key: &message.request.key,
        attempt: open
            .lease
            .to_attempt(open.policy.max_attempts())
            .without_doubt(),
    };
    let ran = match guarded::call::<H, St>(
        body,
        &context,
        S::lend(&mut transaction),
        &executor.handlers,
    ) {
        Ok(work) => {
            // Pinned, because whatever it is moved into has room for it twice.
            let work = pin!(within(executor.store.time_limit(), work));
            let by = open.request.lease;
            let extend = extend_open(&executor.store, &open.lease, by);
            let heartbeats = &executor.heartbeats;
            Ok(
                run_under_heartbeat(heartbeats, work, extend, claimed, by, WhileUnknown::GoOn)
                    .await,
            )
        }
        Err(error) => Err(error),
    };
    match ran {
        Ok(ran) => {
            let ended = open.settle(transaction, ran).await;
            working.tell_copies(&ended, open.request.retention);
            message.losses.count(&ended);
            ended
        }
        Err(error) => {
            // Nothing ran: a lost lease changes nothing.
            let _ = open.roll_back(transaction, &Release::gave_up(&error)).await;
            Execution::Undecodable { error }
        }
    }
}

/// A claim whose transaction is open.
pub(super) struct Open<'a, S> {
    pub(super) executor: &'a Executor<S>,
    pub(super) request: &'a ClaimRequest,
    pub(super) policy: &'a Policy,
    pub(super) lease: Lease,
    pub(super) requester: Requester,
    pub(super) losses: Losses,
}

impl<S: Store> Open<'_, S> {
    async fn settle<Tx, T, E>(
        &self,
        transaction: S::Transaction,
        ran: Ran<Result<Result<T, E>, Overdue>>,
    ) -> Execution<T, E>
    where
        S: TransactionalStore<Tx>,
        T: serde::Serialize,
        E: Failure,
    {
        // What few messages come to is a future of its own, so that the others' are small.
        match ran {
            Ran::Returned(Err(overdue)) => {
                let cause = Cause::Refused(overdue.to_string());
                Box::pin(self.end(transaction, cause)).await
            }
            Ran::Returned(Ok(Ok(output))) => match remembered::output(&output, self.policy) {
                Ok(outcome) => self.commit(transaction, output, outcome).await,
                Err(refusal) => Box::pin(self.forget(transaction, refusal)).await,
            },
            Ran::Returned(Ok(Err(error))) => {
                Box::pin(self.fail(transaction, guarded::cause(error))).await
            }
            Ran::Panicked(message) => {
                Box::pin(self.fail(transaction, Cause::Panicked(message))).await
            }
            Ran::LeaseLost => self.lost(),
        }
    }

    async fn commit<Tx, T, E>(
        &self,
        transaction: S::Transaction,
        output: T,
        outcome: Outcome,
    ) -> Execution<T, E>
    where
        S: TransactionalStore<Tx>,
        E: Failure,
    {
        let store = &self.executor.store;
        let retention = self.request.retention;
        let attempt = self.lease.attempt;
        match store
            .commit(transaction, &self.lease, &outcome, retention)
            .await
        {
            Ok(Commit::Committed) => Execution::Executed {
                output,
                outcome,
                attempt,
            },
            Ok(Commit::Fenced) => self.lost(),
            Ok(Commit::Refused { error }) => Box::pin(self.refused(error)).await,
            Err(error) => Box::pin(self.ask_again(output, outcome, error)).await,
        }
    }

    /// The commit's answer was lost: the same owner's claim tells what became of it.
    pub(super) async fn ask_again<T, E: Failure>(
        &self,
        output: T,
        outcome: Outcome,
        error: StoreError,
    ) -> Execution<T, E> {
        let store = &self.executor.store;
        let claim = until_known("claim", &self.lease.key, || store.claim(self.request)).await;
        match claim {
            Claim::Completed { outcome: kept, .. } if kept == outcome => {
                self.whose(output, outcome).await
            }
            Claim::Acquired(_) if self.losses.are_its_own() => {
                self.refused(error.to_string()).await
            }
            // It was rolled back by nobody's fault. The claim stays, for the same attempt.
            Claim::Acquired(_) => Execution::StoreUnavailable { error },
            _ => self.lost(),
        }
    }

    /// The key is completed: by this commit, or by a worker that took over after it had failed.
    /// Repeating the completion changes nothing, and is answered by the token.
    pub(super) async fn whose<T, E>(&self, output: T, outcome: Outcome) -> Execution<T, E> {
        let (store, lease) = (&self.executor.store, &self.lease);
        let retention = self.request.retention;
        let complete = || store.complete(lease, &outcome, retention);
        match until_known("complete", &lease.key, complete).await {
            Write::Applied => Execution::Executed {
                attempt: lease.attempt,
                output,
                outcome,
            },
            Write::Fenced => self.lost(),
        }
    }

    async fn refused<T, E: Failure>(&self, error: String) -> Execution<T, E> {
        let (release, ended) = judge(Cause::Refused(error), &self.lease, self.policy);
        match self.executor.release(&self.lease, &release).await {
            Write::Applied => ended,
            Write::Fenced => self.lost(),
        }
    }

    async fn fail<Tx, T, E>(
        &self,
        mut transaction: S::Transaction,
        cause: Cause<E>,
    ) -> Execution<T, E>
    where
        S: TransactionalStore<Tx>,
        E: Failure,
    {
        if self.requester == Requester::Waits && cause.is_for_good() {
            return self.refuse(transaction, guarded::refusal(&cause)).await;
        }
        // The claim stays: the same owner has it back, as the same attempt, when the store is back.
        if !cause.is_for_good()
            && !self.losses.are_its_own()
            && !self.executor.store.is_alive(&mut transaction).await
        {
            let error = StoreError::unavailable(cause.to_string());
            return Execution::StoreUnavailable { error };
        }
        self.end(transaction, cause).await
    }

    /// The attempt has failed of this.
    async fn end<Tx, T, E>(&self, transaction: S::Transaction, cause: Cause<E>) -> Execution<T, E>
    where
        S: TransactionalStore<Tx>,
        E: Failure,
    {
        let (release, ended) = judge(cause, &self.lease, self.policy);
        match self.roll_back(transaction, &release).await {
            Write::Applied => ended,
            Write::Fenced => self.lost(),
        }
    }

    /// The output cannot be remembered, and no further attempt would change that.
    async fn forget<Tx, T, E>(
        &self,
        transaction: S::Transaction,
        refusal: Refusal,
    ) -> Execution<T, E>
    where
        S: TransactionalStore<Tx>,
        E: Failure,
    {
        if self.requester == Requester::Waits {
            return self.refuse(transaction, refusal).await;
        }
        let cause = Cause::Refused(refusal.to_string());
        let release = Release::gave_up(cause.to_string());
        let attempt = self.lease.attempt;
        match self.roll_back(transaction, &release).await {
            Write::Applied => Execution::Rejected { cause, attempt },
            Write::Fenced => self.lost(),
        }
    }

    /// Rolls the handler's writes back, and then remembers that they were refused. If nothing comes
    /// after the rollback, nothing was done, and the attempt runs again.
    async fn refuse<Tx, T, E>(
        &self,
        transaction: S::Transaction,
        refusal: Refusal,
    ) -> Execution<T, E>
    where
        S: TransactionalStore<Tx>,
    {
        let (store, lease) = (&self.executor.store, &self.lease);
        let (refusal, outcome) = remembered::rejection(refusal, self.policy, &lease.key);
        store.roll_back(transaction).await;
        let complete = || store.complete(lease, &outcome, self.request.retention);
        match until_known("complete", &lease.key, complete).await {
            Write::Applied if self.remembers(&outcome).await => Execution::Refused {
                refusal,
                attempt: lease.attempt,
            },
            Write::Applied | Write::Fenced => self.lost(),
        }
    }

    /// Whether this is what copies are told. A commit of the same lease whose answer never came may
    /// have been carried out late, and the first completion is the one that counts.
    async fn remembers(&self, outcome: &Outcome) -> bool {
        let store = &self.executor.store;
        let claim = until_known("claim", &self.lease.key, || store.claim(self.request)).await;
        matches!(claim, Claim::Completed { outcome: kept, .. } if kept == *outcome)
    }

    /// Rolls the handler's writes back, and waits out a store that is away to record why.
    async fn roll_back<Tx>(&self, transaction: S::Transaction, reason: &Release) -> Write
    where
        S: TransactionalStore<Tx>,
    {
        self.executor.store.roll_back(transaction).await;
        self.executor.release(&self.lease, reason).await
    }

    pub(super) fn lost<T, E>(&self) -> Execution<T, E> {
        Execution::LeaseLost {
            attempt: self.lease.attempt,
        }
    }
}

/// A handler kept its transaction open for this long, and was dropped.
#[derive(Debug, thiserror::Error)]
#[error("it was still open after {0:?}, which is the store's limit")]
pub(super) struct Overdue(Duration);

/// Not an `async fn`: that would have room for the work twice.
pub(super) fn within<T>(
    limit: Option<Duration>,
    work: impl Future<Output = T>,
) -> impl Future<Output = Result<T, Overdue>> {
    match limit {
        Some(limit) => {
            let work = timeout(limit, work);
            Either::Left(work.map_err(move |_| Overdue(limit)))
        }
        None => Either::Right(work.map(Ok)),
    }
}
