//! A message as a test writes it, and as RabbitMQ delivers it.

use lapin::{
    BasicProperties,
    types::{AMQPValue, LongString, ShortString},
};
use serde::Serialize;

use crate::wire::ladder::RETURN;
use crate::wire::{Publication, delivery::Origin, headers, settlement::Reason};

/// A message as RabbitMQ delivers it.
///
/// One that the application publishes itself is better taken from its own code: a [`Publication`] is
/// a message, too.
///
/// ```
/// use idem_amqp::{Publication, testing::Message};
///
/// let order = Message::json(&["o-17"]).message_id("m-1").header("x-tenant", "acme");
/// let again = order.redelivered();
/// let published = Message::from(Publication::json("orders.charge", &["o-17"]));
/// # let _ = (again, published);
/// # Ok::<_, idem_amqp::PublishError>(())
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Message {
    exchange: ShortString,
    /// The queue's name unless one is set.
    routing_key: Option<ShortString>,
    body: Vec<u8>,
    properties: BasicProperties,
    redelivered: bool,
    replayed: bool,
}

impl Message {
    /// With a value as JSON.
    ///
    /// # Panics
    /// If JSON cannot express it.
    pub fn json(value: &(impl Serialize + ?Sized)) -> Self {
        match serde_json::to_vec(value) {
            Ok(body) => Self::bytes(body),
            Err(error) => panic!("the message cannot be written as JSON: {error}"),
        }
    }

    /// With any body.
    pub fn bytes(body: impl Into<Vec<u8>>) -> Self {
        Self {
            exchange: ShortString::default(),
            routing_key: None,
            body: body.into(),
            properties: BasicProperties::default(),
            redelivered: false,
            replayed: false,
        }
    }

    /// Its publisher's id of it.
    ///
    /// # Panics
    /// If it is longer than 255 bytes, as no property of AMQP can be. So do the next ones.
    pub fn message_id(mut self, id: &str) -> Self {
        self.properties = self.properties.with_message_id(short(id));
        self
    }

    /// Adds a header.
    ///
    /// # Panics
    /// If its name is longer than 255 bytes.
    pub fn header(self, name: &str, value: &str) -> Self {
        self.with_header(name, AMQPValue::LongString(LongString::from(value)))
    }

    /// Somebody waits for a reply, on this queue.
    ///
    /// # Panics
    /// If its name is longer than 255 bytes.
    pub fn reply_to(mut self, queue: &str) -> Self {
        self.properties = self.properties.with_reply_to(short(queue));
        self
    }

    /// It was published to an exchange, instead of straight to the queue.
    ///
    /// # Panics
    /// If a name is longer than 255 bytes.
    pub fn exchange(mut self, exchange: &str, routing_key: &str) -> Self {
        self.exchange = short(exchange);
        self.routing_key = Some(short(routing_key));
        self
    }

    /// The same message, as RabbitMQ delivers it again.
    pub fn redelivered(&self) -> Self {
        Self {
            redelivered: true,
            ..self.clone()
        }
    }

    /// The same message, as a person sends it again that was a dead letter of the queue.
    pub fn replayed(&self) -> Self {
        Self {
            redelivered: false,
            replayed: true,
            ..self.clone()
        }
    }

    /// The same message, as the retry ladder returns it.
    pub(super) fn returned(letter: Publication) -> Self {
        let mut message = Self::from(letter);
        message.exchange = RETURN.into();
        message
    }

    pub(super) fn arrive(&self, queue: &str) -> (Origin, Vec<u8>) {
        let message = if self.replayed {
            let reason = Reason::Rejected.as_str();
            let replayed = self.clone().header(headers::REASON, reason);
            replayed.header(headers::QUEUE, queue)
        } else {
            self.clone()
        };
        let routing_key = message.routing_key.unwrap_or_else(|| short(queue));
        let origin = Origin {
            unreadable: None,
            queue: queue.into(),
            exchange: message.exchange,
            routing_key,
            redelivered: message.redelivered,
            properties: message.properties,
        };
        (origin, message.body)
    }

    fn with_header(mut self, name: &str, value: AMQPValue) -> Self {
        let mut headers = self.properties.headers().clone().unwrap_or_default();
        headers.insert(short(name), value);
        self.properties = self.properties.with_headers(headers);
        self
    }
}

/// As the application publishes it.
impl From<Publication> for Message {
    fn from(publication: Publication) -> Self {
        let (exchange, routing_key, body, properties) = publication.into_parts();
        Self {
            routing_key: Some(routing_key),
            redelivered: false,
            replayed: false,
            exchange,
            body,
            properties,
        }
    }
}

fn short(text: &str) -> ShortString {
    match ShortString::try_new(text) {
        Ok(text) => text,
        Err(error) => panic!("`{text}` cannot be written in AMQP: {error}"),
    }
}
