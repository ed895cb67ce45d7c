//! Who waits for a slot in a group of one handler.

use std::{
    collections::VecDeque,
    mem,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::oneshot;

use super::slot::Slot;
use crate::{store::StoreError, stores::postgres::fault::Fault};

/// One that runs groups, one after the other.
pub(super) struct Running {
    pub(super) queue: Arc<Queue>,
    has_ended: bool,
}

impl Running {
    /// Whether somebody waits for a further group; if not, it runs none any more.
    pub(super) fn goes_on(&mut self) -> bool {
        let mut state = self.queue.lock();
        state.waiting.retain(|waiting| !waiting.is_closed());
        self.has_ended = state.waiting.is_empty();
        state.running -= usize::from(self.has_ended);
        !self.has_ended
    }

    /// It has no transaction. Unless there are others that run groups, all who wait are told that there is
    /// no slot.
    pub(super) fn fails(mut self, fault: &Fault) {
        let mut state = self.queue.lock();
        state.running -= 1;
        self.has_ended = true;
        if state.running > 0 {
            return;
        }
        let waiting = mem::take(&mut state.waiting);
        drop(state);
        for waiting in waiting {
            // Whoever has gone does not care.
            let _ = waiting.send(Err(fault.unavailable()));
        }
    }
}

/// Also if its runtime ends, or it panics: without anybody to run groups, nobody waits for one.
impl Drop for Running {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        let mut state = self.queue.lock();
        state.running -= 1;
        let alone = state.running == 0;
        let waiting = alone.then(|| mem::take(&mut state.waiting));
        drop(state);
        drop(waiting);
    }
}

/// A slot, or why there is none.
pub(super) type Given = Result<Slot, StoreError>;

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
    /// Lines up; if one more is needed to run groups, that is returned, too.
    pub(super) fn join(
        self: &Arc<Self>,
        at_once: usize,
    ) -> (oneshot::Receiver<Given>, Option<Running>) {
        let (waiting, given) = oneshot::channel();
        let mut state = self.lock();
        state.waiting.push_back(waiting);
        let is_needed = state.running < at_once.max(1);
        state.running += usize::from(is_needed);
        let running = is_needed.then(|| Running {
            queue: Arc::clone(self),
            has_ended: false,
        });
        (given, running)
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

    /// Puts somebody back who could not be given a slot.
    pub(super) fn put_back(&self, waiting: oneshot::Sender<Given>) {
        self.lock().waiting.push_front(waiting);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn is_given(given: &mut oneshot::Receiver<Given>) -> bool {
        !matches!(given.try_recv(), Err(oneshot::error::TryRecvError::Empty))
    }

    #[tokio::test]
    async fn nobody_waits_when_whoever_runs_the_groups_has_gone() {
        let queue = Arc::<Queue>::default();
        let (mut first, running) = queue.join(1);
        let (mut second, none) = queue.join(1);
        assert!(none.is_none());
        drop(running);
        assert!(is_given(&mut first) && is_given(&mut second));
        let (_third, running) = queue.join(1);
        assert!(running.is_some(), "another one runs them");
    }

    #[tokio::test]
    async fn whoever_has_no_transaction_leaves_those_who_wait_to_the_others() {
        let queue = Arc::<Queue>::default();
        let fault = || Fault::Silent(std::time::Duration::from_secs(1));
        let (mut waiting, first) = queue.join(2);
        let (_, second) = queue.join(2);
        first.unwrap().fails(&fault());
        assert!(!is_given(&mut waiting));
        second.unwrap().fails(&fault());
        assert!(matches!(waiting.await, Ok(Err(_))));
    }
}
