//! Where the deliveries of one consumer are attended to: how many run, how many wait.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::acker::Verdicts;
use crate::{health::Vitals, telemetry::Seats};

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
    /// Told what executions show of the store.
    pub(super) vitals: Arc<Vitals>,
}

impl Desk {
    /// A place among the running, unless the desk stops first.
    async fn place(&self) -> Option<OwnedSemaphorePermit> {
        if self.ended.is_cancelled() || self.draining.is_cancelled() {
            return None;
        }
        let running = Arc::clone(&self.room.running);
        if let Ok(free) = Arc::clone(&running).try_acquire_owned() {
            return Some(free);
        }
        tokio::select! {
            biased;
            () = self.stopping() => None,
            place = running.acquire_owned() => place.ok(),
        }
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
    running: Arc<Semaphore>,
    held: Arc<Semaphore>,
    all: Seats,
}

impl Room {
    pub(super) fn new(running: usize, held: usize) -> Self {
        Self {
            running: Arc::new(Semaphore::new(running)),
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

/// What a delivery occupies: nothing yet, a place among the running, or one among the held.
#[derive(Debug, Default)]
pub(super) struct Seat {
    running: Option<OwnedSemaphorePermit>,
    held: Option<OwnedSemaphorePermit>,
}

impl Seat {
    /// Takes a place among the running; `false` if the desk stops first.
    pub(super) async fn sit_down(&mut self, desk: &Desk) -> bool {
        if self.running.is_none() {
            let Some(place) = desk.place().await else {
                return false;
            };
            self.running = Some(place);
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
