//! The records of a partition: started when they come, handled one after the other where they share a lane, and brought
//! to where they belong.
//!
//! What must stay true: a record is done when its settlement is carried out, and confirmed where it was published.

use std::{panic::AssertUnwindSafe, sync::Arc};

use futures_util::FutureExt as _;
use idem_core::{
    ErrorChain,
    settlement::{Reason, Settlement, Waits as _},
};
use tokio::{task::coop::consume_budget, time::sleep};
use tokio_util::task::TaskTracker;

use super::{Partition, in_order::Waiting};
use crate::{
    PartitionState, Record,
    group::{Queue, passes},
    reading::{Arrival, Arrived, Reading},
    record::{self, Outcome},
    runner::Ended,
};

/// A record is done.
pub(super) struct Done {
    /// The next one of its lane, which may start now.
    next: Option<Arrived>,
}

impl Partition {
    /// Starts what comes. Says why no more comes.
    pub(super) async fn deliver(
        self: &Arc<Self>,
        queue: &Queue,
        reading: &Arc<Reading>,
        tasks: &TaskTracker,
    ) -> String {
        if let Err(error) = self.member.read_from(&self.place, reading.mark()).await {
            return ErrorChain::of(&error).to_string();
        }
        self.health.set_state(&self.place, PartitionState::Reading);
        let is_from_retries = self.consumed.is_retries;
        let in_order = self.records_by_mark().map(|batch| {
            let waiting = Arc::new(Waiting::new(batch));
            let task = Arc::clone(self).handle_in_order(Arc::clone(reading), Arc::clone(&waiting));
            self.start(tasks, task);
            waiting
        });
        loop {
            // The client has the next record at once where much was fetched, and the same task keeps the claim.
            consume_budget().await;
            while !reading.has_room() {
                reading.room.notified().await;
            }
            let message = match queue.recv().await {
                Ok(message) => message,
                Err(error) if passes(&error) => {
                    tracing::debug!(topic = &*self.place.0, partition = self.place.1, %error, "Kafka could not be read from");
                    continue;
                }
                // Read again from the mark on: the client may leave out what it could not read.
                Err(error) => return error.to_string(),
            };
            let Ok(offset) = u64::try_from(rdkafka::Message::offset(&message)) else {
                continue;
            };
            let record = Record::read(&message, is_from_retries);
            drop(message);
            // One after the other, they are in order without lanes.
            let lane = self
                .consumed
                .lane_of(&record)
                .filter(|_| in_order.is_none());
            match reading.note_arrival(offset, record, lane.as_ref()) {
                Arrival::Starts(arrived) => match &in_order {
                    Some(waiting) => waiting.push(self.decode(arrived)),
                    None => {
                        self.start(tasks, Arc::clone(self).handle(Arc::clone(reading), arrived));
                    }
                },
                Arrival::Waits => {}
                Arrival::Backwards => {
                    return format!(
                        "the record at {offset} came again: what comes next was not there any more"
                    );
                }
            }
        }
    }

    /// Decodes a record while the call before it is under way.
    fn decode(&self, mut arrived: Arrived) -> Arrived {
        if !arrived.is_alone() {
            arrived.decoded = Some(self.consumed.runner.decode(&arrived.record));
        }
        arrived
    }

    /// Starts a task of the reading: it may go on while the worker stops.
    fn start(&self, tasks: &TaskTracker, task: impl Future<Output = ()> + Send + 'static) {
        let task = self.cut_off.clone().run_until_cancelled_owned(task);
        self.tasks.spawn(tasks.track_future(task));
    }

    /// Handles a record, and those of its lane behind it.
    async fn handle(self: Arc<Self>, reading: Arc<Reading>, first: Arrived) {
        let mut next = Some(first);
        while let Some(arrived) = next {
            let Some(done) = self.bring_to_its_end(&reading, &arrived).await else {
                return;
            };
            next = done.next;
        }
    }

    /// Handles a record until it is done; `None` if it is left to whoever has the partition then.
    pub(super) async fn bring_to_its_end(
        &self,
        reading: &Reading,
        arrived: &Arrived,
    ) -> Option<Done> {
        let finished = AssertUnwindSafe(self.finish(reading, arrived)).catch_unwind();
        match finished.await {
            Ok(true) => {
                let was_stopped = reading.stops.is_stopped();
                let next = reading.note_done(arrived);
                if was_stopped && !reading.stops.is_stopped() && !reading.ended.is_cancelled() {
                    self.health.set_state(&self.place, PartitionState::Reading);
                }
                return Some(Done { next });
            }
            Ok(false) if reading.ended.is_cancelled() => {}
            Ok(false) => reading.fail("the executor was closed by somebody else"),
            Err(_) => reading.fail("the code that handles records panicked"),
        }
        None
    }

    /// Takes a record to its end. `false` if it is left to whoever has the partition then.
    async fn finish(&self, reading: &Reading, arrived: &Arrived) -> bool {
        let due = arrived.record.due_in();
        if !due.is_zero() {
            tokio::select! {
                () = sleep(due) => {}
                () = reading.ended.cancelled() => return false,
            }
        }
        loop {
            let ended = self.consumed.runner.run(arrived, reading).await;
            match ended.settlement {
                Settlement::Stop { .. } if reading.ended.is_cancelled() => return false,
                Settlement::Stop { reason, recheck } => {
                    self.report_stop(reading, arrived, reason, &ended);
                    tokio::select! {
                        () = sleep(recheck) => {}
                        () = reading.ended.cancelled() => return false,
                    }
                }
                _ => return self.settle(arrived, &ended).await,
            }
        }
    }

    fn report_stop(&self, reading: &Reading, arrived: &Arrived, reason: Reason, ended: &Ended) {
        let offset = arrived.record.offset();
        let (topic, partition) = &self.place;
        if reading.stops.stop_at(arrived.tag) {
            tracing::error!(
                handler = self.consumed.handler,
                topic = &**topic,
                partition,
                offset,
                key = ended.key.as_ref().map(tracing::field::display),
                reason = reason.as_str(),
                error = ended.error,
                "the partition stops at a record that cannot be handled; it is tried again each minute. Mend what \
                 hinders it. If it is never to be handled, set the mark behind it once all before it is done (`idem \
                 marks set`)"
            );
        }
        self.health
            .set_state(&self.place, PartitionState::Stopped { offset });
    }

    /// Carries a settlement out. `false` if that could not be done.
    async fn settle(&self, arrived: &Arrived, ended: &Ended) -> bool {
        let outcome = Outcome {
            attempt: ended.attempt.unwrap_or(0).max(arrived.record.attempts()),
            error: ended.error.clone(),
            key: ended.key.clone(),
        };
        // What is published is finished also when the partition is taken away: the next reader would publish it again.
        let (publisher, stopped) = (&self.consumed.publisher, &self.cut_off);
        let is_done = match ended.settlement {
            Settlement::Ack | Settlement::Drop(_) => true,
            Settlement::DeadLetter(reason) => {
                let letter = record::dead_letter(&arrived.record, reason, &outcome);
                let topic = &self.consumed.dead_letters;
                publisher.publish(topic, letter, stopped).await
            }
            Settlement::Retry { after } => {
                let again = record::retry(&arrived.record, after, &outcome);
                match &self.consumed.retries {
                    Some(topic) => publisher.publish(topic, again, stopped).await,
                    None => false,
                }
            }
            // Also what a later version of the engine adds.
            _ => false,
        };
        if is_done {
            self.tally
                .note_settled(&self.consumed, &arrived.record, ended);
        }
        is_done
    }
}
