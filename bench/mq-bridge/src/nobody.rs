//! When a consumer whose connection nobody can close is gone.
//!
//! mq-bridge drops its connection, and lapin then closes it behind its back. The queue loses its
//! consumer when the broker has come to that, which is after all that the connection sent before.

use std::time::{Duration, Instant};

use bench_orders::Place;
use mq_bridge::lapin::{Channel, Connection, options::QueueDeclareOptions, types::FieldTable};
use tokio::time::sleep;

use crate::Result;

const NOW_AND_THEN: Duration = Duration::from_millis(1);

/// A connection of its own, from which the queue is looked at.
#[derive(Debug)]
pub(crate) struct Watch {
    connection: Connection,
    channel: Channel,
    queue: String,
}

impl Watch {
    pub(crate) async fn open(place: &Place) -> Result<Self> {
        let (connection, channel) = place.connect().await?;
        let queue = place.queue.clone();
        Ok(Self {
            connection,
            channel,
            queue,
        })
    }

    /// Says since when the queue has no consumer.
    pub(crate) async fn wait_for_nobody(self) -> Result<Instant> {
        while self.consumers().await? > 0 {
            sleep(NOW_AND_THEN).await;
        }
        let gone = Instant::now();
        self.connection.close(200, "done".into()).await?;
        Ok(gone)
    }

    async fn consumers(&self) -> Result<u32> {
        let look = QueueDeclareOptions {
            passive: true,
            ..QueueDeclareOptions::default()
        };
        let name = self.queue.as_str().into();
        let queue = self
            .channel
            .queue_declare(name, look, FieldTable::default());
        Ok(queue.await?.consumer_count())
    }
}
