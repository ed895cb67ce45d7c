//! One claim of a partition: what has been read of it, what may start, and how far the mark is.
//!
//! `partition` makes one when it has claimed the partition, and tells it of each record; the tasks of the records tell
//! it when these are done. What must stay true: the mark passes nothing that is neither done nor confirmed in another
//! topic; at most [`WINDOW`] records lie above the mark that the store has.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use idem_core::{
    executor::Decoded,
    settlement::{Lanes, Prefix, Saved, Stops, Waits},
    store::{MarkMove, StreamLease},
};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::{Record, lane::Lane};

/// How many records may lie above the mark in the store: so many are read again after a crash, at most.
pub(crate) const WINDOW: u64 = 1024;

/// How much of a partition may be in memory, unless it is one record.
const BYTES: usize = 16 << 20;

/// A record in its place among those of one reading.
#[derive(Debug)]
pub(crate) struct Arrived {
    /// Counted from 1.
    pub(crate) tag: u64,
    pub(crate) record: Record,
    /// Whether it may have been read before, and have run.
    pub(crate) may_have_run: bool,
    /// What its handler is to be called with, if it waits for a call with others.
    pub(crate) decoded: Option<Decoded>,
    lane: Option<Lane>,
}

impl Arrived {
    /// The mark when it and all before it are done.
    pub(crate) fn end(&self) -> u64 {
        self.record.offset().saturating_add(1)
    }

    /// Whether others wait for it.
    pub(crate) fn is_ordered(&self) -> bool {
        self.lane.is_some()
    }
}

impl Waits for Arrived {
    fn bytes(&self) -> usize {
        self.record.bytes()
    }

    /// It may have been what ended its process, or cannot be read.
    fn is_alone(&self) -> bool {
        self.may_have_run || self.record.is_unreadable()
    }
}

#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) lease: StreamLease,
    /// Whether the mark alone says what is done: the handler moves it in its own transaction.
    pub(crate) mark_is_record: bool,
    state: Mutex<State>,
    /// At which records the partition stops, by their tags.
    pub(crate) stops: Stops,
    /// Something is done: there may be a mark to save.
    pub(crate) moved: Notify,
    /// There may be room for another record.
    pub(crate) room: Notify,
    /// Nothing starts any more.
    pub(crate) ended: CancellationToken,
    /// The records below this offset may have been read before.
    end: u64,
    /// The mark that the store has.
    saved: AtomicU64,
    /// Why it cannot go on.
    failure: watch::Sender<Option<String>>,
}

/// What came.
#[derive(Debug)]
pub(crate) enum Arrival {
    /// It may start now.
    Starts(Arrived),
    /// It starts when another one is done.
    Waits,
    /// It came before: the client has gone back by itself.
    Backwards,
}

#[derive(Debug)]
struct State {
    prefix: Prefix,
    lanes: Lanes<Lane, Arrived>,
    bytes: usize,
    /// The lowest offset that has not come.
    next: u64,
    /// How many are in hand.
    open: usize,
}

impl Reading {
    /// From this mark on; what lies below `end` may have been read before.
    pub(crate) fn new(lease: StreamLease, mark: u64, end: u64, mark_is_record: bool) -> Self {
        Self {
            lease,
            mark_is_record,
            end,
            saved: AtomicU64::new(mark),
            failure: watch::Sender::default(),
            state: Mutex::new(State {
                prefix: Prefix::new(Some(mark), WINDOW).expecting_from_mark(),
                lanes: Lanes::default(),
                bytes: 0,
                next: mark,
                open: 0,
            }),
            stops: Stops::default(),
            moved: Notify::new(),
            room: Notify::new(),
            ended: CancellationToken::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each step is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether another record may be read.
    pub(crate) fn has_room(&self) -> bool {
        let state = self.state();
        let above = state.prefix.arrived() + 1 - state.prefix.saved_below();
        let fits = state.open == 0 || state.bytes < BYTES;
        fits && above < WINDOW && !self.stops.is_stopped()
    }

    /// The next record, and the lane that it is in, if any.
    pub(crate) fn note_arrival(&self, offset: u64, record: Record, lane: Option<&Lane>) -> Arrival {
        let mut state = self.state();
        if offset < state.next {
            return Arrival::Backwards;
        }
        state.next = offset.saturating_add(1);
        let tag = state.prefix.arrived() + 1;
        state.prefix.arrives(tag, Some(offset));
        state.bytes += record.bytes();
        state.open += 1;
        let arrived = Arrived {
            tag,
            record,
            may_have_run: tag <= WINDOW && offset < self.end,
            decoded: None,
            lane: lane.cloned(),
        };
        match state.lanes.arrives(lane, arrived) {
            Some(starts) => Arrival::Starts(starts),
            None => Arrival::Waits,
        }
    }

    /// The reading cannot go on: whoever reads is to begin anew.
    pub(crate) fn fail(&self, reason: &str) {
        self.failure.send_if_modified(|failure| {
            let is_first = failure.is_none();
            failure.get_or_insert_with(|| reason.to_owned());
            is_first
        });
    }

    /// Waits until it cannot go on, and says why.
    pub(crate) async fn until_failed(&self) -> String {
        let mut failure = self.failure.subscribe();
        let failed = failure.wait_for(Option::is_some).await;
        // An error is impossible: this has the sender.
        failed.map_or_else(
            |_| String::new(),
            |reason| reason.clone().unwrap_or_default(),
        )
    }

    /// A record is done, or safe in another topic. The next one of its lane, if that may start now.
    pub(crate) fn note_done(&self, arrived: &Arrived) -> Option<Arrived> {
        let mut state = self.state();
        state.prefix.done(arrived.tag);
        state.bytes = state.bytes.saturating_sub(arrived.record.bytes());
        state.open -= 1;
        let next = arrived
            .lane
            .as_ref()
            .and_then(|lane| state.lanes.done(lane));
        drop(state);
        self.stops.done(arrived.tag);
        self.moved.notify_one();
        self.room.notify_one();
        next
    }

    /// These are done, and none of them is in a lane.
    pub(crate) fn note_all_done(&self, records: &[Arrived]) {
        let mut state = self.state();
        for arrived in records {
            state.prefix.done(arrived.tag);
            state.bytes = state.bytes.saturating_sub(arrived.record.bytes());
        }
        state.open -= records.len();
        drop(state);
        self.moved.notify_one();
        self.room.notify_one();
    }

    pub(crate) fn mark(&self) -> u64 {
        self.state().prefix.mark().unwrap_or(0)
    }

    /// How the mark moves over this record, the next one, in its handler's transaction, if it does.
    pub(crate) fn mark_over(&self, arrived: &Arrived) -> Option<MarkMove<'_>> {
        self.mark_is_record
            .then(|| MarkMove::new(&self.lease, self.mark(), arrived.end()))
    }

    /// The mark that the store has.
    pub(crate) fn saved_mark(&self) -> u64 {
        self.saved.load(Relaxed)
    }

    /// The first offset of the largest hole among the records that have come since the last call.
    pub(crate) fn take_hole(&self) -> Option<u64> {
        self.state().prefix.take_hole()
    }

    /// Whether nothing is in hand, and there is room for more.
    pub(crate) fn waits_for_more(&self) -> bool {
        let open = self.state().open;
        open == 0 && self.has_room()
    }

    /// How many records above the mark are done.
    pub(crate) fn done_above(&self) -> usize {
        self.state().prefix.done_above()
    }

    /// What holds the mark up, as a number that grows; `None` if nothing does.
    pub(crate) fn front(&self) -> Option<u64> {
        self.state().prefix.front()
    }

    /// A handler has moved the mark over all that is done: the store has it.
    pub(crate) fn note_mark_in_store(&self) {
        if let Some(saved) = self.unsaved() {
            self.note_saved(saved);
            self.room.notify_one();
        }
    }

    /// Whether the store is to be told of the mark soon.
    pub(crate) fn is_due(&self) -> bool {
        self.state().prefix.is_due()
    }

    /// What the store is to be told, if anything.
    pub(crate) fn unsaved(&self) -> Option<Saved> {
        self.state().prefix.moved()
    }

    /// The store has this mark.
    pub(crate) fn note_saved(&self, saved: Saved) {
        // A handler may have moved it further meanwhile.
        self.saved.fetch_max(saved.mark, Relaxed);
        // Kafka is not acknowledged message by message.
        let _ = self.state().prefix.saved(saved);
    }
}

#[cfg(test)]
pub(crate) mod tests;
