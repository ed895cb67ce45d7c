//! The loop that everyone writes first, with amqprs.

use std::time::Instant;

use amqprs::{
    channel::{
        BasicAckArguments, BasicCancelArguments, BasicConsumeArguments, BasicQosArguments, Channel,
    },
    connection::{Connection, OpenConnectionArguments},
};
use bench_orders::{Options, Order, Tally};
use lapin::uri::AMQPUri;

use crate::Result;

pub(crate) async fn with_amqprs(options: &Options, tally: &Tally) -> Result<Instant> {
    let connection = Connection::open(&arguments(&options.place.amqp_url)?).await?;
    let channel = connection.open_channel(None).await?;
    let consumer = consume(options, &channel, tally).await?;
    channel
        .basic_cancel(BasicCancelArguments::new(&consumer))
        .await?;
    channel.close().await?;
    connection.close().await?;
    Ok(Instant::now())
}

/// Returns the tag of its consumer.
async fn consume(options: &Options, channel: &Channel, tally: &Tally) -> Result<String> {
    let qos = BasicQosArguments::new(0, options.prefetch, false);
    channel.basic_qos(qos).await?;
    let queue = BasicConsumeArguments::new(&options.place.queue, "");
    let (consumer, mut deliveries) = channel.basic_consume_rx(queue).await?;
    for _ in 0..options.place.messages {
        let delivery = deliveries.recv().await;
        let delivery = delivery.ok_or("the broker has cancelled the consumer")?;
        let body = delivery.content.ok_or("a delivery without content")?;
        let order = Order::decode(&body)?;
        tally.work().await;
        tally.execute(&order);
        let deliver = delivery.deliver.ok_or("a delivery without its tag")?;
        let ack = BasicAckArguments::new(deliver.delivery_tag(), false);
        channel.basic_ack(ack).await?;
    }
    Ok(consumer)
}

fn arguments(url: &str) -> Result<OpenConnectionArguments> {
    let AMQPUri {
        authority, vhost, ..
    } = url.parse()?;
    let (host, user) = (&authority.host, &authority.userinfo);
    let mut arguments =
        OpenConnectionArguments::new(host, authority.port, &user.username, &user.password);
    Ok(arguments.virtual_host(&vhost).finish())
}
