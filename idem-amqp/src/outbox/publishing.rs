//! Publishes what was committed here, and what nobody else has published; one task for each worker or relay.
//!
//! What was committed comes in through a channel, with its bytes; what others have left is taken from the outbox. Both are
//! published at the same time, many per confirm. What must stay true:
//!
//! - A message is removed only when the broker has confirmed that a queue has it.
//! - No transaction is open while something is published.
//! - A broker or a store that is away is asked with growing pauses.
//! - What was committed and does not fit in is left to its lease, never waited for.

use std::{future::pending, sync::Arc, time::Duration};

use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture};
use idem_core::{
    ErrorChain, StoreError,
    handler::{Backoff, Outgoing},
    store::outbox::{SharedOutbox, Taken, Unpublished},
};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{
    OutboxCounters,
    committed::{CommittedMessages, CommittedQueue},
    failure::Failure,
    outage::Outage,
    under_way::{PublishResult, UnderWay},
    updates::Updates,
};
use crate::publisher::Publisher;

/// How long a taken message is reserved for this process.
const LEASE: Duration = Duration::from_secs(30);

/// How often the outbox is asked for what others have left, and for what has become due.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How long a message that could not be published waits for its next try.
const AGAIN: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(5));

pub(crate) struct Publishing {
    outbox: SharedOutbox,
    publisher: Publisher,
    committed: mpsc::Receiver<CommittedMessages>,
    /// Kept so that the channel stays open, too.
    queue: CommittedQueue,
    counters: Arc<OutboxCounters>,
}

/// Whether any worker may publish it now.
fn is_anybodys(message: &Outgoing) -> bool {
    message.is_due() && !message.is_published_by_who_commits()
}

/// The pause before the next look: a random one, so that not all workers look at the same time.
fn between_looks() -> Duration {
    LOOK_EVERY.mul_f64(0.75 + fastrand::f64() / 2.0)
}

impl Publishing {
    pub(crate) fn new(
        outbox: SharedOutbox,
        publisher: Publisher,
        queue: CommittedQueue,
        committed: mpsc::Receiver<CommittedMessages>,
    ) -> Self {
        Self {
            outbox,
            publisher,
            committed,
            counters: Arc::clone(&queue.counters),
            queue,
        }
    }

    /// The publishing task of a process that commits nothing.
    pub(crate) fn alone(
        outbox: SharedOutbox,
        publisher: Publisher,
        counters: Arc<OutboxCounters>,
    ) -> Self {
        let (queue, committed) = CommittedQueue::new(counters);
        Self::new(outbox, publisher, queue, committed)
    }

    /// Publishes until it is told to stop, and after that what was committed by then.
    ///
    /// # Cancel safety
    /// What was being published is published again by others.
    pub(crate) async fn run(mut self, stopping: CancellationToken) {
        // Before what borrows it.
        let outbox = Arc::clone(&self.outbox);
        let mut under_way = UnderWay::new(self.publisher.clone());
        let mut updates = Updates::default();
        let mut writing: Option<BoxFuture<'_, (Updates, Result<(), StoreError>)>> = None;
        let mut taking: Option<BoxFuture<'_, Result<Vec<Taken>, StoreError>>> = None;
        // Two for the store: a role may have the right to read, and not the right to remove.
        let (mut broker, mut reading, mut removing) =
            (Outage::default(), Outage::default(), Outage::default());
        let mut look_at = Instant::now();
        let mut asked = look_at;
        // Something may have become due while it was looked.
        let mut look_again = false;
        loop {
            let stops = stopping.is_cancelled();
            if writing.is_none() && !updates.is_empty() && removing.is_over() {
                writing = Some(std::mem::take(&mut updates).write(&*outbox).boxed());
            }
            let idle = under_way.futures.is_empty() && writing.is_none() && taking.is_none();
            // Or the store is away: what is not written is published again by others.
            let writes_no_more = updates.is_empty() || !removing.is_over();
            if stops && idle && writes_no_more && self.committed.is_empty() {
                return;
            }
            let room_to_take = under_way.room_to_take();
            let not_before = [Some(look_at), broker.until, reading.until];
            let not_before = not_before.into_iter().flatten().max().unwrap_or(look_at);
            tokio::select! {
                Some(ended) = under_way.futures.next() => {
                    under_way.bytes -= ended.bytes;
                    match &ended.published {
                        Ok(()) => broker.ends(),
                        Err(Failure::Away(error) | Failure::Lost(error)) => broker.begins("broker", error),
                        Err(Failure::Late) => broker.begins("broker", "it takes no messages"),
                        Err(_) => {}
                    }
                    // It may have been taken again meanwhile, by this process.
                    let attempts = under_way.in_hand.get(&ended.id).copied().unwrap_or(ended.attempts);
                    self.note(PublishResult { attempts, ..ended }, &broker, &mut updates);
                }
                (written, result) = or_never(&mut writing) => {
                    writing = None;
                    match result {
                        Ok(()) => {
                            removing.ends();
                            under_way.forget(&written);
                            if written.frees_lane {
                                (look_at, look_again) = (Instant::now(), true);
                            }
                        }
                        // To write it twice is harmless; what is never written is published again.
                        Err(error) => {
                            removing.begins("store", &ErrorChain::of(&error).to_string());
                            under_way.forget(&updates.put_back(written));
                        }
                    }
                }
                taken = or_never(&mut taking) => {
                    taking = None;
                    match taken {
                        Ok(taken) => {
                            reading.ends();
                            // If there was something, there may be more: at once.
                            let rests = taken.is_empty() && !look_again;
                            look_at = Instant::now() + if rests { between_looks() } else { Duration::ZERO };
                            self.counters.taken(taken.len());
                            for it in taken {
                                under_way.publish(it, asked, None);
                            }
                        }
                        Err(error) => reading.begins("store", &ErrorChain::of(&error).to_string()),
                    }
                }
                Some(committed) = self.committed.recv(), if under_way.admits_committed() => {
                    self.queue.frees(&committed.messages);
                    if committed.messages.iter().any(is_anybodys) {
                        (look_at, look_again) = (Instant::now(), true);
                    }
                    // Else it is left to its lease.
                    if broker.is_over() && committed.at.elapsed() < Outgoing::LEASE / 2 {
                        under_way.publish_committed(committed);
                    }
                }
                () = sleep_until(not_before), if !stops && taking.is_none() && room_to_take.is_some() => {
                    look_again = false;
                    asked = Instant::now();
                    taking = room_to_take.map(|room| outbox.take(room, LEASE));
                }
                () = sleep_until(removing.until.unwrap_or(look_at)), if !removing.is_over() && !updates.is_empty() => {}
                () = stopping.cancelled(), if !stops => {}
            }
        }
    }

    /// What is to be written of it.
    fn note(&self, ended: PublishResult, broker: &Outage, updates: &mut Updates) {
        let PublishResult { id, attempts, .. } = ended;
        match ended.published {
            Ok(()) => {
                self.counters
                    .confirmed(ended.committed.map(|at| at.elapsed()));
                updates.confirmed.push(id);
                updates.frees_lane |= ended.in_lane;
            }
            Err(Failure::ForGood(error)) => {
                tracing::error!(
                    message = %id, error,
                    "a message of the outbox cannot be published, and waits for `idem outbox retry` or `discard`"
                );
                self.counters.given_up();
                updates
                    .unpublished
                    .push(Unpublished::give_up(id, attempts, error));
            }
            Err(Failure::ThisTime(error)) => {
                let after = AGAIN.wait(attempts.max(1));
                tracing::warn!(message = %id, error, ?after, "a message of the outbox is tried again");
                self.counters.put_back();
                updates
                    .unpublished
                    .push(Unpublished::again(id, attempts, error, after));
            }
            Err(Failure::Late) => {
                let (error, after) = ("it waited too long for the broker", broker.left());
                let untried = Unpublished::untried(id, attempts, error, after);
                updates.unpublished.push(untried);
            }
            Err(Failure::Away(error)) => {
                self.counters.put_back();
                let untried = Unpublished::untried(id, attempts, error, broker.left());
                updates.unpublished.push(untried);
            }
            Err(Failure::Lost(error)) => {
                self.counters.put_back();
                let again = Unpublished::again(id, attempts, error, broker.left());
                updates.unpublished.push(again);
            }
        }
    }
}

async fn or_never<T>(future: &mut Option<BoxFuture<'_, T>>) -> T {
    match future {
        Some(future) => future.await,
        None => pending().await,
    }
}
