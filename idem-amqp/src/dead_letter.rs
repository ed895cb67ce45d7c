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
mod tests {
    use super::*;
    use crate::delivery::Origin;

    fn delivery(properties: BasicProperties) -> Delivery {
        Delivery::new(Origin {
            queue: "orders".into(),
            exchange: "shop".into(),
            routing_key: "order.placed".into(),
            redelivered: true,
            properties,
        })
    }

    fn letter(properties: BasicProperties, error: &str) -> BasicProperties {
        let epitaph = Epitaph {
            reason: Reason::Rejected,
            error,
            attempt: 3,
            key: None,
        };
        dead_letter(&delivery(properties), b"{}", &epitaph, "orders.dead").into_properties()
    }

    fn header(properties: &BasicProperties, name: &str) -> Option<String> {
        let value = properties.headers().as_ref()?.inner().get(name)?;
        Some(match value {
            AMQPValue::LongString(text) => text.to_string(),
            AMQPValue::LongUInt(number) => number.to_string(),
            other => format!("{other:?}"),
        })
    }

    #[test]
    fn a_dead_letter_says_why_and_where_it_came_from() {
        let letter = letter(BasicProperties::default(), "amount must be positive");
        let expected = [
            (REASON, "rejected"),
            (ERROR, "amount must be positive"),
            (ATTEMPT, "3"),
            (QUEUE, "orders"),
            (EXCHANGE, "shop"),
            (ROUTING_KEY, "order.placed"),
        ];
        for (name, value) in expected {
            assert_eq!(header(&letter, name).as_deref(), Some(value), "{name}");
        }
    }

    #[test]
    fn what_the_publisher_said_is_kept() {
        let mut headers = FieldTable::default();
        headers.insert("x-tenant".into(), AMQPValue::LongString("acme".into()));
        let sent = BasicProperties::default()
            .with_message_id("m-1".into())
            .with_correlation_id("c-1".into())
            .with_type("order".into())
            .with_headers(headers);
        let letter = letter(sent, "no");
        assert_eq!(
            letter.message_id().as_ref().map(ShortString::as_str),
            Some("m-1")
        );
        assert_eq!(
            letter.correlation_id().as_ref().map(ShortString::as_str),
            Some("c-1")
        );
        assert_eq!(
            letter.kind().as_ref().map(ShortString::as_str),
            Some("order")
        );
        assert_eq!(header(&letter, "x-tenant").as_deref(), Some("acme"));
    }

    #[test]
    fn what_would_harm_a_second_publish_is_taken_off() {
        let mut headers = FieldTable::default();
        for name in [
            "CC",
            "BCC",
            "x-death",
            "x-first-death-queue",
            "x-delivery-count",
        ] {
            headers.insert(name.into(), AMQPValue::LongString("x".into()));
        }
        let sent = BasicProperties::default()
            .with_user_id("somebody".into())
            .with_expiration("1000".into())
            .with_headers(headers);
        let letter = letter(sent, "no");
        assert_eq!(letter.user_id(), &None);
        assert_eq!(letter.expiration(), &None);
        assert_eq!(header(&letter, EXPIRATION).as_deref(), Some("1000"));
        for name in [
            "CC",
            "BCC",
            "x-death",
            "x-first-death-queue",
            "x-delivery-count",
        ] {
            assert_eq!(header(&letter, name), None, "{name}");
        }
    }

    #[test]
    fn a_dead_letter_is_persistent_whatever_the_message_was() {
        let sent = BasicProperties::default().with_delivery_mode(1);
        assert_eq!(letter(sent, "no").delivery_mode(), &Some(2));
    }

    #[test]
    fn headers_that_would_outgrow_a_frame_are_left_behind_and_that_is_said() {
        let mut headers = FieldTable::default();
        let huge = AMQPValue::LongString("x".repeat(130_000).into());
        headers.insert("a-huge".into(), huge);
        headers.insert("b-small".into(), AMQPValue::LongString("kept".into()));
        let letter = letter(BasicProperties::default().with_headers(headers), "no");
        assert_eq!(header(&letter, "a-huge"), None);
        assert_eq!(header(&letter, "b-small").as_deref(), Some("kept"));
        assert_eq!(
            header(&letter, HEADERS_CUT).as_deref(),
            Some("Boolean(true)")
        );
    }

    #[test]
    fn a_long_error_is_cut_at_a_character() {
        let letter = letter(BasicProperties::default(), &"ö".repeat(1000));
        assert_eq!(header(&letter, ERROR).map(|error| error.len()), Some(1024));
    }
}
