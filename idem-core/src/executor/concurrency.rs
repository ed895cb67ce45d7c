//! How many messages of a handler this process handles at the moment.
//!
//! [`grouped`](super::grouped) and atomic [`batched`](super::batched) handlers ask, to decide whether a message claims
//! first and waits to share a transaction, or has one to itself. What must stay true: each message is counted from
//! before its claim until it has ended, also if it is dropped. A wrong count costs speed, nothing else.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The counts, by the handler's scope. Clones share them. There is one entry for each handler, which stays.
#[derive(Debug, Clone, Default)]
pub(super) struct Concurrency(Arc<Mutex<HashMap<&'static str, usize>>>);

/// How messages of a handler share transactions. A message joins others when at least as many of its
/// handler's are under way as there are groups: a few are sooner done side by side.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sharing {
    /// The handler whose messages these are.
    pub handler: &'static str,
    /// How many share one transaction at most.
    pub size: usize,
    /// How many such transactions there are at once.
    pub groups: usize,
}

/// A message that is counted until this is dropped.
#[derive(Debug)]
pub(super) struct Present {
    concurrency: Concurrency,
    handler: &'static str,
}

impl Concurrency {
    /// Counts one more message, and says how many others there are.
    pub(super) fn enter(&self, handler: &'static str) -> (Present, usize) {
        let mut present = self.lock();
        let count = present.entry(handler).or_default();
        // Without itself: who is alone has nobody to share with.
        let others = *count;
        *count += 1;
        let concurrency = self.clone();
        (
            Present {
                concurrency,
                handler,
            },
            others,
        )
    }

    /// Counts one more message for good.
    #[cfg(feature = "testing")]
    pub(super) fn crowd(&self, handler: &'static str) {
        *self.lock().entry(handler).or_default() += 1;
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<&'static str, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        if let Some(count) = self.concurrency.lock().get_mut(self.handler) {
            *count -= 1;
        }
    }
}
