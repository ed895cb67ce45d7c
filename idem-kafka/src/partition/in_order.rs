//! The records of a partition whose mark says what is done: one call of the handler after the other, with as many as
//! wait.
//!
//! `deliver` hands each record over as it comes. What must stay true: a call begins with the record at the mark, and
//! has those that follow it without a gap; nothing is called while the record at the mark is not done, and nothing any
//! more when it is not known whether it is.

use std::{
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures_util::FutureExt as _;
use idem_core::{
    Key,
    executor::{ExecutionKind, Moved, StreamMarks},
    handler::BatchOptions,
    settlement::{NextCall, Settlement, Stretches},
};
use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};

use super::Partition;
use crate::{
    reading::{Arrived, Reading},
    runner::Ended,
};

/// What has come and is not begun.
pub(super) struct Waiting {
    records: Mutex<Stretches<Arrived>>,
    batch: BatchOptions,
    came: Notify,
}

impl Waiting {
    pub(super) fn new(batch: BatchOptions) -> Self {
        Self {
            records: Mutex::new(Stretches::new(batch)),
            batch,
            came: Notify::new(),
        }
    }

    fn records(&self) -> MutexGuard<'_, Stretches<Arrived>> {
        // Each step is whole.
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, arrived: Arrived) {
        self.records().arrives(arrived);
        self.came.notify_one();
    }

    /// Waits until something is there; and until no more can come for its call, if the handler asks for a wait.
    async fn next(&self, reading: &Reading) -> NextCall<Arrived> {
        loop {
            while self.records().is_empty() {
                self.came.notified().await;
            }
            let full = async {
                while !self.records().is_full() && reading.has_room() {
                    self.came.notified().await;
                }
            };
            if !self.batch.longest_wait().is_zero() {
                let _ = timeout(self.batch.longest_wait(), full).await;
            }
            if let Some(next) = self.records().take() {
                return next;
            }
        }
    }
}

impl Partition {
    /// Handles what waits, one call after the other, until the reading ends.
    pub(super) async fn handle_in_order(
        self: Arc<Self>,
        reading: Arc<Reading>,
        waiting: Arc<Waiting>,
    ) {
        let handled = AssertUnwindSafe(self.call_in_order(&reading, &waiting));
        if handled.catch_unwind().await.is_err() {
            reading.fail("the code that handles records panicked");
        }
    }

    async fn call_in_order(&self, reading: &Reading, waiting: &Waiting) {
        let mut tries = 0;
        loop {
            let next = tokio::select! {
                biased;
                () = reading.ended.cancelled() => return,
                next = waiting.next(reading) => next,
            };
            let mut records = match next {
                NextCall::Together(records) => records,
                NextCall::Alone(arrived) => {
                    if !is_at_the_mark(reading, &arrived)
                        || self.bring_to_its_end(reading, &arrived).await.is_none()
                    {
                        return;
                    }
                    waiting.records().passed(1);
                    continue;
                }
            };
            if !is_at_the_mark(reading, &records[0]) {
                return;
            }
            let moved = tokio::select! {
                biased;
                moved = self.consumed.runner.move_mark(&mut records, reading) => moved,
                // It could not commit any more, and would hold locks that whoever reads now waits for.
                () = self.until_taken(reading) => return,
            };
            match moved {
                Moved::Over(keys) => {
                    let rest = records.split_off(keys.len());
                    if !keys.is_empty() {
                        self.note_passed(reading, &records, &keys);
                    }
                    let mut waiting = waiting.records();
                    if rest.is_empty() {
                        waiting.passed(keys.len());
                    } else {
                        waiting.next_is_alone(rest);
                    }
                    tries = 0;
                }
                Moved::Undone(error) => {
                    let count = records.len();
                    if waiting.records().undone(records) {
                        tracing::warn!(
                            topic = &*self.place.0,
                            partition = self.place.1,
                            records = count,
                            error,
                            "a call failed: it is made again with fewer records, to find the one that it fails of"
                        );
                    }
                }
                Moved::Unavailable(error) => {
                    waiting.records().give_back(records);
                    tries += 1;
                    let wait = StreamMarks::AGAIN.wait(tries);
                    tracing::warn!(
                        topic = &*self.place.0,
                        partition = self.place.1,
                        error,
                        after = ?wait,
                        "the store gives no transaction: the partition waits"
                    );
                    tokio::select! {
                        () = sleep(wait) => {}
                        () = reading.ended.cancelled() => return,
                    }
                }
                Moved::Unknown(error) => {
                    return reading.fail(&format!(
                        "whether records are done is not known, and the mark tells: {error}"
                    ));
                }
                Moved::Closed if reading.ended.is_cancelled() => return,
                Moved::Closed => return reading.fail("the executor was closed by somebody else"),
            }
        }
    }

    /// Waits until the reading ends, but not by the worker's stop, which lets what runs end.
    async fn until_taken(&self, reading: &Reading) {
        reading.ended.cancelled().await;
        if self.stopping.is_cancelled() {
            self.revoked.cancelled().await;
        }
    }

    /// The mark is behind these.
    fn note_passed(&self, reading: &Reading, records: &[Arrived], keys: &[Key]) {
        reading.note_all_done(records);
        for (arrived, key) in records.iter().zip(keys) {
            let ended = Ended {
                kind: ExecutionKind::Executed,
                key: Some(key.clone()),
                attempt: Some(1),
                error: None,
                settlement: Settlement::Ack,
            };
            self.tally
                .note_settled(&self.consumed, &arrived.record, &ended);
        }
        reading.note_mark_in_store();
        self.health.set_mark(&self.place, reading.saved_mark());
    }
}

/// Whether all before it is done. The mark would pass what is not.
fn is_at_the_mark(reading: &Reading, arrived: &Arrived) -> bool {
    let is_next = reading.front() == Some(arrived.tag);
    if !is_next {
        reading.fail("a record before this one is not done");
    }
    is_next
}

#[cfg(test)]
mod tests;
