//! The deliveries of one channel of a stream that wait for their call, where the mark alone says what is done.
//!
//! `consumer` hands them over as they come; `in_order` takes them out. What must stay true:
//!
//! - They are taken in their order.
//! - While somebody is at them, nobody else is.
//! - Once it is over, none is taken in.

use std::{
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

use idem_core::{
    Envelope,
    handler::BatchOptions,
    settlement::{NextCall, Stretches, Waits},
};
use tokio::{
    sync::Notify,
    time::{Instant, timeout},
};
use tracing::Span;

use super::arrival::Arrival;
use crate::wire::sessions;

/// A delivery that waits for its call.
pub(super) struct WaitingDelivery {
    pub(super) tag: u64,
    /// The mark when it and all before it are done; `None` if its place is not known.
    pub(super) end: Option<u64>,
    pub(super) arrival: Arrival,
    pub(super) span: Span,
    pub(super) came: Instant,
}

impl WaitingDelivery {
    pub(super) fn envelope_and_end(&self) -> Option<(Envelope, u64)> {
        Some((self.arrival.envelope.clone(), self.end?))
    }
}

impl Waits for WaitingDelivery {
    fn bytes(&self) -> usize {
        self.arrival.envelope.body().len()
    }

    /// It may have been what ended its process, or somebody waits for a reply to it, or it cannot be read as others
    /// are, or it has a place in a session.
    fn is_alone(&self) -> bool {
        let Arrival {
            delivery,
            envelope,
            objection,
            ..
        } = &self.arrival;
        delivery.may_have_run()
            || envelope.expects_reply()
            || objection.is_some()
            || self.end.is_none()
            || delivery.unreadable().is_some()
            || !matches!(sessions::place(delivery), Ok(None))
    }
}

/// What waits on one channel.
pub(super) struct WaitingDeliveries {
    state: Mutex<State>,
    batch: BatchOptions,
    /// How many the broker sends ahead.
    prefetch: u16,
    came: Notify,
}

impl fmt::Debug for WaitingDeliveries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitingDeliveries").finish_non_exhaustive()
    }
}

struct State {
    waiting: Stretches<WaitingDelivery>,
    /// Whether somebody is handling them.
    is_handled: bool,
    /// Whether it is over: nothing is called any more.
    is_over: bool,
}

impl WaitingDeliveries {
    pub(super) fn new(batch: BatchOptions, prefetch: u16) -> Self {
        Self {
            state: Mutex::new(State {
                waiting: Stretches::new(batch),
                is_handled: false,
                is_over: false,
            }),
            batch,
            prefetch,
            came: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each step is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a delivery in. Says whether whoever handles them is to be started; an error if it is left to the broker.
    pub(super) fn arrives(&self, delivery: WaitingDelivery) -> Result<bool, Box<WaitingDelivery>> {
        let mut state = self.state();
        if state.is_over {
            return Err(Box::new(delivery));
        }
        state.waiting.arrives(delivery);
        let is_first = !std::mem::replace(&mut state.is_handled, true);
        drop(state);
        self.came.notify_one();
        Ok(is_first)
    }

    /// Whether no more can come for the next call. There is none if nothing waits: what comes then waits anew.
    fn is_full(&self) -> bool {
        let waiting = &self.state().waiting;
        waiting.is_empty() || waiting.is_full() || waiting.len() >= usize::from(self.prefetch)
    }

    /// What is called next; `None` if nothing waits: then nobody is at them any more.
    pub(super) async fn next(&self) -> Option<NextCall<WaitingDelivery>> {
        if !self.batch.longest_wait().is_zero() {
            let full = async {
                while !self.is_full() {
                    self.came.notified().await;
                }
            };
            let _ = timeout(self.batch.longest_wait(), full).await;
        }
        let mut state = self.state();
        let next = state.waiting.take();
        state.is_handled = next.is_some();
        next
    }

    /// So many are done. The handler was not called with `rest`, which is behind them: its first one is to be handled
    /// alone.
    pub(super) fn passed(&self, count: usize, rest: Vec<WaitingDelivery>) {
        let mut state = self.state();
        if rest.is_empty() {
            state.waiting.passed(count);
        } else {
            state.waiting.next_is_alone(rest);
        }
    }

    /// A call with these was undone, because of one of them. Says whether that is the first of the calls in which it is
    /// looked for.
    pub(super) fn undone(&self, deliveries: Vec<WaitingDelivery>) -> bool {
        self.state().waiting.undone(deliveries)
    }

    /// Puts deliveries back in front: the handler was not called with them.
    pub(super) fn give_back(&self, deliveries: Vec<WaitingDelivery>) {
        self.state().waiting.give_back(deliveries);
    }

    /// Ends it: nothing is called any more. Returns what was waiting.
    pub(super) fn ends(&self) -> Vec<WaitingDelivery> {
        let mut state = self.state();
        state.is_over = true;
        let mut left = Vec::new();
        while let Some(next) = state.waiting.take() {
            match next {
                NextCall::Alone(one) => left.push(one),
                NextCall::Together(several) => left.extend(several),
            }
        }
        left
    }
}

#[cfg(test)]
mod tests;
