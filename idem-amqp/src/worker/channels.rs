//! The channel loop of a consumer, of requests and of registrations alike: open, consume, renew, close, open again.
//!
//! Each delivery goes to [`Consuming::take_delivery`], and each channel has an [`AckSender`] of its own: after the
//! channel's end it sends nothing. What differs is a [`Consuming`]: what is declared first, and what becomes of a
//! delivery.

use std::{fmt::Display, future::ready, sync::Arc, time::Duration};

use futures_util::{FutureExt as _, StreamExt as _};
use idem_core::{ErrorChain, handler::Backoff};
use lapin::{
    Channel, Connection, Error,
    message::Delivery as RawDelivery,
    options::{BasicCancelOptions, BasicConsumeOptions, BasicNackOptions, BasicQosOptions},
    types::{FieldTable, ShortString},
};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use super::{ack_sender::AckSender, idle::Idle};
use crate::{connection::health::HealthState, error::TopologyError, wire::incident::Incident};

/// One queue's consumer, over all its channels.
pub(super) trait Consuming: Sync {
    /// What the deliveries of one channel share. Each that is not settled yet has a clone of it.
    type Context: Sync + Send;

    /// The queue's name.
    fn queue(&self) -> &str;

    /// How many deliveries the broker sends ahead.
    fn prefetch(&self) -> u16;

    /// Declares the queue, or finds it.
    fn establish(
        &self,
        connection: &Connection,
        channel: &Channel,
    ) -> impl Future<Output = Result<(), TopologyError>> + Send;

    /// What the consumer is declared with.
    fn arguments(&self) -> FieldTable {
        FieldTable::default()
    }

    /// Whether what was not started goes back with a `nack`.
    fn takes_back(&self) -> bool {
        true
    }

    /// Whether messages are to stay in the order of their queue.
    fn is_ordered(&self) -> bool {
        false
    }

    /// Whether a channel on which nothing has come for long may be renewed.
    fn may_renew(&self, _context: &Self::Context) -> bool {
        true
    }

    /// Called once all is settled that will be, and when consuming failed: others may take over.
    fn drained(&self) -> impl Future<Output = ()> + Send {
        ready(())
    }

    /// The broker refused to let it be consumed.
    fn refused(&self, error: Error) -> TopologyError;

    fn context(&self, settling: Settling) -> Self::Context;

    /// Sees to a delivery, in one of the [tasks](Self::tasks).
    fn take_delivery(&self, delivery: RawDelivery, context: &Arc<Self::Context>);

    /// Counts a delivery that is not started any more.
    fn abandon(&self, delivery: RawDelivery);

    /// What runs beside the consumption, for ever.
    fn beside(&self, connection: &Connection) -> impl Future<Output = ()> + Send;

    fn tasks(&self) -> &TaskTracker;

    /// Waits for what was started, as long as it may take.
    fn finish_running(&self) -> impl Future<Output = ()> + Send;
}

/// How the deliveries of one channel are settled.
#[derive(Debug, Clone)]
pub(super) struct Settling {
    /// Acknowledges and returns them.
    pub(super) acks: AckSender,
    /// Cancelled when the channel is closed: they cannot be settled any more.
    pub(super) closed: CancellationToken,
}

/// Why a consumer no longer consumes.
pub(super) enum Stopped {
    /// The worker is draining, and this consumer has drained.
    Drained,
    /// The connection has ended.
    Disconnected,
    /// The connection is there, and opens no channel any more.
    UsedUp,
    /// The queue cannot be used, and waiting will not help.
    Unusable(TopologyError),
}

/// Why one channel of a consumer ended.
pub(super) enum ChannelEnd {
    Drained,
    /// Nothing has come for a while, and it was closed.
    Idle,
    /// The broker cancelled the consumer: its queue was deleted, or its node went away.
    Cancelled,
    /// A settlement could not be sent.
    CannotSettle,
    Failed(Error),
    Unusable(TopologyError),
    /// There was none: it could not be opened.
    NotOpened(Error),
}

/// How often in a row a channel is tried to be opened on a connection that is there. The client never
/// opens one again under a number whose channel the broker has closed, and there are not many numbers
/// (`channel_max`): a queue that stays refused uses them up.
const NOT_OPENED: u32 = 3;

const REOPEN: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(10));

/// How long the acks, the cancel, the nack and the close may take, once nothing runs any more.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// The channels of one queue's consumer.
pub(super) struct Channels<'a, C> {
    pub(super) consumer: &'a C,
    pub(super) health: &'a Arc<HealthState>,
    pub(super) draining: &'a CancellationToken,
    /// For how long nothing may come before the channel is renewed.
    pub(super) idle: Duration,
}

impl<C: Consuming> Channels<'_, C> {
    /// Consumes on this connection, with a new channel whenever one has ended, until the worker
    /// drains, or the connection ends or is used up.
    pub(super) async fn consume(&self, connection: &Connection, first: bool) -> Stopped {
        let mut tries = 0;
        // In a row; none before the first could be opened: then another connection helps no more.
        let mut not_opened = None;
        let mut has_consumed = false;
        loop {
            let opened = Instant::now();
            match self.consume_renewing(connection, &mut has_consumed).await {
                ChannelEnd::Drained => return Stopped::Drained,
                // At the start only. Whoever has consumed waits for its queue, however it went.
                ChannelEnd::Unusable(error)
                    if first && tries == 0 && !has_consumed && error.is_lasting() =>
                {
                    return Stopped::Unusable(error);
                }
                _ if !connection.status().connected() => return Stopped::Disconnected,
                ChannelEnd::NotOpened(error) => {
                    not_opened = not_opened.map(|times| times + 1);
                    if not_opened >= Some(NOT_OPENED) && !self.draining.is_cancelled() {
                        self.health.record_incident(
                            Incident::ConnectionBroken,
                            self.consumer.queue(),
                            Some(&error),
                        );
                        return Stopped::UsedUp;
                    }
                    self.report_end(ChannelEnd::NotOpened(error));
                }
                end => {
                    not_opened = Some(0);
                    self.report_end(end);
                }
            }
            tries = if opened.elapsed() > REOPEN.longest() {
                1
            } else {
                tries + 1
            };
            tokio::select! {
                () = sleep(REOPEN.wait(tries)) => {}
                () = self.draining.cancelled() => return Stopped::Drained,
            }
        }
    }

    /// Consumes with one channel, and with a new one whenever nothing has come for long: the broker may have
    /// forgotten the consumer, and says nothing of it.
    async fn consume_renewing(
        &self,
        connection: &Connection,
        has_consumed: &mut bool,
    ) -> ChannelEnd {
        let queue = self.consumer.queue();
        let mut renewed = false;
        loop {
            let opened = tokio::select! {
                opened = self.open(connection) => opened,
                () = self.draining.cancelled() => return ChannelEnd::Drained,
            };
            let (channel, deliveries) = match opened {
                Ok(opened) => opened,
                Err(end) => return end,
            };
            *has_consumed = true;
            if !renewed {
                tracing::info!(queue, prefetch = self.consumer.prefetch(), "consuming");
            }
            let end = tokio::select! {
                consumed = self.consume_channel(&channel, deliveries) => {
                    consumed.unwrap_or_else(ChannelEnd::Failed)
                }
                () = self.consumer.beside(connection) => unreachable!("it runs for ever"),
            };
            if !matches!(end, ChannelEnd::Idle) {
                return end;
            }
            tracing::debug!(
                queue,
                "nothing has come for a while: the channel is renewed"
            );
            renewed = true;
        }
    }

    async fn open(
        &self,
        connection: &Connection,
    ) -> Result<(Channel, lapin::Consumer), ChannelEnd> {
        let consumer = self.consumer;
        let channel = connection.create_channel().await;
        let channel = channel.map_err(ChannelEnd::NotOpened)?;
        let established = consumer.establish(connection, &channel).await;
        established.map_err(ChannelEnd::Unusable)?;
        let deliveries = self.subscribe(&channel).await;
        if deliveries.is_err() {
            // Others may be able to.
            consumer.drained().await;
        }
        let deliveries = deliveries?;
        self.health.consuming(consumer.queue());
        Ok((channel, deliveries))
    }

    async fn subscribe(&self, channel: &Channel) -> Result<lapin::Consumer, ChannelEnd> {
        let consumer = self.consumer;
        let limited = channel.basic_qos(consumer.prefetch(), BasicQosOptions::default());
        limited.await.map_err(ChannelEnd::Failed)?;
        let consuming = channel.basic_consume(
            consumer.queue().into(),
            "".into(),
            BasicConsumeOptions::default(),
            consumer.arguments(),
        );
        consuming
            .await
            .map_err(|error| ChannelEnd::Unusable(consumer.refused(error)))
    }

    async fn consume_channel(
        &self,
        channel: &Channel,
        mut deliveries: lapin::Consumer,
    ) -> Result<ChannelEnd, Error> {
        let (settling, _ends_with_this_call) = self.settling(channel);
        let context = Arc::new(self.consumer.context(settling.clone()));
        let mut idle = Idle::after(self.idle);
        let end = loop {
            tokio::select! {
                biased;
                () = self.draining.cancelled() => break ChannelEnd::Drained,
                () = settling.closed.cancelled() => break ChannelEnd::CannotSettle,
                next = deliveries.next() => match next {
                    Some(delivery) => {
                        idle.received();
                        self.consumer.take_delivery(delivery?, &context);
                    }
                    None => break ChannelEnd::Cancelled,
                },
                // Each delivery that is not settled has the context: its channel is left alone, or it would be
                // delivered again, and counted, each time.
                () = idle.elapsed() => if Arc::strong_count(&context) == 1 && self.consumer.may_renew(&context) {
                    break ChannelEnd::Idle;
                },
            }
        };
        if matches!(end, ChannelEnd::Drained) {
            self.consumer.finish_running().await;
            // A link that has gone silent must not hold the shutdown up.
            let drained = timeout(DRAIN_TIMEOUT, self.drain(channel, deliveries, &settling)).await;
            self.consumer.drained().await;
            if let Ok(drained) = drained {
                drained?;
            } else {
                tracing::warn!("the broker did not answer while draining");
            }
        } else {
            // What is not settled comes back at once, and not when the last handler has finished.
            close(channel, deliveries.tag(), &settling).await;
        }
        Ok(end)
    }

    fn settling(&self, channel: &Channel) -> (Settling, DropGuard) {
        let (queue, prefetch) = (self.consumer.queue().to_owned(), self.consumer.prefetch());
        let closed = CancellationToken::new();
        let unsettled = {
            let (health, closed) = (Arc::clone(self.health), closed.clone());
            move |error| {
                health.record_incident(Incident::Unsettled, &queue, Some(&error));
                closed.cancel();
            }
        };
        let acks = AckSender::start(channel.clone(), prefetch, unsettled);
        let guard = closed.clone().drop_guard();
        (Settling { acks, closed }, guard)
    }

    /// Ack, then cancel, then return the unstarted with one nack. The order matters: a quorum
    /// queue's channel that is closed with settlements in flight loses them.
    async fn drain(
        &self,
        channel: &Channel,
        mut deliveries: lapin::Consumer,
        settling: &Settling,
    ) -> Result<(), Error> {
        settling.acks.flush().await;
        if self.consumer.is_ordered() {
            // A consumer that is cancelled still has what it was sent, while the next one is sent what comes after
            // that. A channel that is closed returns all of it first, in its order; an ack that is lost by that makes a
            // duplicate.
            while let Some(Some(Ok(delivery))) = deliveries.next().now_or_never() {
                self.consumer.abandon(delivery);
            }
            return channel.close(200, "done".into()).await;
        }
        channel
            .basic_cancel(deliveries.tag(), BasicCancelOptions::default())
            .await?;
        while let Some(Some(Ok(delivery))) = deliveries.next().now_or_never() {
            self.consumer.abandon(delivery);
        }
        if self.consumer.takes_back() && self.consumer.tasks().is_empty() {
            // Tag 0 with `multiple` means all that are outstanding: here, the unstarted.
            let rest = BasicNackOptions {
                multiple: true,
                requeue: true,
            };
            channel.basic_nack(0, rest).await?;
        }
        channel.close(200, "done".into()).await
    }

    /// Records the end of a channel whose connection goes on.
    fn report_end(&self, end: ChannelEnd) {
        let queue = self.consumer.queue();
        let (incident, error) = match end {
            ChannelEnd::Unusable(error) => (
                Incident::QueueRefused,
                Some(ErrorChain::of(&error).to_string()),
            ),
            ChannelEnd::Cancelled => (Incident::ConsumerCancelled, None),
            ChannelEnd::Failed(error) | ChannelEnd::NotOpened(error) => {
                (Incident::ChannelClosed, Some(error.to_string()))
            }
            // The task that sends acks has said why.
            ChannelEnd::CannotSettle | ChannelEnd::Drained | ChannelEnd::Idle => {
                return self.health.not_consuming(queue, None);
            }
        };
        let error = error.as_ref().map(|error| error as &dyn Display);
        self.health.record_incident(incident, queue, error);
        self.health.not_consuming(queue, error);
    }
}

/// Sends what is decided, and closes the channel: whatever else it was given comes back. A quorum queue's channel that
/// is closed with settlements in flight loses them: the answer to the cancel says that they have arrived.
async fn close(channel: &Channel, consumer_tag: ShortString, settling: &Settling) {
    let closing = async {
        settling.closed.cancel();
        settling.acks.flush().await;
        channel
            .basic_cancel(consumer_tag, BasicCancelOptions::default())
            .await?;
        channel.close(200, "done".into()).await
    };
    match timeout(DRAIN_TIMEOUT, closing).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a channel was closed already"),
        Err(_) => tracing::debug!("the broker did not answer while a channel was closed"),
    }
}
