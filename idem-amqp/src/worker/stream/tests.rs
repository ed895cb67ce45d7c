//! When a stream's mark is written, and when the lease ends under which a call may still commit.

use std::collections::VecDeque;

use futures_util::{
    FutureExt as _,
    future::{BoxFuture, pending as never, ready},
};
use idem_core::{
    Executor, Key, MemoryStore, Policy,
    executor::{AnyStreamStore, Moved},
    handler::BatchOptions,
    store::{StreamClaim, StreamState},
};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{
    connection::Brokers,
    publisher::Publisher,
    telemetry::Meters,
    worker::{
        ack_sender::AckSender,
        arrival::{Arrival, DeliveryEnd},
        channel_context::{ChannelContext, Slot, Slots},
        delivery_processor::DeliveryProcessor,
        handler_runner::RunHandler,
        in_order::handle_in_order,
        outgoing::LetterSender,
        replier::Replier,
        replying::ReplySender,
        waiting_deliveries::{WaitingDeliveries, WaitingDelivery},
    },
};

fn key() -> Key {
    Key::new("books.book", "ledger").unwrap()
}

/// A stream that its worker has claimed, in a store in memory.
struct Bed {
    marks: Arc<WatchedMarks>,
    reader: StreamReader,
    reading: Arc<Reading>,
    settling: Settling,
}

impl Bed {
    async fn new() -> Self {
        let marks = Arc::new(WatchedMarks {
            store: Executor::new(MemoryStore::new()).stream_store(key()),
            extended: Mutex::default(),
        });
        let source = StreamSource {
            marks: StreamMarks::new(Arc::clone(&marks) as _, Queue::DEFAULT_TAKEOVER),
            meters: Arc::new(StreamMeters::of("ledger", "books.book")),
        };
        let health = Arc::new(HealthState::of(["ledger"].into_iter()));
        let reader = StreamReader::new(Queue::stream("ledger"), source, health);
        let claimed = marks
            .claim(reader.owner, Queue::DEFAULT_TAKEOVER)
            .await
            .unwrap();
        let StreamClaim::Acquired { lease, .. } = claimed else {
            panic!("{claimed:?}")
        };
        reader.begin(lease, Some(0), Instant::now());
        let settling = Settling {
            acks: AckSender::to_nobody(),
            closed: CancellationToken::new(),
        };
        Self {
            marks,
            reading: reader.on_channel(&settling).unwrap(),
            reader,
            settling,
        }
    }
}

/// Notes the marks with which a lease was extended.
struct WatchedMarks {
    store: Arc<dyn AnyStreamStore>,
    extended: Mutex<Vec<Option<u64>>>,
}

impl AnyStreamStore for WatchedMarks {
    fn claim(
        &self,
        owner: Owner,
        lease: Duration,
    ) -> BoxFuture<'_, Result<StreamClaim, StoreError>> {
        self.store.claim(owner, lease)
    }

    fn extend<'a>(
        &'a self,
        lease: &'a StreamLease,
        mark: Option<u64>,
        by: Duration,
    ) -> BoxFuture<'a, Result<Write, StoreError>> {
        self.extended.lock().unwrap().push(mark);
        self.store.extend(lease, mark, by)
    }

    fn release<'a>(
        &'a self,
        lease: &'a StreamLease,
        mark: Option<u64>,
    ) -> BoxFuture<'a, Result<Write, StoreError>> {
        self.store.release(lease, mark)
    }

    fn look(&self) -> BoxFuture<'_, Result<Option<StreamState>, StoreError>> {
        self.store.look()
    }
}

#[tokio::test(start_paused = true)]
async fn a_mark_that_has_not_moved_is_not_written() {
    let Bed {
        marks,
        reader,
        reading,
        settling,
    } = Bed::new().await;
    let mut saving = std::pin::pin!(reader.save(&reading));
    let mut goes_on = async |secs| {
        let ended = timeout(Duration::from_secs(secs), &mut saving).await;
        assert!(ended.is_err(), "it has the stream");
        marks.extended.lock().unwrap().clone()
    };
    reading.receive(1, Some(0));
    let extended = goes_on(60).await;
    assert!(extended.iter().all(Option::is_none), "{extended:?}");
    // Each third of `takeover_after`, though it is looked each second.
    assert!((6..=13).contains(&extended.len()), "{extended:?}");

    reading.done(1, &settling.acks);
    let extended = goes_on(60).await;
    let saved: Vec<_> = extended.iter().flatten().collect();
    assert_eq!(saved, [&1]);
    assert!(extended.len() <= 26, "{extended:?}");
}

/// A handler whose calls come to this, one after the other; a further one lasts.
struct Scripted {
    calls: Mutex<VecDeque<Moved>>,
    /// Whether it was known of each that it may commit.
    known: Mutex<Vec<bool>>,
}

impl RunHandler for Scripted {
    fn run<'a>(
        &'a self,
        _: &'a Arrival,
        _: &'a Queue,
        _: &'a ChannelContext,
        _: &'a mut Slot,
    ) -> BoxFuture<'a, DeliveryEnd> {
        ready(DeliveryEnd::executed(key())).boxed()
    }

    fn move_mark<'a>(
        &'a self,
        _: &'a [WaitingDelivery],
        reading: &'a Reading,
    ) -> BoxFuture<'a, Moved> {
        let known = reading.may_commit.load(Relaxed);
        self.known.lock().unwrap().push(known);
        match self.calls.lock().unwrap().pop_front() {
            Some(moved) => ready(moved).boxed(),
            None => never().boxed(),
        }
    }

    fn is_ordered(&self) -> bool {
        false
    }

    fn ordered_by(&self, _: &Arrival) -> Option<Key> {
        None
    }

    fn may_overtake_failed(&self) -> bool {
        false
    }
}

/// Whether the lease under which a message was called with has ended before the stream is claimed anew, on another
/// channel.
async fn ends(calls: impl IntoIterator<Item = Moved>) -> bool {
    let Bed {
        marks,
        reader,
        reading,
        settling,
    } = Bed::new().await;
    reading.receive(1, Some(0));
    let runner = Arc::new(Scripted {
        calls: Mutex::new(calls.into_iter().collect()),
        known: Mutex::default(),
    });
    let waiting = Arc::new(WaitingDeliveries::new(BatchOptions::new(8), 8));
    assert!(waiting.arrives(WaitingDelivery::numbered(1)).is_ok());
    let context = ChannelContext {
        slots: Slots::new(1, 1),
        delivery_limit: 20,
        acks: settling.acks,
        closed: settling.closed.clone(),
        draining: CancellationToken::new(),
        failures: Arc::default(),
        health: Arc::clone(&reader.health),
        reading: Some(Arc::clone(&reading)),
        in_order: Some(Arc::clone(&waiting)),
    };
    let processor = Arc::new(processor(Arc::clone(&runner) as _));
    let mut handled = std::pin::pin!(handle_in_order(waiting, processor, Arc::new(context)));
    // On paused time: as far as it goes.
    if timeout(Duration::from_millis(50), &mut handled)
        .await
        .is_err()
    {
        settling.closed.cancel();
        handled.await;
    }
    let known = runner.known.lock().unwrap().clone();
    assert!(known.iter().all(|known| *known), "{known:?}");
    reader.end_last_lease().await.unwrap();
    let extended = marks
        .extend(&reading.lease, None, Queue::DEFAULT_TAKEOVER)
        .await;
    let has_ended = extended.unwrap() == Write::Fenced;
    assert_eq!(reader.reading().is_none(), has_ended);
    has_ended
}

fn processor(runner: Arc<dyn RunHandler>) -> DeliveryProcessor {
    let queue = Queue::stream("ledger");
    let publisher = Publisher::lazy(Brokers::parse(&"amqp://127.0.0.1:1".into()).unwrap());
    let replier = Arc::new(Replier::new(publisher.clone()));
    let (deadline, counters) = (CancellationToken::new(), Arc::default());
    DeliveryProcessor {
        policy: Policy::default(),
        runner,
        letters: LetterSender::new(queue.clone(), publisher, deadline.clone()),
        replies: ReplySender::new(
            queue.clone(),
            replier,
            Arc::clone(&counters),
            deadline.clone(),
        ),
        counters,
        meters: Arc::new(Meters::of("ledger", "books.book")),
        observer: None,
        deadline,
        queue,
    }
}

#[tokio::test(start_paused = true)]
async fn the_lease_ends_under_which_a_call_may_still_commit() {
    let error = || "not now".to_owned();
    // The channel ends during the call.
    assert!(ends([]).await);
    assert!(ends([Moved::Unknown(error())]).await);
}

#[tokio::test(start_paused = true)]
async fn a_lease_under_which_all_calls_have_ended_is_kept() {
    let error = || "not now".to_owned();
    assert!(!ends([Moved::Over(vec![key()])]).await);
    // Then it is handled alone.
    assert!(!ends([Moved::Undone(error())]).await);
    // The channel ends before the next call.
    assert!(!ends([Moved::Unavailable(error())]).await);
    assert!(!ends([Moved::Closed]).await);
}
