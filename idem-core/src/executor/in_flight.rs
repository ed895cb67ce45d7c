//! Which keys this process works on, so that whoever waits for one of them learns at once how it ended.
//!
//! Each mode marks the key that it works on ([`Working`]), most of them when they have claimed it; a message that finds
//! its key held waits with a [`Watcher`]. What must stay true:
//!
//! - A wake-up is a hint, and the store decides.
//! - A copy is answered from here only with a completion that the store has taken, of the same content, within its
//!   retention.
//! - No end is missed between a watcher's beginning and its wait.
//! - Nothing is kept of a key that nobody works on or watches.

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

/// The keys that this process works on or watches. Clones share them. The lock is held for one look or one change,
/// never over an await, and what is written under it is never half done.
#[derive(Debug, Clone, Default)]
pub(super) struct InFlight(Arc<Mutex<HashMap<Key, Present>>>);

/// Those who work on one key, and those who watch it: there from when the first of them comes until the last has gone.
#[derive(Debug)]
struct Present {
    /// More than one where a lease was lost, or while one steps back.
    workers: usize,
    /// When the first of them began.
    since: Instant,
    /// What the last of them to begin works on; `None` if that has no fingerprint.
    content: Option<Fingerprint>,
    /// Each message that is handled watches its own key, so a worker is often its own watcher.
    watchers: usize,
    /// How many workers have ended since this entry is here. A watcher remembers the number that it knows, so an end
    /// between its look and its wait is not missed.
    ends: u64,
    /// Wakes those who wait for the next end. Made when somebody first waits: most keys have nobody.
    ended: Option<Arc<Notify>>,
    /// How the last worker ended, if it completed the key while others watched it. The next worker to begin takes it
    /// away: what it does is not known yet.
    completed: Option<Completed>,
}

/// A completion that the store has taken.
#[derive(Debug, Clone)]
struct Completed {
    /// The fingerprint of the content that was worked on: a copy with other content gets no answer from here.
    fingerprint: Option<Fingerprint>,
    outcome: Outcome,
    /// When its retention ends, counted from the store's answer.
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
        // Looked and begun under one lock: of two copies, one gets the guard.
        if present.workers > 0 {
            return None;
        }
        present.begin(None);
        drop(keys);
        Some(self.working(key, None))
    }

    /// The guard of a worker that was counted under the lock.
    fn working(&self, key: &Key, content: Option<Fingerprint>) -> Working {
        Working {
            in_flight: self.clone(),
            key: key.clone(),
            content,
            in_sequence: None,
            steps_back: false,
        }
    }

    /// Until the guard that this returns is dropped, no worker on the key ends unnoticed.
    pub(super) fn watch(&self, key: &Key) -> Watcher {
        let mut keys = self.lock();
        let present = Present::of(&mut keys, key);
        present.watchers += 1;
        // Ends before this are not waited for: the claim that follows sees what they have left in the store.
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
        // A key that is only watched has the content of its last worker. That one has gone.
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

    /// Takes somebody out who worked on the key or watched it. The last one takes the entry along.
    fn leave(&self, key: &Key, leave: impl FnOnce(&mut Present)) {
        let mut keys = self.lock();
        let Some(present) = keys.get_mut(key) else {
            return;
        };
        leave(present);
        // Nobody is left who could ask. A watcher that comes later starts with what the store says.
        if present.workers == 0 && present.watchers == 0 {
            keys.remove(key);
        }
    }

    /// Takes the lock, also after a panic: nothing is left half written.
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Present>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Present {
    /// The entry of the key, a new one if there is none.
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

    /// Another worker begins.
    fn begin(&mut self, content: Option<Fingerprint>) {
        // Only the first: the age of a key is that of its oldest work.
        if self.workers == 0 {
            self.since = Instant::now();
        }
        self.workers += 1;
        self.content = content;
        // A worker that begins after a completion has found the key free. What was completed is no answer any more.
        self.completed = None;
    }
}

impl Completed {
    /// What a store would answer that still has the record. `None` if there may be more to it.
    fn answer(self, request: &ClaimRequest) -> Option<Claim> {
        let remaining = self.forgotten.saturating_duration_since(Instant::now());
        // In a session or a sequence the store may answer otherwise by now, and a replay of a completed key is the
        // store's to decide.
        let is_plain = request.position.is_none() && !request.replay;
        let is_copy = is_plain && self.fingerprint == request.fingerprint;
        (is_copy && !remaining.is_zero()).then_some(Claim::Completed {
            outcome: self.outcome,
            remaining,
        })
    }
}

/// Marks a key as worked on until it is dropped. It is kept until the store has the end: whoever is woken by the drop
/// finds that end there.
#[derive(Debug)]
pub(super) struct Working {
    in_flight: InFlight,
    key: Key,
    /// What its completion is an answer to.
    content: Option<Fingerprint>,
    /// Ends with it: a number that is worked on.
    in_sequence: Option<Running>,
    /// Whether nothing was begun, so that nobody is to be woken.
    steps_back: bool,
}

impl Working {
    /// Adds the number that is worked on, if the message has one: what waits for its end is woken.
    pub(super) fn in_sequence(mut self, running: Option<Running>) -> Self {
        self.in_sequence = running;
        self
    }

    /// Ends without having begun anything: to those who wait it is as if nobody had been here. Otherwise a message
    /// that finds its key held elsewhere would wake itself, and ask again without a pause.
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
        // One watcher is the worker itself, if it has one. Nobody else would read it: a copy that comes later asks
        // the store.
        if let Some(present) = keys.get_mut(&self.key)
            && present.watchers > 1
        {
            let forgotten = Instant::now().checked_add(retention);
            // A retention beyond the clock's end is no answer: the store has to be asked.
            present.completed = forgotten.map(|forgotten| Completed {
                fingerprint: self.content,
                outcome: outcome.clone(),
                forgotten,
            });
        }
    }
}

impl Drop for Working {
    /// Wakes those who wait for the key, and those who wait for the number.
    fn drop(&mut self) {
        // Counted under the lock, so that whoever looks now sees the end; woken without it.
        let mut waiting = None;
        self.in_flight.leave(&self.key, |present| {
            present.workers -= 1;
            if !self.steps_back {
                present.ends += 1;
                waiting.clone_from(&present.ended);
            }
        });
        // Without the lock: a woken task takes it for its next look.
        if let Some(ended) = waiting {
            ended.notify_waiters();
        }
        // Last: whoever waits for this number finds the key free of this worker.
        drop(self.in_sequence.take());
    }
}

/// Somebody to whom it matters when workers on a key end. Each message that is handled has one, from before its claim
/// on.
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
        // There, because this watcher keeps it.
        let present = keys.get_mut(&self.key)?;
        // All of them at once: several ends are one reason to ask again.
        self.seen = present.ends;
        let completed = present.completed.clone();
        drop(keys);
        // No completion: it failed, or lost its lease. Then the store tells.
        completed?.answer(request)
    }

    /// Waits until a worker has ended of whom it did not know. It takes no note of that: called again, it returns at
    /// once.
    pub(super) async fn ended(&self) {
        if let Some(ended) = self.next_end() {
            ended.await;
        }
    }

    /// The wait for the next end; `None` if there was one of which it does not know.
    fn next_end(&self) -> Option<OwnedNotified> {
        let mut keys = self.in_flight.lock();
        let present = keys.get_mut(&self.key)?;
        // Made and compared under one lock: an end that comes after it wakes this wait.
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
