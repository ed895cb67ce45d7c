//! Grouped execution: the writes and completions of several messages commit together.

use std::{ops::ControlFlow, panic::AssertUnwindSafe};

use futures_util::{FutureExt as _, future::BoxFuture};

use super::{
    Executor, Prepared, Requester, RunsOn, Sharing,
    atomic::{HeldClaim, Open, alone, within},
    grant::{Ended, objection},
    guarded,
    heartbeat::{Moment, Ran, WhileUnknown, extend_open, run_under_heartbeat},
    remembered,
};
use crate::{
    executor::Execution,
    handler::{Context, Grouped, Handler, Mode, Operation, Outcome, Policy},
    store::{
        Claim, ClaimRequest, EntityError, GroupEnd, GroupStore, Lease, Release, StoreError,
        TransactionalStore,
    },
};

impl<S, Tx, const SIZE: usize> RunsOn<S> for Grouped<Tx, SIZE>
where
    S: GroupStore<Tx>,
    Tx: Send + 'static,
{
    fn limit(_: &Executor<S>) -> Option<usize> {
        // Whoever waits for a seat has claimed, and keeps its lease.
        None
    }

    fn sharing<H: Operation<Mode = Self>>(executor: &Executor<S>) -> Option<Sharing> {
        let sharing = Sharing {
            handler: H::SCOPE,
            size: SIZE,
            groups: executor.store.groups(),
        };
        (sharing.size > 1 && sharing.groups > 0).then_some(sharing)
    }

    async fn check<H: Operation<Mode = Self>>(executor: &Executor<S>) -> Result<(), EntityError> {
        if executor.store.groups() == 0 {
            tracing::warn!(
                handler = H::SCOPE,
                "messages cannot share a transaction in this store: each has its own"
            );
        }
        Ok(())
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
        let (_present, others) = executor.concurrency.enter(H::SCOPE);
        let sharing = <Self as RunsOn<S>>::sharing::<H>(executor);
        // A few are sooner done side by side, and with a round trip less.
        // What was delivered before may be what ended its worker, and would claim for all who wait with it. So
        // may what has lost a transaction.
        let may_share = sharing.is_some_and(|sharing| others >= sharing.groups);
        let held = if may_share && !message.attempted && message.losses.are_none() {
            match in_group::<S, Tx, H, St>(executor, message, state, SIZE).await {
                ControlFlow::Break(ended) => return ended,
                ControlFlow::Continue(held) => Some(held),
            }
        } else {
            None
        };
        alone::<S, Tx, H, St>(executor, message, state, held).await
    }
}

/// How a message ran in a group.
enum GroupRun {
    Ended(GroupEnd),
    /// It did not succeed.
    Apart,
    /// It did not begin, because nothing is to begin any more.
    Closed,
    /// There was no seat.
    NoPlace(StoreError),
}

/// One whose handler has succeeded, and how its group ends.
struct Succeeded<T> {
    output: T,
    outcome: Outcome,
    end: BoxFuture<'static, GroupEnd>,
}

/// How a message ended; its claim, if it is to be run by itself.
type InGroup<T, E> = ControlFlow<Execution<T, E>, HeldClaim>;

/// Runs one message in a transaction with others.
async fn in_group<S, Tx, H, St>(
    executor: &Executor<S>,
    message: &mut Prepared<H>,
    state: &St,
    size: usize,
) -> InGroup<H::Output, H::Error>
where
    S: GroupStore<Tx>,
    Tx: Send + 'static,
    H: Handler<St>,
    H::Mode: for<'a> Mode<Lent<'a> = &'a mut Tx>,
    St: Send + Sync + 'static,
{
    let body = match message.take() {
        Ok(body) => body,
        Err(error) => return ControlFlow::Break(Execution::Undecodable { error }),
    };
    let requester = Requester::of(&message.envelope);
    let claimed = Moment::now();
    let claim = executor.claim_for_group(&message.request, &message.policy);
    let lease = match claim.await {
        Ok(lease) => lease,
        Err(ended) => {
            message.put_back(body);
            return ControlFlow::Break(ended.into_execution(requester));
        }
    };
    if lease.attempt > 1 {
        // It may fail again, and would cost the others their transaction. The claim is its own.
        message.put_back(body);
        return ControlFlow::Continue(HeldClaim { lease, claimed });
    }
    let open = Open {
        executor,
        request: &message.request,
        policy: &message.policy,
        lease,
        requester,
        losses: message.losses,
    };
    let working = executor.working(open.request);
    let context = Context {
        state,
        envelope: &message.envelope,
        key: &message.request.key,
        attempt: open
            .lease
            .to_attempt(open.policy.max_attempts())
            .without_doubt(),
    };
    let mut succeeded = None;
    let work = run_in_group::<S, Tx, H, St>(&open, body, &context, size, &mut succeeded);
    let by = open.request.lease;
    let extend = extend_open(&executor.store, &open.lease, by);
    let heartbeats = &executor.heartbeats;
    let ran = run_under_heartbeat(heartbeats, work, extend, claimed, by, WhileUnknown::GoOn).await;
    let ran_in_group = match (ran, succeeded.as_mut()) {
        (Ran::Returned(ran_in_group), _) => ran_in_group,
        // A heartbeat that finds the key completed: the group knows better.
        (_, Some(succeeded)) => GroupRun::Ended((&mut succeeded.end).await),
        (Ran::Panicked(_), None) => GroupRun::Apart,
        (Ran::LeaseLost, None) => return ControlFlow::Break(open.lost()),
    };
    let ended = match (ran_in_group, succeeded) {
        (
            GroupRun::Ended(end),
            Some(Succeeded {
                output, outcome, ..
            }),
        ) => {
            let ended = open.settle_in_group(output, outcome, end).await;
            if let Some(ended) = &ended {
                message.losses.count(ended);
            }
            ended
        }
        (GroupRun::Closed, _) => {
            // Nothing ran: a lost lease changes nothing.
            let _ = executor.release(&open.lease, &Release::Abandoned).await;
            Some(Execution::Abandoned)
        }
        // The claim stays: the same owner has it back.
        (GroupRun::NoPlace(error), _) => Some(Execution::StoreUnavailable { error }),
        (GroupRun::Apart | GroupRun::Ended(_), _) => None,
    };
    match ended {
        Some(ended) => {
            working.tell_copies(&ended, open.request.retention);
            ControlFlow::Break(ended)
        }
        None => ControlFlow::Continue(HeldClaim {
            lease: open.lease,
            claimed,
        }),
    }
}

/// Waits for a seat, runs the handler there, and leaves it if the handler succeeds.
async fn run_in_group<S, Tx, H, St>(
    open: &Open<'_, S>,
    body: H::Message,
    context: &Context<'_, St>,
    size: usize,
    succeeded: &mut Option<Succeeded<H::Output>>,
) -> GroupRun
where
    S: GroupStore<Tx>,
    Tx: Send + 'static,
    H: Handler<St>,
    H::Mode: for<'a> Mode<Lent<'a> = &'a mut Tx>,
    St: Send + Sync + 'static,
{
    let store = &open.executor.store;
    let mut seat = match store.seat(H::SCOPE, size).await {
        Ok(seat) => seat,
        Err(error) => return GroupRun::NoPlace(error),
    };
    if open.executor.is_closed() {
        return GroupRun::Closed;
    }
    let Ok(work) = guarded::call::<H, St>(
        body,
        context,
        S::lend_seat(&mut seat),
        &open.executor.handlers,
    ) else {
        return GroupRun::Apart;
    };
    let work = within(store.time_limit(), work);
    // Caught here, so that the seat is dropped before the message is run by itself.
    let Ok(Ok(Ok(output))) = AssertUnwindSafe(work).catch_unwind().await else {
        return GroupRun::Apart;
    };
    let Ok(outcome) = remembered::output(&output, open.policy) else {
        return GroupRun::Apart;
    };
    let end = store.leave(seat, &open.lease, &outcome, open.request.retention);
    let succeeded = succeeded.insert(Succeeded {
        output,
        outcome,
        end,
    });
    GroupRun::Ended((&mut succeeded.end).await)
}

impl<S: crate::store::Store> Open<'_, S> {
    async fn settle_in_group<T, E: crate::handler::Failure>(
        &self,
        output: T,
        outcome: Outcome,
        end: GroupEnd,
    ) -> Option<Execution<T, E>> {
        match end {
            GroupEnd::Committed => Some(Execution::Executed {
                output,
                outcome,
                attempt: self.lease.attempt,
            }),
            GroupEnd::WithoutCompletion => Some(self.whose(output, outcome).await),
            GroupEnd::RolledBack => None,
            GroupEnd::Unknown(error) => Some(self.ask_again(output, outcome, error).await),
        }
    }
}

impl<S: crate::store::Store> Executor<S> {
    /// Claims, unless something speaks against running.
    async fn claim_for_group<Tx>(
        &self,
        request: &ClaimRequest,
        policy: &Policy,
    ) -> Result<Lease, Ended>
    where
        S: GroupStore<Tx>,
    {
        let lease = match self.store.claim_for_group(request).await {
            Ok(Claim::Acquired(lease)) => lease,
            Ok(answer) => return Err(Ended::Answered(answer)),
            Err(error) => return Err(Ended::Unavailable(error)),
        };
        match objection(&lease, policy, self.is_closed(), false) {
            Some(objection) => Err(self.object(&lease, &objection).await),
            None => Ok(lease),
        }
    }
}
