//! Numbered messages that wait for those before them: woken when others of their sequence begin or end here.
//!
//! The executor [enters](SequenceWaits::enter) each number that it works on; a worker waits with those that are ahead,
//! by [`Executor::wait_in_sequence`](super::Executor::wait_in_sequence). What must stay true:
//!
//! - A wake-up is a hint, and the store alone decides whose turn it is, so a worker also asks again without one.
//! - Of the numbers that wait, the lowest is woken.
//! - A sequence that nobody works on or waits for is forgotten in the end.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

use crate::message::{SequenceKey, SequencePlace};

/// A sequence flows for so long after one of its numbers has begun or ended here: what waits may soon have its turn.
const FLOWS_FOR: Duration = Duration::from_secs(2);

/// If none of its numbers is worked on here, a sequence stands when the lowest that waits has been ahead of one mark for
/// so long, and for as long as the last one here took: others may take as long elsewhere.
const STANDS_AFTER: Duration = Duration::from_millis(200);

/// The sequences that this process works on, or waits for. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct SequenceWaits(Arc<Mutex<Flows>>);

type Flows = HashMap<SequenceKey, Flow>;

/// From this number of sequences on, the idle ones that do not flow are removed now and then. With fewer, the memory
/// that they take is not worth the search.
const MANY: usize = 1024;

/// What is known here of one sequence.
#[derive(Debug, Default)]
struct Flow {
    /// How many of its numbers are worked on.
    running: usize,
    /// When a number began or ended last; `None` if none has since this was made.
    moved: Option<Instant>,
    /// Since when the lowest number that waits has been ahead of the mark; `None` if it has not been found so since
    /// `moved`, or since the mark has moved.
    ahead_since: Option<Instant>,
    /// How long the number took that ended last.
    took: Duration,
    /// The numbers that wait. Copies of a message have one number, and share an entry.
    waiting: BTreeMap<u64, Waiting>,
    /// The highest mark that a number was found ahead of: the lowest number that was not done at that time.
    mark: u64,
}

/// The copies of one number that wait.
#[derive(Debug, Default)]
struct Waiting {
    woken: Arc<Notify>,
    copies: usize,
}

/// The wait of a numbered message for its turn, until it is dropped:
/// [`Executor::wait_in_sequence`](super::Executor::wait_in_sequence).
///
/// Only the lowest number that waits is woken, and the next one when that waits no longer: whatever else
/// waits would find itself ahead again.
#[derive(Debug)]
pub struct SequenceWait {
    sequence_waits: SequenceWaits,
    sequence: SequenceKey,
    number: u64,
    woken: Arc<Notify>,
}

/// When the turn of a number may come that is ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Turn {
    /// Soon: numbers of its sequence have begun or ended of late in this process.
    Near,
    /// The same, but what has to come first seems to be elsewhere: none of the sequence is worked on here, the mark
    /// stands, and a lower number waits.
    Elsewhere,
    /// Nobody knows.
    #[default]
    Far,
}

/// A number that is worked on, until it is dropped.
#[derive(Debug)]
pub(super) struct Running {
    sequence_waits: SequenceWaits,
    sequence: SequenceKey,
    began: Instant,
}

impl SequenceWait {
    /// When its turn may come.
    pub fn turn(&self) -> Turn {
        let flows = self.sequence_waits.lock();
        let flow = flows.get(&self.sequence);
        flow.map_or(Turn::Far, |flow| flow.turn_of(self.number))
    }

    /// It was found ahead of this mark again, by the store or by a lower one.
    pub fn is_still_ahead(&self, mark: u64) {
        if let Some(flow) = self.sequence_waits.lock().get_mut(&self.sequence) {
            flow.is_ahead(self.number, mark);
        }
    }

    /// Waits until its turn may have come: a hint for when to claim again, no more.
    ///
    /// # Cancel safety
    /// A dropped call loses no hint.
    pub async fn comes(&self) {
        self.woken.notified().await;
    }
}

impl SequenceWaits {
    /// A number is worked on until the guard is dropped.
    pub(super) fn enter(&self, place: &SequencePlace) -> Running {
        let mut flows = self.lock();
        // Only when their number has doubled: if very many sequences flow, a search for each new one would find
        // nothing, and take longer each time.
        let is_time = flows.len() >= MANY && flows.len().is_power_of_two();
        if is_time && !flows.contains_key(&place.sequence) {
            flows.retain(|_, flow| !flow.is_idle() || flow.flows());
        }
        let flow = flows.entry(place.sequence.clone()).or_default();
        flow.running += 1;
        flow.has_moved();
        // It was claimed, so it is not ahead any more. A copy that still waits asks the store and finds it
        // held. Left in here, it would be the lowest number that waits, and those behind it would not ask the
        // store (`behind`).
        if let Some(copies) = flow.waiting.remove(&place.number) {
            copies.woken.notify_waiters();
        }
        // If this number had its turn, the mark may have moved far enough for the next one.
        flow.wake_lowest();
        Running {
            sequence_waits: self.clone(),
            sequence: place.sequence.clone(),
            began: Instant::now(),
        }
    }

    /// The mark that a lower number was found to be ahead of, if one waits. A higher number is ahead of that
    /// mark, too, so it can wait without asking the store.
    pub(super) fn behind(&self, place: &SequencePlace) -> Option<u64> {
        let flows = self.lock();
        let flow = flows.get(&place.sequence)?;
        let lowest = flow.waiting.keys().next()?;
        (*lowest < place.number).then_some(flow.mark)
    }

    /// A number that is ahead of this mark waits until the guard is dropped.
    pub(super) fn wait(&self, place: &SequencePlace, mark: u64) -> SequenceWait {
        let mut flows = self.lock();
        let flow = flows.entry(place.sequence.clone()).or_default();
        let waiting = flow.waiting.entry(place.number).or_default();
        waiting.copies += 1;
        let woken = Arc::clone(&waiting.woken);
        flow.is_ahead(place.number, mark);
        SequenceWait {
            woken,
            sequence_waits: self.clone(),
            sequence: place.sequence.clone(),
            number: place.number,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Flows> {
        // What is written under the lock is never half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is known of a sequence because a number runs or waits no longer; wakes the lowest that waits, and
    /// forgets the sequence if nothing is left of it.
    fn change(&self, sequence: &SequenceKey, change: impl FnOnce(&mut Flow)) {
        let mut flows = self.lock();
        let Some(flow) = flows.get_mut(sequence) else {
            return;
        };
        change(flow);
        flow.wake_lowest();
        if flow.is_idle() && !flow.flows() {
            flows.remove(sequence);
        }
    }
}

impl Flow {
    /// Whether nobody here works on it or waits for it.
    fn is_idle(&self) -> bool {
        self.running == 0 && self.waiting.is_empty()
    }

    /// One of its numbers begins or ends.
    fn has_moved(&mut self) {
        self.moved = Some(Instant::now());
        self.ahead_since = None;
    }

    /// This number, which waits, is ahead of this mark.
    fn is_ahead(&mut self, number: u64, mark: u64) {
        // Marks only grow. Two answers of the store may come in the other order than they were given.
        if mark > self.mark {
            self.mark = mark;
            self.ahead_since = None;
        }
        // The others have not asked the store.
        if self.is_lowest(number) {
            self.ahead_since.get_or_insert_with(Instant::now);
        }
    }

    fn is_lowest(&self, number: u64) -> bool {
        self.waiting.keys().next() == Some(&number)
    }

    /// Whether one of its numbers has begun or ended of late.
    fn flows(&self) -> bool {
        self.moved.is_some_and(|moved| moved.elapsed() < FLOWS_FOR)
    }

    /// Whether what has to come first is elsewhere.
    fn stands(&self) -> bool {
        let stands_after = STANDS_AFTER.max(self.took);
        let is_ahead = |since: Instant| since.elapsed() >= stands_after;
        self.running == 0 && self.ahead_since.is_some_and(is_ahead)
    }

    /// When the turn of this number, which waits, may come.
    fn turn_of(&self, number: u64) -> Turn {
        match (self.flows(), self.stands() && !self.is_lowest(number)) {
            (true, false) => Turn::Near,
            (true, true) => Turn::Elsewhere,
            (false, _) => Turn::Far,
        }
    }

    /// Wakes the lowest number that waits. All others are further ahead, and would ask the store for nothing.
    fn wake_lowest(&self) {
        if let Some(lowest) = self.waiting.values().next() {
            // This keeps one wake-up for a number that is not waiting yet, between its claim and `comes`.
            lowest.woken.notify_one();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.sequence_waits.change(&self.sequence, |flow| {
            flow.running -= 1;
            flow.took = self.began.elapsed();
            flow.has_moved();
        });
    }
}

impl Drop for SequenceWait {
    fn drop(&mut self) {
        self.sequence_waits.change(&self.sequence, |flow| {
            // Another entry than the one that it waits in has begun after its number was claimed.
            let is_mine = |waiting: &&mut Waiting| Arc::ptr_eq(&waiting.woken, &self.woken);
            let Some(waiting) = flow.waiting.get_mut(&self.number).filter(is_mine) else {
                return;
            };
            waiting.copies -= 1;
            // The last copy takes the number out: before, the others would not be woken; left there, it would keep
            // all higher numbers from asking the store.
            if waiting.copies == 0 {
                flow.waiting.remove(&self.number);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, timeout};

    use super::*;
    use crate::message::Key;

    fn place(number: u64) -> SequencePlace {
        SequencePlace::new(Key::new("readings", "d-7").unwrap(), number)
    }

    async fn is_woken(wait: &SequenceWait) -> bool {
        timeout(Duration::from_millis(1), wait.comes())
            .await
            .is_ok()
    }

    fn waiting<const N: usize>(waits: &SequenceWaits, numbers: [u64; N]) -> [SequenceWait; N] {
        numbers.map(|number| waits.wait(&place(number), 1))
    }

    #[tokio::test(start_paused = true)]
    async fn the_lowest_that_waits_is_woken_when_a_number_ends() {
        let waits = SequenceWaits::default();
        let running = waits.enter(&place(1));
        let [high, low] = waiting(&waits, [9, 8]);
        assert!(!is_woken(&low).await);
        drop(running);
        assert!(is_woken(&low).await);
        assert!(!is_woken(&high).await);
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_is_woken_when_the_lowest_was_claimed_or_waits_no_longer() {
        let waits = SequenceWaits::default();
        let [_claimed, gone, next] = waiting(&waits, [8, 9, 10]);
        let _running = waits.enter(&place(8));
        assert_eq!(
            [is_woken(&gone).await, is_woken(&next).await],
            [true, false]
        );
        drop(gone);
        assert!(is_woken(&next).await);
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_lowest_that_waits_has_to_ask() {
        let waits = SequenceWaits::default();
        let [lowest] = waiting(&waits, [8]);
        let behind = |number| waits.behind(&place(number));
        assert_eq!([7, 8, 9].map(behind), [None, None, Some(1)]);
        drop(lowest);
        assert_eq!(behind(9), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_is_near_while_its_sequence_flows() {
        let waits = SequenceWaits::default();
        let [wait] = waiting(&waits, [9]);
        assert_eq!(wait.turn(), Turn::Far);
        let stuck = waits.enter(&place(1));
        assert_eq!(wait.turn(), Turn::Near);
        advance(FLOWS_FOR).await;
        assert_eq!(wait.turn(), Turn::Far);
        drop(waits.enter(&place(2)));
        assert_eq!(wait.turn(), Turn::Near);
        drop(stuck);
        advance(FLOWS_FOR).await;
        assert_eq!(wait.turn(), Turn::Far);
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_first_is_elsewhere_if_none_is_worked_on_and_the_mark_stands() {
        let waits = SequenceWaits::default();
        let [lowest, higher] = waiting(&waits, [8, 9]);
        let running = waits.enter(&place(1));
        lowest.is_still_ahead(1);
        advance(STANDS_AFTER).await;
        assert_eq!(higher.turn(), Turn::Near, "one is worked on");
        drop(running);
        advance(STANDS_AFTER).await;
        higher.is_still_ahead(1);
        advance(STANDS_AFTER).await;
        assert_eq!(higher.turn(), Turn::Near, "the lowest has not asked");
        lowest.is_still_ahead(1);
        assert_eq!(higher.turn(), Turn::Near, "another may end elsewhere");
        advance(STANDS_AFTER).await;
        assert_eq!(higher.turn(), Turn::Elsewhere);
        assert_eq!(lowest.turn(), Turn::Near, "it is the next one here");
        lowest.is_still_ahead(2);
        assert_eq!(higher.turn(), Turn::Near, "others have ended elsewhere");
        advance(STANDS_AFTER).await;
        assert_eq!(higher.turn(), Turn::Elsewhere);
        drop(waits.enter(&place(2)));
        assert_eq!(higher.turn(), Turn::Near, "one has ended here");
    }

    #[tokio::test(start_paused = true)]
    async fn a_number_is_given_as_long_elsewhere_as_one_took_here() {
        let waits = SequenceWaits::default();
        let [lowest, higher] = waiting(&waits, [8, 9]);
        let running = waits.enter(&place(1));
        advance(STANDS_AFTER * 3).await;
        drop(running);
        lowest.is_still_ahead(1);
        advance(STANDS_AFTER * 2).await;
        assert_eq!(higher.turn(), Turn::Near);
        advance(STANDS_AFTER).await;
        assert_eq!(higher.turn(), Turn::Elsewhere);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_kept_for_long_of_what_has_ended() {
        let waits = SequenceWaits::default();
        let [one, other] = waiting(&waits, [9, 9]);
        drop(waits.enter(&place(1)));
        drop(one);
        assert!(is_woken(&other).await);
        advance(FLOWS_FOR).await;
        drop(other);
        assert!(waits.lock().is_empty());

        let of = |device: usize| {
            let key = Key::new("readings", device.to_string()).unwrap();
            SequencePlace::new(key, 0)
        };
        (0..MANY).for_each(|device| drop(waits.enter(&of(device))));
        advance(FLOWS_FOR).await;
        let _running = waits.enter(&of(MANY));
        assert_eq!(waits.lock().len(), 1);
    }

    /// Two copies of one number that are dropped on two threads at the same moment.
    #[tokio::test(start_paused = true)]
    async fn a_number_whose_copies_are_gone_keeps_nobody_behind_it() {
        let waits = SequenceWaits::default();
        let [one, other] = waiting(&waits, [9, 9]);
        // Each holds its own part until both have taken themselves out.
        let held = [Arc::clone(&one.woken), Arc::clone(&other.woken)];
        drop((one, other));
        assert_eq!(waits.behind(&place(10)), None);
        drop(held);
    }
}
