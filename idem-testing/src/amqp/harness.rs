//! A worker for one handler, without a broker.

use std::{
    fmt,
    marker::PhantomData,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures_util::future::join_all;
use idem_core::{
    executor::RunsOn,
    handler::{Handler, Leased, Operation, OutgoingContent},
};

use idem_amqp::{
    Queue,
    worker::{Settlement, unconnected::Unconnected},
};

use super::{Delivered, Message};
use crate::{
    CrashPoint, FaultyStore, Ground, InMemory,
    ground::published,
    harness::Make,
    probe::Seen,
    process::{Process, Ran, Worker, not_reached},
    watched::Watched,
};

mod rehearse;
mod serving;

use serving::Served;

/// One handler under test, with its state and its queue, in a worker that can vanish.
///
/// A delivery ends when RabbitMQ would be told something: what has to wait, for a key that another worker
/// holds or for a store that is away, is held as a worker holds it, on the paused clock.
///
/// ```test_harness
/// # use idem_amqp::{prelude::*, worker::Settlement};
/// # use idem_testing::amqp::{Message, Setup};
/// # #[idempotent(key = message_id(), scope = "orders.note")]
/// # async fn note(_: serde_json::Value) -> Result<(), Failed> { Ok(()) }
/// #[tokio::test(start_paused = true)]
/// async fn both_copies_are_acknowledged() {
///     let harness = Setup::new(|| ()).consume::<note>("notes");
///     let both = harness.deliver_at_once(&Message::json("hello").message_id("m-1")).await;
///     assert!(both.iter().all(|one| one.settlement() == Settlement::Ack));
/// }
/// ```
pub struct Harness<H, St = (), G: Ground = InMemory> {
    make: Make<St, G>,
    state: Arc<St>,
    ground: G,
    queue: Queue,
    process: Mutex<Worker<G::Store>>,
    /// If the queue's clients may open sessions.
    served: Option<Served>,
    handler: PhantomData<fn() -> H>,
}

/// How often a message is delivered before it is said that this does not end.
const MOST_DELIVERIES: u32 = 1_000;

impl<H, St, G> Harness<H, St, G>
where
    H: Handler<St>,
    H::Mode: RunsOn<FaultyStore<G::Store>>,
    St: Send + Sync + 'static,
    G: Ground,
{
    pub(crate) fn on(ground: G, state: Arc<St>, make: Make<St, G>, queue: Queue) -> Self {
        Self {
            process: Mutex::new(Worker::start(ground.store())),
            served: None,
            handler: PhantomData,
            make,
            state,
            ground,
            queue,
        }
    }

    /// The application's state.
    pub fn state(&self) -> &St {
        &self.state
    }

    /// The store, which can be made to fail.
    pub fn store(&self) -> &FaultyStore<G::Store> {
        self.ground.store()
    }

    /// What handlers have published by their [`Outbox`](idem_core::handler::Outbox) and have committed, in the order in
    /// which they did. It stays: no broker takes it.
    ///
    /// # Panics
    /// If the store cannot be read.
    pub async fn published(&self) -> Vec<OutgoingContent> {
        published(&self.ground).await
    }

    /// Delivers a message, and tells how it ended.
    ///
    /// # Panics
    /// If the delivery does not end within a day of the paused clock.
    pub async fn deliver(&self, message: &Message) -> Delivered {
        let process = self.process().clone();
        self.deliver_to(&process, message).await
    }

    /// Delivers a message to two workers at once.
    ///
    /// # Panics
    /// If a delivery does not end within a day of the paused clock.
    pub async fn deliver_at_once(&self, message: &Message) -> [Delivered; 2] {
        let [one, other] = [self.start_process(), self.start_process()];
        let both = tokio::join!(
            self.deliver_to(&one, message),
            self.deliver_to(&other, message)
        );
        both.into()
    }

    /// Delivers messages to one worker at once: those of a [grouped](idem_core::handler::Grouped) handler share
    /// transactions, those of a handler of [batches](idem_core::handler::Batch) share calls, as many as the handler
    /// allows. How each ended, in their order.
    ///
    /// # Panics
    /// If a delivery does not end within a day of the paused clock.
    pub async fn deliver_together(&self, messages: &[Message]) -> Vec<Delivered> {
        let process = self.start_sharing_process();
        let deliveries = messages.iter().map(|it| self.deliver_to(&process, it));
        join_all(deliveries).await
    }

    /// Delivers a message to a worker that vanishes at this point. RabbitMQ is told nothing, and delivers
    /// it again to another worker: [`Message::redelivered`]. The lease runs out when the clock says so.
    ///
    /// # Panics
    /// If the delivery ends without coming as far as that.
    pub async fn crash(&self, point: CrashPoint, message: &Message) {
        if let Some(ended) = self.try_crash(point, message).await {
            not_reached(point, ended.kind);
        }
    }

    /// Delivers messages [together](Self::deliver_together) to a worker that vanishes when any of them comes to this
    /// point. RabbitMQ is told nothing of any of them, and delivers each again: [`Message::redelivered`].
    ///
    /// # Panics
    /// If there is none, or all deliveries end without one that comes as far as that.
    pub async fn crash_together(&self, point: CrashPoint, messages: &[Message]) {
        if let Some(ended) = self.try_crash_together(point, messages).await {
            not_reached(point, ended.kind);
        }
    }

    /// Delivers a message to a worker that stands still where the handler waits first, or else when it has
    /// returned; until its lease has run out, and another worker has been delivered the message until it
    /// was done with. Then the first goes on. How both ended, the one that stood still first.
    ///
    /// # Panics
    /// If the handler does not run for it.
    pub async fn lose_lease(&self, message: &Message) -> [Delivered; 2]
    where
        H: Operation<Mode = Leased>,
    {
        let first = self.start_process();
        let redelivered = message.redelivered();
        let meanwhile = Box::pin(self.deliver_until_done(&redelivered));
        let both = first.stand_still(self.run(&first, message), meanwhile);
        let Some((ended, second)) = both.await else {
            panic!("the handler did not run: there is no lease to lose");
        };
        [with_outcome(&first, ended), second]
    }

    /// Delivers a message as often as RabbitMQ does, until it is acknowledged or dead-lettered: after the
    /// delay of a rung, of a return, or of a broken channel. The last delivery. During such a delay the clients of
    /// [sessions](Self::open_session) are there, and give signs of life.
    ///
    /// # Panics
    /// If it is not after a thousand deliveries.
    pub async fn deliver_until_done(&self, message: &Message) -> Delivered {
        let process = self.process().clone();
        self.deliver_until_done_by(&process, message).await
    }

    async fn deliver_until_done_by(
        &self,
        process: &Worker<G::Store>,
        message: &Message,
    ) -> Delivered {
        let mut message = message.clone();
        for _ in 0..MOST_DELIVERIES {
            let delivered = self.deliver_to(process, &message).await;
            let Some((after, again)) = delivered.comes_back(&message) else {
                return delivered;
            };
            self.wait(after).await;
            message = again;
        }
        panic!("the message is not done with after {MOST_DELIVERIES} deliveries")
    }

    async fn try_crash(&self, point: CrashPoint, message: &Message) -> Option<Delivered> {
        let process = self.process().clone();
        match process.vanish(point, self.run(&process, message)).await {
            Ran::Ended(delivered, seen) => Some(with_outcome(&process, (delivered, seen))),
            Ran::Vanished => {
                *self.process() = self.start_process();
                None
            }
        }
    }

    /// `None` if one of them has come to that; else how the first ended.
    async fn try_crash_together(
        &self,
        point: CrashPoint,
        messages: &[Message],
    ) -> Option<Delivered> {
        let process = self.start_sharing_process();
        let deliveries = messages.iter().map(|it| self.run(&process, it));
        match process.vanish_together(point, deliveries).await {
            Ran::Ended(delivered, seen) => Some(with_outcome(&process, (delivered, seen))),
            Ran::Vanished => None,
        }
    }

    async fn deliver_to(&self, process: &Worker<G::Store>, message: &Message) -> Delivered {
        with_outcome(process, process.run(self.run(process, message)).await)
    }

    /// Boxed: unoptimised, a worker's future is a large part of a test's stack.
    fn run<'a>(
        &'a self,
        process: &'a Worker<G::Store>,
        message: &'a Message,
    ) -> Pin<Box<dyn Future<Output = Delivered> + 'a>> {
        Box::pin(async move {
            let consumer = Unconnected::<Watched<H>, _, _>::new(
                process.program.clone(),
                Arc::clone(&self.state),
                self.queue.clone(),
            );
            let arriving = message.arrive(self.queue.name());
            consumer.run(arriving).await.into()
        })
    }

    fn start_process(&self) -> Worker<G::Store> {
        Worker::start(self.ground.store())
    }

    /// One whose messages share what they may: also the first of them, which would find nobody to share with.
    fn start_sharing_process(&self) -> Worker<G::Store> {
        let process = Worker::start(&self.ground.store().sharing_transactions());
        process.program.crowd(H::SCOPE);
        process
    }

    fn process(&self) -> MutexGuard<'_, Worker<G::Store>> {
        // What is written under the lock is never half done.
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(feature = "postgres")]
impl<H, St> Harness<H, St, crate::OnPostgres> {
    /// A connection of the test's own, which sees what is committed.
    ///
    /// # Panics
    /// If the server cannot be reached.
    pub async fn database(&self) -> crate::Database<idem_core::sqlx::PgConnection> {
        self.ground.database().await
    }
}

#[cfg(feature = "sqlite")]
impl<H, St> Harness<H, St, crate::OnSqlite> {
    /// A connection of the test's own, which sees what is committed.
    ///
    /// # Panics
    /// If the file cannot be opened.
    pub async fn database(&self) -> crate::Database<idem_core::sqlx::SqliteConnection> {
        self.ground.database().await
    }
}

fn with_outcome<P>(process: &Process<P>, (delivered, seen): (Delivered, Seen)) -> Delivered {
    let is_done = delivered.settlement == Settlement::Ack;
    let with_others = || process.completed_together(delivered.key.as_ref()?);
    let outcome = seen.outcome.or_else(with_others);
    Delivered {
        outcome: outcome.filter(|_| is_done),
        ..delivered
    }
}

impl<H: Operation, St, G: Ground> fmt::Debug for Harness<H, St, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Harness")
            .field("scope", &H::SCOPE)
            .field("queue", &self.queue.name())
            .finish_non_exhaustive()
    }
}
