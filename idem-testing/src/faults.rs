//! What is wrong with the store, and for how long: shared by all links to it.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, sleep_until};

/// A call to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Call {
    /// Of an atomic handler: with the begin of its transaction.
    Claim,
    /// The heartbeat.
    Extend,
    /// Of an atomic handler: with the commit.
    Complete,
    /// After a failure.
    Release,
    /// Of a client's session: to open, prolong, close or remove it.
    Session,
}

/// How a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// It does not reach the store.
    Unreached,
    /// It has its effect, and the answer does not come.
    AnswerLost,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Faults(Arc<Mutex<Script>>);

#[derive(Debug, Default)]
struct Script {
    next: HashMap<Call, VecDeque<Fault>>,
    away_until: Option<Instant>,
    silent_until: Option<Instant>,
}

impl Faults {
    pub(super) fn next_time(&self, call: Call, fault: Fault) {
        self.lock().next.entry(call).or_default().push_back(fault);
    }

    pub(super) fn away_for(&self, while_: Duration) {
        self.lock().away_until = Some(Instant::now() + while_);
    }

    pub(super) fn silent_for(&self, while_: Duration) {
        self.lock().silent_until = Some(Instant::now() + while_);
    }

    /// Waits while the store is silent, and tells how the call fails then, if it does.
    pub(super) async fn next_fault(&self, call: Call) -> Option<Fault> {
        let silent_until = self.lock().silent_until;
        if let Some(until) = silent_until {
            sleep_until(until).await;
        }
        let mut script = self.lock();
        let scripted = script.next.get_mut(&call).and_then(VecDeque::pop_front);
        let is_away = script
            .away_until
            .is_some_and(|until| Instant::now() < until);
        scripted.or_else(|| is_away.then_some(Fault::Unreached))
    }

    fn lock(&self) -> MutexGuard<'_, Script> {
        // What is written under the lock is never half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
