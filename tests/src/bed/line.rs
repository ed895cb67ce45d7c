//! A client that owes nothing to `idem-amqp`: one channel with confirms, opened again when lost.

use lapin::{
    BasicProperties, Channel, Connection, ConnectionProperties,
    options::{
        BasicGetOptions, BasicRejectOptions, ConfirmSelectOptions, QueueDeclareOptions,
        QueueDeleteOptions,
    },
    types::FieldTable,
};
use tokio::sync::Mutex;

use super::DeadLetter;
use crate::journal::{eventually, within};

#[derive(Debug)]
pub(super) struct Line {
    url: String,
    open: Mutex<Option<(Connection, Channel)>>,
}

impl Line {
    pub(super) fn new(url: &str) -> Self {
        Self {
            url: url.into(),
            open: Mutex::new(None),
        }
    }

    pub(super) async fn channel(&self) -> Channel {
        let mut open = self.open.lock().await;
        if let Some((connection, channel)) = open.as_mut()
            && connection.status().connected()
        {
            if !channel.status().connected() {
                *channel = connection.create_channel().await.expect("a channel");
                confirming(channel).await;
            }
            return channel.clone();
        }
        let opened = eventually("a connection to the broker", async || {
            let properties = ConnectionProperties::default();
            let connection = Connection::connect(&self.url, properties).await?;
            let channel = connection.create_channel().await?;
            Ok::<_, lapin::Error>((connection, channel))
        })
        .await;
        confirming(&opened.1).await;
        open.insert(opened).1.clone()
    }

    pub(super) async fn declare(&self, queue: &str, arguments: FieldTable) {
        let options = QueueDeclareOptions {
            durable: true,
            ..QueueDeclareOptions::default()
        };
        let channel = self.channel().await;
        let declared = channel.queue_declare(queue.into(), options, arguments);
        declared.await.expect("the queue is declared");
    }

    pub(super) async fn delete(&self, queue: &str) {
        let channel = self.channel().await;
        let deleted = channel.queue_delete(queue.into(), QueueDeleteOptions::default());
        within("the queue is deleted", deleted)
            .await
            .expect("a queue that is not there is no error");
    }

    pub(super) async fn send(&self, queue: &str, body: &[u8], properties: BasicProperties) {
        self.send_by("", queue, body, properties).await;
    }

    pub(super) async fn waiting(&self, queue: &str) -> Option<(u32, u32)> {
        let passive = QueueDeclareOptions {
            passive: true,
            ..QueueDeclareOptions::default()
        };
        let channel = self.channel().await;
        let found = channel.queue_declare(queue.into(), passive, FieldTable::default());
        let found = within("the broker tells about a queue", found).await.ok()?;
        Some((found.message_count(), found.consumer_count()))
    }

    /// Takes a message, waiting for it, and rejects it.
    pub(super) async fn reject(&self, queue: &str, options: BasicRejectOptions) {
        let channel = self.channel().await;
        let got = eventually("a message to reject", async || {
            let kept = BasicGetOptions { no_ack: false };
            let got = channel.basic_get(queue.into(), kept).await;
            got.expect("a channel").ok_or("none")
        })
        .await;
        let rejected = channel.basic_reject(got.delivery_tag, options);
        rejected.await.expect("a channel");
    }

    pub(super) async fn get(&self, queue: &str) -> Option<DeadLetter> {
        let taken_is_done_with = BasicGetOptions { no_ack: true };
        let channel = self.channel().await;
        let got = channel.basic_get(queue.into(), taken_is_done_with);
        let got = within("the broker looks for a message", got).await.ok()??;
        Some(DeadLetter::new(got.delivery))
    }
}

async fn confirming(channel: &Channel) {
    let confirming = channel.confirm_select(ConfirmSelectOptions::default());
    confirming
        .await
        .expect("a channel that has just been opened");
}
