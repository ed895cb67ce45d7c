//! Which keys this process works on, so that whoever waits for one of them learns at once how it ended.
//!
//! Each mode marks a key when it has claimed it ([`Working`]); a message that finds its key held waits with a
//! [`Watcher`]. What must stay true: a wake-up is a hint, and the store decides; a copy is answered from here
//! only with a completion that the store has taken, of the same content, within its retention; no end is missed
//! between a watcher's beginning and its wait; nothing is kept of a key that nobody works on or watches.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Notify, futures::OwnedNotified},
    time::Instant,
};

use super::sequence_waits::Running;
use crate::{
    executor::Execution,
    handler::Outcome,
    message::{Fingerprint, Key},
    store::{Claim, ClaimRequest},
    telemetry::Progress,
};

#[derive(Debug, Clone, Default)]
pub(super) struct InFlight(Arc<Mutex<HashMap<Key, Present>>>);

/// Those who work on one key, and those who watch it.
#[derive(Debug)]
struct Present {
    /// More than one where a lease was lost, or while one steps back.
    workers: usize,
    /// When the first of them began.
    since: Instant,
    /// What the last of them to begin works on.
    content: Option<Fingerprint>,
    watchers: usize,
    /// How many workers have ended while it was watched.
    ends: u64,
    /// If somebody waits for that.
    ended: Option<Arc<Notify>>,
    /// By the last worker, while it was watched.
    completed: Option<Completed>,
}

/// A completion that the store has taken.
#[derive(Debug, Clone)]
struct Completed {
    fingerprint: Option<Fingerprint>,
    outcome: Outcome,
    forgotten: Instant,
}

impl InFlight {
    /// Marks the key as worked on, with this content, until the guard is dropped.
    pub(super) fn enter(&self, key: &Key, content: Option<Fingerprint>) -> Working {
        let mut keys = self.lock();
        Present::of(&mut keys, key).begin(content);
        drop(keys);
        self.working(key, content)
    }

    /// Marks the key as worked on until the guard is dropped, if nobody else in this process works
    /// on it.
    pub(super) fn enter_alone(&self, key: &Key) -> Option<Working> {
        let mut keys = self.lock();
        let present = Present::of(&mut keys, key);
        if present.workers > 0 {
            return None;
        }
        present.begin(None);
        drop(keys);
        Some(self.working(key, None))
    }

    fn working(&self, key: &Key, content: Option<Fingerprint>) -> Working {
        Working {
            in_flight: self.clone(),
            key: key.clone(),
            content,
            in_sequence: None,
            steps_back: false,
        }
    }

    /// From now on until the guard is dropped, no worker on the key ends unnoticed.
    pub(super) fn watch(&self, key: &Key) -> Watcher {
        let mut keys = self.lock();
        let present = Present::of(&mut keys, key);
        present.watchers += 1;
        let seen = present.ends;
        drop(keys);
        Watcher {
            in_flight: self.clone(),
            key: key.clone(),
            seen,
        }
    }

    /// Whether somebody in this process works on the key.
    pub(super) fn contains(&self, key: &Key) -> bool {
        (self.lock().get(key)).is_some_and(|present| present.workers > 0)
    }

    /// Whether somebody in this process works on the key, with other content than this request's.
    pub(super) fn has_other_content(&self, request: &ClaimRequest) -> bool {
        let keys = self.lock();
        let worked_on = keys.get(&request.key);
        let content = worked_on.and_then(|present| present.content.filter(|_| present.workers > 0));
        matches!((content, request.fingerprint), (Some(one), Some(other)) if one != other)
    }

    /// The keys of this handler that are worked on.
    pub(super) fn progress(&self, handler: &str) -> Progress {
        let keys = self.lock();
        let worked_on = keys.iter().filter(|(_, present)| present.workers > 0);
        let own = worked_on.filter(|(key, _)| key.scope() == handler);
        let ages = own.map(|(_, present)| present.since.elapsed());
        ages.fold(Progress::default(), |so_far, age| Progress {
            keys: so_far.keys + 1,
            oldest: so_far.oldest.max(age),
        })
    }

    /// Somebody who was present is not any more.
    fn leave(&self, key: &Key, leave: impl FnOnce(&mut Present)) {
        let mut keys = self.lock();
        let Some(present) = keys.get_mut(key) else {
            return;
        };
        leave(present);
        if present.workers == 0 && present.watchers == 0 {
            keys.remove(key);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Present>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Present {
    fn of<'a>(keys: &'a mut HashMap<Key, Self>, key: &Key) -> &'a mut Self {
        keys.entry(key.clone()).or_insert_with(|| Self {
            workers: 0,
            since: Instant::now(),
            content: None,
            watchers: 0,
            ends: 0,
            ended: None,
            completed: None,
        })
    }

    fn begin(&mut self, content: Option<Fingerprint>) {
        if self.workers == 0 {
            self.since = Instant::now();
        }
        self.workers += 1;
        self.content = content;
        self.completed = None;
    }
}

impl Completed {
    /// What a store would answer that still has the record. `None` if there may be more to it.
    fn answer(self, request: &ClaimRequest) -> Option<Claim> {
        let remaining = self.forgotten.saturating_duration_since(Instant::now());
        let is_plain = request.position.is_none() && !request.replay;
        let is_copy = is_plain && self.fingerprint == request.fingerprint;
        (is_copy && !remaining.is_zero()).then_some(Claim::Completed {
            outcome: self.outcome,
            remaining,
        })
    }
}

#[derive(Debug)]
pub(super) struct Working {
    in_flight: InFlight,
    key: Key,
    content: Option<Fingerprint>,
    /// Ends with it: a number that is worked on.
    in_sequence: Option<Running>,
    steps_back: bool,
}

impl Working {
    /// On a numbered message, if it is one: what waits for its end is woken.
    pub(super) fn in_sequence(mut self, running: Option<Running>) -> Self {
        self.in_sequence = running;
        self
    }

    /// Nothing was begun: to those who wait it is as if nobody had been here.
    pub(super) fn step_back(mut self) {
        self.steps_back = true;
    }

    /// Tells copies that wait here how it ended, if it was completed.
    pub(super) fn tell_copies<T, E>(&self, ended: &Execution<T, E>, retention: Duration) {
        if let Execution::Executed { outcome, .. } = ended {
            self.completed(outcome, retention);
        }
    }

    /// The store has taken this completion: it is what copies that wait here are told.
    pub(super) fn completed(&self, outcome: &Outcome, retention: Duration) {
        let mut keys = self.in_flight.lock();
        // One watcher is the worker itself, if it has one.
        if let Some(present) = keys.get_mut(&self.key)
            && present.watchers > 1
        {
            let forgotten = Instant::now().checked_add(retention);
            present.completed = forgotten.map(|forgotten| Completed {
                fingerprint: self.content,
                outcome: outcome.clone(),
                forgotten,
            });
        }
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        let mut waiting = None;
        self.in_flight.leave(&self.key, |present| {
            present.workers -= 1;
            if !self.steps_back {
                present.ends += 1;
                waiting.clone_from(&present.ended);
            }
        });
        if let Some(ended) = waiting {
            ended.notify_waiters();
        }
        drop(self.in_sequence.take());
    }
}

/// Somebody to whom it matters when workers on a key end.
#[derive(Debug)]
pub(super) struct Watcher {
    in_flight: InFlight,
    key: Key,
    /// How many ends it knows of.
    seen: u64,
}

impl Watcher {
    /// Waits until a worker has ended of whom it did not know, or who has yet to begin; for ever if
    /// there is none. If the key was completed then, that is the answer to this request.
    pub(super) async fn holder_ended(&mut self, request: &ClaimRequest) -> Option<Claim> {
        self.ended().await;
        let mut keys = self.in_flight.lock();
        let present = keys.get_mut(&self.key)?;
        self.seen = present.ends;
        let completed = present.completed.clone();
        drop(keys);
        completed?.answer(request)
    }

    /// Waits for that.
    pub(super) async fn ended(&self) {
        if let Some(ended) = self.next_end() {
            ended.await;
        }
    }

    /// `None` if it has come.
    fn next_end(&self) -> Option<OwnedNotified> {
        let mut keys = self.in_flight.lock();
        let present = keys.get_mut(&self.key)?;
        let ended = present.ended.get_or_insert_default();
        (present.ends == self.seen).then(|| Arc::clone(ended).notified_owned())
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.in_flight
            .leave(&self.key, |present| present.watchers -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handler::Policy;

    fn request() -> ClaimRequest {
        ClaimRequest::new(Key::new("orders", "o-1").unwrap(), &Policy::DEFAULT)
    }

    fn complete(in_flight: &InFlight) {
        let working = in_flight.enter(&request().key, None);
        working.completed(&Outcome::new("7"), Policy::DEFAULT.retention());
    }

    #[tokio::test(start_paused = true)]
    async fn a_completion_is_no_answer_if_somebody_has_worked_on_the_key_since() {
        let in_flight = InFlight::default();
        let key = request().key;
        let _other = in_flight.watch(&key);
        let mut waiting = in_flight.watch(&key);
        complete(&in_flight);
        drop(in_flight.enter(&key, None));
        assert_eq!(waiting.holder_ended(&request()).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_completion_is_no_answer_when_it_would_be_forgotten() {
        let in_flight = InFlight::default();
        let _other = in_flight.watch(&request().key);
        let mut waiting = in_flight.watch(&request().key);
        complete(&in_flight);
        tokio::time::advance(Policy::DEFAULT.retention()).await;
        assert_eq!(waiting.holder_ended(&request()).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_kept_of_what_nobody_works_on_or_watches() {
        let in_flight = InFlight::default();
        let other = in_flight.watch(&request().key);
        let mut waiting = in_flight.watch(&request().key);
        complete(&in_flight);
        assert!(waiting.holder_ended(&request()).await.is_some());
        drop((waiting, other));
        assert!(in_flight.lock().is_empty());
    }
}
