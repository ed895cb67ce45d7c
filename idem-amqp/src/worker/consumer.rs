//! The consumer of a queue of messages: what becomes of a delivery, and of the handlers that run when it stops.

use std::{
    iter,
    sync::{Arc, OnceLock},
    time::Duration,
};

use lapin::{Channel, Connection, Error, message::Delivery as RawDelivery, types::FieldTable};
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::Instrument as _;

use super::{
    arrival::Arrival,
    channel_context::{ChannelContext, Slot, Slots},
    channels::{Channels, Consuming, Settling, Stopped},
    delivery_processor::DeliveryProcessor,
    grace::Grace,
    in_order::handle_in_order,
    lanes::DeliveryLanes,
    route::Route,
    stream::{Arrived, StreamReader},
    waiting_deliveries::{WaitingDeliveries, WaitingDelivery},
};
use crate::{
    connection::health::HealthState,
    error::TopologyError,
    telemetry::{FailureLog, spans},
    topology::{self, Step},
    wire::{delivery::Delivery, stream::offset},
};

/// How often a queue may return a message, once the broker has told.
pub(super) type ToldLimit = OnceLock<u64>;

/// A consumer over all connections of a worker.
pub(super) struct Consumer {
    /// Handles all deliveries; if there are routes, those that none of them takes.
    pub(super) processor: Arc<DeliveryProcessor>,
    /// The first that takes a delivery has it.
    pub(super) routes: Vec<(Route, Arc<DeliveryProcessor>)>,
    pub(super) health: Arc<HealthState>,
    pub(super) told_limit: ToldLimit,
    pub(super) slots: Slots,
    /// The lanes of deliveries that wait for each other, shared by all consumers of the worker: a stream and the
    /// queue of what fails in it have the same handler.
    pub(super) lanes: Arc<DeliveryLanes>,
    pub(super) tasks: TaskTracker,
    pub(super) draining: CancellationToken,
    pub(super) grace: Arc<Grace>,
    pub(super) failures: Arc<FailureLog>,
    /// For how long nothing may come before the channel is renewed.
    pub(super) idle: Duration,
    /// If it consumes a stream.
    pub(super) stream: Option<StreamReader>,
}

/// How long handlers that were dropped may take to end.
const DROP_TIMEOUT: Duration = Duration::from_secs(2);

impl Consumer {
    /// Consumes on this connection, with a new channel whenever one has ended, until the worker
    /// drains or the connection ends.
    pub(super) async fn consume(&self, connection: &Connection, first: bool) -> Stopped {
        let channels = Channels {
            consumer: self,
            health: &self.health,
            draining: &self.draining,
            idle: self.idle,
        };
        channels.consume(connection, first).await
    }

    fn receive(&self, raw: RawDelivery) -> Arrival {
        let queue = &self.processor.queue;
        let (name, comes_back_to) = (queue.shared_name(), queue.comes_back_to());
        let partition = queue.partition().map(|_| queue.shared_name());
        let (delivery, body) = Delivery::received_from(name, comes_back_to, partition, raw);
        Arrival::new(delivery, body, &self.processor.queue)
    }

    /// If the mark of its stream alone says what is done.
    fn records_by_mark(&self) -> Option<Arc<WaitingDeliveries>> {
        let batch = self.processor.runner.records_by_mark();
        let batch = batch.filter(|_| self.routes.is_empty() && self.stream.is_some());
        batch.map(|batch| Arc::new(WaitingDeliveries::new(batch, self.prefetch())))
    }

    /// Takes a delivery in that is handled after those before it.
    fn take_in_order(
        &self,
        in_order: &Arc<WaitingDeliveries>,
        delivery: WaitingDelivery,
        context: &Arc<ChannelContext>,
    ) {
        match in_order.arrives(delivery) {
            Ok(true) => {
                let (in_order, processor) = (Arc::clone(in_order), Arc::clone(&self.processor));
                let handled = handle_in_order(in_order, processor, Arc::clone(context));
                self.tasks.spawn(handled);
            }
            Ok(false) => {}
            Err(left) => left.span.in_scope(|| self.processor.abandon(&left.arrival)),
        }
    }

    /// Whose delivery it is.
    fn processor_of(&self, arrival: &Arrival) -> &Arc<DeliveryProcessor> {
        let mut routes = self.routes.iter();
        let found = routes.find(|(route, _)| route.takes(&arrival.delivery));
        found.map_or(&self.processor, |(_, processor)| processor)
    }

    /// Those of all its deliveries.
    pub(super) fn processors(&self) -> impl Iterator<Item = &DeliveryProcessor> {
        let routes = self.routes.iter().map(|(_, processor)| processor);
        iter::once(&self.processor).chain(routes).map(|one| &**one)
    }

    /// Waits for the running handlers; past the grace period they are dropped, and their leases
    /// run out. Waits no longer if it is called again.
    pub(super) async fn wait_or_drop_handlers(&self) {
        self.tasks.close();
        let grace_ends = self.grace.end();
        tokio::select! {
            biased;
            () = self.tasks.wait() => return,
            () = sleep_until(grace_ends) => {}
        }
        tracing::warn!(
            queue = self.processor.queue.name(),
            running = self.tasks.len(),
            "the grace period is over, handlers that still run are dropped"
        );
        self.processor.deadline.cancel();
        let dropped = timeout_at(grace_ends + DROP_TIMEOUT, self.tasks.wait());
        if dropped.await.is_err() {
            let running = self.tasks.len();
            tracing::error!(
                running,
                "handlers block their threads and cannot be dropped"
            );
        }
    }
}

impl Consuming for Consumer {
    type Context = ChannelContext;

    fn queue(&self) -> &str {
        self.processor.queue.name()
    }

    fn prefetch(&self) -> u16 {
        self.processor.queue.broker_prefetch()
    }

    async fn establish(
        &self,
        connection: &Connection,
        channel: &Channel,
    ) -> Result<(), TopologyError> {
        topology::establish(channel, &self.processor.queue).await?;
        match &self.stream {
            Some(stream) => stream.claim(connection, channel).await,
            None => Ok(()),
        }
    }

    fn arguments(&self) -> FieldTable {
        let stream = self.stream.as_ref();
        stream.map(StreamReader::arguments).unwrap_or_default()
    }

    fn takes_back(&self) -> bool {
        self.stream.is_none()
    }

    fn is_ordered(&self) -> bool {
        self.processors().any(|one| one.runner.is_ordered())
    }

    fn may_renew(&self, context: &ChannelContext) -> bool {
        let reading = context.reading.as_ref();
        reading.is_none_or(|reading| reading.may_renew())
    }

    async fn drained(&self) {
        if let Some(stream) = &self.stream {
            stream.leave().await;
        }
    }

    fn refused(&self, error: Error) -> TopologyError {
        let queue = &self.processor.queue;
        topology::explain(Step::Consume(queue.name()), queue, error)
    }

    fn context(&self, settling: Settling) -> ChannelContext {
        let queue = &self.processor.queue;
        let stream = self.stream.as_ref();
        let reading = stream.and_then(|stream| stream.on_channel(&settling));
        let Settling { acks, closed } = settling;
        ChannelContext {
            slots: self.slots.clone(),
            delivery_limit: queue.returns_allowed(self.told_limit.get().copied()),
            acks,
            failures: Arc::clone(&self.failures),
            health: Arc::clone(&self.health),
            closed,
            draining: self.draining.clone(),
            in_order: reading.as_ref().and_then(|_| self.records_by_mark()),
            reading,
        }
    }

    fn take_delivery(&self, mut raw: RawDelivery, context: &Arc<ChannelContext>) {
        if let (Some(stream), Some(reading)) = (&self.stream, &context.reading) {
            match stream.receive(reading, &raw) {
                Arrived::Done => return context.acks.ack(raw.delivery_tag),
                // A stream does not say it, and whoever ran it may have died of it.
                Arrived::New { may_have_run } => raw.redelivered |= may_have_run,
            }
        }
        let (tag, bytes) = (raw.delivery_tag, raw.data.len());
        let end = offset(&raw.properties).map(|offset| offset.saturating_add(1));
        let mut arrival = self.receive(raw);
        let processor = Arc::clone(self.processor_of(&arrival));
        processor.counters.delivered(&processor.meters);
        let span = spans::process(&arrival.delivery, tag, bytes);
        let lane = processor.runner.ordered_by(&arrival);
        arrival.in_lane(lane.as_ref(), processor.runner.may_overtake_failed());
        if let Some(in_order) = &context.in_order {
            let delivery = WaitingDelivery {
                tag,
                end,
                arrival,
                span,
                came: Instant::now(),
            };
            return self.take_in_order(in_order, delivery, context);
        }
        // Here, not in the task: tasks begin in any order.
        let slot = Slot::on_arrival(context, tag);
        let place = lane.map(|lane| self.lanes.take(lane));
        let context = Arc::clone(context);
        let served = async move { processor.serve(tag, arrival, &context, slot, place).await };
        self.tasks.spawn(served.instrument(span));
    }

    fn abandon(&self, raw: RawDelivery) {
        let (tag, bytes) = (raw.delivery_tag, raw.data.len());
        let arrival = self.receive(raw);
        let processor = self.processor_of(&arrival);
        processor.counters.delivered(&processor.meters);
        spans::process(&arrival.delivery, tag, bytes).in_scope(|| processor.abandon(&arrival));
    }

    async fn beside(&self, connection: &Connection) {
        match &self.stream {
            Some(stream) => stream.keep(connection).await,
            None => topology::keep_way_back(connection, &self.processor.queue).await,
        }
    }

    fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }

    async fn finish_running(&self) {
        self.wait_or_drop_handlers().await;
    }
}
