//! A process: a program on a link of its own to the store, and how it vanishes.

use std::{pin::pin, time::Duration};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use tokio::time::timeout;

use idem_core::{
    executor::{ExecutionKind, Executor},
    store::Store,
};
#[cfg(feature = "amqp")]
use idem_core::{handler::Outcome, message::Key};

use super::{
    CrashPoint, FaultyStore,
    link::Link,
    probe::{Probe, Scenario, Seen, Watch},
};

/// How long a delivery may take, on the paused clock: then it never ends.
const LONGEST: Duration = Duration::from_hours(24);

/// How a delivery to a process ended.
#[derive(Debug)]
pub(crate) enum Ran<T> {
    /// By itself.
    Ended(T, Seen),
    /// Its worker vanished, or whoever waited for it.
    Vanished,
}

/// A process.
#[derive(Debug, Clone)]
pub(crate) struct Process<P> {
    /// What runs in it.
    pub(crate) program: P,
    link: Link,
    watched: Watch,
    /// How long a wait of the handler may be one for threads of which tokio does not know.
    patience: Option<Duration>,
}

/// A worker's process.
pub(crate) type Worker<S> = Process<Executor<FaultyStore<S>>>;

impl<S: Store + Clone> Worker<S> {
    /// Starts one on the same store.
    pub(crate) fn start(store: &FaultyStore<S>) -> Self {
        Process::running(store, Watch::Handler, Executor::new)
    }
}

impl<P> Process<P> {
    /// Starts a program on the same store.
    pub(crate) fn running<S: Clone>(
        store: &FaultyStore<S>,
        watched: Watch,
        program: impl FnOnce(FaultyStore<S>) -> P,
    ) -> Self {
        let link = Link::open();
        Self {
            program: program(store.linked_by(link.clone())),
            link,
            watched,
            patience: store.patience(),
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

    /// Runs the work of deliveries at once until one of them comes to this point: there the worker vanishes with all of
    /// them. If none does, how the first one ended. Any of them may run what they share.
    ///
    /// # Panics
    /// If there is none.
    pub(crate) async fn vanish_together<T>(
        &self,
        point: CrashPoint,
        works: impl IntoIterator<Item = impl Future<Output = T>>,
    ) -> Ran<T> {
        let works = works.into_iter().enumerate();
        let mut works: FuturesUnordered<_> = works
            .map(async |(place, work)| (place, self.vanish(point, work).await))
            .collect();
        let mut first = None;
        while let Some((place, ran)) = works.next().await {
            match ran {
                Ran::Vanished => return Ran::Vanished,
                ended if place == 0 => first = Some(ended),
                Ran::Ended(..) => {}
            }
        }
        first.unwrap_or_else(|| panic!("no message: there is nothing to crash at"))
    }

    /// Runs a request's work until it ends, or its client goes away at this wait of the handler.
    #[cfg(feature = "http")]
    pub(crate) async fn leave<T>(&self, wait: u32, work: impl Future<Output = T>) -> Ran<T> {
        self.run_until(Scenario::Leaves(wait), work).await
    }

    /// What the store was told of this key, if it was told of several at once.
    #[cfg(feature = "amqp")]
    pub(crate) fn completed_together(&self, key: &Key) -> Option<Outcome> {
        self.link.completed_together().get(key).cloned()
    }

    fn probe(&self, scenario: Scenario) -> Probe {
        Probe::new(scenario, self.link.clone(), self.watched, self.patience)
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
