//! Execution that the handler's own table records: no claim for a first delivery that nobody awaits.
//!
//! It runs handlers whose insert violates a constraint of their own table if they have run before. A first attempt that
//! succeeds leaves no other record; what fails, or may have been attempted before, has a record as in other modes.
//! [`attempt`](super::attempt) tells the story; this file says when a message is claimed, and `finish` what is made of
//! a run.
//!
//! What must stay true:
//!
//! - A message is a duplicate only if the row that its key names is there, or its rejection is remembered.
//! - The transaction is open before anything is claimed, so that no lease runs out in the wait.
//! - A message that may have been attempted before is claimed, and so counted, before it runs: one that ends its
//!   process is given up in the end.
//! - Two copies in one process never run at the same time.
// docs/decisions/0017

use std::{marker::PhantomData, time::Duration};

use super::{
    Executor, Prepared, Requester, RunsOn,
    attempt::{Claiming, Granted, Job, Uncalled, attempt},
    guarded,
    heartbeat::{KeptLease, Moment, Ran},
    in_flight::Working,
    verdict::{NotRun, Objection, lease_or_not_run},
};
use crate::{
    executor::Execution,
    handler::{
        Attempt, Handler, Mode, Operation, Policy, RecordedBy, RecordedRow, RecordingConstraint,
    },
    message::{Envelope, Position},
    store::{
        ClaimRequest, Lease, Open, RecordedByError, RecordedByStore, Store, TransactionalStore,
    },
    stores::measured::Measured,
};

mod finish;

use finish::RecordedByFinisher;

impl<S, Tx> RunsOn<S> for RecordedBy<Tx>
where
    S: RecordedByStore<Tx>,
    Tx: Send + 'static,
{
    fn limit(executor: &Executor<S>) -> Option<usize> {
        // Each handler has a connection to itself for as long as it runs.
        Some(executor.store.transactions())
    }

    async fn check<H: Operation<Mode = Self>>(
        executor: &Executor<S>,
    ) -> Result<(), RecordedByError> {
        // Before the first message: without the constraint, nothing would keep a copy from running again.
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
        attempt::<RecordedByClaim<Tx, H>, S, H, St>(executor, message, state, None).await
    }
}

/// The constraint of a handler in this mode. One without does not compile.
fn recorded_by<H: Operation>() -> RecordingConstraint<H> {
    // A constant: the mistake is found when the handler is compiled, not when it runs.
    const {
        match H::RECORDED_BY {
            Some(by) => by,
            None => panic!("a handler whose mode is `RecordedBy` says what it is `RECORDED_BY`"),
        }
    }
}

/// Why a message of a session is refused. The handler's table knows its own keys, and no numbers of sessions.
const IN_SESSION: &str = "a handler that its own table records serves no sessions: send the request \
                          without the headers of one, or leave `recorded_by` out of the handler";

/// Why a numbered message is refused. The handler's table does not know below which number of a sequence all is done.
const IN_SEQUENCE: &str = "a handler that its own table records cannot be one of numbered messages: \
                           leave `RECORDED_BY` or `SEQUENCE` out of the handler";

/// An attempt. It is under a lease only if an earlier one may have begun, or somebody awaits the answer.
struct RecordedByClaim<Tx, H: Operation> {
    /// How to find the database's error in the handler's.
    by: RecordingConstraint<H>,
    /// The row that the handler is to insert: its constraint, and the values that the message names.
    entity: RecordedRow,
    /// `None` for a first delivery that nobody awaits: a claim would be two writes more, to protect what the constraint
    /// protects anyway.
    lease: Option<Lease>,
    /// Until this is dropped, the key is worked on in this process, and no copy of the message begins here.
    working: Working,
    /// What the handler borrows.
    lends: PhantomData<fn() -> Tx>,
}

impl<Tx, H: Operation> RecordedByClaim<Tx, H> {
    /// What the handler is told.
    fn to_attempt(&self, policy: &Policy) -> Attempt {
        let max = policy.max_attempts();
        match &self.lease {
            // An earlier attempt that vanished was rolled back with its transaction.
            Some(lease) => lease.to_attempt(max).without_doubt(),
            // The first, as far as is known. No fencing token goes with it.
            None => Attempt::unrecorded(max),
        }
    }
}

/// How a message ends in this mode.
type Ending<H> = Execution<<H as Operation>::Output, <H as Operation>::Error>;

impl<S, Tx, H> Claiming<S, H> for RecordedByClaim<Tx, H>
where
    S: RecordedByStore<Tx>,
    Tx: Send + 'static,
    H: Operation,
    H::Mode: for<'l> Mode<Lent<'l> = &'l mut Tx>,
{
    type Transaction = S::Transaction;
    type Ended = Ending<H>;

    fn claim(
        job: &mut Job<'_, S>,
        body: &H::Message,
        envelope: &Envelope,
    ) -> impl Future<Output = Result<Granted<Self, S::Transaction>, Ending<H>>> {
        // Named here and not in the future: that would hold a reference to the message over an await, and messages need
        // not be `Sync`.
        let named = entity::<H>(job.request, body, envelope);
        async { job.begin_recorded(named?).await }
    }

    fn describe_attempt(&self, policy: &Policy) -> Attempt {
        self.to_attempt(policy)
    }

    fn limit(store: &Measured<S>) -> Option<Duration> {
        store.time_limit()
    }

    fn lend(transaction: &mut S::Transaction) -> &mut Tx {
        S::lend(transaction)
    }

    async fn uncalled(
        self,
        job: &mut Job<'_, S>,
        transaction: S::Transaction,
        kept: KeptLease,
        why: Uncalled,
    ) -> Ending<H> {
        // No heartbeat goes on beside the release: after it the store would refuse an extension as fenced.
        drop(kept);
        // First: the release takes as long as the store is away, and others wait for the connection.
        job.executor.roll_back(transaction).await;
        // Without a claim there is no record, and none is made: the message is dead-lettered, and nothing ran.
        let lease = self.lease.as_ref();
        job.executor.give_back_uncalled(lease, why).await
    }

    async fn finish(
        self,
        job: &mut Job<'_, S>,
        transaction: S::Transaction,
        kept: KeptLease,
        ran: Ran<Result<H::Output, H::Error>>,
    ) -> Ending<H> {
        // Before the end is written: a heartbeat beside it would be refused as fenced.
        drop(kept);
        let finisher = RecordedByFinisher { job, claim: &self };
        let ended = finisher.write(transaction, ran).await;
        job.history.losses.count(&ended);
        // Last: a copy that is woken here finds the row, or the record of the failure. It gets no answer from here, as
        // copies do in other modes: the table knows that the work is done, not with which output.
        drop(self.working);
        ended
    }
}

/// What the handler's table is to hold when the message is done: the row that its key names. `Err` if there can be
/// none; then nothing was claimed, and the message is dead-lettered.
fn entity<H: Operation>(
    request: &ClaimRequest,
    body: &H::Message,
    envelope: &Envelope,
) -> Result<(RecordingConstraint<H>, RecordedRow), Ending<H>> {
    // Told as a mistake in the message: no other attempt and no other worker would do better.
    let unfit = match request.position {
        Position::None => None,
        Position::Session(_) => Some(IN_SESSION),
        Position::Sequence(_) => Some(IN_SEQUENCE),
    };
    if let Some(why) = unfit {
        let error = why.into();
        return Err(Execution::Undecodable { error });
    }
    let by = recorded_by::<H>();
    // The user's own code: a panic of it must not end the worker's task.
    let entity = guarded::caught(|| by.entity(body, envelope));
    let entity = entity.map_err(|panic| Execution::Undecodable {
        error: format!("naming its key panicked: {panic}"),
    })?;
    // A message whose key has no value for a column could be inserted again and again.
    let entity = entity.map_err(|error| Execution::Keyless { error })?;
    Ok((by, entity))
}

impl<S: Store> Job<'_, S> {
    /// Marks the key, opens the transaction, and claims if the message may have been attempted before.
    ///
    /// Dropped half way, it leaves a claim that was made to its lease. The mark in this process goes with it.
    async fn begin_recorded<Tx, H>(
        &mut self,
        (by, entity): (RecordingConstraint<H>, RecordedRow),
    ) -> Result<Granted<RecordedByClaim<Tx, H>, S::Transaction>, Ending<H>>
    where
        S: RecordedByStore<Tx>,
        H: Operation,
    {
        // What was handled leaves no fingerprint, so there is nothing to compare.
        self.request.fingerprint = None;
        // Before the transaction, which a copy would keep open for nothing. A copy elsewhere waits at the index; here
        // there is a cheaper place to wait.
        let Some(working) = self.executor.in_flight.enter_alone(&self.request.key) else {
            // `remaining` is a guess: how long the other takes nobody knows. Whoever waits is woken when it ends.
            let remaining = self.request.lease;
            return Err(Execution::Conflict { remaining });
        };
        let (transaction, lease, kept) = match self.open_recorded(&entity).await {
            Ok(opened) => opened,
            Err(not_run) => {
                // Otherwise dropping `working` would wake this very message: the key may be held elsewhere.
                working.step_back();
                return Err(not_run.into_execution(self.requester));
            }
        };
        // From here on it counts as attempted: if it comes again, it is claimed first, and so counted.
        self.history.attempted = true;
        // `working` goes with the claim: copies here wait until this one has ended.
        let claim = RecordedByClaim {
            by,
            entity,
            lease,
            working,
            lends: PhantomData,
        };
        Ok(Granted {
            claim,
            transaction,
            kept,
        })
    }

    /// Opens the transaction, which waits for its turn, and then claims if that is called for: so no lease runs out
    /// meanwhile. The claim commits by itself, so it counts the attempt also if the handler ends the process.
    async fn open_recorded<Tx>(
        &self,
        entity: &RecordedRow,
    ) -> Result<(S::Transaction, Option<Lease>, KeptLease), NotRun>
    where
        S: RecordedByStore<Tx>,
    {
        let executor = self.executor;
        // For how long the handler's insert waits at the index, while a copy elsewhere has its row uncommitted.
        let wait = self.request.lease;
        let recorded = Open::Recorded { entity, wait };
        let transaction = executor.store.open(recorded).await;
        // Nothing was claimed, so nothing is left behind.
        let transaction = transaction.map_err(NotRun::Unavailable)?;
        let refused = match self.claim_if_attempted().await {
            Ok((lease, kept)) => return Ok((transaction, lease, kept)),
            Err(refused) => refused,
        };
        // First, because to give a claim back may take as long as the store is away.
        executor.roll_back(transaction).await;
        Err(match refused {
            NotBegun::Ended(ended) => ended,
            NotBegun::Objected(lease, objection) => executor.object(&lease, objection).await,
        })
    }

    /// The claim of a message that may have been attempted before, or whose answer somebody awaits; nothing for any
    /// other.
    async fn claim_if_attempted<Tx>(&self) -> Result<(Option<Lease>, KeptLease), NotBegun>
    where
        S: RecordedByStore<Tx>,
    {
        let executor = self.executor;
        // A requester that asks again may have been refused, and is to be told the same: only a claim knows. Anybody
        // else finds by the row whether it is done.
        if !self.history.attempted && self.requester == Requester::Nobody {
            // Nothing is given back: there is no claim, and the caller rolls the transaction back. With a claim,
            // `objection_without_doubt` looks for this.
            if executor.is_closed() {
                return Err(NotBegun::Ended(NotRun::Abandoned));
            }
            return Ok((None, KeptLease::none()));
        }
        // Before the call: the lease is never thought to end later than it does.
        let asked = Moment::now();
        let lease = lease_or_not_run(executor.store.claim(self.request).await);
        let lease = lease.map_err(NotBegun::Ended)?;
        // It is given back by the caller, who has a transaction to roll back first.
        if let Some(objection) = self.objection_without_doubt(&lease) {
            return Err(NotBegun::Objected(lease, objection));
        }
        // Beside the transaction, as for other atomic work: the handler uses its connection.
        let kept = executor.keep::<Tx>(&lease, self.request, asked);
        Ok((Some(lease), kept))
    }
}

/// Why an attempt does not begin. Its transaction is open, and is rolled back first.
enum NotBegun {
    /// Nothing was claimed, or nobody knows; or the executor is closed.
    Ended(NotRun),
    /// It has a claim, which is to be given back.
    Objected(Lease, Objection),
}
