//! A message to publish: where to, with which id, what.

use lapin::{
    BasicProperties,
    types::{AMQPValue, LongString, ShortString},
};
use serde::Serialize;
use uuid::Uuid;

use crate::error::PublishError;

/// A message to publish.
///
/// It gets a `UUIDv7` as its id when it is made, so that publishing it again after a lost confirm
/// is recognised by consumers that use `message_id()` as their key.
#[derive(Debug, Clone)]
pub struct Publication {
    pub(super) exchange: ShortString,
    pub(super) routing_key: ShortString,
    pub(super) body: Vec<u8>,
    pub(super) properties: BasicProperties,
}

const PERSISTENT: u8 = 2;

impl Publication {
    /// A message with a JSON body, for a queue.
    ///
    /// # Errors
    /// If JSON cannot express the value, or the queue's name is longer than 255 bytes.
    pub fn json(queue: &str, value: &(impl Serialize + ?Sized)) -> Result<Self, PublishError> {
        let body = serde_json::to_vec(value).map_err(|error| PublishError::Encode(error.into()))?;
        let mut publication = Self::bytes(queue, body)?;
        publication.properties = publication
            .properties
            .with_content_type("application/json".into());
        Ok(publication)
    }

    /// A message with any body, for a queue.
    ///
    /// # Errors
    /// If the queue's name is longer than 255 bytes.
    pub fn bytes(queue: &str, body: impl Into<Vec<u8>>) -> Result<Self, PublishError> {
        let properties = BasicProperties::default()
            .with_delivery_mode(PERSISTENT)
            .with_message_id(Uuid::now_v7().to_string().into());
        Ok(Self {
            exchange: ShortString::default(),
            routing_key: short(queue)?,
            body: body.into(),
            properties,
        })
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
        }
    }

    /// Publishes to an exchange instead of straight to a queue.
    ///
    /// # Errors
    /// If a name is longer than 255 bytes.
    pub fn exchange(mut self, exchange: &str, routing_key: &str) -> Result<Self, PublishError> {
        self.exchange = short(exchange)?;
        self.routing_key = short(routing_key)?;
        Ok(self)
    }

    /// Sets the id: for an outbox, say, whose rows have one already.
    ///
    /// # Errors
    /// If the id is longer than 255 bytes.
    pub fn message_id(mut self, id: &str) -> Result<Self, PublishError> {
        self.properties = self.properties.with_message_id(short(id)?);
        Ok(self)
    }

    /// Adds a header.
    ///
    /// # Errors
    /// If the name is longer than 255 bytes.
    pub fn header(mut self, name: &str, value: &str) -> Result<Self, PublishError> {
        let mut headers = self.properties.headers().clone().unwrap_or_default();
        headers.insert(short(name)?, AMQPValue::LongString(LongString::from(value)));
        self.properties = self.properties.with_headers(headers);
        Ok(self)
    }

    /// The message's id.
    pub fn id(&self) -> &str {
        let id = self.properties.message_id().as_ref();
        id.map_or("", ShortString::as_str)
    }

    /// Whether a returned message is this one, as far as its envelope tells.
    pub(super) fn is_like(&self, returned: &lapin::message::Delivery) -> bool {
        self.exchange == returned.exchange
            && self.routing_key == returned.routing_key
            && self.properties.message_id() == returned.properties.message_id()
    }

    #[cfg(test)]
    pub(crate) fn into_properties(self) -> BasicProperties {
        self.properties
    }
}

fn short(text: &str) -> Result<ShortString, PublishError> {
    ShortString::try_new(text).map_err(|error| PublishError::Encode(error.into()))
}
