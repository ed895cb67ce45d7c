//! One partition while this worker has it: claims it in the store, reads it, keeps its mark.
//!
//! `worker` starts one for each partition that the group assigns. What must stay true: nothing is read before the store
//! has told the mark; the mark is saved and the partition given back when it is taken away; what runs then runs on
//! under the lease of its key, and moves no mark.
// docs/decisions/0047

use std::{
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicU64},
    time::Duration,
};

use futures_util::FutureExt as _;
use idem_core::{
    ErrorChain,
    executor::{ClaimedStream, StreamMarks},
    handler::BatchOptions,
    store::{Owner, StreamLease, Write},
};
use tokio::time::{Instant, sleep};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    KafkaError, PartitionState, StartAt, consumed_topic::ConsumedTopic, group::Member,
    health::HandlerHealth, reading::Reading, tally::Tally, topic::Place,
};

mod heartbeat;
mod in_order;
mod records;

use heartbeat::Heartbeat;

/// A reading that has lasted so long was none in vain.
const LASTED: Duration = Duration::from_secs(10);

/// What a worker knows that reads partitions.
pub(crate) struct Partition {
    pub(crate) consumed: Arc<ConsumedTopic>,
    pub(crate) member: Member,
    pub(crate) place: Place,
    /// It was taken away.
    pub(crate) revoked: CancellationToken,
    /// The worker stops: what runs may end.
    pub(crate) stopping: CancellationToken,
    /// The time for that is over.
    pub(crate) cut_off: CancellationToken,
    pub(crate) health: HandlerHealth,
    pub(crate) tally: Arc<Tally>,
    pub(crate) tasks: TaskTracker,
    /// What was claimed, until a reading has it.
    pub(crate) claimed: Mutex<Option<StreamLease>>,
    /// That it has ended before its mark, until that is known to be over: also when Kafka or the store fails meanwhile.
    pub(crate) short: Mutex<Option<Short>>,
    /// After how long in which nothing came though records were there it is read anew.
    pub(crate) silence: Duration,
    /// The mark from which it was read anew because of that; `u64::MAX` if it never was.
    pub(crate) renewed: AtomicU64,
}

/// A partition that has ended before this mark.
#[derive(Clone, Copy)]
pub(crate) struct Short {
    mark: u64,
    since: Instant,
    /// For how long it surely has.
    lasted: Duration,
}

/// Nothing is told of the partition any more, whatever ends it.
struct Leaving<'a>(&'a Partition);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.health.remove_partition(&self.0.place);
    }
}

/// Why a reading has ended.
enum End {
    Revoked,
    Stopping,
    /// Another worker may have the partition.
    Lost,
    Failed(String),
}

/// Where a reading begins.
struct Begin {
    lease: StreamLease,
    mark: u64,
    /// The records below this offset may have been read before.
    end: u64,
    /// When the lease was asked for: it may have begun as early as that.
    asked: Instant,
}

/// Nothing comes for so long from a partition that has records: the client may have lost it.
pub(crate) const SILENCE: Duration = Duration::from_mins(1);

/// A partition that has ended before its mark for so long was made anew, or cut. A broker that has just begun to lead it
/// may know less of it for a moment.
const SHORT: Duration = Duration::from_secs(10);

/// Begins where Kafka tells to, if that can be.
fn begin_at(told: u64, first: u64, end: u64) -> Result<u64, KafkaError> {
    if told > end {
        // Neither its end nor its beginning is where that was: it was made anew, say, or a transaction is open.
        return Err(KafkaError::new(format!(
            "it is to be read from the offset {told} on, and ends before that: this is looked at again; if it was made anew, set its mark"
        )));
    }
    Ok(told.max(first))
}

fn ends_before(mark: u64) -> String {
    format!("it ends before its mark {mark}: this is looked at again")
}

impl Partition {
    /// Reads until the partition is taken away, or the worker stops.
    pub(crate) async fn run(self) {
        let this = Arc::new(self);
        let _left = Leaving(&this);
        this.health.add_partition(&this.place);
        let takeover = this.consumed.topic.takeover;
        let marks = match this.consumed.runner.marks(&this.place, takeover) {
            Ok(marks) => marks,
            // `build` has made a key of a longer name.
            Err(error) => return this.report_failing(&error.to_string()),
        };
        let mut tries = 0;
        loop {
            let since = Instant::now();
            // Another one each time: what the last reading may still commit is refused by then.
            let owner = Owner::new();
            let read = AssertUnwindSafe(this.claim_and_read(&marks, owner)).catch_unwind();
            let end = read.await.unwrap_or_else(|_| {
                End::Failed("the code that reads the partition panicked".into())
            });
            match end {
                End::Revoked | End::Stopping => break,
                End::Lost => tracing::warn!(
                    topic = &*this.place.0,
                    partition = this.place.1,
                    "another worker may have the partition: it is claimed anew"
                ),
                End::Failed(reason) => {
                    this.report_failing(&reason);
                    // The next owner would stand by for this one.
                    tokio::select! {
                        () = this.give_back(&marks) => {}
                        () = this.until_taken_or_stopping() => break,
                    }
                }
            }
            tries = if since.elapsed() < LASTED {
                tries + 1
            } else {
                1
            };
            tokio::select! {
                () = sleep(StreamMarks::AGAIN.wait(tries)) => {}
                () = this.until_taken_or_stopping() => break,
            }
        }
        // The next worker need not wait for it.
        this.give_back(&marks).await;
    }

    /// Gives the claim back of which no reading came.
    async fn give_back(&self, marks: &StreamMarks) {
        let claimed = self.claimed().clone();
        if let Some(lease) = claimed
            && marks.give_back(&lease, None).await.is_ok()
        {
            *self.claimed() = None;
        }
    }

    /// Claims the partition, however long another worker has it, and reads it until something ends that.
    async fn claim_and_read(self: &Arc<Self>, marks: &StreamMarks, owner: Owner) -> End {
        let claimed = tokio::select! {
            biased;
            () = self.revoked.cancelled() => return End::Revoked,
            () = self.stopping.cancelled() => return End::Stopping,
            claimed = self.begin(marks, owner) => claimed,
        };
        match claimed {
            Ok(begin) => self.read(marks, begin).await,
            Err(reason) => End::Failed(reason),
        }
    }

    fn claimed(&self) -> MutexGuard<'_, Option<StreamLease>> {
        self.claimed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn short(&self) -> MutexGuard<'_, Option<Short>> {
        self.short.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Kafka says that the partition ends before this mark. For how long it has said so.
    fn note_short(&self, mark: u64) -> Duration {
        let mut short = self.short();
        let known = short.filter(|short| short.mark == mark);
        let since = known.map_or_else(Instant::now, |short| short.since);
        let lasted = since.elapsed();
        *short = Some(Short {
            mark,
            since,
            lasted,
        });
        lasted
    }

    async fn until_taken_or_stopping(&self) {
        tokio::select! {
            () = self.revoked.cancelled() => {}
            () = self.stopping.cancelled() => {}
        }
    }

    /// Says why it is not read, unless that is said already.
    fn report_failing(&self, reason: &str) {
        let (topic, partition) = &self.place;
        let error = reason.to_owned();
        if self
            .health
            .set_state(&self.place, PartitionState::Failing { error })
        {
            tracing::warn!(
                topic = &**topic,
                partition,
                error = reason,
                "the partition is not read"
            );
        }
    }

    /// Waits until the partition is this worker's in the store, however long another one has it, and finds where to go
    /// on.
    async fn begin(&self, marks: &StreamMarks, owner: Owner) -> Result<Begin, String> {
        let (topic, partition) = &self.place;
        let mut stands_by = false;
        loop {
            let claim = marks.claim(owner).await;
            let claim = claim.map_err(|error| ErrorChain::of(&error).to_string())?;
            if let Some(lease) = claim.lease() {
                *self.claimed() = Some(lease.clone());
            }
            let (lease, mark) = match claim {
                ClaimedStream::Acquired { lease, mark } => (lease, mark),
                ClaimedStream::Barred { mark, again, .. } => {
                    // Whoever sets the mark then has the last word.
                    *self.short() = None;
                    self.report_mark_beyond_end(mark);
                    sleep(again).await;
                    continue;
                }
                ClaimedStream::Held { again } => {
                    // That one sees it, and a person may set the same mark meanwhile.
                    *self.short() = None;
                    if !std::mem::replace(&mut stands_by, true) {
                        tracing::info!(
                            topic = &**topic,
                            partition,
                            "another worker has the partition still: this one stands by"
                        );
                        self.health
                            .set_state(&self.place, PartitionState::StandingBy);
                    }
                    sleep(again).await;
                    continue;
                }
            };
            let ends = self.member.ends(&self.place).await;
            let (first, end) = ends.map_err(|error| ErrorChain::of(&error).to_string())?;
            let known = mark;
            let mark = match mark {
                Some(mark) if mark > end => {
                    if self.note_short(mark) >= marks.patience() {
                        self.bar(marks, &lease, mark).await?;
                    } else {
                        self.report_failing(&ends_before(mark));
                        sleep(marks.standby()).await;
                    }
                    continue;
                }
                // It has grown beyond its mark since. What is below the mark now was never handled.
                Some(mark)
                    if self
                        .short()
                        .is_some_and(|short| short.mark == mark && short.lasted >= SHORT) =>
                {
                    self.bar(marks, &lease, mark).await?;
                    continue;
                }
                Some(mark) => {
                    *self.short() = None;
                    mark.max(first)
                }
                None => self
                    .place_to_begin(first, end)
                    .await
                    .map_err(|error| ErrorChain::of(&error).to_string())?,
            };
            // Before the store has the new mark: if its answer is lost, nobody sees the old one any more.
            if let Some(known) = known.filter(|known| *known < first) {
                self.report_removed(known, first);
            }
            // In the store before anything is handled: asked for again, the place may be another one.
            let asked = Instant::now();
            let kept = marks.extend(&lease, Some(mark)).await;
            match kept.map_err(|error| ErrorChain::of(&error).to_string())? {
                Write::Applied => {
                    *self.claimed() = None;
                    return Ok(Begin {
                        lease,
                        mark,
                        end: if known.is_none() && !self.consumed.is_retries {
                            // Nothing was read before by a handler that was never here.
                            mark
                        } else {
                            end
                        },
                        asked,
                    });
                }
                Write::Fenced => {}
            }
        }
    }

    /// It is not read before a person sets the mark.
    async fn bar(&self, marks: &StreamMarks, lease: &StreamLease, mark: u64) -> Result<(), String> {
        let barred = marks.bar(lease, mark).await;
        let _ = barred.map_err(|error| ErrorChain::of(&error).to_string())?;
        // Fenced or not: whoever sets the mark, or has set it, has the last word.
        *self.short() = None;
        Ok(())
    }

    fn report_mark_beyond_end(&self, mark: u64) {
        let (topic, partition) = &self.place;
        if !self
            .health
            .set_state(&self.place, PartitionState::MarkBeyondEnd { mark })
        {
            return;
        }
        tracing::error!(
            topic = &**topic,
            partition,
            mark,
            "the partition has ended before its mark: it was made anew, or set back, and is not read before somebody sets its mark"
        );
    }

    /// Kafka has nothing any more below `first`, and was read up to the mark.
    fn report_removed(&self, mark: u64, first: u64) {
        let (topic, partition) = &self.place;
        tracing::warn!(
            topic = &**topic,
            partition,
            mark,
            first,
            "records were removed from Kafka before they were handled: the topic's retention is too short"
        );
        self.health.add_removed(&self.place, first - mark);
    }

    /// Where a handler begins that was never here.
    async fn place_to_begin(&self, first: u64, end: u64) -> Result<u64, KafkaError> {
        let told = match self.consumed.topic.start_at {
            StartAt::First => return Ok(first),
            StartAt::End => return Ok(end),
            StartAt::Committed => self.member.committed(&self.place).await?.unwrap_or(first),
            StartAt::Time(time) => self.member.at(&self.place, time).await?.unwrap_or(end),
        };
        begin_at(told, first, end)
    }

    /// How large calls are whose records the mark alone records. What waits for its next attempt comes in no order.
    fn records_by_mark(&self) -> Option<BatchOptions> {
        let batch = self.consumed.runner.records_by_mark();
        batch.filter(|_| !self.consumed.is_retries)
    }

    /// Reads from the mark on, until something ends that.
    async fn read(self: &Arc<Self>, marks: &StreamMarks, begin: Begin) -> End {
        let Some(queue) = self.member.queue(&self.place) else {
            return End::Failed("the client does not know the partition".into());
        };
        let mark_is_record = self.records_by_mark().is_some();
        let reading = Arc::new(Reading::new(
            begin.lease,
            begin.mark,
            begin.end,
            mark_is_record,
        ));
        // Also if this is dropped.
        let ended = reading.ended.clone().drop_guard();
        let heartbeat = Heartbeat {
            marks,
            partition: self,
            reading: &reading,
            told: AtomicU64::new(u64::MAX),
        };
        let tasks = TaskTracker::new();
        self.health.set_mark(&self.place, begin.mark);
        let end = tokio::select! {
            biased;
            () = self.revoked.cancelled() => End::Revoked,
            () = self.stopping.cancelled() => End::Stopping,
            () = heartbeat.run(begin.asked) => End::Lost,
            reason = reading.until_failed() => End::Failed(reason),
            reason = self.deliver(&queue, &reading, &tasks) => End::Failed(reason),
        };
        self.member.pause(&self.place);
        // Before the partition is given back: another reading of it here would have the same queue.
        drop(queue);
        drop(ended);
        if let End::Stopping = end {
            tasks.close();
            tokio::select! {
                () = tasks.wait() => {}
                () = self.cut_off.cancelled() => {}
                () = self.revoked.cancelled() => {}
                // Its lease is kept meanwhile.
                () = heartbeat.run(Instant::now()) => {}
            }
        }
        if !matches!(end, End::Lost) {
            heartbeat.give_back().await;
        }
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handler_does_not_begin_beyond_the_end_nor_where_nothing_is_any_more() {
        let begins = |told, first, end| begin_at(told, first, end).ok();
        assert_eq!(begins(7, 5, 9), Some(7));
        assert_eq!(begins(9, 5, 9), Some(9));
        assert_eq!(begins(3, 5, 9), Some(5));
        assert_eq!(begins(10, 5, 9), None);
        // Removed between the two answers.
        assert_eq!(begins(3, 10, 9), Some(10));
        assert_eq!(begins(10, 10, 9), None);
    }
}
