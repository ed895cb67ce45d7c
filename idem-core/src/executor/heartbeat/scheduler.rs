//! Heartbeats that are not due yet, because their leases are young: one task waits for all of them.
//!
//! [`KeptLease`](super::KeptLease) puts its heartbeat in, and its drop takes it out. A heartbeat waits, then beats,
//! then is gone: it waits in `waiting` until it is due, is in `beating` from then on, and is taken out of either by its
//! [`Scheduled`]. What must stay true:
//!
//! - Each heartbeat begins when it is due, on the runtime that runs its work.
//! - A heartbeat that was taken out beats no more.
//! - The lock is never held while something is dropped or spawned that may need it.

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
/// Most work ends before its heartbeat is due. So a heartbeat waits among the others, and gets a task and a
/// timer of its own only when it is due.
#[derive(Clone, Default)]
pub(in crate::executor) struct HeartbeatScheduler(Arc<Schedules>);

/// One for each runtime that work runs on: a task ends with its runtime, and an executor may outlive one. The lock is
/// held for one change, never over an await.
type Schedules = Mutex<Vec<Schedule>>;

/// A heartbeat whose type is forgotten: it has that of its store.
pub(super) trait Beat: Send + Sync {
    /// Beats until the lease is lost. Dropped while it beats, it marks the lease as lost.
    fn beat(self: Arc<Self>) -> BoxFuture<'static, ()>;

    /// How the lease stands.
    fn held(&self) -> &Held;
}

/// The heartbeats of one runtime.
struct Schedule {
    runtime: Id,
    /// Those that are not due yet, the next one first. Most are taken out from here, because their work is done.
    waiting: BTreeMap<Due, Arc<dyn Beat>>,
    /// Those that have a task, to end it. A lease that was lost ends its task by itself, and stays in here until its
    /// work does.
    beating: HashMap<Due, AbortHandle>,
    /// How many there were so far: a number for the next one.
    count: u64,
    /// When the task that waits for them looks at them next; `None` while none waits. It may be earlier than the first
    /// one is due: when one is taken out, the task is not told.
    next_look: Option<Instant>,
    /// Wakes that task, because a heartbeat is due before its next look, or the schedule is gone.
    sooner: Arc<Notify>,
}

/// When a heartbeat is due first, and its number: two may be due at the same time.
type Due = (Instant, u64);

/// A heartbeat that waits or beats until this is dropped.
pub(super) struct Scheduled {
    scheduler: HeartbeatScheduler,
    runtime: Id,
    due: Due,
    /// Whether this is the first one due, so that the task that waits for the heartbeats was woken or started
    /// for it. It has to run before this thread is blocked.
    pub(super) is_next: bool,
}

impl HeartbeatScheduler {
    /// Lets the heartbeat wait until it is due, and beat from then on, on the runtime that this is called on.
    pub(super) fn keep(&self, due: Instant, heartbeat: Arc<dyn Beat>) -> Scheduled {
        // A heartbeat on another runtime would stop with that, and this work would lose its lease.
        let runtime = Handle::current().id();
        let mut schedules = self.lock();
        // The first heartbeat on a runtime makes its schedule, and starts the task that waits for all.
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
        // Without the lock: a runtime that shuts down drops a new task at once, and this one's drop takes the lock to
        // remove its schedule.
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
        // Gone if its runtime shut down: then the heartbeat went with it.
        let schedule = schedules
            .iter_mut()
            .find(|schedule| schedule.runtime == self.runtime);
        let heartbeat = schedule.and_then(|schedule| schedule.remove(self.due));
        // Dropped without the lock: with a heartbeat may go the last reference to a store, and that is the
        // user's code.
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

    /// Adds a heartbeat; says under which entry, and whether it is now the first one due.
    fn add(&mut self, due: Instant, heartbeat: Arc<dyn Beat>) -> (Due, bool) {
        self.count += 1;
        let is_next = self.next_look.is_none_or(|look| due < look);
        if is_next {
            self.next_look = Some(due);
            // The task sleeps until a later heartbeat is due, or until there is one: this one would beat too late. A
            // task that is not asleep finds the wake-up when it is about to be.
            self.sooner.notify_one();
        }
        let due = (due, self.count);
        self.waiting.insert(due, heartbeat);
        (due, is_next)
    }

    /// Ends a heartbeat. One that still waited is returned, to be dropped without the lock; one that beats is
    /// dropped by the runtime.
    fn remove(&mut self, due: Due) -> Option<Arc<dyn Beat>> {
        let waiting = self.waiting.remove(&due);
        if waiting.is_none()
            && let Some(beating) = self.beating.remove(&due)
        {
            beating.abort();
        }
        waiting
    }

    /// Gives a task to each heartbeat that is due, and says when to look again; `None` if no other one waits.
    fn look(&mut self, now: Instant) -> Option<Instant> {
        // Those from here on stay. Due now is due, whatever its number: hence the greatest.
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
    /// Wakes the task: it finds that its schedule is gone, and ends.
    fn drop(&mut self) {
        self.sooner.notify_one();
    }
}

/// The task that waits for the heartbeats of a runtime. It ends with the runtime, or with the last clone of the
/// executor.
struct SchedulerTask {
    /// Weak: the task must not keep the executor's heartbeats when everybody else has dropped them.
    scheduler: Weak<Schedules>,
    runtime: Id,
}

/// What the task waits for next.
enum Wait {
    /// A heartbeat is due then.
    Until(Instant),
    /// No heartbeat waits.
    ForHeartbeat,
}

impl SchedulerTask {
    /// Looks, and sleeps until the next heartbeat is due or it is woken, until its schedule is gone. It holds nothing
    /// while it sleeps, so it keeps no executor alive.
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

    /// Lets those beat that are due, and says what to wait for; `None` if the schedule is gone.
    fn look(&self) -> Option<Wait> {
        let schedules = self.scheduler.upgrade()?;
        let mut schedules = lock(&schedules);
        let schedule = schedules.iter_mut().find(|it| it.runtime == self.runtime)?;
        let next = schedule.look(Instant::now());
        Some(next.map_or(Wait::ForHeartbeat, Wait::Until))
    }
}

impl Drop for SchedulerTask {
    /// Removes the schedule, which nobody would look at any more: the runtime shuts down. Work on another
    /// runtime has a schedule of its own.
    fn drop(&mut self) {
        let Some(schedules) = self.scheduler.upgrade() else {
            return;
        };
        let mut schedules = lock(&schedules);
        let gone = schedules.extract_if(.., |it| it.runtime == self.runtime);
        let gone: Vec<_> = gone.collect();
        // Dropped without the lock, for the same reason as in `Scheduled`.
        drop(schedules);
        drop(gone);
    }
}

impl fmt::Debug for HeartbeatScheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeartbeatScheduler").finish_non_exhaustive()
    }
}
