//! Execution that the handler's own table records: no claim before something has failed.

use std::{panic::AssertUnwindSafe, pin::pin};

use futures_util::FutureExt as _;

use super::{
    Executor, Prepared, Requester, RunsOn,
    atomic::{Overdue, within},
    grant::{Ended, ended_by, objection},
    guarded,
    heartbeat::{Moment, Ran, WhileUnknown, extend_open, run_under_heartbeat},
    losses::Losses,
};
use crate::{
    executor::Execution,
    handler::{Attempt, Context, Entity, Handler, InEntity, Operation, Policy, RecordedBy},
    store::{
        Claim, ClaimRequest, EntityError, EntityStore, Lease, Release, Store, StoreError,
        TransactionalStore,
    },
};

mod ending;

impl<S, Tx> RunsOn<S> for InEntity<Tx>
where
    S: EntityStore<Tx>,
    Tx: Send + 'static,
{
    fn limit(executor: &Executor<S>) -> Option<usize> {
        Some(executor.store.transactions())
    }

    async fn check<H: Operation<Mode = Self>>(executor: &Executor<S>) -> Result<(), EntityError> {
        let by = recorded_by::<H>();
        executor.store.check(by.constraint(), by.columns()).await
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
        let body = match message.take() {
            Ok(body) => body,
            Err(error) => return Execution::Undecodable { error },
        };
        let handling = match RecordedByAttempt::new(executor, message, &body) {
            Ok(handling) => handling,
            Err(ended) => return ended,
        };
        // A copy elsewhere waits at the index; here there is a cheaper place to wait.
        let Some(working) = executor.in_flight.enter_alone(&handling.request.key) else {
            message.put_back(body);
            let remaining = handling.request.lease;
            return Execution::Conflict { remaining };
        };
        // A requester that asks again may have been refused: only a claim knows.
        let claims = message.attempted || handling.requester == Requester::Waits;
        let (mut transaction, lease) = match handling.begin(claims).await {
            Ok(begun) => begun,
            Err(ended) => {
                // Else it would wake itself: what it met may be held elsewhere.
                working.step_back();
                message.put_back(body);
                return ended.into_execution(handling.requester);
            }
        };
        let handling = RecordedByAttempt { lease, ..handling };
        let context = Context {
            state,
            envelope: &message.envelope,
            key: &message.request.key,
            attempt: handling.attempt(),
        };
        let ran = match guarded::call::<H, St>(
            body,
            &context,
            S::lend(&mut transaction),
            &executor.handlers,
        ) {
            Ok(work) => Ok(handling.run(work).await),
            Err(error) => Err(error),
        };
        message.attempted = true;
        match ran {
            Ok(ran) => {
                let ended = handling.settle(transaction, ran).await;
                message.losses.count(&ended);
                ended
            }
            Err(error) => handling.undecodable(transaction, error).await,
        }
    }
}

/// The constraint of a handler in this mode. One without does not compile.
fn recorded_by<H: Operation>() -> RecordedBy<H> {
    const {
        match H::RECORDED_BY {
            Some(by) => by,
            None => panic!("a handler whose mode is `InEntity` says what it is `RECORDED_BY`"),
        }
    }
}

/// Its table knows the handler's own keys, and no numbers of sessions.
const IN_SESSION: &str = "a handler that its own table records serves no sessions: send the request \
                          without the headers of one, or leave `recorded_by` out of the handler";

/// Its table knows no mark.
const IN_SEQUENCE: &str = "a handler that its own table records cannot be one of numbered messages: \
                           leave `RECORDED_BY` or `NUMBERED` out of the handler";

/// One run of a handler, under a lease only if an earlier one may have failed.
struct RecordedByAttempt<'a, S, H: Operation> {
    executor: &'a Executor<S>,
    request: ClaimRequest,
    policy: Policy,
    by: RecordedBy<H>,
    entity: Entity,
    requester: Requester,
    losses: Losses,
    lease: Option<Claimed>,
}

/// A lease, and when it was asked for.
struct Claimed {
    lease: Lease,
    asked: Moment,
}

/// Why a run does not begin.
enum NotBegun {
    Ended(Ended),
    /// It has a claim, which is to be given back.
    Objected(Lease, Release),
}

impl From<Ended> for NotBegun {
    fn from(ended: Ended) -> Self {
        Self::Ended(ended)
    }
}

type Ending<H> = Execution<<H as Operation>::Output, <H as Operation>::Error>;

impl<'a, S, H: Operation> RecordedByAttempt<'a, S, H> {
    fn new(
        executor: &'a Executor<S>,
        message: &Prepared<H>,
        body: &H::Message,
    ) -> Result<Self, Ending<H>> {
        if message.request.session.is_some() {
            return Err(Execution::Undecodable {
                error: IN_SESSION.into(),
            });
        }
        if message.request.sequence.is_some() {
            return Err(Execution::Undecodable {
                error: IN_SEQUENCE.into(),
            });
        }
        let by = recorded_by::<H>();
        let entity = guarded::caught(|| by.entity(body, &message.envelope));
        let entity = entity.map_err(|panic| Execution::Undecodable {
            error: format!("naming its key panicked: {panic}"),
        })?;
        Ok(Self {
            executor,
            // What was handled leaves no fingerprint, so there is nothing to compare.
            request: message.request.clone().fingerprint(None),
            policy: message.policy,
            by,
            entity: entity.map_err(|error| Execution::Keyless { error })?,
            requester: Requester::of(&message.envelope),
            losses: message.losses,
            lease: None,
        })
    }

    fn lease(&self) -> Option<&Lease> {
        self.lease.as_ref().map(|claimed| &claimed.lease)
    }

    fn attempt(&self) -> Attempt {
        let max = self.policy.max_attempts();
        match self.lease() {
            Some(lease) => lease.to_attempt(max).without_doubt(),
            None => Attempt::unrecorded(max),
        }
    }
}

impl<S, H: Operation> RecordedByAttempt<'_, S, H> {
    /// Opens the transaction, which waits for its turn, and then claims if that is called for: so
    /// no lease runs out meanwhile.
    async fn begin<Tx>(&self, attempted: bool) -> Result<(S::Transaction, Option<Claimed>), Ended>
    where
        S: EntityStore<Tx>,
    {
        let store = &self.executor.store;
        let transaction = store.open(&self.entity, self.request.lease).await;
        let transaction = transaction.map_err(Ended::Unavailable)?;
        match self.claim(attempted).await {
            Ok(lease) => Ok((transaction, lease)),
            Err(refused) => {
                // First, because to give a claim back may take as long as the store is away.
                store.roll_back(transaction).await;
                Err(self.give_back(refused).await)
            }
        }
    }

    async fn claim<Tx>(&self, attempted: bool) -> Result<Option<Claimed>, NotBegun>
    where
        S: EntityStore<Tx>,
    {
        if !attempted {
            let closed = self.executor.is_closed();
            return if closed {
                Err(Ended::Abandoned.into())
            } else {
                Ok(None)
            };
        }
        let asked = Moment::now();
        let lease = acquired(self.executor.store.claim(&self.request).await)?;
        let closed = self.executor.is_closed();
        let Some(objection) = objection(&lease, &self.policy, closed, false) else {
            return Ok(Some(Claimed { lease, asked }));
        };
        Err(NotBegun::Objected(lease, objection))
    }

    async fn give_back<Tx>(&self, refused: NotBegun) -> Ended
    where
        S: EntityStore<Tx>,
    {
        match refused {
            NotBegun::Ended(ended) => ended,
            NotBegun::Objected(lease, objection) => {
                // Nothing ran: a lost lease changes nothing.
                let _ = self.executor.release(&lease, &objection).await;
                ended_by(&objection, &lease)
            }
        }
    }

    /// Runs the handler, under a heartbeat if there is a lease to be kept.
    async fn run<Tx, T>(&self, work: impl Future<Output = T> + Send) -> Ran<Result<T, Overdue>>
    where
        S: EntityStore<Tx>,
    {
        let store = &self.executor.store;
        // Pinned, because whatever it is moved into has room for it twice.
        let work = pin!(within(store.time_limit(), work));
        let Some(Claimed { lease, asked }) = &self.lease else {
            return match AssertUnwindSafe(work).catch_unwind().await {
                Ok(returned) => Ran::Returned(returned),
                Err(panic) => Ran::Panicked(guarded::panic_message(&*panic)),
            };
        };
        let by = self.request.lease;
        let extend = extend_open(store, lease, by);
        let heartbeats = &self.executor.heartbeats;
        run_under_heartbeat(heartbeats, work, extend, *asked, by, WhileUnknown::GoOn).await
    }
}

fn acquired(answer: Result<Claim, StoreError>) -> Result<Lease, Ended> {
    match answer {
        Ok(Claim::Acquired(lease)) => Ok(lease),
        Ok(answer) => Err(Ended::Answered(answer)),
        Err(error) => Err(Ended::Unavailable(error)),
    }
}
