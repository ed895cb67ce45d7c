//! Who waits for a seat in a group of one handler.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use tokio::sync::oneshot;

use super::seat::Seat;
use crate::{StoreError, postgres::fault::Fault};

/// A seat, or why there is none.
pub(super) type Given = Result<Seat, StoreError>;

/// First come, first served. Whoever is gone is passed over.
#[derive(Default)]
pub(super) struct Queue(Mutex<State>);

#[derive(Default)]
struct State {
    waiting: VecDeque<oneshot::Sender<Given>>,
    /// How many run one group after the other.
    running: usize,
}

impl Queue {
    /// Lines up, and says whether one more is needed to run groups.
    pub(super) fn join(&self, at_once: usize) -> (oneshot::Receiver<Given>, bool) {
        let (waiting, given) = oneshot::channel();
        let mut state = self.lock();
        state.waiting.push_back(waiting);
        let is_needed = state.running < at_once.max(1);
        state.running += usize::from(is_needed);
        (given, is_needed)
    }

    /// The next one who waits.
    pub(super) fn next(&self) -> Option<oneshot::Sender<Given>> {
        let mut state = self.lock();
        while let Some(waiting) = state.waiting.pop_front() {
            if !waiting.is_closed() {
                return Some(waiting);
            }
        }
        None
    }

    /// Puts somebody back who could not be given a seat.
    pub(super) fn put_back(&self, waiting: oneshot::Sender<Given>) {
        self.lock().waiting.push_front(waiting);
    }

    /// Tells all who wait that there is no seat.
    pub(super) fn disappoint(&self, fault: &Fault) {
        let waiting = std::mem::take(&mut self.lock().waiting);
        for waiting in waiting {
            // Whoever has gone does not care.
            let _ = waiting.send(Err(fault.unavailable()));
        }
    }

    /// Whether somebody waits for a further group; if not, the one who asks runs none any more.
    pub(super) fn goes_on(&self) -> bool {
        let mut state = self.lock();
        state.waiting.retain(|waiting| !waiting.is_closed());
        if state.waiting.is_empty() {
            state.running -= 1;
        }
        !state.waiting.is_empty()
    }

    /// How many wait.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        let state = self.lock();
        state.waiting.iter().filter(|it| !it.is_closed()).count()
    }

    /// Whether a group is open, or about to be.
    #[cfg(test)]
    pub(super) fn has_begun(&self) -> bool {
        self.lock().running > 0
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
