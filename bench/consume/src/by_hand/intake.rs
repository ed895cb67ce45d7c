//! Deliveries through lapin.

use std::time::Instant;

use bench_driver::consume::QueueKind;
use bench_orders::Options;
use futures_util::{FutureExt as _, StreamExt as _};
use lapin::{
    Channel, Connection, Consumer,
    message::Delivery,
    options::{BasicCancelOptions, BasicConsumeOptions, BasicQosOptions},
    types::{AMQPValue, FieldTable},
};

use crate::Result;

/// Who says that a message is done.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Acks {
    /// The consumer, of each message.
    Each,
    /// Nobody: the broker takes a message that it has sent for done.
    None,
}

/// Where a stream is read from, and where in it a message is.
const OFFSET: &str = "x-stream-offset";
const CANCELLED: &str = "the broker has cancelled the consumer";

/// Where in a stream a message is, if it comes from one.
pub(super) fn offset(delivery: &Delivery) -> Option<i64> {
    let headers = delivery.properties.headers().as_ref()?;
    match headers.inner().get(OFFSET)? {
        AMQPValue::LongLongInt(offset) => Some(*offset),
        _ => None,
    }
}

/// A consumer with a connection of its own.
#[derive(Debug)]
pub(super) struct Intake {
    connection: Connection,
    channel: Channel,
    consumer: Consumer,
}

impl Intake {
    pub(super) async fn open(options: &Options, acks: Acks) -> Result<Self> {
        let (connection, channel) = options.place.connect().await?;
        let qos = BasicQosOptions::default();
        channel.basic_qos(options.prefetch, qos).await?;
        let consume = BasicConsumeOptions {
            no_ack: matches!(acks, Acks::None),
            ..BasicConsumeOptions::default()
        };
        let queue = options.place.queue.as_str().into();
        let mut arguments = FieldTable::default();
        if options.place.kind == QueueKind::Stream {
            let first = AMQPValue::LongString("first".into());
            arguments.insert(OFFSET.into(), first);
        }
        let consumer = channel
            .basic_consume(queue, "".into(), consume, arguments)
            .await?;
        Ok(Self {
            connection,
            channel,
            consumer,
        })
    }

    pub(super) async fn next(&mut self) -> Result<Delivery> {
        let next = self.consumer.next().await;
        Ok(next.ok_or(CANCELLED)??)
    }

    /// What has arrived, as far as that is no more than `most`: at least one.
    pub(super) async fn some(&mut self, most: usize) -> Result<Vec<Delivery>> {
        let mut some = vec![self.next().await?];
        while some.len() < most
            && let Some(next) = self.consumer.next().now_or_never()
        {
            some.push(next.ok_or(CANCELLED)??);
        }
        Ok(some)
    }

    /// Says when everything that was sent has arrived.
    pub(super) async fn close(self) -> Result<Instant> {
        let cancel = BasicCancelOptions::default();
        self.channel
            .basic_cancel(self.consumer.tag(), cancel)
            .await?;
        self.channel.close(200, "done".into()).await?;
        self.connection.close(200, "done".into()).await?;
        Ok(Instant::now())
    }
}
