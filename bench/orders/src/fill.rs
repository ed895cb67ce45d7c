//! Fills a queue.

use futures_util::future::try_join_all;
use lapin::{
    BasicProperties, Channel, Confirmation, PublisherConfirm,
    options::{BasicPublishOptions, ConfirmSelectOptions},
};

use crate::{Place, Result, body, id};

const PERSISTENT: u8 = 2;
/// How many messages are on their way at once.
const BATCH: usize = 1_000;

/// Declares the queue and publishes persistent messages to it; they are on disk afterwards.
///
/// # Errors
/// The broker refuses, or is not there.
pub async fn fill(place: &Place) -> Result<()> {
    let (connection, channel) = place.connect().await?;
    place.declare(&channel).await?;
    channel
        .confirm_select(ConfirmSelectOptions::default())
        .await?;
    for batch in place.orders().chunks(BATCH) {
        let mut sent = Vec::with_capacity(BATCH);
        for &order in batch {
            sent.push(publish(&channel, &place.queue, order).await?);
        }
        for confirmation in try_join_all(sent).await? {
            if !matches!(confirmation, Confirmation::Ack(None)) {
                return Err("the broker did not take a message".into());
            }
        }
    }
    connection.close(200, "done".into()).await?;
    Ok(())
}

async fn publish(channel: &Channel, queue: &str, order: usize) -> Result<PublisherConfirm> {
    let properties = BasicProperties::default()
        .with_content_type("application/json".into())
        .with_message_id(id(order).into())
        .with_delivery_mode(PERSISTENT);
    let body = body(order);
    let options = BasicPublishOptions::default();
    Ok(channel
        .basic_publish("".into(), queue.into(), options, &body, properties)
        .await?)
}
