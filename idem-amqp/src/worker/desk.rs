//! Where the deliveries of one consumer are attended to: how many run, who is next, how many wait.

use std::{future::poll_fn, sync::Arc};

use futures_util::FutureExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::{CancellationToken, PollSemaphore};

use super::acker::Verdicts;
use crate::{
    connection::health::Vitals,
    telemetry::{FailureLog, Seats},
};

/// One channel's deliveries, and the room for them.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) room: Room,
    /// How often the queue's messages may be returned.
    pub(super) delivery_limit: u64,
    /// Where verdicts on this channel's deliveries go.
    pub(super) verdicts: Verdicts,
    /// Cancelled when this channel has ended: its deliveries cannot be settled any more.
    pub(super) ended: CancellationToken,
    /// Cancelled when the worker stops starting handlers.
    pub(super) draining: CancellationToken,
    /// Told of what fails.
    pub(super) failures: Arc<FailureLog>,
    /// Told what executions show of the store.
    pub(super) vitals: Arc<Vitals>,
}

impl Desk {
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

/// The room of one consumer, over all its channels.
#[derive(Debug, Clone)]
pub(super) struct Room {
    running: PollSemaphore,
    held: Arc<Semaphore>,
    all: Seats,
}

impl Room {
    pub(super) fn new(running: usize, held: usize) -> Self {
        Self {
            running: PollSemaphore::new(Arc::new(Semaphore::new(running))),
            held: Arc::new(Semaphore::new(held)),
            all: Seats { running, held },
        }
    }

    /// How many places are taken.
    pub(super) fn taken(&self) -> Seats {
        Seats {
            running: self.all.running - self.running.available_permits(),
            held: self.all.held - self.held.available_permits(),
        }
    }
}

/// What a delivery occupies: a place among the running, one among the held, or neither.
#[derive(Debug)]
pub(super) struct Seat {
    /// Its place in the line for one among the running: first come, first served.
    line: PollSemaphore,
    running: Option<OwnedSemaphorePermit>,
    held: Option<OwnedSemaphorePermit>,
}

impl Seat {
    /// Takes a place among the running, or one in the line for it, before whatever arrives later.
    pub(super) fn on_arrival(desk: &Desk) -> Self {
        let mut line = desk.room.running.clone();
        let place = poll_fn(|now| line.poll_acquire(now));
        let running = place.now_or_never().flatten();
        Self {
            line,
            running,
            held: None,
        }
    }

    /// Waits for a place among the running; `false` if the desk stops first.
    pub(super) async fn sit_down(&mut self, desk: &Desk) -> bool {
        if desk.stops() {
            return false;
        }
        if self.running.is_none() {
            self.running = tokio::select! {
                biased;
                () = desk.stopping() => None,
                place = poll_fn(|now| self.line.poll_acquire(now)) => place,
            };
            if self.running.is_none() {
                return false;
            }
            self.held = None;
        }
        true
    }

    /// Gives the place among the running to another delivery, and has none.
    pub(super) fn stand_up(&mut self) {
        self.running = None;
    }

    /// Gives the place among the running to another delivery, if there is room among the held.
    pub(super) fn step_aside(&mut self, desk: &Desk) -> bool {
        if self.held.is_none() {
            self.held = Arc::clone(&desk.room.held).try_acquire_owned().ok();
        }
        if self.held.is_some() {
            self.running = None;
        }
        self.held.is_some()
    }
}

#[cfg(test)]
mod tests;
