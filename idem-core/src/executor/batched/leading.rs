//! Runs a batch: one of its messages calls the handler for all of them, and tells each how it ended.
//!
//! What must stay true: no handler is called in a closed executor; the handler's future is dropped before any member is
//! told; a member is told once; if the call fails, each half of the members is called with again, and who is left alone is
//! told to run by itself.

use std::pin::pin;

use tokio::{task::yield_now, time::timeout};

use super::{BatchQueue, Batching, RanTogether, Waiting};
use crate::{
    executor::{
        Executor, guarded,
        heartbeat::{Limit, Ran, run_all_within},
    },
    handler::{Batch, BatchOptions, Handler, Member, Policy},
    store::Store,
};

/// One message's part in calling the handler for many.
pub(super) struct Leader<'a, S, St> {
    pub(super) executor: &'a Executor<S>,
    pub(super) policy: &'a Policy,
    pub(super) state: &'a St,
}

impl<S: Store, St: Send + Sync + 'static> Leader<'_, S, St> {
    /// Takes what waits, and calls the handler with it. If nobody waits but the leader, it gets what was opened, and is told
    /// to run by itself.
    ///
    /// Dropped half way, it drops the handler's future; those who were told nothing run by themselves.
    pub(super) async fn lead<H>(
        &self,
        queue: &BatchQueue<H>,
        batch: BatchOptions,
        number: u64,
    ) -> Option<<H::Mode as Batching<S, H>>::Shared>
    where
        H: Handler<St>,
        H::Mode: Batching<S, H>,
    {
        let executor = self.executor;
        // Those whose claims were answered together with this one have not come yet.
        yield_now().await;
        if !batch.longest_wait().is_zero() {
            tokio::select! {
                _ = timeout(batch.longest_wait(), queue.full(batch, number)) => {}
                () = executor.closed.closing() => {}
            }
        }
        // What waits when a transaction is there, and no sooner.
        let mut shared = self.open::<H>().await;
        let members = queue.take(batch);
        if let [alone] = &members[..]
            && alone.number == number
        {
            return shared;
        }
        // The batch, or what is left of it, half after half.
        let mut left = vec![members];
        while let Some(members) = left.pop() {
            // Who is alone runs by itself.
            if members.len() <= 1 {
                continue;
            }
            if executor.is_closed() {
                members.into_iter().for_each(Waiting::close);
                continue;
            }
            let opened = match shared.take() {
                Some(shared) => Some(shared),
                None => self.open::<H>().await,
            };
            // Without a transaction, each finds out by itself what there is to it.
            let Some(opened) = opened else {
                continue;
            };
            let mut again = self.run(members, opened).await;
            if again.len() > 1 {
                executor.handlers.batch_halved(H::SCOPE);
                let mut half = again.split_off(again.len().div_ceil(2));
                // The leader's own half last: it ends its own claim only when it has led.
                if half.iter().any(|it| it.number == number) {
                    std::mem::swap(&mut half, &mut again);
                }
                left.push(again);
                left.push(half);
            } else {
                left.push(again);
            }
        }
        if let Some(unused) = shared {
            H::Mode::undo(executor, unused).await;
        }
        None
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
            opened = H::Mode::open(executor) => opened.ok(),
            () = executor.closed.closing() => None,
        }
    }

    /// Calls the handler once. Whom it returns has to be called again, with fewer.
    async fn run<H>(
        &self,
        members: Vec<Waiting<H>>,
        mut shared: <H::Mode as Batching<S, H>>::Shared,
    ) -> Vec<Waiting<H>>
    where
        H: Handler<St>,
        H::Mode: Batching<S, H>,
    {
        let executor = self.executor;
        // Whose lease is lost by now is not called: that would end the call for the others, too.
        let (lost, held): (Vec<_>, Vec<_>) = members.into_iter().partition(Waiting::has_lost_lease);
        for member in lost {
            member.tell(Ran::LeaseLost, None);
        }
        let mut members = held;
        // Who cannot be decoded again runs by itself, and is told there.
        let batch = batch_of(&mut members);
        if members.len() <= 1 {
            H::Mode::undo(executor, shared).await;
            return members;
        }
        executor.handlers.batch_called(H::SCOPE, members.len());
        let ran = self.call::<H>(batch, &mut members, &mut shared).await;
        let error = match ran {
            Some(Ran::Returned(Ok(results))) if results.len() == members.len() => {
                let claims: Vec<_> = members.iter().map(|it| &it.claimed).collect();
                let Some(outcomes) = H::Mode::outcomes(&claims, &results) else {
                    H::Mode::undo(executor, shared).await;
                    return members;
                };
                let ended = H::Mode::end(executor, shared, &claims, outcomes).await;
                let Some(ended) = ended else {
                    return members;
                };
                for ((member, result), ended) in members.into_iter().zip(results).zip(ended) {
                    member.tell(Ran::Returned(result), ended);
                }
                return Vec::new();
            }
            Some(Ran::Returned(Ok(results))) => {
                format!("{} results for {} messages", results.len(), members.len())
            }
            Some(Ran::Returned(Err(error))) => guarded::cause(error).to_string(),
            Some(Ran::Panicked(message)) => format!("the handler panicked: {message}"),
            Some(Ran::Overdue(limit)) => {
                crate::executor::Cause::<H::Error>::from(limit).to_string()
            }
            Some(Ran::LeaseLost) => {
                H::Mode::undo(executor, shared).await;
                return lease_lost::<S, H>(members);
            }
            // It takes one message at a time: dropped, each runs by itself.
            None => {
                H::Mode::undo(executor, shared).await;
                return Vec::new();
            }
        };
        H::Mode::undo(executor, shared).await;
        tracing::debug!(
            handler = H::SCOPE,
            messages = members.len(),
            error,
            "a batch failed, and its messages are called again, half of them at a time"
        );
        members
    }

    /// How the handler's future ended; `None` if there is none.
    async fn call<H>(
        &self,
        batch: Batch<H::Message, H::Error>,
        members: &mut [Waiting<H>],
        shared: &mut <H::Mode as Batching<S, H>>::Shared,
    ) -> Option<RanTogether<H>>
    where
        H: Handler<St>,
        H::Mode: Batching<S, H>,
    {
        let executor = self.executor;
        let lent = H::Mode::lend(shared);
        let work = match guarded::caught(|| H::call_batch(batch, self.state, lent)) {
            Ok(Ok(work)) => work,
            Ok(Err(_)) => return None,
            Err(panic) => return Some(Ran::Panicked(panic)),
        };
        let work = pin!(executor.handlers.run(H::SCOPE, 1, false, work));
        let limit = Limit::shorter(self.policy.timeout(), H::Mode::limit(&executor.store));
        let mut leases = Vec::with_capacity(members.len());
        for member in members.iter_mut() {
            // Until the handler has returned: if this is dropped before, nobody knows what it did.
            member.in_doubt = H::Mode::LEAVES_DOUBT;
            leases.push(member.kept());
        }
        let ran = run_all_within(&mut leases, limit, work).await;
        if !matches!(ran, Ran::LeaseLost) {
            for member in members.iter_mut() {
                member.in_doubt = false;
            }
        }
        Some(ran)
    }
}

/// The batch of these. Who cannot be decoded anew is dropped from among them.
fn batch_of<H: crate::handler::Operation>(
    members: &mut Vec<Waiting<H>>,
) -> Batch<H::Message, H::Error> {
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
        messages.push(Member::new(message, key, envelope, it.attempt));
        true
    });
    Batch::new(messages)
}

/// Tells those whose key another worker has, and says who is called again.
fn lease_lost<S, H>(members: Vec<Waiting<H>>) -> Vec<Waiting<H>>
where
    S: Store,
    H: crate::handler::Operation,
    H::Mode: Batching<S, H>,
{
    let (lost, others): (Vec<_>, Vec<_>) = members.into_iter().partition(Waiting::has_lost_lease);
    for member in lost {
        member.tell(Ran::LeaseLost, None);
    }
    if H::Mode::LEAVES_DOUBT {
        // Dropped in the middle, and in doubt: each runs by itself.
        Vec::new()
    } else {
        others
    }
}
