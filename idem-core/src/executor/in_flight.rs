//! Which keys this process is working on, so that a conflict at home is noticed at once.

use std::{
    collections::{HashMap, hash_map::Entry},
    future,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::{sync::Notify, time::Instant};

use super::turns::Running;
use crate::{Key, telemetry::Progress};

#[derive(Debug, Clone, Default)]
pub(super) struct InFlight(Arc<Mutex<HashMap<Key, Workers>>>);

/// Those who work on one key: more than one where a lease was lost, or while one steps back.
#[derive(Debug)]
struct Workers {
    count: usize,
    /// When the first of them began.
    since: Instant,
    /// One of them has ended, if somebody waits for that.
    ended: Option<Arc<Notify>>,
}

impl Workers {
    fn none_yet() -> Self {
        Self {
            count: 0,
            since: Instant::now(),
            ended: None,
        }
    }
}

impl InFlight {
    /// Marks the key as worked on until the guard is dropped.
    pub(super) fn enter(&self, key: &Key) -> Working {
        let mut keys = self.lock();
        let workers = keys.entry(key.clone());
        workers.or_insert_with(Workers::none_yet).count += 1;
        drop(keys);
        Working {
            in_flight: self.clone(),
            key: key.clone(),
            turn: None,
        }
    }

    /// Marks the key as worked on until the guard is dropped, if nobody else in this process works
    /// on it.
    pub(super) fn enter_alone(&self, key: &Key) -> Option<Working> {
        match self.lock().entry(key.clone()) {
            Entry::Occupied(_) => return None,
            Entry::Vacant(free) => free.insert(Workers::none_yet()).count = 1,
        }
        Some(Working {
            in_flight: self.clone(),
            key: key.clone(),
            turn: None,
        })
    }

    /// Whether somebody in this process works on the key.
    pub(super) fn contains(&self, key: &Key) -> bool {
        self.lock().contains_key(key)
    }

    /// The keys of this handler that are worked on.
    pub(super) fn progress(&self, handler: &str) -> Progress {
        let keys = self.lock();
        let own = keys.iter().filter(|(key, _)| key.scope() == handler);
        let ages = own.map(|(_, workers)| workers.since.elapsed());
        ages.fold(Progress::default(), |so_far, age| Progress {
            keys: so_far.keys + 1,
            oldest: so_far.oldest.max(age),
        })
    }

    /// Waits until a worker on this key has ended; for ever if there is none.
    pub(super) async fn ended(&self, key: &Key) {
        let Some(ended) = self
            .lock()
            .get_mut(key)
            .map(|workers| Arc::clone(workers.ended.get_or_insert_default()).notified_owned())
        else {
            return future::pending().await;
        };
        ended.await;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Key, Workers>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
pub(super) struct Working {
    in_flight: InFlight,
    key: Key,
    /// Ends with it: a number that is worked on.
    turn: Option<Running>,
}

impl Working {
    /// On a numbered message: what waits for its end is woken.
    pub(super) fn in_turn(mut self, turn: Option<Running>) -> Self {
        self.turn = turn;
        self
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        let mut in_flight = self.in_flight.lock();
        let Entry::Occupied(mut entry) = in_flight.entry(self.key.clone()) else {
            return;
        };
        let workers = entry.get_mut();
        workers.count -= 1;
        let ended = if workers.count == 0 {
            entry.remove().ended
        } else {
            workers.ended.clone()
        };
        drop(in_flight);
        if let Some(ended) = ended {
            ended.notify_waiters();
        }
        drop(self.turn.take());
    }
}
