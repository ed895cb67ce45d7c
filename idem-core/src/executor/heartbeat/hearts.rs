//! Hearts that need not beat yet, because their leases are young: one task waits for all of them.

use std::{
    collections::{BTreeMap, HashMap},
    fmt, mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use futures_util::future::BoxFuture;
use tokio::{
    runtime::{Handle, Id},
    sync::Notify,
    task::AbortHandle,
    time::{Instant, sleep_until},
};

/// The hearts of all that an executor runs. Clones share them.
///
/// Most work ends before its heart has to beat. So a heart rests among the others, and is given a
/// task of its own when it is due.
#[derive(Clone, Default)]
pub(in crate::executor) struct Hearts(Arc<Wards>);

/// One for each runtime: tasks end with theirs. Held for one change, never over an await.
type Wards = Mutex<Vec<Ward>>;

/// What keeps a lease.
pub(super) trait Beat: Send + Sync {
    /// Beats until the lease is lost.
    fn beat(self: Arc<Self>) -> BoxFuture<'static, ()>;
}

/// The hearts of one runtime.
struct Ward {
    runtime: Id,
    /// By when they are due.
    resting: BTreeMap<Due, Arc<dyn Beat>>,
    beating: HashMap<Due, AbortHandle>,
    /// How many there were.
    count: u64,
    /// When the task that waits for them looks at them next, if any rests.
    next_look: Option<Instant>,
    sooner: Arc<Notify>,
}

/// When a heart is due, and which it is.
type Due = (Instant, u64);

/// A heart, until this is dropped.
pub(super) struct Kept<'a> {
    hearts: &'a Hearts,
    runtime: Id,
    due: Due,
    /// Whether the task that waits for the hearts has been woken, or started.
    pub(super) is_next: bool,
}

impl Hearts {
    /// Lets the heart rest until it is due, and beat from then on.
    pub(super) fn keep(&self, due: Instant, heart: Arc<dyn Beat>) -> Kept<'_> {
        let runtime = Handle::current().id();
        let mut wards = self.lock();
        let known = wards.iter_mut().find(|ward| ward.runtime == runtime);
        let (kept, new) = if let Some(ward) = known {
            (ward.add(due, heart), None)
        } else {
            let mut ward = Ward::new(runtime);
            let added = ward.add(due, heart);
            let sooner = Arc::clone(&ward.sooner);
            wards.push(ward);
            (added, Some(sooner))
        };
        drop(wards);
        // A runtime that shuts down drops it at once, and the ward with it.
        if let Some(sooner) = new {
            let hearts = Arc::downgrade(&self.0);
            tokio::spawn(Attendance { hearts, runtime }.attend(sooner));
        }
        let (due, is_next) = kept;
        Kept {
            hearts: self,
            runtime,
            due,
            is_next,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Ward>> {
        lock(&self.0)
    }
}

fn lock(wards: &Wards) -> MutexGuard<'_, Vec<Ward>> {
    wards.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        let mut wards = self.hearts.lock();
        let ward = wards.iter_mut().find(|ward| ward.runtime == self.runtime);
        let heart = ward.and_then(|ward| ward.remove(self.due));
        drop(wards);
        drop(heart);
    }
}

impl Ward {
    fn new(runtime: Id) -> Self {
        Self {
            runtime,
            resting: BTreeMap::new(),
            beating: HashMap::new(),
            count: 0,
            next_look: None,
            sooner: Arc::default(),
        }
    }

    fn add(&mut self, due: Instant, heart: Arc<dyn Beat>) -> (Due, bool) {
        self.count += 1;
        let is_next = self.next_look.is_none_or(|look| due < look);
        if is_next {
            self.next_look = Some(due);
            self.sooner.notify_one();
        }
        let due = (due, self.count);
        self.resting.insert(due, heart);
        (due, is_next)
    }

    /// Ends a heart; if it still rested, that is returned.
    fn remove(&mut self, due: Due) -> Option<Arc<dyn Beat>> {
        let resting = self.resting.remove(&due);
        if resting.is_none()
            && let Some(beating) = self.beating.remove(&due)
        {
            beating.abort();
        }
        resting
    }

    /// Lets those beat that are due, and says when to look again.
    fn look(&mut self, now: Instant) -> Option<Instant> {
        let later = self.resting.split_off(&(now, u64::MAX));
        for (due, heart) in mem::replace(&mut self.resting, later) {
            let beating = tokio::spawn(heart.beat());
            self.beating.insert(due, beating.abort_handle());
        }
        self.next_look = self.resting.keys().next().map(|(due, _)| *due);
        self.next_look
    }
}

impl Drop for Ward {
    fn drop(&mut self) {
        self.sooner.notify_one();
    }
}

/// The task that waits for the hearts of a runtime. It ends with that, or with the executor.
struct Attendance {
    hearts: Weak<Wards>,
    runtime: Id,
}

/// What it waits for next.
enum Wait {
    /// A heart is due then.
    Until(Instant),
    /// No heart rests.
    ForHearts,
}

impl Attendance {
    async fn attend(self, sooner: Arc<Notify>) {
        while let Some(wait) = self.look() {
            match wait {
                Wait::ForHearts => sooner.notified().await,
                Wait::Until(due) => tokio::select! {
                    () = sleep_until(due) => {}
                    () = sooner.notified() => {}
                },
            }
        }
    }

    /// Lets those beat that are due; nothing if there is no ward any more.
    fn look(&self) -> Option<Wait> {
        let wards = self.hearts.upgrade()?;
        let mut wards = lock(&wards);
        let ward = wards.iter_mut().find(|it| it.runtime == self.runtime)?;
        let next = ward.look(Instant::now());
        Some(next.map_or(Wait::ForHearts, Wait::Until))
    }
}

impl Drop for Attendance {
    fn drop(&mut self) {
        let Some(wards) = self.hearts.upgrade() else {
            return;
        };
        let mut wards = lock(&wards);
        let gone = wards.extract_if(.., |it| it.runtime == self.runtime);
        let gone: Vec<_> = gone.collect();
        drop(wards);
        drop(gone);
    }
}

impl fmt::Debug for Hearts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hearts").finish_non_exhaustive()
    }
}
