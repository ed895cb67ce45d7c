//! Runs a batch: one of its messages calls the handler for all of them, and tells each how it ended.
//!
//! [`share`](super::share) calls [`Leader::lead`] when the message has its permit. What a batch opens, and how its
//! claims are ended, is the mode's ([`Batching`]). A member is told by [`Waiting::tell`]; one that is dropped instead
//! is told to run by itself, and so it goes wherever this file drops members.
//!
//! What must stay true:
//!
//! - No handler is called in a closed executor.
//! - The handler's future is dropped before any member is told.
//! - A member is told once.
//! - If the call fails, the handler is called again with each half of the members, as long as one of two halves
//!   succeeds. Whoever is left is told to run by itself.
//! - After one call that took too long there is no other.

use std::{mem, pin::pin, sync::Arc, time::Duration};

use tokio::{task::yield_now, time::timeout};

use super::{
    Batching,
    queue::{Earlier, LeadPermit, Waiting},
};
use crate::{
    executor::{
        Cause, Executor, guarded,
        heartbeat::{Limit, Ran, run_all_within},
    },
    handler::{Batch, BatchOptions, Handler, Member, Operation, Outbox, Policy},
    store::Store,
};

/// One message's part in calling the handler for many.
pub(super) struct Leader<'a, S, St> {
    /// The members' executor, too: a queue belongs to one.
    pub(super) executor: &'a Executor<S>,
    /// The leader's own. Only its timeout counts, which all members have in common.
    pub(super) policy: &'a Policy,
    /// What all members are called with: it is the same for all of them.
    pub(super) state: &'a St,
}

impl<S: Store, St: Send + Sync + 'static> Leader<'_, S, St> {
    /// Takes what waits, and calls the handler with it; or goes on with what another one has left of its batch. If
    /// nobody waits but the leader, it gets what was opened, and its permit back, and is told to run by itself.
    ///
    /// `number` is that of the leader, by which it finds itself among the members.
    ///
    /// Dropped half way, it drops the handler's future; those who were told nothing run by themselves.
    pub(super) async fn lead<H>(
        &self,
        mut permit: LeadPermit<H>,
        batch: BatchOptions,
        number: u64,
    ) -> Option<(<H::Mode as Batching<S, H>>::Shared, LeadPermit<H>)>
    where
        H: Handler<St>,
        H::Mode: Batching<S, H>,
    {
        // The members for whom the last call has failed. At first those whose batch another message has led so far, if
        // this permit was handed over; then there is nothing to gather.
        let mut failed = permit.left();
        if failed.is_empty() {
            self.gather(&mut permit, batch).await;
            // First the transaction, then the batch: what comes while it is opened goes along.
            let shared = self.open::<H>().await;
            let members = permit.take(batch);
            // That one is the leader. Dropped here, it is told to run by itself, and it has the transaction for that.
            if members.len() == 1 {
                return Some((shared?, permit));
            }
            // Boxed, as below: unoptimised, `run` takes a large part of the stack.
            let run = Box::pin(self.run(members, shared, Round::First));
            match permit.hold_for(self.patience(), run).await {
                Call::Failed(members) => failed = members,
                Call::Ended | Call::TooSlow => return None,
            }
        }
        // The half that fails is halved again, to find the message that it fails of. Halves of two messages would be
        // single ones, so each of these runs by itself.
        while failed.len() > 2 {
            if !failed.iter().any(|it| it.number == number) {
                // The leader's half has succeeded. It has been told its end, but returns it only when it leads no more,
                // and until then its message is not settled. So one of those who are left leads on.
                permit.hand_over(failed);
                return None;
            }
            let mut half = failed.split_off(failed.len().div_ceil(2));
            // The leader's own half last: if it succeeds, nothing is left that the leader would have to wait for.
            if half.iter().any(|it| it.number == number) {
                mem::swap(&mut half, &mut failed);
            }
            let run = Box::pin(self.run_again(half));
            let others = permit.hold_for(self.patience(), run).await;
            if let Call::TooSlow = others {
                return None;
            }
            let run = Box::pin(self.run_again(failed));
            let own = permit.hold_for(self.patience(), run).await;
            // If both fail, it is not one message's failure, and halving on would be one failed call after the other.
            // Each runs by itself, side by side. Otherwise the half that has failed alone holds the message that it
            // fails of.
            failed = match (others, own) {
                (Call::Ended, Call::Failed(left)) | (Call::Failed(left), Call::Ended) => left,
                _ => return None,
            };
        }
        None
    }

    /// How long a call keeps others from beginning beside it: longer ones may hang, or rest because the store does not
    /// confirm their leases.
    fn patience(&self) -> Duration {
        self.policy.lease() / 2
    }

    /// Waits for those who come with the leader, and as long as a batch is to wait for others.
    async fn gather<H: Operation>(&self, permit: &mut LeadPermit<H>, batch: BatchOptions) {
        // Claims share a statement, and their answers wake their messages together. This lets the others run up to
        // their place in the queue before the batch is taken.
        yield_now().await;
        // Only if the handler asks for it. It ends early if the batch is full, or if nothing is to be called any more.
        if !batch.longest_wait().is_zero() {
            tokio::select! {
                _ = timeout(batch.longest_wait(), permit.full(batch)) => {}
                () = self.executor.closed.closing() => {}
            }
        }
    }

    /// Opens what the batch shares. A closed executor waits for nothing: others may need a connection for long.
    async fn open<H>(&self) -> Option<<H::Mode as Batching<S, H>>::Shared>
    where
        H: Handler<St>,
        H::Mode: Batching<S, H>,
    {
        let executor = self.executor;
        tokio::select! {
            biased;
            // Why there is none is not told here: each member runs by itself, and finds out.
            opened = H::Mode::open(executor) => opened.ok(),
            () = executor.closed.closing() => None,
        }
    }

    /// Calls the handler with some of those with whom a call has failed.
    async fn run_again<H>(&self, members: Vec<Waiting<H>>) -> Call<H>
    where
        H: Handler<St>,
        H::Mode: Batching<S, H>,
    {
        // Who is alone runs by itself, and finds there whether the executor is closed.
        if members.len() <= 1 || self.executor.is_closed() {
            return Call::Ended;
        }
        // A transaction of its own: that of the last call is rolled back.
        let shared = self.open::<H>().await;
        self.run(members, shared, Round::Again).await
    }

    /// Calls the handler once, for as many of these as can be called, and ends what came of it. All are told, or run by
    /// themselves, but for those that it has failed for.
    async fn run<H>(
        &self,
        members: Vec<Waiting<H>>,
        shared: Option<<H::Mode as Batching<S, H>>::Shared>,
        round: Round,
    ) -> Call<H>
    where
        H: Handler<St>,
        H::Mode: Batching<S, H>,
    {
        let executor = self.executor;
        // Without a transaction nobody can be called: dropped here, each finds out by itself what is the matter.
        let Some(mut shared) = shared else {
            return Call::Ended;
        };
        // Looked at again, because the wait for the transaction may have been long.
        if executor.is_closed() {
            H::Mode::undo(executor, shared).await;
            return Call::Ended;
        }
        // Whose lease is lost by now is not called: that would end the call for the others, too.
        let (lost, held): (Vec<_>, Vec<_>) = members.into_iter().partition(Waiting::has_lost_lease);
        for member in lost {
            member.tell(Ran::LeaseLost, None);
        }
        let mut members = held;
        // Who cannot be decoded again is left out of it, runs by itself, and is told there.
        let batch = batch_of(&mut members);
        // One that is left alone runs by itself: only that counts as its attempt.
        if members.len() <= 1 {
            H::Mode::undo(executor, shared).await;
            return Call::Ended;
        }
        let results = match self.call::<H>(batch, &mut members, &mut shared).await {
            Ok(results) => results,
            Err(why) => {
                // Before anybody is called again: the next transaction would wait for the locks of this one.
                H::Mode::undo(executor, shared).await;
                return match why {
                    NotDone::Failed(error) => {
                        Call::Failed(self.failed::<H>(members, &error, round))
                    }
                    // Each runs by itself, side by side: one after the other, halves would take as long again and
                    // again.
                    NotDone::Overdue(error) => {
                        self.failed::<H>(members, &error, round);
                        Call::TooSlow
                    }
                    NotDone::LeaseLost => {
                        executor.handlers.batch_halved(H::SCOPE);
                        tracing::warn!(
                            handler = H::SCOPE,
                            messages = members.len(),
                            "a call of a batch was dropped, because the lease of one of its messages is lost or cannot be confirmed: the others run again"
                        );
                        match lease_lost(members) {
                            none if none.is_empty() => Call::Ended,
                            others => Call::Failed(others),
                        }
                    }
                    NotDone::Apart => Call::Ended,
                };
            }
        };
        // The handler has returned, so from here on nothing of it writes any more. First what is remembered of each,
        // while all of it can still be undone.
        let claims: Vec<_> = members.iter().map(|it| &it.claimed).collect();
        let Some(outcomes) = H::Mode::outcomes(&claims, &results) else {
            H::Mode::undo(executor, shared).await;
            let members = self.failed::<H>(members, "an output cannot be remembered", round);
            return Call::Failed(members);
        };
        // Then the end of the claims, as far as the members share it. On an error nothing of it is done.
        let ended = match H::Mode::end(executor, shared, &claims, outcomes).await {
            Ok(ended) => ended,
            Err(error) => return Call::Failed(self.failed::<H>(members, &error, round)),
        };
        // The handler may have failed a member for what another one wrote. As long as nobody knows whether that is
        // committed, a failed member is not told of it: dropped, it runs by itself.
        let is_unknown = ended.iter().flatten().any(|it| it.committed.is_err());
        // Last the members: they are told what is committed, and nothing before that.
        for ((member, result), ended) in members.into_iter().zip(results).zip(ended) {
            if is_unknown && result.is_err() {
                continue;
            }
            member.tell(Ran::Returned(result), ended);
        }
        Call::Ended
    }

    /// Notes that a call with these has failed of this: in the log, in the metrics, and with each member if the call
    /// may have had effects. Returns them, to be called again or dropped.
    fn failed<H>(&self, mut members: Vec<Waiting<H>>, error: &str, round: Round) -> Vec<Waiting<H>>
    where
        H: Handler<St>,
        H::Mode: Batching<S, H>,
    {
        self.executor.handlers.batch_halved(H::SCOPE);
        let (handler, messages) = (H::SCOPE, members.len());
        // Once for each batch as a warning: what follows is the search for the message that it failed of.
        match round {
            Round::First => tracing::warn!(
                handler,
                messages,
                error,
                "a batch failed: its messages are called again, fewer at a time"
            ),
            Round::Again => tracing::debug!(handler, messages, error, "a part of a batch failed"),
        }
        // Each is told of the doubt when it is called again, and its key is released as failed if the executor is
        // closed before that.
        if H::Mode::LEAVES_DOUBT {
            let error: Arc<str> = error.into();
            for member in &mut members {
                member.earlier = Earlier::Failed(Arc::clone(&error));
            }
        }
        members
    }

    /// Calls the handler: its results, as many as there are members, or why there are none.
    async fn call<H>(
        &self,
        batch: Batch<H::Message, H::Error>,
        members: &mut [Waiting<H>],
        shared: &mut <H::Mode as Batching<S, H>>::Shared,
    ) -> Result<Vec<Result<H::Output, H::Error>>, NotDone>
    where
        H: Handler<St>,
        H::Mode: Batching<S, H>,
    {
        let executor = self.executor;
        let lent = H::Mode::lend(shared);
        let panicked = |panic| NotDone::Failed(Cause::<H::Error>::Panicked(panic).to_string());
        // A handler that panics while it makes its future fails the call, like one that panics later.
        let called = guarded::caught(|| H::call_batch(batch, self.state, lent));
        let Ok(work) = called.map_err(panicked)? else {
            // It has no `call_batch`: dropped, each is called alone.
            return Err(NotDone::Apart);
        };
        let messages = members.len();
        let in_doubt = members.iter().any(|it| it.earlier.leaves_doubt());
        let (mut leases, mut earlier) = (Vec::new(), Vec::new());
        for member in members.iter_mut() {
            let parts = member.called();
            leases.push(parts.0);
            earlier.push(parts.1);
        }
        // Not before the handler is polled: while one of the leases may be over it is not, and nothing of it happens.
        let work = async move {
            executor.handlers.batch_called(H::SCOPE, messages);
            if H::Mode::LEAVES_DOUBT {
                // If this future is dropped from here on, nobody knows what the handler did. When it has returned, its
                // members are told, or `failed` overwrites this.
                for earlier in earlier {
                    *earlier = Earlier::Dropped;
                }
            }
            work.await
        };
        // The 1 is the number of the attempt: only first attempts are in a batch.
        let work = pin!(executor.handlers.run(H::SCOPE, 1, in_doubt, work));
        let limit = Limit::shorter(self.policy.timeout(), H::Mode::limit(&executor.store));
        // Under all leases at once: while one may be over, the handler must not work for that key either.
        match run_all_within(&mut leases, limit, work).await {
            // Results belong to members by their places. Any other number of them says of no member what became of it.
            Ran::Returned(Ok(results)) if results.len() == messages => Ok(results),
            Ran::Returned(Ok(results)) => Err(NotDone::Failed(format!(
                "{} results for {messages} messages",
                results.len()
            ))),
            Ran::Returned(Err(error)) => Err(NotDone::Failed(guarded::cause(error).to_string())),
            Ran::Panicked(panic) => Err(panicked(panic)),
            Ran::Overdue(limit) => {
                Err(NotDone::Overdue(Cause::<H::Error>::from(limit).to_string()))
            }
            Ran::LeaseLost => Err(NotDone::LeaseLost),
        }
    }
}

/// What came of a call, for those who lead.
enum Call<H: Operation> {
    /// Its members were told, or run by themselves.
    Ended,
    /// It has failed for these, and may succeed if they are fewer.
    Failed(Vec<Waiting<H>>),
    /// It took longer than it may. Its members run by themselves, and so do all who are left: a further call may take as
    /// long.
    TooSlow,
}

/// Which call of the handler it is for a batch.
#[derive(Debug, Clone, Copy)]
enum Round {
    First,
    /// The handler is called again, with a part of the batch.
    Again,
}

/// Why a call has no results.
enum NotDone {
    /// The call has failed, with this error.
    Failed(String),
    /// It was dropped, because it took longer than it may. No part of it is called again: it would take as long.
    Overdue(String),
    /// It was dropped, because a lease is lost, or because the store confirms others but not that one.
    LeaseLost,
    /// The handler takes one message at a time.
    Apart,
}

/// The batch of these, in their order: results come back by their places. Who cannot be decoded anew is dropped from
/// among them, and so runs by itself.
fn batch_of<H: Operation>(members: &mut Vec<Waiting<H>>) -> Batch<H::Message, H::Error> {
    let mut messages = Vec::with_capacity(members.len());
    members.retain_mut(|it| {
        let message = it.message.take().map_or_else(
            // An earlier batch has used it up.
            || guarded::decode::<H>(&it.envelope),
            Ok,
        );
        let Ok(message) = message else {
            return false;
        };
        let (key, envelope) = (it.key.clone(), it.envelope.clone());
        let attempt = match it.earlier {
            Earlier::Nothing => it.attempt,
            Earlier::Dropped | Earlier::Failed(_) => it.attempt.in_doubt(),
        };
        // An earlier call may have published and then failed.
        let outbox = it.claimed.outbox.as_ref().map(Outbox::of_next_call);
        messages.push(Member::new(message, key, envelope, attempt, outbox));
        true
    });
    Batch::new(messages)
}

/// Tells those whose key another worker has, and says who is called again: those whose lease holds. If the store only
/// does not confirm a lease, its message is dropped here, and waits by itself.
fn lease_lost<H: Operation>(members: Vec<Waiting<H>>) -> Vec<Waiting<H>> {
    let (lost, others): (Vec<_>, Vec<_>) = members.into_iter().partition(Waiting::has_lost_lease);
    for member in lost {
        member.tell(Ran::LeaseLost, None);
    }
    if others.iter().any(|it| it.earlier.leaves_doubt()) {
        // Dropped in the middle, and in doubt: each runs by itself.
        return Vec::new();
    }
    others.into_iter().filter(Waiting::holds_lease).collect()
}
