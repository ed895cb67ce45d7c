//! What one delivery is to meet, and what was seen of it: known to its task alone.

use std::{
    future::pending,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

use idem_core::{handler::Outcome, store::Claim};

use super::{CrashPoint, clock::StandingStill, link::Link};

tokio::task_local! {
    static PROBE: Probe;
}

/// What one delivery is to meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scenario {
    /// Nothing particular.
    Undisturbed,
    /// Its worker vanishes.
    Vanishes(CrashPoint),
    /// Its worker stands still where the handler waits first, or before the completion.
    StandsStill,
    /// Whoever waits for it goes away, where the handler waits for the so many-th time.
    #[cfg(feature = "http")]
    Leaves(u32),
}

/// What is watched from outside, to see where the handler waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watch {
    /// The handler itself.
    Handler,
    /// A service whose handler is somewhere inside: it runs from the claim to what ends that.
    #[cfg(feature = "http")]
    Service,
}

impl Watch {
    fn is_of_service(self) -> bool {
        self != Self::Handler
    }
}

/// What was seen of one delivery.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    /// Whether the handler was polled; of a service, whether it runs.
    pub(crate) began: bool,
    /// How often it had to wait.
    pub(crate) waits: u32,
    /// What the store has of the message, if it is done; or what it was told last.
    pub(crate) outcome: Option<Outcome>,
    /// Whether the store was asked for a claim.
    #[cfg(feature = "http")]
    claims: bool,
    last_wait: Option<Wait>,
}

/// How long the clock stood still for a wait at most, and since when.
#[derive(Debug, Clone, Copy)]
struct Wait {
    began: Instant,
    patience: Duration,
}

/// However often the clock went on during waits.
const LEAST_PATIENCE: Duration = Duration::from_millis(100);

#[derive(Debug, Clone)]
pub(super) struct Probe {
    scenario: Scenario,
    link: Link,
    watched: Watch,
    /// How long a wait of the handler may be one for threads of which tokio does not know.
    patience: Option<Duration>,
    reached: Arc<Notify>,
    seen: Arc<Mutex<Seen>>,
}

impl Probe {
    pub(super) fn new(
        scenario: Scenario,
        link: Link,
        watched: Watch,
        patience: Option<Duration>,
    ) -> Self {
        Self {
            scenario,
            link,
            watched,
            patience,
            reached: Arc::default(),
            seen: Arc::default(),
        }
    }

    /// Runs a delivery's work, watched.
    pub(super) async fn watch<T>(&self, work: impl Future<Output = T>) -> T {
        PROBE.scope(self.clone(), work).await
    }

    /// Waits until the delivery has met what it was to meet.
    pub(super) async fn reached(&self) {
        self.reached.notified().await;
    }

    pub(super) fn seen(&self) -> MutexGuard<'_, Seen> {
        // What is written under the lock is never half done.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the worker vanishes here: then its link is cut.
    fn vanishes(&self, point: CrashPoint) -> bool {
        let vanishes = self.scenario == Scenario::Vanishes(point);
        if vanishes {
            self.link.cut();
            self.reached.notify_one();
        }
        vanishes
    }

    /// What is waited for may be on another thread. If the clock went on during the last wait, that was for a timer,
    /// and the next one may be, too: a heartbeat's, say. So there is less patience with each of those, and all of it
    /// again when something else came.
    fn keep_still(&self) -> Option<StandingStill> {
        let (longest, now) = (self.patience?, Instant::now());
        let mut seen = self.seen();
        let patience = match seen.last_wait {
            Some(last) if last.began < now => (last.patience / 2).max(LEAST_PATIENCE.min(longest)),
            _ => longest,
        };
        let wait = Wait {
            began: now,
            patience,
        };
        seen.last_wait = Some(wait);
        Some(StandingStill::for_at_most(patience))
    }

    fn stand_still(&self) {
        if self.scenario == Scenario::StandsStill && self.link.freeze_once() {
            self.reached.notify_one();
        }
    }
}

/// The probe of the delivery that this task is at; none in the tasks that it has spawned.
fn current() -> Option<Probe> {
    PROBE.try_with(Clone::clone).ok()
}

/// Does not return if the worker vanishes here.
async fn pass(point: CrashPoint) {
    if current().is_some_and(|probe| probe.vanishes(point)) {
        pending::<()>().await;
    }
}

pub(super) async fn before_claim() {
    #[cfg(feature = "http")]
    if let Some(probe) = current() {
        probe.seen().claims = true;
    }
    pass(CrashPoint::BeforeClaim).await;
}

pub(super) async fn claimed(claim: &Claim) {
    match (claim, current()) {
        (Claim::Acquired(_), _) => opened().await,
        (Claim::Completed { outcome, .. }, Some(probe)) => {
            probe.seen().outcome = Some(outcome.clone());
        }
        _ => {}
    }
}

/// What is not claimed has its transaction.
pub(super) async fn opened() {
    pass(CrashPoint::AfterClaim).await;
    if let Some(probe) = current().filter(|probe| probe.watched.is_of_service()) {
        probe.seen().began = true;
    }
}

/// What the store is told of: if the answer is lost, another task repeats it.
pub(super) async fn before_completion(outcome: &Outcome) {
    if let Some(probe) = current() {
        probe.seen().outcome = Some(outcome.clone());
    }
    before_ending().await;
}

pub(super) async fn before_release() {
    before_ending().await;
}

/// The store is told no outcome.
pub(super) async fn before_recording() {
    before_ending().await;
}

async fn before_ending() {
    let Some(probe) = current() else { return };
    if probe.seen().began {
        probe.stand_still();
        pass(CrashPoint::BeforeCompletion).await;
    }
    if probe.watched.is_of_service() {
        probe.seen().began = false;
    }
}

pub(super) async fn completed() {
    pass(CrashPoint::AfterCompletion).await;
}

pub(super) fn handler_began() {
    if let Some(probe) = current() {
        probe.seen().began = true;
    }
}

/// While what this returns lives, the clock waits with the handler.
pub(super) fn handler_waits() -> Option<StandingStill> {
    let probe = current()?;
    let waits = {
        let mut seen = probe.seen();
        seen.waits += 1;
        seen.waits
    };
    probe.stand_still();
    probe.vanishes(CrashPoint::InHandler(waits));
    #[cfg(feature = "http")]
    if probe.scenario == Scenario::Leaves(waits) {
        probe.reached.notify_one();
    }
    probe.keep_still()
}

/// The same of a service, which waits for other things, too: outside of its layer for a database, say, and from the
/// first claim on also for the handler of another process.
#[cfg(feature = "http")]
pub(super) fn service_waits() -> Option<StandingStill> {
    let probe = current()?;
    let (runs, claims) = {
        let seen = probe.seen();
        (seen.began, seen.claims)
    };
    match (runs, claims) {
        (true, _) => handler_waits(),
        (false, true) => None,
        (false, false) => probe.keep_still(),
    }
}
