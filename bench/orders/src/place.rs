//! The queue that is consumed.

use bench_driver::consume::QueueKind;
use lapin::{
    Channel, Connection, ConnectionProperties,
    options::{QueueDeclareOptions, QueueDeleteOptions},
    types::{AMQPValue, FieldTable},
};

use crate::{Result, sequence};

/// Where a queue is, and what is in it in the beginning.
#[derive(Clone, Debug, clap::Args)]
pub struct Place {
    /// The broker
    #[arg(long)]
    pub amqp_url: String,
    /// The queue's name
    #[arg(long)]
    pub queue: String,
    /// How many messages are in it
    #[arg(long)]
    pub messages: usize,
    /// How many of a hundred of them are copies of earlier ones
    #[arg(long, default_value_t = Place::COPIES, value_parser = clap::value_parser!(u8).range(..=50))]
    pub duplicates: u8,
    /// The queue's type
    #[arg(long, value_enum, default_value_t = QueueKind::Classic)]
    pub kind: QueueKind,
}

impl Place {
    /// Of idem's handlers.
    pub const SCOPE: &str = "orders.charge";
    /// Of a hundred messages, unless the options say otherwise.
    pub const COPIES: u8 = 10;

    /// The number of the order in each message, the first message first.
    pub fn orders(&self) -> Vec<usize> {
        sequence::orders(self.messages, self.duplicates)
    }

    /// A connection of its own, which the caller closes.
    ///
    /// # Errors
    /// The broker refuses, or is not there.
    pub async fn connect(&self) -> Result<(Connection, Channel)> {
        let properties = ConnectionProperties::default();
        let connection = Connection::connect(&self.amqp_url, properties).await?;
        let channel = connection.create_channel().await?;
        Ok((connection, channel))
    }

    /// Makes the queue and the one for dead letters, without anything in them.
    ///
    /// # Errors
    /// The broker refuses, or is not there.
    pub async fn declare(&self, channel: &Channel) -> Result<()> {
        self.delete(channel).await?;
        for (name, kind) in [
            (self.queue.clone(), self.kind),
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
    ///
    /// # Errors
    /// The broker refuses, or is not there.
    pub async fn waiting(&self, channel: &Channel) -> Result<u32> {
        let look = QueueDeclareOptions {
            passive: true,
            ..QueueDeclareOptions::default()
        };
        let name = self.queue.as_str().into();
        let queue = channel.queue_declare(name, look, FieldTable::default());
        Ok(queue.await?.message_count())
    }

    /// Deletes the queue, the one for dead letters, and what idem keeps beside a stream.
    ///
    /// # Errors
    /// The broker refuses, or is not there.
    pub async fn delete(&self, channel: &Channel) -> Result<()> {
        let beside = format!("{}~{}", self.queue, Self::SCOPE);
        let dead = format!("{beside}.dead");
        for name in [self.queue.clone(), self.dead_letters(), beside, dead] {
            let options = QueueDeleteOptions::default();
            channel.queue_delete(name.into(), options).await?;
        }
        Ok(())
    }

    fn dead_letters(&self) -> String {
        format!("{}.dead", self.queue)
    }
}
