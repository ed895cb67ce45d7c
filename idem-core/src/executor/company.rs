//! How many messages of a handler this process is at.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

#[derive(Debug, Clone, Default)]
pub(super) struct Company(Arc<Mutex<HashMap<&'static str, usize>>>);

/// Counts until it is dropped.
#[derive(Debug)]
pub(super) struct Present {
    company: Company,
    handler: &'static str,
}

impl Company {
    /// One more, and how many others there are.
    pub(super) fn enter(&self, handler: &'static str) -> (Present, usize) {
        let mut present = self.lock();
        let count = present.entry(handler).or_default();
        let others = *count;
        *count += 1;
        let company = self.clone();
        (Present { company, handler }, others)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<&'static str, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        if let Some(count) = self.company.lock().get_mut(self.handler) {
            *count -= 1;
        }
    }
}
