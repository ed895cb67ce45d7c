//! Which keys this process is working on, so that a conflict at home is noticed at once.

use std::{
    collections::HashMap,
    future,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::Notify;

use crate::Key;

#[derive(Debug, Clone, Default)]
pub(super) struct InFlight(Arc<Mutex<HashMap<Key, Arc<Notify>>>>);

impl InFlight {
    /// Marks the key as worked on until the guard is dropped.
    pub(super) fn enter(&self, key: &Key) -> Working {
        let ended = Arc::new(Notify::new());
        self.lock().insert(key.clone(), Arc::clone(&ended));
        Working {
            in_flight: self.clone(),
            key: key.clone(),
            ended,
        }
    }

    /// Whether somebody in this process works on the key.
    pub(super) fn contains(&self, key: &Key) -> bool {
        self.lock().contains_key(key)
    }

    /// Waits until the worker on this key has ended; for ever if there is none.
    pub(super) async fn ended(&self, key: &Key) {
        let Some(ended) = self
            .lock()
            .get(key)
            .map(|ended| Arc::clone(ended).notified_owned())
        else {
            return future::pending().await;
        };
        ended.await;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Key, Arc<Notify>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
pub(super) struct Working {
    in_flight: InFlight,
    key: Key,
    ended: Arc<Notify>,
}

impl Drop for Working {
    fn drop(&mut self) {
        let mut working = self.in_flight.lock();
        // A successor in this process may have entered meanwhile, after a lost lease.
        if working
            .get(&self.key)
            .is_some_and(|ended| Arc::ptr_eq(ended, &self.ended))
        {
            working.remove(&self.key);
        }
        drop(working);
        self.ended.notify_waiters();
    }
}
