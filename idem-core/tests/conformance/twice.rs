//! A store that is opened twice, as by two processes, on a clock that tests move.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// Both, and how far they were moved.
pub(crate) struct Twice<S> {
    stores: Mutex<[S; 2]>,
    advanced: Mutex<Duration>,
    turn: AtomicUsize,
}

impl<S: Clone> Twice<S> {
    pub(crate) fn of(stores: [S; 2]) -> Self {
        Self {
            stores: Mutex::new(stores),
            advanced: Mutex::default(),
            turn: AtomicUsize::new(0),
        }
    }

    /// One after the other.
    pub(crate) fn next(&self) -> S {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        self.stores()[turn % 2].clone()
    }

    /// `advance` moves the clock of one store.
    pub(crate) fn advance(&self, by: Duration, advance: fn(&S, Duration)) {
        for store in &*self.stores() {
            advance(store, by);
        }
        *self.advanced() += by;
    }

    /// These take their place, at the same time of day.
    #[allow(dead_code, reason = "not every store is opened again")]
    pub(crate) fn reopen(&self, stores: [S; 2], advance: fn(&S, Duration)) {
        for store in &stores {
            advance(store, *self.advanced());
        }
        *self.stores() = stores;
    }

    fn stores(&self) -> MutexGuard<'_, [S; 2]> {
        self.stores.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `reset` takes back how far the clock of one store was moved.
    #[allow(dead_code, reason = "not every store is used again")]
    pub(crate) fn restart(&self, reset: fn(&S)) {
        self.stores().iter().for_each(reset);
        *self.advanced() = Duration::ZERO;
    }

    fn advanced(&self) -> MutexGuard<'_, Duration> {
        self.advanced.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
