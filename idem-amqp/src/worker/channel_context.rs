//! What the deliveries of one channel share: the slots for those that run and those that wait, and how to settle.

use std::{future::poll_fn, sync::Arc};

use futures_util::FutureExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::{CancellationToken, PollSemaphore};

use super::ack_sender::AckSender;
use crate::{
    connection::health::HealthState,
    telemetry::{FailureLog, SlotCounts},
};

/// What the deliveries of one channel share.
#[derive(Debug)]
pub(super) struct ChannelContext {
    pub(super) slots: Slots,
    /// How often the queue's messages may be returned.
    pub(super) delivery_limit: u64,
    /// Acknowledges and returns this channel's deliveries.
    pub(super) acks: AckSender,
    /// Cancelled when this channel has ended: its deliveries cannot be settled any more.
    pub(super) ended: CancellationToken,
    /// Cancelled when the worker stops starting handlers.
    pub(super) draining: CancellationToken,
    /// Told of what fails.
    pub(super) failures: Arc<FailureLog>,
    /// Told what executions show of the store.
    pub(super) health: Arc<HealthState>,
}

impl ChannelContext {
    fn stops(&self) -> bool {
        self.ended.is_cancelled() || self.draining.is_cancelled()
    }

    /// Waits until there is no point in waiting: the channel has ended, or the worker drains.
    pub(super) async fn stopping(&self) {
        tokio::select! {
            () = self.ended.cancelled() => {}
            () = self.draining.cancelled() => {}
        }
    }
}

/// The slots of one consumer, over all its channels.
#[derive(Debug, Clone)]
pub(super) struct Slots {
    running: PollSemaphore,
    waiting: Arc<Semaphore>,
    all: SlotCounts,
}

impl Slots {
    pub(super) fn new(running: usize, waiting: usize) -> Self {
        Self {
            running: PollSemaphore::new(Arc::new(Semaphore::new(running))),
            waiting: Arc::new(Semaphore::new(waiting)),
            all: SlotCounts { running, waiting },
        }
    }

    /// How many slots are taken.
    pub(super) fn taken(&self) -> SlotCounts {
        SlotCounts {
            running: self.all.running - self.running.available_permits(),
            waiting: self.all.waiting - self.waiting.available_permits(),
        }
    }
}

/// What a delivery occupies: a slot to run, one to wait, or neither.
#[derive(Debug)]
pub(super) struct Slot {
    /// Where it waits for a slot to run: first come, first served.
    queue: PollSemaphore,
    running: Option<OwnedSemaphorePermit>,
    waiting: Option<OwnedSemaphorePermit>,
}

impl Slot {
    /// Takes a slot to run, or waits for one before whatever arrives later.
    pub(super) fn on_arrival(context: &ChannelContext) -> Self {
        let mut queue = context.slots.running.clone();
        let place = poll_fn(|now| queue.poll_acquire(now));
        let running = place.now_or_never().flatten();
        Self {
            queue,
            running,
            waiting: None,
        }
    }

    /// Waits for a slot to run; `false` if the channel ends or the worker drains first.
    pub(super) async fn start_running(&mut self, context: &ChannelContext) -> bool {
        if context.stops() {
            return false;
        }
        if self.running.is_none() {
            self.running = tokio::select! {
                biased;
                () = context.stopping() => None,
                place = poll_fn(|now| self.queue.poll_acquire(now)) => place,
            };
            if self.running.is_none() {
                return false;
            }
            self.waiting = None;
        }
        true
    }

    /// Gives its slot to another delivery, and has none.
    pub(super) fn stop_running(&mut self) {
        self.running = None;
    }

    /// Gives its slot to another delivery, if there is a slot to wait.
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

#[cfg(test)]
mod tests;
