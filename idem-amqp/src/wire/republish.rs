//! A message that is published again by its worker: what is carried over, what is taken off.

use std::time::{SystemTime, UNIX_EPOCH};

use lapin::{
    BasicProperties,
    types::{AMQPValue, FieldTable, LongString, ShortString},
};

use crate::wire::{
    Publication,
    delivery::Delivery,
    frame_size::entry,
    headers::{
        self, EXCHANGE, EXPIRATION, FIRST_FAILURE, HEADERS_CUT, LAST_FAILURE, PARTITION, QUEUE,
        ROUTING_KEY, UNADDRESSED,
    },
    stream,
};

/// Bytes of the publisher's headers that are carried over. All of a message's properties must fit
/// into one frame, of 128 KiB unless the broker says otherwise, or it closes the connection.
const MOST_HEADERS: usize = 100 * 1024;

/// Bytes of a header of ours.
const LONGEST_TEXT: usize = 1024;

/// A message in the making that is another one again, with what idem has to say about it.
#[derive(Debug)]
pub(crate) struct Republished {
    properties: BasicProperties,
    headers: FieldTable,
}

impl Republished {
    /// The publisher's properties and headers, and where the message came from.
    pub(crate) fn of(delivery: &Delivery) -> Self {
        let properties = &delivery.origin().properties;
        let mut again = Self {
            headers: publishers_own(delivery),
            properties: carried_over(properties),
        };
        again.text(QUEUE, delivery.home());
        if let Some(partition) = delivery.partition() {
            again.text(PARTITION, partition);
        }
        again.text(EXCHANGE, delivery.exchange());
        again.text(ROUTING_KEY, delivery.routing_key());
        if let Some(expiration) = delivery.expiration() {
            again.text(EXPIRATION, &expiration);
        }
        again
    }

    /// Adds a header of ours, cut at 1 KiB.
    pub(crate) fn text(&mut self, name: &str, value: &str) {
        let cut = &value[..value.floor_char_boundary(LONGEST_TEXT)];
        self.set(name, AMQPValue::LongString(LongString::from(cut)));
    }

    /// Adds a header of ours.
    pub(crate) fn number(&mut self, name: &str, value: u32) {
        self.set(name, AMQPValue::LongUInt(value));
    }

    /// Says that it failed now. When it failed first is known from an earlier republish, or this is
    /// the first time.
    pub(crate) fn failed(&mut self, before: &Delivery, now: SystemTime) {
        self.time(FIRST_FAILURE, now);
        self.failed_again(before, now);
    }

    /// Says that it failed now, and perhaps before without a word of it.
    pub(crate) fn failed_again(&mut self, before: &Delivery, now: SystemTime) {
        self.carry_over(before, &[FIRST_FAILURE]);
        self.time(LAST_FAILURE, now);
    }

    /// Adds a time of ours, to the second.
    pub(crate) fn time(&mut self, name: &str, time: SystemTime) {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.set(name, AMQPValue::Timestamp(since.as_secs()));
    }

    /// Keeps what an earlier republish said.
    pub(crate) fn carry_over(&mut self, before: &Delivery, names: &[&str]) {
        let Some(headers) = before.origin().properties.headers() else {
            return;
        };
        for name in names {
            match headers.inner().get(*name) {
                Some(AMQPValue::LongString(text)) => self.text(name, &text.to_string()),
                Some(number @ (AMQPValue::LongUInt(_) | AMQPValue::Timestamp(_))) => {
                    self.set(name, number.clone());
                }
                _ => {}
            }
        }
    }

    fn set(&mut self, name: &str, value: AMQPValue) {
        self.headers.insert(name.into(), value);
    }

    /// The message, addressed.
    pub(crate) fn publication(self, exchange: &str, routing_key: &str, body: &[u8]) -> Publication {
        let properties = self.properties.with_headers(self.headers);
        Publication::raw(exchange, routing_key, body.to_vec(), properties)
    }
}

/// The headers of the publisher's, as many as fit.
fn publishers_own(delivery: &Delivery) -> FieldTable {
    let mut own = FieldTable::default();
    let mut room = MOST_HEADERS;
    let headers = delivery.origin().properties.headers().as_ref();
    let mut headers: Vec<_> = headers.into_iter().flat_map(FieldTable::inner).collect();
    // An offset in a partition that is not believed. Without the partition it would be that of another message, when a
    // replay has it believed.
    let is_no_place = delivery.partition().is_none() && delivery.value(PARTITION).is_some();
    // Without its place in a session or a sequence it would be another message.
    headers.sort_by_key(|(name, _)| !headers::is_place(name.as_str()));
    for (name, value) in headers {
        let was_cut = name.as_str() == HEADERS_CUT;
        let ours = headers::is_ours(name.as_str()) && !was_cut;
        let is_astray = is_no_place && name.as_str() == stream::OFFSET;
        if ours || is_astray || is_the_brokers_own(name.as_str()) {
            continue;
        }
        let size = entry(name, value);
        if size <= room {
            room -= size;
            own.insert(name.clone(), value.clone());
        } else {
            own.insert(HEADERS_CUT.into(), AMQPValue::Boolean(true));
        }
    }
    own
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
        if let Some(value) = value
            && value.as_str() != UNADDRESSED
        {
            to = set(to, value.clone());
        }
    }
    if let Some(priority) = from.priority() {
        to = to.with_priority(*priority);
    }
    if let Some(timestamp) = from.timestamp() {
        to = to.with_timestamp(*timestamp);
    }
    to
}

/// Headers that route a message or tell its travels: published again they would mislead.
fn is_the_brokers_own(name: &str) -> bool {
    matches!(
        name,
        "CC" | "BCC" | "x-death" | "x-delivery-count" | "x-acquired-count"
    ) || name.starts_with("x-first-death-")
        || name.starts_with("x-last-death-")
}
