//! The claim of a partition while it is read: extended by a heartbeat that saves the mark, and given back at the end.
//!
//! What must stay true: the mark is saved under the claim's token alone; whoever cannot extend it for as long as it
//! lasts reads no more.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use idem_core::{ErrorChain, StoreError, executor::StreamMarks, settlement::Saved, store::Write};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::{Partition, ends_before};
use crate::{PartitionState, reading::Reading};

/// How long the mark may lag behind.
const SAVE: Duration = Duration::from_secs(1);

/// How often Kafka is told, for those who look there.
const TELL_KAFKA: Duration = Duration::from_secs(5);

/// How often it is told again what it was told before: the client does not say whether Kafka took that.
const TELL_AGAIN: Duration = Duration::from_secs(30);

/// How often Kafka is asked where the partition begins and ends: how far the mark is behind, and whether what did not
/// come was removed. Most holes are of Kafka's own.
const LOOK: Duration = Duration::from_secs(10);

/// Extends the claim of a partition, and saves how far its mark is.
pub(super) struct Heartbeat<'a> {
    pub(super) marks: &'a StreamMarks,
    pub(super) partition: &'a Partition,
    pub(super) reading: &'a Reading,
    /// What Kafka was told last; `u64::MAX` if it is to be told again.
    pub(super) told: AtomicU64,
}

/// What looks at the partition have seen.
#[derive(Default)]
struct Seen {
    /// What did not come, until Kafka has said whether it was removed.
    hole: Option<u64>,
    /// Records are there, and nothing of them has come: from this mark on, since then.
    behind: Option<(u64, Instant)>,
}

impl Heartbeat<'_> {
    /// Extends the lease that was asked for then, and saves the mark, until another worker may have the partition.
    pub(super) async fn run(&self, asked: Instant) {
        let takeover = self.marks.takeover();
        let every = SAVE.min(takeover / 3);
        let mut extended = asked;
        let (mut told_kafka, mut told_again) = (Instant::now(), Instant::now());
        let mut looked = None::<Instant>;
        let mut seen = Seen::default();
        let mut stall = Stall::default();
        let mut has_failed = false;
        loop {
            if has_failed {
                sleep(every).await;
            } else {
                self.until_due(Instant::now() + every).await;
            }
            if extended.elapsed() >= takeover {
                return;
            }
            stall.look(self);
            if looked.is_none_or(|looked| looked.elapsed() >= LOOK) {
                looked = Some(Instant::now());
                self.look(&mut seen).await;
            }
            if told_kafka.elapsed() >= TELL_KAFKA {
                told_kafka = Instant::now();
                if told_again.elapsed() >= TELL_AGAIN {
                    told_again = Instant::now();
                    self.told.store(u64::MAX, Relaxed);
                }
                self.tell_kafka();
            }
            let unsaved = self.reading.unsaved();
            if unsaved.is_none() && extended.elapsed() < takeover / 3 {
                continue;
            }
            let asked = Instant::now();
            let left = (extended + takeover).saturating_duration_since(asked);
            match timeout(left, self.save(unsaved)).await {
                Ok(Ok(Write::Applied)) => (extended, has_failed) = (asked, false),
                Ok(Ok(Write::Fenced)) | Err(_) => return,
                Ok(Err(error)) => {
                    has_failed = true;
                    tracing::warn!(
                        topic = &*self.partition.place.0,
                        partition = self.partition.place.1,
                        error = %ErrorChain::of(&error),
                        "the mark could not be saved"
                    );
                }
            }
        }
    }

    /// Waits until there is something to save, but not for longer.
    async fn until_due(&self, next: Instant) {
        let due = async {
            while !self.reading.is_due() {
                self.reading.moved.notified().await;
            }
        };
        tokio::select! {
            () = sleep_until(next) => {}
            () = due => {}
        }
    }

    /// How far the mark is behind; whether Kafka has removed what did not come, or has lost what is below the mark; and
    /// whether records are there that do not come.
    async fn look(&self, Seen { hole, behind }: &mut Seen) {
        let Partition { place, health, .. } = self.partition;
        // Each question takes a thread until it is answered or times out, whether anybody waits for it or not.
        if health.is_cut_off(&place.0).is_some() {
            return;
        }
        // Before Kafka is asked: what it has removed by then is below what it says.
        *hole = hole.or_else(|| self.reading.take_hole());
        // Before that, too: the mark may move beyond what Kafka says.
        let mark = self.reading.mark();
        let patience = SAVE.min(self.marks.takeover() / 4);
        let ends = timeout(patience, self.partition.member.ends(place));
        let Ok(Ok((first, end))) = ends.await else {
            return;
        };
        health.set_end(place, end);
        if let Some(hole) = hole.take().filter(|hole| *hole < first) {
            self.partition.report_removed(hole, first);
        }
        if end < mark {
            // The client may not notice, and ask for ever for what is gone.
            self.partition.note_short(mark);
            self.reading.fail(&ends_before(mark));
        }
        // The last one may be the end of a transaction, which never comes. Nor do those come for which there is no room.
        if end <= mark + 1 || !self.reading.waits_for_more() {
            *behind = None;
            return;
        }
        let since = match *behind {
            Some((from, since)) if from == mark => since,
            _ => Instant::now(),
        };
        *behind = Some((mark, since));
        // Several of them may be the ends of transactions: so only once.
        if since.elapsed() >= self.partition.silence
            && self.partition.renewed.swap(mark, Relaxed) != mark
        {
            self.reading
                .fail("records are there, and none has come for long: it is read anew");
        }
    }

    async fn save(&self, unsaved: Option<Saved>) -> Result<Write, StoreError> {
        let mark = unsaved.map(|saved| saved.mark);
        let written = self.marks.extend(&self.reading.lease, mark).await?;
        if let (Write::Applied, Some(saved)) = (&written, unsaved) {
            self.reading.note_saved(saved);
            self.reading.room.notify_one();
            // A handler may have moved it further meanwhile.
            let mark = self.reading.saved_mark();
            self.partition.health.set_mark(&self.partition.place, mark);
        }
        Ok(written)
    }

    fn tell_kafka(&self) {
        let mark = self.reading.saved_mark();
        if self.told.swap(mark, Relaxed) != mark {
            self.partition.member.commit(&self.partition.place, mark);
        }
    }

    /// Saves the mark and gives the partition back, so that the next worker need not wait.
    pub(super) async fn give_back(&self) {
        let unsaved = self.reading.unsaved();
        let mark = unsaved.map(|saved| saved.mark);
        match self.marks.give_back(&self.reading.lease, mark).await {
            Ok(Write::Fenced) => {}
            Ok(Write::Applied) => {
                if let Some(saved) = unsaved {
                    self.reading.note_saved(saved);
                }
                self.tell_kafka();
            }
            Err(error) => tracing::debug!(
                error = %ErrorChain::of(&error),
                "the partition was not given back: it is free when its lease has run out"
            ),
        }
    }
}

/// Notices that the mark stands still.
#[derive(Default)]
struct Stall {
    /// What holds the mark up, and since when.
    front: Option<(u64, Instant)>,
    is_told: bool,
}

impl Stall {
    fn look(&mut self, heartbeat: &Heartbeat<'_>) {
        let partition = heartbeat.partition;
        let now = Instant::now();
        self.front = heartbeat.reading.front().map(|tag| match self.front {
            Some((same, since)) if same == tag => (tag, since),
            _ => (tag, now),
        });
        let waited = self.front.map_or(Duration::ZERO, |(_, since)| now - since);
        let consumed = &partition.consumed;
        // What waits in a retry topic is not due for so long.
        let longest = consumed
            .topic
            .retries
            .as_ref()
            .filter(|_| consumed.is_retries);
        let due = longest.map_or(Duration::ZERO, |(_, ladder)| ladder.longest());
        let stands = waited > heartbeat.marks.patience() + due;
        if heartbeat.reading.stops.is_stopped() {
            // What it says then is no more true when it goes on.
            self.is_told = false;
            return;
        }
        if stands == self.is_told {
            return;
        }
        self.is_told = stands;
        let (topic, number) = &partition.place;
        let (topic, mark) = (&**topic, heartbeat.reading.mark());
        if stands {
            tracing::warn!(
                topic,
                partition = number,
                mark,
                done_above = heartbeat.reading.done_above(),
                lasting = ?Duration::from_secs(waited.as_secs()),
                "the mark of the partition stands still: the record there is not done"
            );
            partition
                .health
                .set_state(&partition.place, PartitionState::Stalled);
        } else {
            tracing::info!(
                topic,
                partition = number,
                "the mark of the partition moves again"
            );
            partition
                .health
                .set_state(&partition.place, PartitionState::Reading);
        }
    }
}

#[cfg(test)]
mod tests;
