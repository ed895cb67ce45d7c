//! The queue in front of a store's connection: calls that wait while a batch is under way share
//! the next one.
//!
//! A store sends its calls through a [`Batcher`]; the task that owns the connection takes batches out of the [`Queue`],
//! and ends when the last clone of the batcher is dropped. What must stay true:
//!
//! - A caller hears the answer to its own call, or that the task has ended.
//! - Calls keep the order in which they came.

use std::mem;

use tokio::sync::{mpsc, oneshot};

use crate::store::StoreError;

#[cfg(test)]
mod tests;

/// How much goes together. As much as there are callers may wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// How many calls a batch has at most, so that the first of them does not wait for ever.
    pub(super) calls: usize,
    /// How many bytes a batch has at most, unless its only call has more.
    pub(super) bytes: usize,
}

/// What waits in a queue.
pub(super) trait Queued: Send + 'static {
    /// How many bytes it sends, about.
    fn bytes(&self) -> usize;

    /// Whether it is to be carried out.
    fn is_wanted(&self) -> bool;
}

/// What a caller asks.
pub(super) trait Call: Send + 'static {
    type Answer: Send;

    /// How many bytes it sends, about.
    fn bytes(&self) -> usize;

    /// Whether it is left out once its caller has gone. A claim is: nobody would work under it, and
    /// its key would wait for the lease to end. A write is not.
    fn may_be_dropped(&self) -> bool;
}

/// A call whose caller waits for the answer.
#[derive(Debug)]
pub(super) struct Waiting<C: Call> {
    pub(super) call: C,
    caller: oneshot::Sender<C::Answer>,
    asked: u8,
}

/// How often a call is asked again because the store could not say yet, before it is given up.
pub(super) const ASKED_AT_MOST: u8 = 20;

impl<C: Call> Waiting<C> {
    pub(super) fn new(call: C) -> (Self, oneshot::Receiver<C::Answer>) {
        let (caller, answer) = oneshot::channel();
        let waiting = Self {
            call,
            caller,
            asked: 0,
        };
        (waiting, answer)
    }

    pub(super) fn answer(self, answer: C::Answer) {
        // A caller that was dropped meanwhile does not care.
        let _ = self.caller.send(answer);
    }

    /// Whether it has been asked before.
    pub(super) fn is_repeated(&self) -> bool {
        self.asked > 0
    }

    /// Counts that the store could not say yet; `Err` if it was asked often enough.
    pub(super) fn ask_again(mut self) -> Result<Self, Self> {
        self.asked += 1;
        if self.asked < ASKED_AT_MOST {
            Ok(self)
        } else {
            Err(self)
        }
    }
}

impl<C: Call> Queued for Waiting<C> {
    fn bytes(&self) -> usize {
        self.call.bytes()
    }

    fn is_wanted(&self) -> bool {
        !(self.call.may_be_dropped() && self.caller.is_closed())
    }
}

/// Sends calls to the task that owns the [`Queue`].
#[derive(Debug)]
pub(super) struct Batcher<W>(mpsc::UnboundedSender<W>);

impl<W> Clone for Batcher<W> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<W: Queued> Batcher<W> {
    pub(super) fn new(limits: Limits) -> (Self, Queue<W>) {
        let (sender, arriving) = mpsc::unbounded_channel();
        let queue = Queue {
            arriving,
            waiting: Vec::new(),
            limits,
        };
        (Self(sender), queue)
    }

    /// Queues a call that has a way of its own to its caller.
    pub(super) fn send(&self, call: W) -> Result<(), TaskEnded> {
        self.0.send(call).map_err(|_| TaskEnded)
    }
}

impl<C: Call> Batcher<Waiting<C>> {
    /// Queues a call, and waits for its answer.
    ///
    /// # Cancel safety
    /// Dropped, the call may still be carried out.
    pub(super) async fn call(&self, call: C) -> Result<C::Answer, TaskEnded> {
        let (waiting, answer) = Waiting::new(call);
        self.send(waiting)?;
        answer.await.map_err(|_| TaskEnded)
    }
}

/// The calls that wait, in the order in which they came.
pub(super) struct Queue<W> {
    arriving: mpsc::UnboundedReceiver<W>,
    /// What did not fit into the last batch, or has to be asked again.
    waiting: Vec<W>,
    limits: Limits,
}

impl<W: Queued> Queue<W> {
    /// Waits until there is a call; `false` if there will be none.
    ///
    /// # Cancel safety
    /// No call is lost.
    pub(super) async fn is_filled(&mut self) -> bool {
        let most = self.limits.calls;
        !self.waiting.is_empty() || self.arriving.recv_many(&mut self.waiting, most).await > 0
    }

    /// The first calls that wait and are wanted, as many as fit. There may be none.
    pub(super) fn batch(&mut self) -> Vec<W> {
        while self.waiting.len() < self.limits.calls
            && let Ok(call) = self.arriving.try_recv()
        {
            self.waiting.push(call);
        }
        self.waiting.retain(W::is_wanted);
        let later = self.waiting.split_off(self.fitting());
        mem::replace(&mut self.waiting, later)
    }

    /// Waits for the next batch; `None` if there will be none.
    pub(super) async fn next(&mut self) -> Option<Vec<W>> {
        self.is_filled().await.then(|| self.batch())
    }

    /// Puts calls that have to be asked again before all others.
    pub(super) fn put_back(&mut self, mut calls: Vec<W>) {
        calls.append(&mut self.waiting);
        self.waiting = calls;
    }

    /// All calls that wait now.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = W> {
        let arrived = std::iter::from_fn(|| self.arriving.try_recv().ok());
        self.waiting.drain(..).chain(arrived)
    }

    /// How many of those that wait go together: at least one, if there is one.
    fn fitting(&self) -> usize {
        let Limits { calls, bytes, .. } = self.limits;
        let mut sent: usize = 0;
        let fit = self.waiting.iter().take(calls).take_while(|call| {
            sent = sent.saturating_add(call.bytes());
            sent <= bytes
        });
        fit.count().max(1).min(self.waiting.len())
    }
}

/// Nobody takes calls out of the queue any more.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the store's task has ended, with the runtime that it was opened in or by a panic")]
pub(super) struct TaskEnded;

impl From<TaskEnded> for StoreError {
    fn from(ended: TaskEnded) -> Self {
        Self::unavailable(ended)
    }
}
