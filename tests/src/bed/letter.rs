//! A message out of a dead-letter queue.

use lapin::{
    BasicProperties,
    message::Delivery,
    types::{AMQPValue, FieldTable},
};

/// A message out of a dead-letter queue.
#[derive(Debug)]
pub struct DeadLetter {
    /// As it was published.
    pub body: Vec<u8>,
    /// Those that it was dead-lettered with.
    pub properties: BasicProperties,
}

impl DeadLetter {
    pub(super) fn new(delivery: Delivery) -> Self {
        Self {
            body: delivery.data,
            properties: delivery.properties,
        }
    }

    /// The header as the broker keeps it.
    pub fn value(&self, name: &str) -> Option<&AMQPValue> {
        let headers = self.properties.headers().as_ref();
        headers.and_then(|headers: &FieldTable| headers.inner().get(name))
    }

    /// The header as text.
    pub fn header(&self, name: &str) -> Option<String> {
        match self.value(name)? {
            AMQPValue::LongString(text) => Some(text.to_string()),
            AMQPValue::LongUInt(number) => Some(number.to_string()),
            other => Some(format!("{other:?}")),
        }
    }

    /// Why it was dead-lettered.
    pub fn reason(&self) -> String {
        self.header("idem-reason").unwrap_or_default()
    }

    /// What the error was.
    pub fn error(&self) -> String {
        self.header("idem-error").unwrap_or_default()
    }

    /// How many attempts there were.
    pub fn attempt(&self) -> String {
        self.header("idem-attempt").unwrap_or_default()
    }
}
