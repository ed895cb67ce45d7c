//! A requester that owes nothing to `idem-amqp`: it publishes requests and takes what comes back.

use futures_util::StreamExt as _;
use lapin::{
    BasicProperties, Channel, Connection, ConnectionProperties, Consumer,
    options::{
        BasicConsumeOptions, BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions,
    },
    types::{AMQPValue, FieldTable},
};
use serde_json::Value;
use tokio::sync::Mutex;

use crate::{
    bed::{Bed, persistent},
    journal::within,
};

/// A connection with a place where replies arrive.
#[derive(Debug)]
pub struct Requester {
    connection: Connection,
    channel: Channel,
    reply_to: String,
    replies: Mutex<Consumer>,
}

/// A reply as it arrived.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The body.
    pub body: Vec<u8>,
    /// The properties.
    pub properties: BasicProperties,
}

impl Requester {
    /// Waits for replies in an exclusive queue of its own.
    pub async fn on(bed: &Bed) -> Self {
        let (connection, channel) = connect(bed.url()).await;
        let exclusive = QueueDeclareOptions {
            exclusive: true,
            ..QueueDeclareOptions::default()
        };
        let declared = channel.queue_declare("".into(), exclusive, FieldTable::default());
        let declared = within("a reply queue", declared).await;
        let queue = declared.expect("a reply queue").name().to_string();
        Self::waiting(connection, channel, &queue).await
    }

    /// Waits for replies on its channel, without a queue.
    pub async fn direct(bed: &Bed) -> Self {
        let (connection, channel) = connect(bed.url()).await;
        Self::waiting(connection, channel, "amq.rabbitmq.reply-to").await
    }

    async fn waiting(connection: Connection, channel: Channel, reply_to: &str) -> Self {
        let unacknowledged = BasicConsumeOptions {
            no_ack: true,
            ..BasicConsumeOptions::default()
        };
        let consuming = channel.basic_consume(
            reply_to.into(),
            "".into(),
            unacknowledged,
            FieldTable::default(),
        );
        let replies = within("the replies' consumer", consuming).await;
        Self {
            replies: Mutex::new(replies.expect("a consumer of replies")),
            reply_to: reply_to.into(),
            connection,
            channel,
        }
    }

    /// Publishes a request and waits until the broker has it.
    pub async fn ask(&self, queue: &str, body: &[u8], correlation: &str) {
        self.ask_with(queue, body, correlation, persistent()).await;
    }

    /// Publishes a request with these further properties and waits until the broker has it.
    pub async fn ask_with(
        &self,
        queue: &str,
        body: &[u8],
        correlation: &str,
        properties: BasicProperties,
    ) {
        let properties = properties
            .with_reply_to(self.reply_to.as_str().into())
            .with_correlation_id(correlation.into());
        let options = BasicPublishOptions::default();
        let sent = (self.channel).basic_publish("".into(), queue.into(), options, body, properties);
        let confirmed = within("the broker confirms", async { sent.await?.await }).await;
        assert!(confirmed.expect("a channel").is_ack(), "{queue} is full");
    }

    /// Takes the next reply, waiting for it.
    pub async fn reply(&self) -> Reply {
        let mut replies = self.replies.lock().await;
        let next = within("a reply", replies.next()).await;
        let delivery = next.expect("the channel is open").expect("a reply");
        Reply {
            body: delivery.data,
            properties: delivery.properties,
        }
    }

    /// Where it waits.
    pub fn reply_to(&self) -> &str {
        &self.reply_to
    }

    /// Goes away, and its queue with it.
    pub async fn leave(self) {
        let closed = self.connection.close(200, "done".into());
        within("the connection closes", closed)
            .await
            .expect("it was open");
    }
}

impl Reply {
    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("replies are JSON")
    }

    /// The request that it answers.
    pub fn correlation(&self) -> &str {
        let id = self.properties.correlation_id().as_ref();
        id.map_or("", |id| id.as_str())
    }

    /// Whether it says that it is repeated from memory.
    pub fn is_replayed(&self) -> bool {
        self.header("idem-replayed") == Some(&AMQPValue::Boolean(true))
    }

    /// The code, if it is an error.
    pub fn refusal(&self) -> Option<String> {
        match self.header("idem-refusal")? {
            AMQPValue::LongString(code) => Some(code.to_string()),
            other => Some(format!("{other:?}")),
        }
    }

    /// A header.
    pub fn header(&self, name: &str) -> Option<&AMQPValue> {
        let headers = self.properties.headers().as_ref();
        headers.and_then(|headers| headers.inner().get(name))
    }
}

async fn connect(url: &str) -> (Connection, Channel) {
    let properties = ConnectionProperties::default();
    let connection = within("a connection", Connection::connect(url, properties)).await;
    let connection = connection.expect("a broker");
    let channel = within("a channel", connection.create_channel()).await;
    let channel = channel.expect("a channel");
    let confirms = channel.confirm_select(ConfirmSelectOptions::default());
    within("confirms", confirms).await.expect("confirms");
    (connection, channel)
}
