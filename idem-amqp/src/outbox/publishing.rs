//! Publishes what was committed here, and what nobody else has published; one task for each worker or relay.
//!
//! What was committed comes in through a channel, with its bytes; what others have left is taken from the outbox. Both
//! are published at the same time, many per confirm. What must stay true:
//!
//! - A message is removed only when the broker has confirmed that a queue has it.
//! - No transaction is open while something is published.
//! - A broker or a store that is away is asked with growing pauses.
//! - What was committed and does not fit in is left to its lease, never waited for.
// docs/decisions/0042

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
    pub(crate) async fn run(self, stopping: CancellationToken) {
        let Self {
            outbox,
            publisher,
            mut committed,
            queue,
            counters,
        } = self;
        let mut run = Run::new(publisher, queue, counters);
        let mut writing: Option<BoxFuture<'_, (Updates, Result<(), StoreError>)>> = None;
        let mut taking: Option<BoxFuture<'_, Result<Vec<Taken>, StoreError>>> = None;
        loop {
            let stops = stopping.is_cancelled();
            if writing.is_none() && !run.updates.is_empty() && run.removing.is_over() {
                writing = Some(std::mem::take(&mut run.updates).write(&*outbox).boxed());
            }
            let idle = run.under_way.futures.is_empty() && writing.is_none() && taking.is_none();
            if stops && idle && run.writes_no_more() && committed.is_empty() {
                return;
            }
            let room_to_take = run.under_way.room_to_take();
            let not_before = run.takes_not_before();
            let writes_not_before = run.removing.until.unwrap_or(run.look_at);
            let waits_to_write = !run.removing.is_over() && !run.updates.is_empty();
            tokio::select! {
                Some(ended) = run.under_way.futures.next() => run.published(ended),
                (written, result) = or_never(&mut writing) => {
                    writing = None;
                    run.written(written, result);
                }
                taken = or_never(&mut taking) => {
                    taking = None;
                    run.taken(taken);
                }
                Some(committed) = committed.recv(), if run.under_way.admits_committed() => run.committed(committed),
                () = sleep_until(not_before), if !stops && taking.is_none() && room_to_take.is_some() => {
                    run.takes();
                    taking = room_to_take.map(|room| outbox.take(room, LEASE));
                }
                () = sleep_until(writes_not_before), if waits_to_write => {}
                () = stopping.cancelled(), if !stops => {}
            }
        }
    }
}

/// What the task is publishing, and when it looks for more.
struct Run {
    under_way: UnderWay,
    /// What is to be written into the outbox.
    updates: Updates,
    broker: Outage,
    // Two for the store: a role may have the right to read, and not the right to remove.
    reading: Outage,
    removing: Outage,
    /// When the outbox is looked at next.
    look_at: Instant,
    /// When the outbox was looked at last.
    asked: Instant,
    /// Whether something may have become due since the last look.
    look_again: bool,
    /// Kept so that the channel stays open, too.
    queue: CommittedQueue,
    counters: Arc<OutboxCounters>,
}

impl Run {
    fn new(publisher: Publisher, queue: CommittedQueue, counters: Arc<OutboxCounters>) -> Self {
        let now = Instant::now();
        Self {
            under_way: UnderWay::new(publisher),
            updates: Updates::default(),
            broker: Outage::default(),
            reading: Outage::default(),
            removing: Outage::default(),
            look_at: now,
            asked: now,
            look_again: false,
            queue,
            counters,
        }
    }

    /// Whether nothing is to be written, or the store is away: what is not written is published again by others.
    fn writes_no_more(&self) -> bool {
        self.updates.is_empty() || !self.removing.is_over()
    }

    fn takes_not_before(&self) -> Instant {
        let not_before = [Some(self.look_at), self.broker.until, self.reading.until];
        let not_before = not_before.into_iter().flatten().max();
        not_before.unwrap_or(self.look_at)
    }

    fn look_at_once(&mut self) {
        (self.look_at, self.look_again) = (Instant::now(), true);
    }

    fn takes(&mut self) {
        self.look_again = false;
        self.asked = Instant::now();
    }

    fn taken(&mut self, taken: Result<Vec<Taken>, StoreError>) {
        let taken = match taken {
            Ok(taken) => taken,
            Err(error) => {
                let error = ErrorChain::of(&error).to_string();
                return self.reading.begins("store", &error);
            }
        };
        self.reading.ends();
        // If there was something, there may be more: at once.
        let rests = taken.is_empty() && !self.look_again;
        let pause = if rests {
            between_looks()
        } else {
            Duration::ZERO
        };
        self.look_at = Instant::now() + pause;
        self.counters.taken(taken.len());
        for it in taken {
            self.under_way.publish(it, self.asked, None);
        }
    }

    fn committed(&mut self, committed: CommittedMessages) {
        self.queue.frees(&committed.messages);
        if committed.messages.iter().any(is_anybodys) {
            self.look_at_once();
        }
        // Else it is left to its lease.
        if self.broker.is_over() && committed.at.elapsed() < Outgoing::LEASE / 2 {
            self.under_way.publish_committed(committed);
        }
    }

    fn published(&mut self, ended: PublishResult) {
        self.under_way.ended(&ended);
        match &ended.published {
            Ok(()) => self.broker.ends(),
            Err(Failure::Away(error) | Failure::Lost(error)) => self.broker.begins("broker", error),
            // Suspects wait for one another, each for what its queue does not confirm.
            Err(Failure::Late) if !ended.is_of_suspect() => {
                self.broker.begins("broker", "it takes no messages");
            }
            Err(_) => {}
        }
        // It may have been taken again meanwhile, by this process.
        let in_hand = self.under_way.in_hand.get(&ended.id);
        let attempts = in_hand.copied().unwrap_or(ended.attempts);
        self.note(PublishResult { attempts, ..ended });
    }

    fn written(&mut self, written: Updates, result: Result<(), StoreError>) {
        match result {
            Ok(()) => {
                self.removing.ends();
                self.under_way.forget(&written);
                if written.frees_lane {
                    self.look_at_once();
                }
            }
            // To write it twice is harmless; what is never written is published again.
            Err(error) => {
                let error = ErrorChain::of(&error).to_string();
                self.removing.begins("store", &error);
                self.under_way.forget(&self.updates.put_back(written));
            }
        }
    }

    /// What is to be written of it.
    fn note(&mut self, ended: PublishResult) {
        let PublishResult { id, attempts, .. } = ended;
        match ended.published {
            Ok(()) => {
                self.counters
                    .confirmed(ended.committed.map(|at| at.elapsed()));
                self.updates.confirmed.push(id);
                self.updates.frees_lane |= ended.in_lane;
            }
            Err(Failure::ForGood(error)) => {
                tracing::error!(
                    message = %id, error,
                    "a message of the outbox cannot be published, and waits for `idem outbox retry` or `discard`"
                );
                self.counters.given_up();
                self.updates
                    .unpublished
                    .push(Unpublished::give_up(id, attempts, error));
            }
            Err(Failure::ThisTime(error)) => {
                let after = AGAIN.wait(attempts.max(1));
                tracing::warn!(message = %id, error, ?after, "a message of the outbox is tried again");
                self.counters.put_back();
                self.updates
                    .unpublished
                    .push(Unpublished::again(id, attempts, error, after));
            }
            Err(Failure::Late) => {
                let error = "it waited too long for the broker";
                let after = self.broker.left().max(LOOK_EVERY);
                let untried = Unpublished::untried(id, attempts, error, after);
                self.updates.unpublished.push(untried);
            }
            Err(Failure::Away(error)) => {
                self.counters.put_back();
                let untried = Unpublished::untried(id, attempts, error, self.broker.left());
                self.updates.unpublished.push(untried);
            }
            Err(Failure::Lost(error)) => {
                self.counters.put_back();
                let again = Unpublished::again(id, attempts, error, self.broker.left());
                self.updates.unpublished.push(again);
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

#[cfg(test)]
mod tests {
    use idem_core::handler::OutgoingContent;

    use super::*;
    use crate::connection::{AmqpUrls, Brokers};

    fn late(attempts: u32) -> PublishResult {
        PublishResult {
            id: "019abf3e-5d3c-7a11-8c44-0b6d1f7e2a90".parse().unwrap(),
            in_lane: false,
            attempts,
            bytes: 0,
            committed: None,
            published: Err(Failure::Late),
        }
    }

    #[tokio::test]
    async fn suspects_that_wait_for_one_another_are_no_outage_of_the_broker() {
        let urls = AmqpUrls::from("amqp://127.0.0.1:1/%2f");
        let publisher = Publisher::lazy(Brokers::parse(&urls).unwrap());
        let counters = Arc::<OutboxCounters>::default();
        let (queue, _committed) = CommittedQueue::new(Arc::clone(&counters));
        let mut run = Run::new(publisher, queue, counters);
        let content = OutgoingContent {
            message_id: "orders:1#0".into(),
            target: "shipping".into(),
            head: Vec::new(),
            body: Vec::new(),
        };
        let suspect = Taken::new(late(2).id, 2, false, content);
        run.under_way.publish(suspect, Instant::now(), None);
        run.published(late(2));
        assert!(run.broker.is_over());
        run.published(late(1));
        assert!(!run.broker.is_over());
    }
}
