//! How many messages wait in a queue, as the broker tells without consuming any.

use lapin::{
    Connection, ConnectionProperties, Queue, options::QueueDeclareOptions, types::FieldTable,
};
use serde_json::json;

use crate::Error;

pub(crate) async fn print(amqp_url: &str, queue: &str) -> Result<(), Error> {
    let connection = Connection::connect(amqp_url, ConnectionProperties::default()).await?;
    let ready = look(&connection, queue).await;
    let dead = look(&connection, &format!("{queue}.dead")).await;
    let messages = |queue: &Option<Queue>| queue.as_ref().map_or(0, Queue::message_count);
    let depth = json!({
        "ready": messages(&ready),
        "dead": messages(&dead),
        "consumers": ready.as_ref().map_or(0, Queue::consumer_count),
    });
    println!("{depth}");
    // The broker may be closing the channel of a queue that does not exist at this moment.
    let _ = connection.close(200, "done".into()).await;
    Ok(())
}

/// A queue that does not exist closes the channel: each look has one of its own.
async fn look(connection: &Connection, queue: &str) -> Option<Queue> {
    let options = QueueDeclareOptions {
        passive: true,
        ..QueueDeclareOptions::default()
    };
    let channel = connection.create_channel().await.ok()?;
    let declared = channel.queue_declare(queue.into(), options, FieldTable::default());
    declared.await.ok()
}
