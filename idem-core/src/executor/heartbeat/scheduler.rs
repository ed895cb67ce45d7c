//! Heartbeats that are not due yet, because their leases are young: one task waits for all of them.

use std::{
    collections::{BTreeMap, HashMap},
    fmt, mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use tokio::{
    runtime::{Handle, Id},
    sync::Notify,
    task::AbortHandle,
    time::{Instant, sleep_until},
};

use super::Held;
use crate::futures::BoxFuture;

/// The heartbeats of all that an executor runs. Clones share them.
///
/// Most work ends before its heartbeat is due. So a heartbeat waits among the others, and is given a
/// task of its own when it is due.
#[derive(Clone, Default)]
pub(in crate::executor) struct HeartbeatScheduler(Arc<Schedules>);

/// One for each runtime: tasks end with theirs. Held for one change, never over an await.
type Schedules = Mutex<Vec<Schedule>>;

/// What keeps a lease.
pub(super) trait Beat: Send + Sync {
    /// Beats until the lease is lost.
    fn beat(self: Arc<Self>) -> BoxFuture<'static, ()>;

    /// How the lease stands.
    fn held(&self) -> &Held;
}

/// The heartbeats of one runtime.
struct Schedule {
    runtime: Id,
    /// By when they are due.
    waiting: BTreeMap<Due, Arc<dyn Beat>>,
    beating: HashMap<Due, AbortHandle>,
    /// How many there were.
    count: u64,
    /// When the task that waits for them looks at them next, if any waits.
    next_look: Option<Instant>,
    sooner: Arc<Notify>,
}

/// When a heartbeat is due, and which it is.
type Due = (Instant, u64);

/// A heartbeat, until this is dropped.
pub(super) struct Scheduled {
    scheduler: HeartbeatScheduler,
    runtime: Id,
    due: Due,
    /// Whether the task that waits for the heartbeats has been woken, or started.
    pub(super) is_next: bool,
}

impl HeartbeatScheduler {
    /// Lets the heartbeat wait until it is due, and beat from then on.
    pub(super) fn keep(&self, due: Instant, heartbeat: Arc<dyn Beat>) -> Scheduled {
        let runtime = Handle::current().id();
        let mut schedules = self.lock();
        let known = schedules
            .iter_mut()
            .find(|schedule| schedule.runtime == runtime);
        let (added, new) = if let Some(schedule) = known {
            (schedule.add(due, heartbeat), None)
        } else {
            let mut schedule = Schedule::new(runtime);
            let first = schedule.add(due, heartbeat);
            let sooner = Arc::clone(&schedule.sooner);
            schedules.push(schedule);
            (first, Some(sooner))
        };
        drop(schedules);
        // A runtime that shuts down drops it at once, and the schedule with it.
        if let Some(sooner) = new {
            let task = SchedulerTask {
                scheduler: Arc::downgrade(&self.0),
                runtime,
            };
            tokio::spawn(task.run(sooner));
        }
        let (due, is_next) = added;
        Scheduled {
            scheduler: self.clone(),
            runtime,
            due,
            is_next,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Schedule>> {
        lock(&self.0)
    }
}

fn lock(schedules: &Schedules) -> MutexGuard<'_, Vec<Schedule>> {
    schedules.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Scheduled {
    fn drop(&mut self) {
        let mut schedules = self.scheduler.lock();
        let schedule = schedules
            .iter_mut()
            .find(|schedule| schedule.runtime == self.runtime);
        let heartbeat = schedule.and_then(|schedule| schedule.remove(self.due));
        drop(schedules);
        drop(heartbeat);
    }
}

impl Schedule {
    fn new(runtime: Id) -> Self {
        Self {
            runtime,
            waiting: BTreeMap::new(),
            beating: HashMap::new(),
            count: 0,
            next_look: None,
            sooner: Arc::default(),
        }
    }

    fn add(&mut self, due: Instant, heartbeat: Arc<dyn Beat>) -> (Due, bool) {
        self.count += 1;
        let is_next = self.next_look.is_none_or(|look| due < look);
        if is_next {
            self.next_look = Some(due);
            self.sooner.notify_one();
        }
        let due = (due, self.count);
        self.waiting.insert(due, heartbeat);
        (due, is_next)
    }

    /// Ends a heartbeat; if it still waited, that is returned.
    fn remove(&mut self, due: Due) -> Option<Arc<dyn Beat>> {
        let waiting = self.waiting.remove(&due);
        if waiting.is_none()
            && let Some(beating) = self.beating.remove(&due)
        {
            beating.abort();
        }
        waiting
    }

    /// Lets those beat that are due, and says when to look again.
    fn look(&mut self, now: Instant) -> Option<Instant> {
        let later = self.waiting.split_off(&(now, u64::MAX));
        for (due, heartbeat) in mem::replace(&mut self.waiting, later) {
            let beating = tokio::spawn(heartbeat.beat());
            self.beating.insert(due, beating.abort_handle());
        }
        self.next_look = self.waiting.keys().next().map(|(due, _)| *due);
        self.next_look
    }
}

impl Drop for Schedule {
    fn drop(&mut self) {
        self.sooner.notify_one();
    }
}

/// The task that waits for the heartbeats of a runtime. It ends with that, or with the executor.
struct SchedulerTask {
    scheduler: Weak<Schedules>,
    runtime: Id,
}

/// What it waits for next.
enum Wait {
    /// A heartbeat is due then.
    Until(Instant),
    /// No heartbeat waits.
    ForHeartbeat,
}

impl SchedulerTask {
    async fn run(self, sooner: Arc<Notify>) {
        while let Some(wait) = self.look() {
            match wait {
                Wait::ForHeartbeat => sooner.notified().await,
                Wait::Until(due) => tokio::select! {
                    () = sleep_until(due) => {}
                    () = sooner.notified() => {}
                },
            }
        }
    }

    /// Lets those beat that are due; nothing if there is no schedule any more.
    fn look(&self) -> Option<Wait> {
        let schedules = self.scheduler.upgrade()?;
        let mut schedules = lock(&schedules);
        let schedule = schedules.iter_mut().find(|it| it.runtime == self.runtime)?;
        let next = schedule.look(Instant::now());
        Some(next.map_or(Wait::ForHeartbeat, Wait::Until))
    }
}

impl Drop for SchedulerTask {
    fn drop(&mut self) {
        let Some(schedules) = self.scheduler.upgrade() else {
            return;
        };
        let mut schedules = lock(&schedules);
        let gone = schedules.extract_if(.., |it| it.runtime == self.runtime);
        let gone: Vec<_> = gone.collect();
        drop(schedules);
        drop(gone);
    }
}

impl fmt::Debug for HeartbeatScheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeartbeatScheduler").finish_non_exhaustive()
    }
}
