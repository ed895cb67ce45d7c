//! A worker's process: an executor on a link of its own to the store, and how it vanishes.

use std::{pin::pin, time::Duration};

use tokio::time::timeout;

use idem_core::{
    executor::{ExecutionKind, Executor},
    store::Store,
};

use super::{
    CrashPoint, FaultyStore,
    link::Link,
    probe::{Probe, Scenario, Seen},
};

/// How long a delivery may take, on the paused clock: then it never ends.
const LONGEST: Duration = Duration::from_hours(24);

/// How a delivery to a process ended.
#[derive(Debug)]
pub(crate) enum Ran<T> {
    /// By itself.
    Ended(T, Seen),
    /// Its worker vanished.
    Vanished,
}

/// A worker's process.
#[derive(Debug)]
pub(crate) struct Process<S> {
    /// What runs in it.
    pub(crate) executor: Executor<FaultyStore<S>>,
    link: Link,
}

impl<S> Clone for Process<S> {
    fn clone(&self) -> Self {
        Self {
            executor: self.executor.clone(),
            link: self.link.clone(),
        }
    }
}

impl<S: Store + Clone> Process<S> {
    /// Starts one on the same store.
    pub(crate) fn start(store: &FaultyStore<S>) -> Self {
        let link = Link::open();
        Self {
            executor: Executor::new(store.linked_by(link.clone())),
            link,
        }
    }

    /// Runs a delivery's work, which nothing disturbs.
    pub(crate) async fn run<T>(&self, work: impl Future<Output = T>) -> (T, Seen) {
        match self.run_until(Scenario::Undisturbed, work).await {
            Ran::Ended(ended, seen) => (ended, seen),
            Ran::Vanished => unreachable!("it was not to"),
        }
    }

    /// Runs a delivery's work until it ends, or the worker vanishes at this point.
    pub(crate) async fn vanish<T>(
        &self,
        point: CrashPoint,
        work: impl Future<Output = T>,
    ) -> Ran<T> {
        self.run_until(Scenario::Vanishes(point), work).await
    }

    fn probe(&self, scenario: Scenario) -> Probe {
        let patience = self.executor.store().patience();
        Probe::new(scenario, self.link.clone(), patience)
    }

    async fn run_until<T>(&self, scenario: Scenario, work: impl Future<Output = T>) -> Ran<T> {
        let probe = self.probe(scenario);
        let watched = timeout(LONGEST, probe.watch(work));
        tokio::select! {
            biased;
            () = probe.reached() => Ran::Vanished,
            ended = watched => {
                let ended = ended.unwrap_or_else(|_| never_ends());
                let seen = probe.seen().clone();
                Ran::Ended(ended, seen)
            }
        }
    }

    /// Runs a delivery's work; while it stands still, `meanwhile` happens. `None` if it did not come to
    /// that.
    pub(crate) async fn stand_still<T, M>(
        &self,
        work: impl Future<Output = T>,
        meanwhile: impl Future<Output = M>,
    ) -> Option<((T, Seen), M)> {
        let probe = self.probe(Scenario::StandsStill);
        let mut watched = pin!(probe.watch(work));
        tokio::select! {
            biased;
            () = probe.reached() => {}
            _ = &mut watched => return None,
        }
        // It is not polled meanwhile, as a process that was stopped.
        let other = meanwhile.await;
        self.link.thaw();
        let ended = timeout(LONGEST, watched).await;
        let ended = ended.unwrap_or_else(|_| never_ends());
        let seen = probe.seen().clone();
        Some(((ended, seen), other))
    }
}

/// What is wrong with a delivery that does not end.
fn never_ends() -> ! {
    panic!(
        "the delivery did not end within {LONGEST:?} of the paused clock: the handler waits for something \
         that does not come"
    )
}

/// What is wrong with a crash that did not happen.
///
/// # Panics
/// Always.
pub(crate) fn not_reached(point: CrashPoint, ended: ExecutionKind) -> ! {
    panic!("the delivery ended as `{ended}` without coming as far as {point}: it did not crash")
}
