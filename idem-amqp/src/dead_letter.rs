//! What a dead letter carries, and what is taken off it.

use idem_core::Key;
use lapin::{
    BasicProperties,
    types::{AMQPValue, FieldTable, LongString, ShortString},
};

use crate::{delivery::Delivery, publisher::Publication, settlement::Reason};

/// Why it was dead-lettered; its presence marks a replay.
pub(crate) const REASON: &str = "idem-reason";
/// The last error, cut at 1 KiB: a header larger than a frame closes the connection.
const ERROR: &str = "idem-error";
/// How many attempts there were.
const ATTEMPT: &str = "idem-attempt";
/// The message's key, where it has one.
const KEY: &str = "idem-key";
/// The queue it was consumed from.
const QUEUE: &str = "idem-queue";
/// The exchange it was published to.
const EXCHANGE: &str = "idem-exchange";
/// The routing key it was published with.
const ROUTING_KEY: &str = "idem-routing-key";
/// Its time to live: taken off, so that a dead letter does not expire.
const EXPIRATION: &str = "idem-expiration";

/// That a header of the publisher's was too large to be carried over.
const HEADERS_CUT: &str = "idem-headers-cut";

const LONGEST_ERROR: usize = 1024;

/// Bytes of the publisher's headers that are carried over. All of a message's properties must fit
/// into one frame, of 128 KiB unless the broker says otherwise, or it closes the connection.
const MOST_HEADERS: usize = 100 * 1024;

/// What a dead letter says about its end.
#[derive(Debug)]
pub(crate) struct Epitaph<'a> {
    pub(crate) reason: Reason,
    pub(crate) error: &'a str,
    pub(crate) attempt: u32,
    pub(crate) key: Option<&'a Key>,
}

/// The message as it is put into the dead-letter queue.
pub(crate) fn dead_letter(
    delivery: &Delivery,
    body: &[u8],
    epitaph: &Epitaph<'_>,
    queue: &str,
) -> Publication {
    let properties = carried_over(&delivery.origin().properties);
    let mut headers = FieldTable::default();
    let mut room = MOST_HEADERS;
    for (name, value) in properties.headers().iter().flat_map(FieldTable::inner) {
        if is_the_brokers_own(name.as_str()) {
            continue;
        }
        let size = 1 + name.as_str().len() + size_of(value);
        if size <= room {
            room -= size;
            headers.insert(name.clone(), value.clone());
        } else {
            headers.insert(HEADERS_CUT.into(), AMQPValue::Boolean(true));
        }
    }
    let mut set = |name: &str, value: &str| {
        headers.insert(name.into(), AMQPValue::LongString(LongString::from(value)));
    };
    set(REASON, epitaph.reason.as_str());
    let cut = epitaph.error.floor_char_boundary(LONGEST_ERROR);
    set(ERROR, &epitaph.error[..cut]);
    set(QUEUE, delivery.queue());
    set(EXCHANGE, delivery.exchange());
    set(ROUTING_KEY, delivery.routing_key());
    if let Some(key) = epitaph.key {
        set(KEY, key.as_str());
    }
    if let Some(expiration) = delivery.origin().properties.expiration() {
        set(EXPIRATION, expiration.as_str());
    }
    headers.insert(ATTEMPT.into(), AMQPValue::LongUInt(epitaph.attempt));
    Publication::raw(queue, body.to_vec(), properties.with_headers(headers))
}

/// The properties without `user_id` (another user's name closes the channel) and `expiration`.
fn carried_over(from: &BasicProperties) -> BasicProperties {
    const PERSISTENT: u8 = 2;
    type Setter = fn(BasicProperties, ShortString) -> BasicProperties;
    let texts: [(&Option<ShortString>, Setter); 8] = [
        (from.content_type(), BasicProperties::with_content_type),
        (
            from.content_encoding(),
            BasicProperties::with_content_encoding,
        ),
        (from.correlation_id(), BasicProperties::with_correlation_id),
        (from.reply_to(), BasicProperties::with_reply_to),
        (from.message_id(), BasicProperties::with_message_id),
        (from.kind(), BasicProperties::with_type),
        (from.app_id(), BasicProperties::with_app_id),
        (from.cluster_id(), BasicProperties::with_cluster_id),
    ];
    let mut to = BasicProperties::default().with_delivery_mode(PERSISTENT);
    for (value, set) in texts {
        if let Some(value) = value {
            to = set(to, value.clone());
        }
    }
    if let Some(priority) = from.priority() {
        to = to.with_priority(*priority);
    }
    if let Some(timestamp) = from.timestamp() {
        to = to.with_timestamp(*timestamp);
    }
    match from.headers() {
        Some(headers) => to.with_headers(headers.clone()),
        None => to,
    }
}

/// The bytes that a value takes in a frame, or a little more.
fn size_of(value: &AMQPValue) -> usize {
    const LARGEST_NUMBER: usize = 9;
    match value {
        AMQPValue::ShortString(text) => 2 + text.as_str().len(),
        AMQPValue::LongString(text) => 5 + text.len(),
        AMQPValue::ByteArray(bytes) => 5 + bytes.len(),
        AMQPValue::FieldArray(values) => 5 + values.as_slice().iter().map(size_of).sum::<usize>(),
        AMQPValue::FieldTable(table) => {
            let entries = table.inner().iter();
            5 + entries
                .map(|(name, value)| 1 + name.as_str().len() + size_of(value))
                .sum::<usize>()
        }
        _ => LARGEST_NUMBER,
    }
}

/// Headers that route a message or tell its travels: published again they would mislead.
fn is_the_brokers_own(name: &str) -> bool {
    matches!(
        name,
        "CC" | "BCC" | "x-death" | "x-delivery-count" | "x-acquired-count"
    ) || name.starts_with("x-first-death-")
        || name.starts_with("x-last-death-")
}

#[cfg(test)]
mod tests;
