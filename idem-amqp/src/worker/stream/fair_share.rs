//! How the workers of a handler share the partitions of a super stream.
//!
//! `StreamReader` asks before it claims a partition, and while it reads one. Nobody assigns partitions: each worker
//! counts how many workers there are, by the consumers of the queue to which what fails of all partitions comes back,
//! and takes no more than its share. What must stay true:
//!
//! - Who reads is decided by the claim in the store alone, so that a wrong count costs time, and nothing else.
//! - A partition that nobody else claims is read, whatever the share.
// docs/decisions/0051

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use lapin::{Connection, options::QueueDeclareOptions, types::FieldTable};
use tokio::time::Instant;

use crate::topology::Queue;

/// How old the count of the workers may be.
pub(super) const COUNTED: Duration = Duration::from_secs(5);

/// Between two partitions that a worker gives back: others have the first one by then.
const BETWEEN: Duration = Duration::from_secs(3);

/// Between two tries, where nobody has claimed what was given back, or the broker has refused to count.
const IN_VAIN: Duration = Duration::from_mins(10);

/// The shares of a worker, one for each super stream and handler.
#[derive(Default)]
pub(in crate::worker) struct FairShares(HashMap<Arc<str>, Arc<FairShare>>);

impl FairShares {
    /// That of a partition; none of any other stream.
    pub(in crate::worker) fn of(&mut self, queue: &Queue) -> Option<Arc<FairShare>> {
        let partitions = queue.partition()?.of;
        let failures = queue.comes_back_to()?;
        let share = self.0.entry(Arc::clone(&failures));
        let share = share.or_insert_with(|| Arc::new(FairShare::new(failures, partitions)));
        Some(Arc::clone(share))
    }
}

/// What one worker has of the partitions of a super stream.
pub(in crate::worker) struct FairShare {
    /// Each worker has one consumer of it.
    failures: Arc<str>,
    partitions: u16,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The partitions that this worker reads, or is about to claim.
    held: HashSet<Arc<str>>,
    workers: u32,
    counted: Option<Instant>,
    /// Nothing is given back before this time.
    gives_from: Option<Instant>,
}

impl FairShare {
    fn new(failures: Arc<str>, partitions: u16) -> Self {
        Self {
            failures,
            partitions,
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many partitions a worker reads at most, if there are so many workers and all read.
    fn most(&self, workers: u32) -> usize {
        let most = u32::from(self.partitions).div_ceil(workers.max(1));
        usize::try_from(most).unwrap_or(usize::MAX)
    }

    /// Counts the workers, unless that was done a moment ago. Where the broker does not tell, it is as before.
    pub(super) async fn count(&self, connection: &Connection, at_most_old: Duration) {
        let now = Instant::now();
        {
            let mut state = self.state();
            if state.counted.is_some_and(|at| now - at < at_most_old) {
                return;
            }
            // Others need not ask meanwhile.
            state.counted = Some(now);
        }
        let passive = QueueDeclareOptions {
            passive: true,
            ..QueueDeclareOptions::default()
        };
        let Ok(channel) = connection.create_channel().await else {
            return;
        };
        let name = (*self.failures).into();
        let found = channel.queue_declare(name, passive, FieldTable::default());
        match found.await {
            Ok(found) => {
                self.set_workers(found.consumer_count());
                let _ = channel.close(200, "done".into()).await;
            }
            // The broker has closed the channel, whose number is used up.
            Err(error) if connection.status().connected() => {
                tracing::debug!(queue = &*self.failures, %error, "the workers were not counted");
                self.state().counted = Some(now + IN_VAIN);
            }
            // Counted anew on the next connection.
            Err(_) => {}
        }
    }

    fn set_workers(&self, workers: u32) {
        let mut state = self.state();
        if workers > state.workers {
            // Whoever has come may claim what the others have left.
            state.gives_from = None;
        }
        if workers != state.workers {
            tracing::info!(
                queue = &*self.failures,
                workers,
                at_most = self.most(workers),
                reads = state.held.len(),
                "the partitions of the super stream are shared by so many workers"
            );
        }
        state.workers = workers;
    }

    /// This worker has claimed a partition, however it came to that.
    pub(super) fn add(&self, partition: Arc<str>) {
        self.state().held.insert(partition);
    }

    /// Counts a partition as held if this worker may claim it, and says whether it may: it has it already, or has less
    /// than its share.
    pub(super) fn try_take(&self, partition: &Arc<str>) -> bool {
        let mut state = self.state();
        if state.held.contains(partition) {
            return true;
        }
        let takes = state.held.len() < self.most(state.workers);
        if takes {
            state.held.insert(Arc::clone(partition));
        }
        takes
    }

    /// Takes a partition beyond the share, because nobody else does.
    pub(super) fn take_what_is_left(&self, partition: &Arc<str>, now: Instant) {
        let mut state = self.state();
        state.held.insert(Arc::clone(partition));
        state.gives_from = Some(now + IN_VAIN);
    }

    /// Another worker has it, or is to have it.
    pub(super) fn remove(&self, partition: &str) {
        self.state().held.remove(partition);
    }

    /// Counts a partition as given back if it is one too many, and says whether it is.
    pub(super) fn try_give_back(&self, partition: &str, now: Instant) -> bool {
        let mut state = self.state();
        let may_give = state.gives_from.is_none_or(|from| now >= from);
        let is_surplus = state.held.len() > self.most(state.workers);
        let gives = may_give && is_surplus && state.held.remove(partition);
        if gives {
            state.gives_from = Some(now + BETWEEN);
        }
        gives
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(partitions: u16, workers: u32) -> FairShare {
        let share = FairShare::new("ledger~books.book".into(), partitions);
        share.state().workers = workers;
        share
    }

    fn takes(share: &FairShare, partitions: u16) -> Vec<bool> {
        let partitions = 0..partitions;
        let taken = partitions.map(|partition| share.try_take(&partition.to_string().into()));
        taken.collect()
    }

    #[test]
    fn a_share_is_rounded_up_so_that_all_partitions_are_read() {
        for (partitions, workers, most) in [
            (3, 0, 3),
            (3, 1, 3),
            (3, 2, 2),
            (3, 3, 1),
            (3, 9, 1),
            (12, 5, 3),
        ] {
            let share = of(partitions, workers);
            assert_eq!(share.most(workers), most, "{partitions} {workers}");
        }
    }

    #[test]
    fn a_worker_takes_no_more_than_its_share_and_goes_on_with_what_it_has() {
        let share = of(3, 2);
        assert_eq!(takes(&share, 3), [true, true, false]);
        assert_eq!(takes(&share, 3), [true, true, false]);
        share.remove("0");
        assert!(share.try_take(&"2".into()));
    }

    #[test]
    fn a_worker_gives_back_one_partition_after_the_other_down_to_its_share() {
        let (share, now) = (of(3, 1), Instant::now());
        takes(&share, 3);
        assert!(!share.try_give_back("0", now));
        share.state().workers = 3;
        assert!(share.try_give_back("0", now));
        assert!(!share.try_give_back("1", now), "not all at once");
        assert!(
            !share.try_give_back("0", now + BETWEEN),
            "it has that no more"
        );
        assert!(share.try_give_back("1", now + BETWEEN));
        assert!(!share.try_give_back("2", now + BETWEEN * 2), "its share");
    }

    #[test]
    fn what_nobody_else_claims_is_taken_and_kept_for_a_while() {
        let (share, now) = (of(2, 2), Instant::now());
        takes(&share, 1);
        let other = "1".into();
        assert!(!share.try_take(&other));
        share.take_what_is_left(&other, now);
        assert!(share.try_take(&other));
        assert!(!share.try_give_back("1", now + IN_VAIN / 2));
        assert!(share.try_give_back("1", now + IN_VAIN));
    }

    #[test]
    fn a_worker_that_comes_gets_what_was_taken_because_nobody_was_there() {
        let (share, now) = (of(2, 2), Instant::now());
        takes(&share, 1);
        share.take_what_is_left(&"1".into(), now);
        share.set_workers(1);
        assert!(!share.try_give_back("1", now), "it is alone");
        share.set_workers(2);
        assert!(share.try_give_back("1", now));
    }

    #[test]
    fn what_was_claimed_beyond_the_share_is_given_back_too() {
        let (share, now) = (of(3, 2), Instant::now());
        takes(&share, 2);
        share.add("2".into());
        assert!(share.try_give_back("2", now));
    }

    #[test]
    fn partitions_of_one_super_stream_and_handler_have_one_share() {
        let mut shares = FairShares::default();
        let read = |scope| Queue::super_stream("ledger", 2).read_by(scope).partitions();
        let [books, sums] = ["books.book", "ledger.sum"].map(read);
        let mut of = |queue: &Queue| shares.of(queue).map(|share| Arc::as_ptr(&share));
        assert_eq!(of(&books[0]), of(&books[1]));
        assert_ne!(of(&books[0]), of(&sums[0]));
        assert_eq!(of(&Queue::stream("ledger").read_by("books.book")), None);
    }
}
