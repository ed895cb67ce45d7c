//! A delivery as keys, decoders and extractors see it.

use std::{borrow::Cow, sync::Arc};

use idem_core::{
    FromContext,
    handler::{Context, Rejection},
    message::HeaderSource,
};
use lapin::{
    BasicProperties,
    message::Delivery as RawDelivery,
    types::{AMQPValue, ShortString},
};

use crate::wire::{headers, stream, unmark};

/// Where a message came from: a parameter for handlers that want to know.
///
/// ```
/// use idem_amqp::{Delivery, prelude::*};
/// # #[derive(serde::Deserialize)] struct Order { id: String }
///
/// #[idempotent(key = "id", scope = "orders.ship")]
/// async fn ship(order: Order, from: Delivery) -> Result<(), Failed> {
///     println!("{} by {} of {}", order.id, from.routing_key(), from.exchange());
///     Ok(())
/// }
/// ```
#[derive(Debug, Clone)]
pub struct Delivery(Arc<Origin>);

#[derive(Debug)]
pub(crate) struct Origin {
    /// What is wrong with the properties that it came with, if the client could not have read them: those
    /// here are what was left of them.
    pub(crate) unreadable: Option<String>,
    pub(crate) queue: Arc<str>,
    /// Where it comes back to, if that is another queue: a stream takes nothing back.
    pub(crate) comes_back_to: Option<Arc<str>>,
    /// The partition of a super stream that it is read from.
    pub(crate) partition: Option<Arc<str>>,
    pub(crate) exchange: ShortString,
    pub(crate) routing_key: ShortString,
    pub(crate) redelivered: bool,
    pub(crate) properties: BasicProperties,
}

impl Delivery {
    /// The queue it was consumed from.
    pub fn queue(&self) -> &str {
        &self.0.queue
    }

    /// The exchange it was published to; empty for the default one. Also of a message that comes
    /// back for another attempt, or that was a dead letter.
    pub fn exchange(&self) -> &str {
        self.told(headers::EXCHANGE)
            .unwrap_or(self.0.exchange.as_str())
    }

    /// The routing key it was published with, as [`exchange`](Self::exchange).
    pub fn routing_key(&self) -> &str {
        self.told(headers::ROUTING_KEY)
            .unwrap_or(self.0.routing_key.as_str())
    }

    /// Whether the broker says that it has delivered it before. A hint, never a reason to treat a
    /// message as new or as a duplicate: a publisher's retry arrives as not redelivered.
    pub fn is_redelivered(&self) -> bool {
        self.0.redelivered
    }

    /// Where its publisher waits for a reply: the property `reply_to`, unless it is empty, names the
    /// consumed queue itself, where nobody could tell replies from requests, or asks for a direct
    /// reply without saying of whom.
    pub fn reply_to(&self) -> Option<&str> {
        let to = self.0.properties.reply_to().as_ref()?.as_str();
        let nobody = ["", self.queue(), headers::UNADDRESSED];
        (!nobody.contains(&to)).then_some(to)
    }

    /// Whether it is a dead letter that was sent again to the queue that it came from, by a
    /// [`Replayer`](crate::dead_letters::Replayer) or by hand. Whoever may publish to the queue can make it look
    /// so.
    // docs/decisions/0014
    pub fn is_replay(&self) -> bool {
        self.get(headers::REASON).is_some() && self.own_text(headers::QUEUE) == Some(self.queue())
    }
}

impl<S> FromContext<S> for Delivery {
    fn from_context(context: &Context<'_, S>) -> Result<Self, Rejection> {
        let delivery = context.envelope.extension::<Self>().cloned();
        delivery.ok_or_else(|| Rejection::new("the message did not come from RabbitMQ"))
    }
}

impl Delivery {
    pub(crate) fn new(origin: Origin) -> Self {
        Self(Arc::new(origin))
    }

    /// One that was just received, and its body.
    pub(crate) fn received(queue: Arc<str>, raw: RawDelivery) -> (Self, Vec<u8>) {
        Self::received_from(queue, None, None, raw)
    }

    /// The same, of what comes back to another queue, or stands in a partition.
    pub(crate) fn received_from(
        queue: Arc<str>,
        comes_back_to: Option<Arc<str>>,
        partition: Option<Arc<str>>,
        raw: RawDelivery,
    ) -> (Self, Vec<u8>) {
        let mut properties = raw.properties;
        let delivery = Self::new(Origin {
            unreadable: unmark(&mut properties),
            queue,
            comes_back_to,
            partition,
            exchange: raw.exchange,
            routing_key: raw.routing_key,
            redelivered: raw.redelivered,
            properties,
        });
        (delivery, raw.data)
    }

    /// The queue that it comes back to when it has failed, or is sent again.
    pub(crate) fn home(&self) -> &str {
        self.0.comes_back_to.as_deref().unwrap_or(self.queue())
    }

    /// The partition of a super stream that it stands in; also when it comes back from there.
    pub(crate) fn partition(&self) -> Option<&str> {
        let own = self.0.partition.as_deref();
        own.or_else(|| self.told(headers::PARTITION))
    }

    /// What is wrong with the properties that it came with, if they could not be read.
    pub(crate) fn unreadable(&self) -> Option<&str> {
        self.0.unreadable.as_deref()
    }

    /// Where it stands in its stream; also when it comes back from there. Elsewhere such a header tells of another
    /// stream, or of none.
    pub(crate) fn offset_in_stream(&self) -> Option<u64> {
        let is_known = self.0.comes_back_to.is_some() || self.comes_back() || self.is_replay();
        stream::offset(&self.0.properties).filter(|_| is_known)
    }

    pub(crate) fn origin(&self) -> &Origin {
        &self.0
    }

    /// The time to live that its publisher gave it, in milliseconds.
    pub(crate) fn expiration(&self) -> Option<Cow<'_, str>> {
        let own = self.0.properties.expiration().as_ref();
        own.map(|own| Cow::Borrowed(own.as_str()))
            .or_else(|| self.get(headers::EXPIRATION))
    }

    /// Whether its key starts over. Not so when the broker delivers a replay again: that is a
    /// further attempt, and counted like any other.
    pub(crate) fn starts_over(&self) -> bool {
        self.is_replay() && !self.is_redelivered()
    }
}

impl Delivery {
    /// Whether a handler may have begun with it before, as far as the broker can tell.
    pub(crate) fn may_have_run(&self) -> bool {
        self.is_redelivered() || self.comes_back()
    }

    /// Whether its publisher has withdrawn what had its number.
    pub(crate) fn is_withdrawn(&self) -> bool {
        matches!(
            self.value(headers::WITHDRAWN),
            Some(AMQPValue::Boolean(true))
        )
    }

    /// Whether it comes back from the retry ladder.
    pub(crate) fn comes_back(&self) -> bool {
        self.0.exchange.as_str() == crate::wire::ladder::RETURN
    }

    /// What idem's header says of where the message came from; nothing if a publisher wrote it.
    fn told(&self, name: &str) -> Option<&str> {
        let believed = self.comes_back() || self.is_replay();
        self.own_text(name).filter(|_| believed)
    }

    /// A header's value.
    pub(crate) fn value(&self, name: &str) -> Option<&AMQPValue> {
        let headers = self.0.properties.headers().as_ref()?;
        headers.inner().get(name)
    }

    /// A header that is written as text.
    pub(crate) fn own_text(&self, name: &str) -> Option<&str> {
        match self.value(name)? {
            AMQPValue::LongString(text) => std::str::from_utf8(text.as_bytes()).ok(),
            _ => None,
        }
    }

    /// A header that idem itself wrote, as seconds since 1970.
    pub(crate) fn time(&self, name: &str) -> Option<u64> {
        let headers = self.0.properties.headers().as_ref()?;
        headers.inner().get(name)?.as_timestamp()
    }

    /// Whether the broker may drop the message if it is returned a few times more.
    pub(crate) fn is_close_to(&self, delivery_limit: u64) -> bool {
        const MARGIN: u64 = 2;
        let returned = self.get("x-delivery-count");
        // The first delivery has no count.
        let returned: u64 = returned.and_then(|count| count.parse().ok()).unwrap_or(0);
        returned.saturating_add(MARGIN) >= delivery_limit
    }
}

impl HeaderSource for Delivery {
    fn get(&self, name: &str) -> Option<Cow<'_, str>> {
        let headers = self.0.properties.headers().as_ref()?;
        text(headers.inner().get(name)?)
    }

    fn names(&self) -> Vec<&str> {
        let headers = self.0.properties.headers().as_ref();
        headers.map_or_else(Vec::new, |headers| {
            let there = headers.inner().iter();
            // Null is as good as not there.
            let there = there.filter(|(_, value)| **value != AMQPValue::Void);
            there.map(|(name, _)| name.as_str()).collect()
        })
    }
}

/// A header's value as text; tables, arrays and floats have none that is exact.
fn text(value: &AMQPValue) -> Option<Cow<'_, str>> {
    Some(match value {
        AMQPValue::LongString(text) => Cow::Borrowed(std::str::from_utf8(text.as_bytes()).ok()?),
        AMQPValue::ByteArray(text) => Cow::Borrowed(std::str::from_utf8(text.as_slice()).ok()?),
        AMQPValue::ShortString(text) => Cow::Borrowed(text.as_str()),
        AMQPValue::Boolean(value) => Cow::Owned(value.to_string()),
        AMQPValue::ShortShortInt(value) => Cow::Owned(value.to_string()),
        AMQPValue::ShortShortUInt(value) => Cow::Owned(value.to_string()),
        AMQPValue::ShortInt(value) => Cow::Owned(value.to_string()),
        AMQPValue::ShortUInt(value) => Cow::Owned(value.to_string()),
        AMQPValue::LongInt(value) => Cow::Owned(value.to_string()),
        AMQPValue::LongUInt(value) => Cow::Owned(value.to_string()),
        AMQPValue::LongLongInt(value) => Cow::Owned(value.to_string()),
        AMQPValue::Timestamp(value) => Cow::Owned(value.to_string()),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use lapin::types::FieldTable;

    use super::*;

    fn counted(count: Option<AMQPValue>) -> Delivery {
        let mut headers = FieldTable::default();
        if let Some(count) = count {
            headers.insert("x-delivery-count".into(), count);
        }
        Delivery::new(Origin {
            unreadable: None,
            comes_back_to: None,
            partition: None,
            queue: "orders".into(),
            exchange: "".into(),
            routing_key: "orders".into(),
            redelivered: false,
            properties: BasicProperties::default().with_headers(headers),
        })
    }

    #[test]
    fn a_message_is_close_to_its_limit_two_returns_before_it() {
        let returned = |times| counted(Some(AMQPValue::LongLongInt(times)));
        for (delivery, limit, expected) in [
            (returned(17), 20, false),
            (returned(18), 20, true),
            // The broker counts from the first return on, and some queues not at all.
            (counted(None), 0, true),
            (counted(None), 2, true),
            (counted(None), 3, false),
            (counted(None), 20, false),
        ] {
            assert_eq!(
                delivery.is_close_to(limit),
                expected,
                "{delivery:?} {limit}"
            );
        }
    }

    #[test]
    fn only_what_comes_from_a_stream_has_a_place_there() {
        let position = |queue: &str, comes_back_to: Option<&str>, exchange: &str| {
            let mut headers = FieldTable::default();
            headers.insert("x-stream-offset".into(), AMQPValue::LongLongInt(7));
            let delivery = Delivery::new(Origin {
                unreadable: None,
                comes_back_to: comes_back_to.map(Into::into),
                partition: None,
                queue: queue.into(),
                exchange: exchange.into(),
                routing_key: queue.into(),
                redelivered: false,
                properties: BasicProperties::default().with_headers(headers),
            });
            let envelope = delivery.envelope(Vec::new(), false);
            envelope.position().map(str::to_owned)
        };
        let own = "ledger~books.book";
        let place = Some(format!("{own}:7"));
        assert_eq!(position("ledger", Some(own), ""), place);
        assert_eq!(position(own, None, crate::wire::ladder::RETURN), place);
        assert_eq!(position("orders", None, "orders"), None);
    }

    #[test]
    fn a_place_in_a_partition_stays_that_of_the_partition_in_the_queue_that_all_come_back_to() {
        let own = "ledger~books.book";
        let position = |queue: &str, partition: Option<&str>, exchange: &str, told: &str| {
            let mut headers = FieldTable::default();
            headers.insert("x-stream-offset".into(), AMQPValue::LongLongInt(7));
            let told = AMQPValue::LongString(told.into());
            headers.insert(headers::PARTITION.into(), told);
            let delivery = Delivery::new(Origin {
                unreadable: None,
                comes_back_to: partition.map(|_| own.into()),
                partition: partition.map(Into::into),
                queue: queue.into(),
                exchange: exchange.into(),
                routing_key: queue.into(),
                redelivered: false,
                properties: BasicProperties::default().with_headers(headers),
            });
            let envelope = delivery.envelope(Vec::new(), false);
            envelope.position().map(str::to_owned)
        };
        let place = Some("ledger-1:7".to_owned());
        let back = crate::wire::ladder::RETURN;
        // What a publisher says there of another one counts for nothing.
        let read = position("ledger-1", Some("ledger-1"), "ledger", "ledger-0");
        assert_eq!(read, place);
        assert_eq!(position(own, None, back, "ledger-1"), place);
        assert_eq!(position("orders", None, "orders", "ledger-1"), None);
    }

    #[test]
    fn a_count_that_a_publisher_made_up_is_no_panic() {
        let most = AMQPValue::LongString(u64::MAX.to_string().into());
        assert!(counted(Some(most)).is_close_to(1000));
        let nonsense = AMQPValue::LongString("often".into());
        assert!(!counted(Some(nonsense)).is_close_to(1000));
    }
}
