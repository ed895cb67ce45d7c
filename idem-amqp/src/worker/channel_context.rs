//! What the deliveries of one channel share: the slots for those that run and those that wait, and
//! how to settle.
//!
//! `consumer` makes a context for each channel and a slot for each delivery; `handler_runner` and `carry_out` move the
//! delivery between slots. What must stay true:
//!
//! - At most `concurrency` handlers run at once, over all channels of a consumer.
//! - Slots to run are given in the order of arrival, but to those that a stopped stream, or others of their lane, have
//!   kept waiting.
//! - A delivery that ends, however it ends, frees what it has.
//! - Nothing starts on a channel that has ended, nor while its stream stops at a message before it.

use std::{future::poll_fn, sync::Arc};

use futures_util::FutureExt as _;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::yield_now,
};
use tokio_util::sync::{CancellationToken, PollSemaphore};

use super::{ack_sender::AckSender, stream::Reading, waiting_deliveries::WaitingDeliveries};
use crate::{
    connection::health::HealthState,
    telemetry::{FailureLog, SlotCounts},
};

/// What the deliveries of one channel share. It lasts until the last of them has ended, also past
/// the channel.
#[derive(Debug)]
pub(super) struct ChannelContext {
    /// The slots of the whole consumer, so that a new channel does not double them while the old one's handlers still
    /// run.
    pub(super) slots: Slots,
    /// How often the queue may return a message before it drops or dead-letters it.
    pub(super) delivery_limit: u64,
    /// Acknowledges and returns this channel's deliveries, and no other's: tags mean nothing
    /// elsewhere.
    pub(super) acks: AckSender,
    /// Cancelled when this channel is closed: its deliveries cannot be settled any more.
    pub(super) closed: CancellationToken,
    /// Cancelled when the worker stops starting handlers.
    pub(super) draining: CancellationToken,
    /// Told of what fails.
    pub(super) failures: Arc<FailureLog>,
    /// Told what executions show of the store.
    pub(super) health: Arc<HealthState>,
    /// If its deliveries are those of a stream.
    pub(super) reading: Option<Arc<Reading>>,
    /// Those that wait, if the mark of the stream alone says what is done.
    pub(super) in_order: Option<Arc<WaitingDeliveries>>,
}

impl ChannelContext {
    /// Acknowledges a delivery that is done, or safe in another queue; of a stream, once the mark allows it.
    pub(super) fn acknowledge(&self, tag: u64) {
        match &self.reading {
            Some(reading) => reading.done(tag, &self.acks),
            None => self.acks.ack(tag),
        }
    }

    /// Whether a delivery may start, as far as its stream goes.
    fn lets_start(&self, tag: u64) -> bool {
        let reading = self.reading.as_ref();
        reading.is_none_or(|reading| reading.stops.lets_start(tag))
    }

    /// Waits until a delivery may start, as far as its stream goes.
    async fn until_starts(&self, tag: u64) {
        if let Some(reading) = &self.reading {
            reading.stops.until_starts(tag).await;
        }
    }

    /// Whether nothing is to be started any more.
    pub(super) fn stops(&self) -> bool {
        self.closed.is_cancelled() || self.draining.is_cancelled()
    }

    /// Waits until there is no point in waiting any more: the channel has ended, or the worker
    /// drains.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(super) async fn stopping(&self) {
        tokio::select! {
            () = self.closed.cancelled() => {}
            () = self.draining.cancelled() => {}
        }
    }
}

/// The slots of one consumer, over all its channels. Clones are the same slots.
#[derive(Debug, Clone)]
pub(super) struct Slots {
    /// One permit for each handler that may run at once.
    running: PollSemaphore,
    /// One permit for each message that may wait without running. The limit keeps part of the prefetch free for new
    /// messages.
    waiting: Arc<Semaphore>,
    /// How many there are of each.
    all: SlotCounts,
}

impl Slots {
    /// So many slots of each kind, all free.
    pub(super) fn new(running: usize, waiting: usize) -> Self {
        Self {
            running: PollSemaphore::new(Arc::new(Semaphore::new(running))),
            waiting: Arc::new(Semaphore::new(waiting)),
            all: SlotCounts { running, waiting },
        }
    }

    /// How many slots are taken now, for metrics. The two counts are not of the very same moment.
    pub(super) fn taken(&self) -> SlotCounts {
        SlotCounts {
            running: self.all.running - self.running.available_permits(),
            waiting: self.all.waiting - self.waiting.available_permits(),
        }
    }
}

/// What a delivery occupies: a slot to run, one to wait, or neither. Dropping it frees them, and
/// lets those behind it move up.
#[derive(Debug)]
pub(super) struct Slot {
    tag: u64,
    /// Its position among those that their stream does not let start yet.
    gate: Option<PollSemaphore>,
    /// Whether it is the next of those.
    is_next: Option<OwnedSemaphorePermit>,
    /// Its position among those that wait for a slot to run: first come, first served.
    queue: PollSemaphore,
    running: Option<OwnedSemaphorePermit>,
    waiting: Option<OwnedSemaphorePermit>,
}

impl Slot {
    /// Takes a slot to run, or a position before whatever arrives later. To be called where
    /// deliveries arrive, one after the other: tasks begin in any order.
    pub(super) fn on_arrival(context: &ChannelContext, tag: u64) -> Self {
        let mut slot = Self::unqueued(context, tag);
        if let Some(reading) = &context.reading {
            let mut gate = PollSemaphore::new(Arc::clone(&reading.gate));
            slot.is_next = ask_once(&mut gate);
            if slot.is_next.is_none() || !reading.may_start(tag) {
                slot.gate = Some(gate);
                return slot;
            }
            slot.is_next = None;
        }
        slot.line_up();
        slot
    }

    /// Takes a slot to run, or a position behind all that wait for one. For what its stream has let start before.
    pub(super) fn at_the_end(context: &ChannelContext, tag: u64) -> Self {
        let mut slot = Self::unqueued(context, tag);
        slot.line_up();
        slot
    }

    fn unqueued(context: &ChannelContext, tag: u64) -> Self {
        Self {
            tag,
            gate: None,
            is_next: None,
            queue: context.slots.running.clone(),
            running: None,
            waiting: None,
        }
    }

    fn line_up(&mut self) {
        self.running = ask_once(&mut self.queue);
    }

    /// Waits until its stream lets it start: the store knows where the handler begins, and has a mark that is not too
    /// far below. Those that arrived before it line up for a slot first.
    ///
    /// # Cancel safety
    /// The position among those that wait stays.
    pub(super) async fn until_may_start(&mut self, context: &ChannelContext) {
        let (Some(gate), Some(reading)) = (&mut self.gate, &context.reading) else {
            return;
        };
        if self.is_next.is_none() {
            self.is_next = poll_fn(|now| gate.poll_acquire(now)).await;
        }
        reading.until_may_start(self.tag).await;
        self.line_up();
        // After that: the next one lines up behind it.
        (self.gate, self.is_next) = (None, None);
        // This thread has woken it, and may keep it until this task waits: so before a handler that computes.
        yield_now().await;
    }

    /// Waits for a slot to run, and until its stream lets it start; `false` if the channel ends or the worker drains
    /// first, and then nothing is to be started. Frees the slot to wait.
    ///
    /// # Cancel safety
    /// The position among those that wait stays.
    pub(super) async fn start_running(&mut self, context: &ChannelContext) -> bool {
        loop {
            if context.stops() {
                return false;
            }
            if self.running.is_none() {
                self.running = tokio::select! {
                    // A channel that has ended comes first. Its delivery comes again elsewhere, and
                    // would run at the same time.
                    biased;
                    () = context.stopping() => None,
                    permit = poll_fn(|now| self.queue.poll_acquire(now)) => permit,
                };
                if self.running.is_none() {
                    return false;
                }
            }
            if context.lets_start(self.tag) {
                // It runs now, so another message may wait in its place.
                self.waiting = None;
                return true;
            }
            // The one at which the stream stops needs it.
            self.running = None;
            tokio::select! {
                () = context.until_starts(self.tag) => {}
                () = context.stopping() => {}
            }
        }
    }

    /// Frees the slot to run, whether or not there is one to wait: what it waits for may need the
    /// slot.
    pub(super) fn stop_running(&mut self) {
        self.running = None;
    }

    /// Takes a slot to wait in place of the one to run. `false` if none is free: then it keeps the
    /// slot to run, and the caller sends the message to a queue rather than let it wait.
    pub(super) fn start_waiting(&mut self, context: &ChannelContext) -> bool {
        if self.waiting.is_none() {
            self.waiting = Arc::clone(&context.slots.waiting).try_acquire_owned().ok();
        }
        if self.waiting.is_some() {
            self.running = None;
        }
        self.waiting.is_some()
    }
}

/// Asks for a permit, without waiting: if none is free, the semaphore keeps the position in its queue.
fn ask_once(queue: &mut PollSemaphore) -> Option<OwnedSemaphorePermit> {
    let permit = poll_fn(|now| queue.poll_acquire(now));
    permit.now_or_never().flatten()
}

#[cfg(test)]
mod tests;
