//! What contestants publish with their outboxes: one event per order, into a queue that nobody consumes or one consumer
//! that looks at the time.

use bench_driver::consume::QueueKind;
use bench_orders::{Order, Place, Stopwatch};
use futures_util::StreamExt as _;
use idem_amqp::Publication;
use lapin::{
    Channel, Connection,
    options::{BasicConsumeOptions, QueuePurgeOptions},
    types::FieldTable,
};

use crate::Result;

/// The queue.
pub(crate) const QUEUE: &str = "bench.events";

/// The event of an order: its id.
pub(crate) fn of(order: &Order) -> Publication {
    Publication::json(QUEUE, &order.id)
}

/// The queue of events, looked at from outside.
#[derive(Debug)]
pub(crate) struct Events {
    place: Place,
    connection: Connection,
    channel: Channel,
}

impl Events {
    /// A new queue.
    pub(crate) async fn declare(place: &Place) -> Result<Self> {
        let place = Place {
            queue: QUEUE.to_owned(),
            kind: QueueKind::Classic,
            ..place.clone()
        };
        let (connection, channel) = place.connect().await?;
        place.declare(&channel).await?;
        Ok(Self {
            place,
            connection,
            channel,
        })
    }

    /// How many are in it.
    pub(crate) async fn count(&self) -> Result<usize> {
        Ok(self.place.waiting(&self.channel).await?.try_into()?)
    }

    /// Takes all out, and tells the stopwatch of each.
    pub(crate) async fn watch(&self, stopwatch: &Stopwatch) -> Result<()> {
        let consume = BasicConsumeOptions {
            no_ack: true,
            ..BasicConsumeOptions::default()
        };
        let (queue, arguments) = (QUEUE.into(), FieldTable::default());
        let consumer = self
            .channel
            .basic_consume(queue, "".into(), consume, arguments);
        let mut events = consumer.await?;
        while let Some(event) = events.next().await {
            let id: String = serde_json::from_slice(&event?.data)?;
            stopwatch.stop(&id);
        }
        Ok(())
    }

    /// Makes sure that as many are in it as there are orders, and deletes it.
    pub(crate) async fn number(self, orders: usize) -> Result<()> {
        let events = self.count().await?;
        self.channel
            .queue_purge(QUEUE.into(), QueuePurgeOptions::default())
            .await?;
        self.place.delete(&self.channel).await?;
        self.connection.close(200, "done".into()).await?;
        if events != orders {
            return Err(format!("{events} events of {orders} orders").into());
        }
        Ok(())
    }
}
