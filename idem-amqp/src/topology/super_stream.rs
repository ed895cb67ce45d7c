//! What makes streams a super stream: its exchange, and how each is bound. Both as `rabbitmq-streams add_super_stream`
//! makes them, so that clients of the stream protocol know them, and what is there is left as it is.
// docs/decisions/0051

use lapin::{
    Channel, ExchangeKind,
    options::{ExchangeDeclareOptions, QueueBindOptions},
    types::{AMQPValue, FieldTable},
};

use super::{Step, explain, queue::Partition};
use crate::{error::TopologyError, topology::Queue};

/// Declares the exchange of the super stream that `stream` is a partition of.
pub(super) async fn declare_exchange(
    channel: &Channel,
    partition: &Partition,
    stream: &Queue,
) -> Result<(), TopologyError> {
    let name = &*partition.super_stream;
    let options = ExchangeDeclareOptions {
        durable: true,
        ..ExchangeDeclareOptions::default()
    };
    let kind = ExchangeKind::Direct;
    let declared = channel.exchange_declare(name.into(), kind, options, exchange_arguments());
    let declared = declared.await;
    declared.map_err(|source| explain(Step::Exchange(name), stream, source))
}

/// Binds the stream, which is there, to that.
pub(super) async fn bind(
    channel: &Channel,
    partition: &Partition,
    stream: &Queue,
) -> Result<(), TopologyError> {
    let bound = channel.queue_bind(
        stream.name().into(),
        (*partition.super_stream).into(),
        partition.routing_key.as_str().into(),
        QueueBindOptions::default(),
        binding_arguments(partition),
    );
    let bound = bound.await;
    bound.map_err(|source| explain(Step::Bind(stream.name()), stream, source))
}

/// Frozen, as those of queues are.
fn exchange_arguments() -> FieldTable {
    let mut table = FieldTable::default();
    table.insert("x-super-stream".into(), AMQPValue::Boolean(true));
    table
}

/// Frozen, too, and in its type: a binding with any other argument is another one, and clients of the stream protocol
/// would see the partition twice.
fn binding_arguments(partition: &Partition) -> FieldTable {
    let mut table = FieldTable::default();
    let order = AMQPValue::LongLongInt(partition.order.into());
    table.insert("x-stream-partition-order".into(), order);
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_of_super_streams_stay_as_they_were_released() {
        let partitions = Queue::super_stream("ledger", 2).partitions();
        let bound = partitions.iter().map(|stream| {
            let partition = stream.partition().expect("it is one");
            super::super::tests::shown(&binding_arguments(partition))
        });
        let expected = [0, 1].map(|order| format!("x-stream-partition-order={order}"));
        assert_eq!(bound.collect::<Vec<_>>(), expected);
        let stream = partitions[0].as_stream().expect("it is one");
        assert_eq!(
            super::super::tests::shown(&stream.arguments()),
            "x-queue-leader-locator=balanced x-queue-type=stream"
        );
        assert_eq!(
            super::super::tests::shown(&exchange_arguments()),
            "x-super-stream=true"
        );
    }
}
