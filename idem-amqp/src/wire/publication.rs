//! A message to publish: where to, with which id, what.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use idem_core::message::Fingerprint;
use lapin::{
    BasicProperties,
    types::{AMQPValue, LongString, ShortString},
};
use serde::Serialize;
use uuid::Uuid;

use crate::{error::PublishError, wire::frame_size::cut};

/// A message to publish.
///
/// What cannot be sent (a name or an id longer than 255 bytes, a value that JSON cannot express) is told
/// when it is published, as [`PublishError::Encode`]; nothing is sent then.
///
/// It gets a `UUIDv7` as its id when it is made, so that publishing it again after a lost confirm
/// is recognised by consumers that use `message_id()` as their key.
///
/// ```
/// use idem_amqp::Publication;
/// use serde_json::json;
///
/// let order = Publication::json("orders.charge", &json!({"order_id": "o-17"}))
///     .message_id("outbox-42")
///     .header("x-tenant", "acme");
/// assert_eq!(order.id(), "outbox-42");
/// ```
#[derive(Debug, Clone)]
pub struct Publication {
    pub(crate) exchange: ShortString,
    pub(crate) routing_key: ShortString,
    pub(crate) body: Vec<u8>,
    pub(crate) properties: BasicProperties,
    /// Whether the broker returns it if no queue takes it.
    pub(crate) mandatory: bool,
    /// Whether its publisher has chosen the id.
    pub(crate) has_own_id: bool,
    /// Why it cannot be sent: the first thing that was wrong.
    mistake: Option<Arc<str>>,
}

const PERSISTENT: u8 = 2;

impl Publication {
    /// A message with a JSON body, for a queue.
    pub fn json(queue: &str, value: &(impl Serialize + ?Sized)) -> Self {
        let json = serde_json::to_vec(value);
        let mut publication = Self::bytes(queue, []);
        publication.properties = publication
            .properties
            .with_content_type("application/json".into());
        publication.body = publication.noted(json);
        publication
    }

    /// A message with any body, for a queue.
    pub fn bytes(queue: &str, body: impl Into<Vec<u8>>) -> Self {
        let properties = BasicProperties::default()
            .with_delivery_mode(PERSISTENT)
            .with_message_id(Uuid::now_v7().to_string().into());
        let mut publication = Self::raw("", "", body.into(), properties);
        publication.routing_key = publication.short(queue);
        publication
    }

    pub(crate) fn raw(
        exchange: &str,
        routing_key: &str,
        body: Vec<u8>,
        properties: BasicProperties,
    ) -> Self {
        Self {
            exchange: exchange.into(),
            routing_key: routing_key.into(),
            body,
            properties,
            mandatory: true,
            has_own_id: false,
            mistake: None,
        }
    }

    /// Counts as published also if no queue takes it.
    pub(crate) fn optional(mut self) -> Self {
        self.mandatory = false;
        self
    }

    /// Publishes to an exchange instead of straight to a queue.
    pub fn exchange(mut self, exchange: &str, routing_key: &str) -> Self {
        self.exchange = self.short(exchange);
        self.routing_key = self.short(routing_key);
        self
    }

    /// Sets the id: for an outbox, say, whose rows have one already.
    pub fn message_id(mut self, id: &str) -> Self {
        let id = self.short(id);
        self.properties = self.properties.with_message_id(id);
        self.has_own_id = true;
        self
    }

    /// Sets the property `type`: what the message is, for consumers that choose [its handler](crate::worker::Routes) by
    /// it.
    pub fn message_type(mut self, name: &str) -> Self {
        let name = self.short(name);
        self.properties = self.properties.with_type(name);
        self
    }

    /// Sets when it was made, in whole seconds: for handlers that [look how old](idem_core::handler::Late) a message is.
    pub fn timestamp(mut self, at: SystemTime) -> Self {
        let since = at.duration_since(UNIX_EPOCH);
        let since = self.noted(since.map_err(|_| "its timestamp is before 1970"));
        self.properties = self.properties.with_timestamp(since.as_secs());
        self
    }

    /// Asks for a reply, to this queue.
    pub fn reply_to(mut self, queue: &str) -> Self {
        let queue = self.short(queue);
        self.properties = self.properties.with_reply_to(queue);
        self
    }

    /// Sets what a reply repeats, so that it is known for what it is.
    pub fn correlation_id(mut self, id: &str) -> Self {
        let id = self.short(id);
        self.properties = self.properties.with_correlation_id(id);
        self
    }

    /// Sets the priority, for queues that have any.
    pub fn priority(mut self, priority: u8) -> Self {
        self.properties = self.properties.with_priority(priority);
        self
    }

    /// The broker drops or dead-letters the message when it has been in a queue for this long. Rounded down to
    /// milliseconds.
    pub fn expiration(mut self, after: Duration) -> Self {
        let millis = self.short(&after.as_millis().to_string());
        self.properties = self.properties.with_expiration(millis);
        self
    }

    /// Sets this id, unless the message has one that was chosen for it.
    pub(crate) fn or_id(self, id: &str) -> Self {
        if self.has_own_id {
            self
        } else {
            self.message_id(id)
        }
    }

    /// Adds a header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        let name = self.short(name);
        let mut headers = self.properties.headers().clone().unwrap_or_default();
        headers.insert(name, AMQPValue::LongString(LongString::from(value)));
        self.properties = self.properties.with_headers(headers);
        self
    }

    /// Why it cannot be sent, whatever the broker says.
    pub(crate) fn check(&self) -> Result<(), PublishError> {
        match &self.mistake {
            Some(mistake) => Err(PublishError::Encode(mistake.to_string().into())),
            None => Ok(()),
        }
    }

    /// The text as AMQP's short string, which has 255 bytes at most.
    fn short(&mut self, text: &str) -> ShortString {
        let short = ShortString::try_new(text);
        self.noted(short)
    }

    /// What was made; or nothing, and why, for [`check`](Self::check).
    fn noted<T: Default, E: fmt::Display>(&mut self, made: Result<T, E>) -> T {
        made.unwrap_or_else(|error| {
            self.mistake.get_or_insert_with(|| error.to_string().into());
            T::default()
        })
    }

    /// The message's id.
    pub fn id(&self) -> &str {
        let id = self.properties.message_id().as_ref();
        id.map_or("", ShortString::as_str)
    }

    /// A message of the same id that says nothing, to another place or the same.
    pub(crate) fn without_content(&self, way: Option<Destination>) -> Self {
        let Destination {
            exchange,
            routing_key,
        } = way.unwrap_or_else(|| self.destination());
        let id = self.properties.message_id().clone().unwrap_or_default();
        let properties = BasicProperties::default()
            .with_delivery_mode(PERSISTENT)
            .with_message_id(id);
        Self {
            exchange,
            routing_key,
            body: Vec::new(),
            properties,
            mandatory: self.mandatory,
            has_own_id: self.has_own_id,
            mistake: None,
        }
    }

    /// Sets a header of idem's own.
    pub(crate) fn own_header(mut self, name: &'static str, value: AMQPValue) -> Self {
        let mut headers = self.properties.headers().clone().unwrap_or_default();
        headers.insert(name.into(), value);
        self.properties = self.properties.with_headers(headers);
        self
    }

    /// Leaves out the publisher's largest headers until the message is so many bytes shorter, and marks that it did.
    /// `None` if there is none to leave out.
    pub(crate) fn with_headers_cut(&self, excess: usize) -> Option<Self> {
        let headers = cut(self.properties.headers().as_ref()?, excess)?;
        let mut shorter = self.clone();
        shorter.properties = shorter.properties.with_headers(headers);
        Some(shorter)
    }

    /// Its exchange and its routing key.
    pub(crate) fn address(&self) -> (&str, &str) {
        (self.exchange.as_str(), self.routing_key.as_str())
    }

    /// The bytes of its body.
    pub(crate) fn size(&self) -> usize {
        self.body.len()
    }

    /// Where it goes.
    pub(crate) fn destination(&self) -> Destination {
        Destination {
            exchange: self.exchange.clone(),
            routing_key: self.routing_key.clone(),
        }
    }

    /// Whether another one is the same message: it has the same id, and nothing about it differs.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        !self.id().is_empty()
            && self.id() == other.id()
            && self.body == other.body
            && self.properties == other.properties
            && self.destination() == other.destination()
    }

    /// What tells it from others when it is gone; nothing for one without an id.
    pub(crate) fn identity(&self) -> Option<Identity> {
        (!self.id().is_empty()).then(|| Identity {
            destination: self.destination(),
            properties: self.properties.clone(),
            content: Fingerprint::of(&self.body),
        })
    }

    /// Whether a returned message is this one, or one that nobody can tell from it. Of messages without an id, the
    /// content tells: else one that came back would have all of a batch published again.
    pub(crate) fn is_like(&self, returned: &lapin::message::Delivery) -> bool {
        self.exchange == returned.exchange
            && self.routing_key == returned.routing_key
            && self.properties.message_id() == returned.properties.message_id()
            && self.body == returned.data
    }

    #[cfg(test)]
    pub(crate) fn is_mandatory(&self) -> bool {
        self.mandatory
    }

    #[cfg(test)]
    pub(crate) fn into_properties(self) -> BasicProperties {
        self.properties
    }
}

/// The part of a message that [`Publication::is_same`] compares.
#[derive(Debug, PartialEq)]
pub(crate) struct Identity {
    destination: Destination,
    properties: BasicProperties,
    content: Fingerprint,
}

/// Where a message goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Destination {
    exchange: ShortString,
    routing_key: ShortString,
}

impl Destination {
    /// Whether one stream can go to both: through an exchange the queues are not known.
    pub(crate) fn takes(&self, other: &Self) -> bool {
        let same_key = self.routing_key == other.routing_key;
        self.exchange == other.exchange && (same_key || !self.exchange.as_str().is_empty())
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.exchange.as_str() {
            "" => write!(f, "the queue `{}`", self.routing_key),
            exchange => write!(f, "the exchange `{exchange}`"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use lapin::message::Delivery;

    use super::*;

    #[test]
    fn what_cannot_be_sent_is_told_when_it_is_published_and_the_first_mistake_stays() {
        let long = "x".repeat(256);
        let fine = || Publication::bytes("orders", "{}");
        fine().message_id("a").header("b", &long).check().unwrap();
        let no_json = BTreeMap::from([((1, 2), 3)]);
        let mistaken = [
            Publication::bytes(&long, "{}"),
            Publication::json("orders", &no_json),
            fine().message_id(&long),
            fine().header(&long, "a"),
            fine().exchange(&long, "a"),
            fine().exchange("a", &long),
            fine().message_id(&long).message_id("a"),
            fine().timestamp(UNIX_EPOCH - Duration::from_secs(1)),
        ];
        for publication in mistaken {
            let error = publication.check().unwrap_err();
            assert!(matches!(error, PublishError::Encode(_)), "{publication:?}");
        }
        let first = Publication::json("orders", &no_json).message_id(&long);
        let error = first.check().unwrap_err();
        assert!(format!("{error:?}").contains("key"), "{error:?}");
    }

    #[test]
    fn a_timestamp_is_in_whole_seconds() {
        let at = UNIX_EPOCH + Duration::from_millis(1_700_000_000_900);
        let publication = Publication::bytes("orders", "{}").timestamp(at);
        assert_eq!(*publication.properties.timestamp(), Some(1_700_000_000));
    }

    #[test]
    fn of_messages_without_an_id_the_one_of_this_content_has_come_back() {
        let without_id = |body: &str| {
            Publication::raw(
                "idem.retry.5s",
                "orders",
                body.into(),
                BasicProperties::default(),
            )
        };
        let returned = Delivery::mock(
            0,
            "idem.retry.5s".into(),
            "orders".into(),
            false,
            b"one".into(),
        );
        assert!(without_id("one").is_like(&returned));
        assert!(!without_id("other").is_like(&returned));
    }
}
