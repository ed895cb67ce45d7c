//! One consumer: a channel of its own, its deliveries, and what happens when it ends.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use futures_util::{FutureExt as _, StreamExt as _};
use lapin::{
    Channel, Connection, Error,
    message::Delivery as RawDelivery,
    options::{BasicCancelOptions, BasicConsumeOptions, BasicNackOptions, BasicQosOptions},
    types::{FieldTable, ShortString},
};
use tokio::time::{sleep_until, timeout, timeout_at};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::Instrument as _;

use super::{
    ack_sender::AckSender,
    arrival::Arrival,
    channel_context::{ChannelContext, Slot, Slots},
    channels::{Channels, Ended, Stopped},
    grace::Grace,
    idle::Idle,
    settle::DeliveryProcessor,
};
use crate::{
    connection::health::HealthState,
    telemetry::{FailureLog, spans},
    topology::{self, Step},
    wire::{delivery::Delivery, incident::Incident},
};

/// How often a queue may return a message, once the broker has told.
pub(super) type ToldLimit = OnceLock<u64>;

/// A consumer over all connections of a worker.
pub(super) struct Consumer {
    pub(super) processor: Arc<DeliveryProcessor>,
    pub(super) health: Arc<HealthState>,
    pub(super) told_limit: ToldLimit,
    pub(super) slots: Slots,
    pub(super) tasks: TaskTracker,
    pub(super) draining: CancellationToken,
    pub(super) grace: Arc<Grace>,
    pub(super) failures: Arc<FailureLog>,
    /// For how long nothing may come before the channel is renewed.
    pub(super) idle: Duration,
}

/// For the acks, the cancel, the nack and the close, once no handler runs any more.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// For handlers that were dropped to end.
const DROP_TIMEOUT: Duration = Duration::from_secs(2);

impl Consumer {
    /// Consumes on this connection, with a new channel whenever one has ended, until the worker
    /// drains or the connection ends.
    pub(super) async fn consume(&self, connection: &Connection, first: bool) -> Stopped {
        let channels = Channels {
            queue: self.name(),
            health: &self.health,
            draining: &self.draining,
        };
        let once = || self.consume_once(connection);
        channels.consume(connection, first, once).await
    }

    fn name(&self) -> &str {
        self.processor.queue.name()
    }

    /// Consumes with one channel, and with a new one whenever nothing has come for long: the broker may have
    /// forgotten the consumer, and says nothing of it.
    async fn consume_once(&self, connection: &Connection) -> Ended {
        let mut renewed = false;
        loop {
            let opened = tokio::select! {
                opened = self.open(connection) => opened,
                () = self.draining.cancelled() => return Ended::Drained,
            };
            let (channel, deliveries) = match opened {
                Ok(opened) => opened,
                Err(ended) => return ended,
            };
            if !renewed {
                let prefetch = self.processor.queue.window();
                tracing::info!(queue = self.name(), prefetch, "consuming");
            }
            let ended = tokio::select! {
                consumed = self.consume_channel(&channel, deliveries) => {
                    consumed.unwrap_or_else(Ended::Failed)
                }
                () = topology::keep_way_back(connection, &self.processor.queue) => {
                    unreachable!("it is kept for ever")
                }
            };
            if !matches!(ended, Ended::Idle) {
                return ended;
            }
            tracing::debug!(
                queue = self.name(),
                "nothing has come for a while: the channel is renewed"
            );
            renewed = true;
        }
    }

    async fn open(&self, connection: &Connection) -> Result<(Channel, lapin::Consumer), Ended> {
        let queue = &self.processor.queue;
        let channel = connection.create_channel().await;
        let channel = channel.map_err(Ended::NotOpened)?;
        let established = topology::establish(&channel, queue).await;
        established.map_err(Ended::Unusable)?;
        let limited = channel.basic_qos(queue.window(), BasicQosOptions::default());
        limited.await.map_err(Ended::Failed)?;
        let consuming = channel.basic_consume(
            queue.name().into(),
            "".into(),
            BasicConsumeOptions::default(),
            FieldTable::default(),
        );
        let deliveries = consuming.await.map_err(|refused| {
            let step = Step::Consume(queue.name());
            Ended::Unusable(topology::explain(step, queue, refused))
        })?;
        self.health.consuming(queue.name());
        Ok((channel, deliveries))
    }

    async fn consume_channel(
        &self,
        channel: &Channel,
        mut deliveries: lapin::Consumer,
    ) -> Result<Ended, Error> {
        let ended = CancellationToken::new();
        let _ends_with_this_call = ended.clone().drop_guard();
        let context = self.context(channel, ended);
        let mut idle = Idle::after(self.idle);
        let ended = loop {
            tokio::select! {
                biased;
                () = self.draining.cancelled() => break Ended::Drained,
                () = context.ended.cancelled() => break Ended::Unsettled,
                next = deliveries.next() => match next {
                    Some(delivery) => {
                        idle.received();
                        self.start(delivery?, &context);
                    }
                    None => break Ended::Cancelled,
                },
                // Each delivery that has not ended has the context: its channel is left alone, or it would be
                // delivered again, and counted, each time.
                () = idle.elapsed() => if Arc::strong_count(&context) == 1 {
                    break Ended::Idle;
                },
            }
        };
        if matches!(ended, Ended::Drained) {
            self.finish_running().await;
            // A link that has gone silent must not hold the shutdown up.
            let drained = timeout(DRAIN_TIMEOUT, self.drain(channel, deliveries, &context)).await;
            if let Ok(drained) = drained {
                drained?;
            } else {
                tracing::warn!("the broker did not answer while draining");
            }
        } else {
            // What is not settled comes back at once, and not when the last handler has finished.
            close(channel, deliveries.tag(), &context).await;
        }
        Ok(ended)
    }

    fn context(&self, channel: &Channel, ended: CancellationToken) -> Arc<ChannelContext> {
        let queue = &self.processor.queue;
        let unsettled = {
            let (health, ended, queue) = (Arc::clone(&self.health), ended.clone(), queue.clone());
            move |error| {
                health.record_incident(Incident::Unsettled, queue.name(), Some(&error));
                ended.cancel();
            }
        };
        Arc::new(ChannelContext {
            slots: self.slots.clone(),
            delivery_limit: queue.returns_allowed(self.told_limit.get().copied()),
            acks: AckSender::start(channel.clone(), queue.window(), unsettled),
            failures: Arc::clone(&self.failures),
            health: Arc::clone(&self.health),
            ended,
            draining: self.draining.clone(),
        })
    }

    fn start(&self, raw: RawDelivery, context: &Arc<ChannelContext>) {
        self.processor.counters.delivered(&self.processor.meters);
        let (tag, bytes) = (raw.delivery_tag, raw.data.len());
        let arrival = self.receive(raw);
        let span = spans::process(&arrival.delivery, tag, bytes);
        // Here, not in the task: tasks begin in any order.
        let slot = Slot::on_arrival(context);
        let (processor, context) = (Arc::clone(&self.processor), Arc::clone(context));
        let served = async move { processor.serve(tag, arrival, &context, slot).await };
        self.tasks.spawn(served.instrument(span));
    }

    fn receive(&self, raw: RawDelivery) -> Arrival {
        let (delivery, body) = Delivery::received(self.processor.queue.shared_name(), raw);
        Arrival::new(delivery, body, &self.processor.queue)
    }

    /// Ack, then cancel, then return the unstarted with one nack. The order matters: a quorum
    /// queue's channel that is closed with settlements in flight loses them.
    async fn drain(
        &self,
        channel: &Channel,
        mut deliveries: lapin::Consumer,
        context: &ChannelContext,
    ) -> Result<(), Error> {
        context.acks.flush().await;
        channel
            .basic_cancel(deliveries.tag(), BasicCancelOptions::default())
            .await?;
        while let Some(Some(Ok(raw))) = deliveries.next().now_or_never() {
            self.processor.counters.delivered(&self.processor.meters);
            let (tag, bytes) = (raw.delivery_tag, raw.data.len());
            let arrival = self.receive(raw);
            spans::process(&arrival.delivery, tag, bytes)
                .in_scope(|| self.processor.abandon(&arrival));
        }
        if self.tasks.is_empty() {
            // Tag 0 with `multiple` means all that are outstanding: here, the unstarted.
            let rest = BasicNackOptions {
                multiple: true,
                requeue: true,
            };
            channel.basic_nack(0, rest).await?;
        }
        channel.close(200, "done".into()).await
    }

    /// Waits for the running handlers; past the grace period they are dropped, and their leases
    /// run out. Waits no longer if it is called again.
    pub(super) async fn finish_running(&self) {
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

/// Sends what is decided, and closes the channel: whatever else it was given comes back. A quorum queue's channel that
/// is closed with settlements in flight loses them: the answer to the cancel says that they have arrived.
async fn close(channel: &Channel, consumer: ShortString, context: &ChannelContext) {
    let closing = async {
        context.ended.cancel();
        context.acks.flush().await;
        channel
            .basic_cancel(consumer, BasicCancelOptions::default())
            .await?;
        channel.close(200, "done".into()).await
    };
    match timeout(DRAIN_TIMEOUT, closing).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a channel was closed already"),
        Err(_) => tracing::debug!("the broker did not answer while a channel was closed"),
    }
}
