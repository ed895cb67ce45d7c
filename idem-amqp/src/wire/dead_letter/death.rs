//! What RabbitMQ says about a message that it dead-lettered itself: the header `x-death`.

use lapin::types::{AMQPValue, FieldTable};

/// The last time that the broker dead-lettered a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Death {
    /// The reason, in the broker's words.
    why: String,
    pub(super) queue: String,
    /// The queues of all its deaths, this one first; empty where one is not told.
    pub(super) queues: Vec<String>,
    pub(super) exchange: String,
    pub(super) routing_key: String,
    /// When the message's first death was, in seconds since 1970.
    pub(super) first: Option<u64>,
    /// When this death was, in seconds since 1970, if it is known: the broker keeps the time of the first one of its
    /// kind.
    pub(super) last: Option<u64>,
}

impl Death {
    /// The last death, read from a message's headers.
    pub(super) fn last(headers: Option<&FieldTable>) -> Option<Self> {
        let deaths = headers?.inner().get("x-death")?.as_array()?.as_slice();
        let deaths = deaths.iter().filter_map(AMQPValue::as_field_table);
        let queues = deaths.clone();
        let queues = queues.map(|death| text(death, "queue").unwrap_or_default());
        let mut deaths = deaths;
        // The broker puts the latest in front.
        let latest = deaths.next()?;
        let time = |death: &FieldTable| death.inner().get("time").and_then(AMQPValue::as_timestamp);
        let happened_once = count(latest) == 1;
        Some(Self {
            why: text(latest, "reason")?,
            queue: text(latest, "queue")?,
            queues: queues.collect(),
            exchange: text(latest, "exchange").unwrap_or_default(),
            routing_key: routing_key(latest).unwrap_or_default(),
            first: deaths.chain([latest]).filter_map(time).min(),
            last: time(latest).filter(|_| happened_once),
        })
    }

    /// The reason, told apart from those of idem's own.
    pub(super) fn reason(&self) -> String {
        format!("broker-{}", self.why.replace('_', "-"))
    }
}

fn text(death: &FieldTable, name: &str) -> Option<String> {
    let text = death.inner().get(name)?.as_long_string()?;
    Some(text.to_string())
}

fn routing_key(death: &FieldTable) -> Option<String> {
    let keys = death.inner().get("routing-keys")?.as_array()?;
    let first = keys.as_slice().first()?.as_long_string()?;
    Some(first.to_string())
}

fn count(death: &FieldTable) -> i64 {
    let count = death.inner().get("count");
    count.and_then(AMQPValue::as_long_long_int).unwrap_or(1)
}

#[cfg(test)]
mod tests;
