//! The queue that is consumed.

use idem_amqp::Queue;
use lapin::{
    Channel, Connection, ConnectionProperties,
    options::{QueueDeclareOptions, QueueDeleteOptions},
    types::{AMQPValue, FieldTable},
};
use xtask::bench::consume::QueueKind;

use crate::Result;

/// One held delivery for so many in the window: copies whose original is at work.
const HELD: u16 = 8;

/// Where a queue is, and how many messages it has in the beginning.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Place {
    /// The broker
    #[arg(long)]
    pub(crate) amqp_url: String,
    /// The queue's name
    #[arg(long)]
    pub(crate) queue: String,
    /// How many messages are in it
    #[arg(long)]
    pub(crate) messages: usize,
}

impl Place {
    /// A connection of its own, which the caller closes.
    pub(crate) async fn connect(&self) -> Result<(Connection, Channel)> {
        let properties = ConnectionProperties::default();
        let connection = Connection::connect(&self.amqp_url, properties).await?;
        let channel = connection.create_channel().await?;
        Ok((connection, channel))
    }

    /// Makes the queue and the one for dead letters, without anything in them.
    pub(crate) async fn declare(&self, channel: &Channel, kind: QueueKind) -> Result<()> {
        self.delete(channel).await?;
        for (name, kind) in [
            (self.queue.clone(), kind),
            (self.dead_letters(), QueueKind::Classic),
        ] {
            let mut arguments = FieldTable::default();
            let value = AMQPValue::LongString(kind.name().into());
            arguments.insert("x-queue-type".into(), value);
            let durable = QueueDeclareOptions {
                durable: true,
                ..QueueDeclareOptions::default()
            };
            channel
                .queue_declare(name.into(), durable, arguments)
                .await?;
        }
        Ok(())
    }

    /// How many messages wait in the queue.
    pub(crate) async fn waiting(&self, channel: &Channel) -> Result<u32> {
        let look = QueueDeclareOptions {
            passive: true,
            ..QueueDeclareOptions::default()
        };
        let name = self.queue.as_str().into();
        let queue = channel.queue_declare(name, look, FieldTable::default());
        Ok(queue.await?.message_count())
    }

    pub(crate) async fn delete(&self, channel: &Channel) -> Result<()> {
        for name in [self.queue.clone(), self.dead_letters()] {
            let options = QueueDeleteOptions::default();
            channel.queue_delete(name.into(), options).await?;
        }
        Ok(())
    }

    /// For a worker whose channel has this prefetch: of the deliveries in its hands most are
    /// handled, the others may wait for the end of their original.
    pub(crate) fn queue(&self, prefetch: u16) -> Queue {
        let held = prefetch / HELD;
        Queue::existing(&self.queue)
            .prefetch(prefetch - held)
            .held(held)
    }

    fn dead_letters(&self) -> String {
        format!("{}.dead", self.queue)
    }
}
