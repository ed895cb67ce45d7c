//! One claim of a stream: what has been delivered of it on one channel, what may start, and how far the mark is.
//!
//! `StreamReader` makes one when it has claimed the stream; the channel asks it about each delivery. What must stay
//! true:
//!
//! - Nothing starts before the store knows where the handler begins.
//! - Of what is settled, at most [`WINDOW`] messages lie above the mark that the store has.

use std::sync::{
    Arc, Mutex, MutexGuard, OnceLock, PoisonError,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use idem_core::{
    settlement::{Prefix, Saved, Stops},
    store::{MarkMove, StreamLease},
};
use tokio::{
    sync::{Notify, Semaphore, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::{
    topology::Queue,
    wire::StreamOffset,
    worker::{ack_sender::AckSender, channels::Settling},
};

/// How many settled messages may lie above the mark in the store: so many are delivered again after a crash, at most,
/// and those that the broker has sent ahead.
const WINDOW: u64 = 1024;

/// The stream while this worker has it, on one channel.
#[derive(Debug)]
pub(in crate::worker) struct Reading {
    queue: Arc<str>,
    pub(super) lease: StreamLease,
    /// Where the handler was when it was claimed.
    pub(super) mark: Option<u64>,
    /// When it was asked for: the lease may have begun as early as that.
    pub(super) claimed: Instant,
    pub(super) from: StreamOffset,
    /// Up to so many deliveries may have been delivered before, and run.
    may_have_run: u64,
    prefix: Mutex<Prefix>,
    /// At which deliveries the stream stops, by their tags.
    pub(in crate::worker) stops: Stops,
    /// Whether a call may commit under its lease.
    pub(super) may_commit: AtomicBool,
    /// Whether the stream was seen to reach the mark.
    pub(super) is_verified: AtomicBool,
    /// More is done than the store has been told for long.
    pub(super) due: Notify,
    /// Deliveries with tags below it may start: none before the store knows where the handler begins.
    starts_below: watch::Sender<u64>,
    /// How far that is beyond what the store has.
    ahead: u64,
    /// Where those wait that may not start yet, in the order of their arrival: it has one permit, for the next of them.
    pub(in crate::worker) gate: Arc<Semaphore>,
    settling: OnceLock<(AckSender, CancellationToken)>,
}

/// What a delivery is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::worker) enum Arrived {
    /// Done before; it was delivered to see that it is there.
    Done,
    /// The handler has to see it. It may have been delivered before.
    New { may_have_run: bool },
}

impl Reading {
    pub(super) fn new(
        queue: &Queue,
        lease: StreamLease,
        mark: Option<u64>,
        from: StreamOffset,
        claimed: Instant,
    ) -> Self {
        let ahead = WINDOW + u64::from(queue.broker_prefetch());
        // The message below the mark comes first.
        let is_below = mark.is_some_and(|mark| mark > 0);
        Self {
            queue: queue.shared_name(),
            lease,
            mark,
            claimed,
            from,
            // Before the handler has begun, nothing has run.
            may_have_run: mark.map_or(0, |_| ahead + u64::from(is_below)),
            prefix: Mutex::new(Prefix::new(mark, WINDOW)),
            stops: Stops::default(),
            may_commit: AtomicBool::new(false),
            is_verified: AtomicBool::new(false),
            due: Notify::new(),
            starts_below: watch::Sender::new(mark.map_or(0, |_| 1 + ahead)),
            ahead,
            gate: Arc::new(Semaphore::new(1)),
            settling: OnceLock::new(),
        }
    }

    /// Goes on where `last` has ended, which has left nothing undone: what comes has never been delivered.
    pub(super) fn goes_on(self, last: &Self) -> Self {
        if self.lease == last.lease && last.prefix().rests_at(self.mark) {
            return Self {
                may_have_run: 0,
                ..self
            };
        }
        self
    }

    pub(super) fn prefix(&self) -> MutexGuard<'_, Prefix> {
        // Each step is whole.
        self.prefix.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn receive(&self, tag: u64, offset: Option<u64>) -> Arrived {
        let mut prefix = self.prefix();
        if let Some(offset) = offset
            && prefix.mark().is_none()
            && *self.starts_below.borrow() == 0
        {
            // Asked for again, this place would be another one, and what is not done yet would be passed.
            prefix.pin(offset);
            self.due.notify_one();
        }
        let is_done = offset
            .zip(self.mark)
            .is_some_and(|(offset, mark)| offset < mark);
        prefix.arrives(tag, offset);
        if is_done {
            prefix.done(tag);
        }
        if is_done {
            return Arrived::Done;
        }
        Arrived::New {
            may_have_run: prefix.arrived() <= self.may_have_run,
        }
    }

    /// Whether a delivery may start: the store knows where the handler begins, and has a mark that is not too far
    /// below.
    pub(in crate::worker) fn may_start(&self, tag: u64) -> bool {
        tag < *self.starts_below.borrow()
    }

    pub(in crate::worker) async fn until_may_start(&self, tag: u64) {
        let mut starts_below = self.starts_below.subscribe();
        // An error is impossible: this has the sender.
        let _ = starts_below.wait_for(|below| tag < *below).await;
    }

    /// Whether another channel would begin at the same place.
    pub(in crate::worker) fn may_renew(&self) -> bool {
        !self.from.moves() || *self.starts_below.borrow() > 0
    }

    /// How the mark moves when all up to there is done; `None` before the handler has begun.
    pub(in crate::worker) fn mark_to(&self, end: u64) -> Option<MarkMove<'_>> {
        let from = self.prefix().mark()?;
        Some(MarkMove::new(&self.lease, from, end))
    }

    /// Whether all before this delivery is done, and it is not.
    pub(in crate::worker) fn is_next(&self, tag: u64) -> bool {
        self.prefix().front() == Some(tag)
    }

    /// Whether this delivery, the next one, is done.
    pub(in crate::worker) fn is_done(&self, tag: u64) -> bool {
        self.prefix().front().is_none_or(|front| front > tag)
    }

    /// A handler has moved the mark over all that is done: the store has it.
    pub(in crate::worker) fn mark_is_in_store(&self) {
        let moved = self.prefix().moved();
        self.saved(moved);
    }

    /// Records whether a call may still commit under this lease: one that runs, or whose commit is unknown. If the
    /// channel ends meanwhile, so does the lease.
    pub(in crate::worker) fn set_may_commit(&self, may_commit: bool) {
        self.may_commit.store(may_commit, Relaxed);
    }

    /// A delivery is done, or safe in another queue. Its acknowledgement is credit for the next one; it waits while too
    /// much above the mark is done.
    pub(in crate::worker) fn done(&self, tag: u64, acks: &AckSender) {
        let mut prefix = self.prefix();
        let may_ack = prefix.done(tag);
        if prefix.is_due() {
            self.due.notify_one();
        }
        drop(prefix);
        self.stops.done(tag);
        if may_ack {
            acks.ack(tag);
        }
    }

    pub(super) fn saved(&self, saved: Option<Saved>) {
        let Some(saved) = saved else { return };
        let free = {
            let mut prefix = self.prefix();
            let free = prefix.saved(saved);
            // Under the lock, it only grows: whoever saves beside this tells before, or after.
            let below = prefix.saved_below().saturating_add(self.ahead);
            self.starts_below
                .send_if_modified(|known| std::mem::replace(known, below) != below);
            free
        };
        if let Some((acks, _)) = self.settling.get() {
            for tag in free {
                acks.ack(tag);
            }
        }
    }

    /// The channel on which it is read.
    pub(super) fn opened(&self, settling: &Settling) {
        let settling = (settling.acks.clone(), settling.closed.clone());
        let _ = self.settling.set(settling);
    }

    /// Ends the channel.
    pub(in crate::worker) fn end(&self) {
        tracing::debug!(queue = &*self.queue, "the reading of the stream ends");
        if let Some((_, ended)) = self.settling.get() {
            ended.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use idem_core::{Key, handler::FencingToken};

    use super::*;
    use crate::{
        connection::health::HealthState,
        worker::channel_context::{ChannelContext, Slot, Slots},
    };

    fn reading(mark: Option<u64>) -> Reading {
        let key = Key::new("books.book", "ledger").unwrap();
        let lease = StreamLease::new(key, FencingToken::new(1));
        let queue = Queue::stream("ledger").prefetch(16);
        Reading::new(&queue, lease, mark, StreamOffset::First, Instant::now())
    }

    fn save(reading: &Reading) {
        let moved = reading.prefix().moved();
        reading.saved(moved);
    }

    #[test]
    fn nothing_starts_before_the_store_knows_where_the_handler_begins() {
        let reading = reading(None);
        reading.receive(1, Some(7));
        assert!(!reading.may_start(1));
        assert_eq!(reading.prefix().mark(), Some(7));
        save(&reading);
        assert!(reading.may_start(1));
    }

    /// A channel of the stream, on which one delivery runs at a time.
    fn channel(reading: &Arc<Reading>) -> ChannelContext {
        ChannelContext {
            slots: Slots::new(1, 1),
            delivery_limit: 20,
            acks: AckSender::to_nobody(),
            closed: CancellationToken::new(),
            draining: CancellationToken::new(),
            failures: Arc::default(),
            health: Arc::new(HealthState::of(["ledger"].into_iter())),
            reading: Some(Arc::clone(reading)),
            in_order: None,
        }
    }

    /// Whether it waits for its stream no more. Asked twice, because it lets others run first.
    fn may_start(slot: &mut Slot, context: &ChannelContext) -> bool {
        let mut ask = || slot.until_may_start(context).now_or_never().is_some();
        ask() || ask()
    }

    fn runs(slot: &mut Slot, context: &ChannelContext) -> bool {
        slot.start_running(context).now_or_never() == Some(true)
    }

    #[test]
    fn what_has_waited_for_the_mark_runs_in_the_order_of_its_arrival() {
        let reading = Arc::new(reading(None));
        let context = channel(&reading);
        let arrives = |tag| {
            reading.receive(tag, Some(tag));
            Slot::on_arrival(&context, tag)
        };
        let [mut one, two, mut three, mut four] = [1, 2, 3, 4].map(arrives);
        for slot in [&mut four, &mut three, &mut one] {
            assert!(!may_start(slot, &context));
        }
        // Its channel has ended, say.
        drop(two);
        save(&reading);
        // The mark is there, but others wait.
        let mut five = arrives(5);
        assert!(!may_start(&mut five, &context) && !may_start(&mut three, &context));
        assert!(may_start(&mut one, &context) && !may_start(&mut four, &context));
        // It leaves as the next one.
        drop(three);
        assert!(may_start(&mut four, &context) && may_start(&mut five, &context));
        let mut six = arrives(6);
        assert!(may_start(&mut six, &context));

        assert!(!runs(&mut five, &context) && !runs(&mut four, &context));
        for mut next in [one, four, five, six] {
            assert!(runs(&mut next, &context));
        }
    }

    #[test]
    fn a_save_that_ends_late_takes_nothing_back() {
        let reading = reading(Some(0));
        for tag in 1..=3 {
            reading.receive(tag, Some(tag - 1));
        }
        let done = |tag| {
            reading.prefix().done(tag);
            reading.prefix().moved()
        };
        let (early, late) = (done(1), [done(2), done(3)][1]);
        reading.saved(late);
        // Three are below the mark, and so many more may start.
        let first = 1 + 3 + WINDOW + 16;
        assert!(reading.may_start(first - 1) && !reading.may_start(first));
        reading.saved(early);
        assert!(reading.may_start(first - 1) && !reading.may_start(first));
        assert_eq!(reading.prefix().moved(), None);
    }

    #[test]
    fn what_goes_on_where_the_last_reading_has_ended_was_never_delivered() {
        let last = reading(Some(5));
        last.receive(1, Some(4));
        last.receive(2, Some(5));
        let came = |next: &Reading| {
            next.receive(1, Some(5));
            next.receive(2, Some(6))
        };
        let open = reading(Some(5)).goes_on(&last);
        let may_have_run = true;
        assert_eq!(came(&open), Arrived::New { may_have_run });
        last.prefix().done(2);
        let next = reading(Some(6)).goes_on(&last);
        let may_have_run = false;
        assert_eq!(came(&next), Arrived::New { may_have_run });
    }

    #[test]
    fn what_starts_above_the_mark_of_the_store_is_bounded_and_may_have_run() {
        let reading = reading(Some(5));
        assert_eq!(reading.receive(1, Some(4)), Arrived::Done);
        let bound = WINDOW + 16;
        for tag in 2..=bound + 1 {
            let offset = Some(tag + 3);
            let may_have_run = true;
            assert_eq!(reading.receive(tag, offset), Arrived::New { may_have_run });
        }
        let may_have_run = false;
        let beyond = reading.receive(bound + 2, Some(bound + 5));
        assert_eq!(beyond, Arrived::New { may_have_run });
        assert!(reading.may_start(bound) && !reading.may_start(bound + 2));
        for tag in 2..=10 {
            reading.prefix().done(tag);
        }
        save(&reading);
        assert!(reading.may_start(bound + 10) && !reading.may_start(bound + 11));
    }
}
