//! A message as a test writes it, and as RabbitMQ delivers it.

use idem_amqp::{Publication, worker::unconnected::Arriving};
use lapin::{
    BasicProperties,
    types::{AMQPValue, LongString, ShortString},
};
use serde::Serialize;

/// A message as RabbitMQ delivers it.
///
/// One that the application publishes itself is better taken from its own code: a [`Publication`] is
/// a message, too.
///
/// ```
/// use idem_amqp::Publication;
/// use idem_testing::amqp::Message;
///
/// let order = Message::json(&["o-17"]).message_id("m-1").header("x-tenant", "acme");
/// let again = order.redelivered();
/// let published = Message::from(Publication::json("orders.charge", &["o-17"]));
/// # let _ = (again, published);
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Message {
    arriving: Arriving,
    /// Whether it says where it was published to; otherwise straight to the queue.
    has_address: bool,
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
            arriving: Arriving {
                body: body.into(),
                ..Arriving::default()
            },
            has_address: false,
            replayed: false,
        }
    }

    /// Its publisher's id of it.
    ///
    /// # Panics
    /// If it is longer than 255 bytes, as no property of AMQP can be. So do the next ones.
    pub fn message_id(mut self, id: &str) -> Self {
        self.arriving.properties = self.arriving.properties.with_message_id(short(id));
        self
    }

    /// Adds a header.
    ///
    /// # Panics
    /// If its name is longer than 255 bytes.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        let properties = self.arriving.properties;
        let mut headers = properties.headers().clone().unwrap_or_default();
        let value = AMQPValue::LongString(LongString::from(value));
        headers.insert(short(name), value);
        self.arriving.properties = properties.with_headers(headers);
        self
    }

    /// Somebody waits for a reply, on this queue.
    ///
    /// # Panics
    /// If its name is longer than 255 bytes.
    pub fn reply_to(mut self, queue: &str) -> Self {
        self.arriving.properties = self.arriving.properties.with_reply_to(short(queue));
        self
    }

    /// It was published to an exchange, instead of straight to the queue.
    ///
    /// # Panics
    /// If a name is longer than 255 bytes.
    pub fn exchange(mut self, exchange: &str, routing_key: &str) -> Self {
        self.arriving.exchange = short(exchange);
        self.arriving.routing_key = short(routing_key);
        self.has_address = true;
        self
    }

    /// The same message, as RabbitMQ delivers it again.
    pub fn redelivered(&self) -> Self {
        let mut again = self.clone();
        again.arriving.redelivered = true;
        again
    }

    /// The same message, as a person sends it again that was a dead letter of the queue.
    pub fn replayed(&self) -> Self {
        let mut again = self.clone();
        again.arriving.redelivered = false;
        again.replayed = true;
        again
    }

    pub(super) fn body(&self) -> &[u8] {
        &self.arriving.body
    }

    pub(super) fn properties(&self) -> &BasicProperties {
        &self.arriving.properties
    }

    /// The same message, with these properties.
    pub(super) fn with_properties(&self, properties: BasicProperties) -> Self {
        let mut other = self.clone();
        other.arriving.properties = properties;
        other
    }

    pub(super) fn arrive(&self, queue: &str) -> Arriving {
        let mut arriving = self.arriving.clone();
        if !self.has_address {
            arriving.routing_key = short(queue);
        }
        if self.replayed {
            arriving = arriving.replayed(queue);
        }
        arriving
    }
}

impl From<Arriving> for Message {
    fn from(arriving: Arriving) -> Self {
        Self {
            arriving,
            has_address: true,
            replayed: false,
        }
    }
}

/// As the application publishes it.
impl From<Publication> for Message {
    fn from(publication: Publication) -> Self {
        Arriving::from(publication).into()
    }
}

fn short(text: &str) -> ShortString {
    match ShortString::try_new(text) {
        Ok(text) => text,
        Err(error) => panic!("`{text}` cannot be written in AMQP: {error}"),
    }
}
