//! A request as it is put on the wire, the same at every try but for where the reply is to go.

use std::time::Duration;

use lapin::{
    BasicProperties,
    types::{AMQPValue, FieldTable, LongString, ShortString},
};
use serde::Serialize;
use uuid::Uuid;

use crate::wire::headers;
#[cfg(feature = "opentelemetry")]
use crate::{telemetry::Carrier, wire::frame_size::size_of};

/// A request as it is put on the wire.
#[derive(Debug, Clone)]
pub(super) struct Message {
    pub(super) queue: ShortString,
    pub(super) body: Vec<u8>,
    id: ShortString,
    /// What is asked beside requests, and how long anybody waits for its answer.
    control: Option<(ShortString, Duration)>,
    headers: FieldTable,
    headers_len: usize,
}

/// Why a request cannot be put on the wire, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unsendable {
    #[error("JSON cannot express it: {0}")]
    Json(String),
    #[error("its body has {0} bytes, at most {MAX_BODY} are allowed: send a reference instead")]
    Body(usize),
    #[error("its key has {0} bytes: use 1 to 255")]
    Key(usize),
    #[error("its queue's name has {0} bytes: use 1 to 255")]
    Queue(usize),
    #[error(
        "the header name `{0}` cannot be used: take 1 to 255 bytes that do not begin with `idem-`"
    )]
    Header(String),
    #[error("its headers have more than {MAX_HEADERS} bytes: put what is large into the request")]
    Headers,
}

const PERSISTENT: u8 = 2;

/// What RabbitMQ 4 takes unless it is set to take more. A larger message ends the connection for all
/// calls on it.
const MAX_BODY: usize = 16 * 1024 * 1024;

/// All of a message's properties must fit into one frame, together with what idem adds to it.
const MAX_HEADERS: usize = 32 * 1024;

impl Message {
    pub(super) fn json(queue: &str, request: &impl Serialize) -> Result<Self, Unsendable> {
        let body =
            serde_json::to_vec(request).map_err(|error| Unsendable::Json(error.to_string()))?;
        Self::raw(queue, body)
    }

    /// A request that is JSON already.
    pub(super) fn raw(queue: &str, body: Vec<u8>) -> Result<Self, Unsendable> {
        if body.len() > MAX_BODY {
            return Err(Unsendable::Body(body.len()));
        }
        Ok(Self {
            queue: short(queue).ok_or(Unsendable::Queue(queue.len()))?,
            body,
            id: Uuid::now_v7().to_string().into(),
            control: None,
            headers: FieldTable::default(),
            headers_len: 0,
        })
    }

    pub(super) fn id(&self) -> &str {
        self.id.as_str()
    }

    pub(super) fn with_id(mut self, id: &str) -> Result<Self, Unsendable> {
        self.id = short(id).ok_or(Unsendable::Key(id.len()))?;
        Ok(self)
    }

    pub(super) fn with_header(mut self, name: &str, value: &str) -> Result<Self, Unsendable> {
        let ours = name.starts_with("idem-");
        let short = short(name).filter(|_| !ours);
        let short = short.ok_or_else(|| Unsendable::Header(name.into()))?;
        self.headers_len = (self.headers_len)
            .saturating_add(name.len())
            .saturating_add(value.len());
        if self.headers_len > MAX_HEADERS {
            return Err(Unsendable::Headers);
        }
        let value = AMQPValue::LongString(LongString::from(value));
        self.headers.insert(short, value);
        Ok(self)
    }

    /// Makes it one of those that are asked beside requests. While no worker consumes them they do not
    /// pile up: the broker drops each when nobody waits for its answer any more.
    pub(super) fn asking(self, kind: &'static str, deadline: Duration) -> Self {
        Self {
            control: Some((kind.into(), deadline)),
            ..self
        }
    }

    /// Puts it at this place of a session.
    pub(super) fn in_session(
        self,
        session: &str,
        number: u64,
        awaited: u64,
    ) -> Result<Self, Unsendable> {
        let mut this = self.with_id(&format!("{session}/{number}"))?;
        let session = AMQPValue::LongString(session.into());
        this.headers.insert(headers::SESSION.into(), session);
        for (name, number) in [(headers::NUMBER, number), (headers::AWAITED, awaited)] {
            let number = number.try_into().unwrap_or(i64::MAX);
            let number = AMQPValue::LongLongInt(number);
            this.headers.insert(name.into(), number);
        }
        Ok(this)
    }

    /// The headers that the application has added.
    pub(super) fn own_headers(&self) -> Vec<(String, String)> {
        let own = self.headers.inner().iter();
        own.filter_map(|(name, value)| match value {
            AMQPValue::LongString(text) if !name.as_str().starts_with("idem-") => {
                let text = String::from_utf8_lossy(text.as_bytes());
                Some((name.to_string(), text.into_owned()))
            }
            _ => None,
        })
        .collect()
    }

    pub(super) fn properties(
        &self,
        correlation_id: &str,
        reply_to: &ShortString,
    ) -> BasicProperties {
        let properties = BasicProperties::default()
            .with_delivery_mode(PERSISTENT)
            .with_content_type("application/json".into())
            .with_message_id(self.id.clone())
            .with_correlation_id(correlation_id.into())
            .with_reply_to(reply_to.clone())
            .with_headers(self.headers.clone());
        match &self.control {
            Some((kind, deadline)) => properties
                .with_type(kind.clone())
                .with_expiration(expiration(*deadline)),
            None => properties,
        }
    }
}

#[cfg(feature = "opentelemetry")]
impl Carrier for Message {
    fn has_any_header(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.headers.contains_key(name))
    }

    /// Leaves the headers out if they are too long: trace context is never the reason why a request cannot be sent.
    fn with_headers(mut self, further: &FieldTable) -> Self {
        let sizes = further.inner().iter();
        let size: usize = sizes
            .map(|(name, value)| name.as_str().len() + size_of(value))
            .sum();
        if self.headers_len.saturating_add(size) <= MAX_HEADERS {
            self.headers_len += size;
            for (name, value) in further {
                self.headers.insert(name.clone(), value.clone());
            }
        }
        self
    }
}

/// The expiration in milliseconds, as text. A longer one than the broker takes is cut.
fn expiration(after: Duration) -> ShortString {
    let millis = after.as_millis().clamp(1, u32::MAX.into());
    millis.to_string().into()
}

/// A text of 1 to 255 bytes.
fn short(text: &str) -> Option<ShortString> {
    ShortString::try_new(text).ok().filter(|_| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> Message {
        Message::json("leases", &"a").unwrap()
    }

    #[test]
    fn every_request_has_a_key_of_its_own_unless_it_is_given_one() {
        assert_ne!(message().id(), message().id());
        assert_eq!(message().with_id("k").unwrap().id(), "k");
    }

    #[test]
    fn two_tries_differ_in_nothing_but_where_the_reply_is_to_go() {
        let message = message().with_header("tenant", "a").unwrap();
        let first = message.properties("c-1", &"one".into());
        let second = message.properties("c-1", &"two".into());
        assert_ne!(first, second);
        assert_eq!(first.with_reply_to("two".into()), second);
    }

    #[test]
    fn a_request_of_a_session_says_where_it_stands() {
        let message = message().with_header("tenant", "a").unwrap();
        let message = message.in_session("s-1", 7, 5).unwrap();
        assert_eq!(message.id(), "s-1/7");
        let headers = message.properties("c", &"r".into()).headers().clone();
        let headers = headers.unwrap();
        let number = |name| headers.inner().get(name).cloned();
        assert_eq!(number("idem-number"), Some(AMQPValue::LongLongInt(7)));
        assert_eq!(number("idem-awaited"), Some(AMQPValue::LongLongInt(5)));
        let session = AMQPValue::LongString("s-1".into());
        assert_eq!(number("idem-session"), Some(session));
        assert_eq!(message.own_headers(), [("tenant".into(), "a".into())]);
        let long = message.in_session(&"s".repeat(255), 7, 5);
        assert_eq!(long.unwrap_err(), Unsendable::Key(257));
    }

    #[test]
    fn what_is_asked_beside_requests_says_what_it_is_and_expires() {
        let sent = |message: Message| {
            let properties = message.properties("c", &"r".into());
            let text = |text: &Option<ShortString>| text.clone().map(|text| text.to_string());
            (text(properties.kind()), text(properties.expiration()))
        };
        assert_eq!(sent(message()), (None, None));
        for (deadline, expected) in [
            (Duration::ZERO, "1"),
            (Duration::from_millis(1_500), "1500"),
            (Duration::MAX, "4294967295"),
        ] {
            let (kind, expiration) = sent(message().asking("idem.open", deadline));
            assert_eq!(kind.as_deref(), Some("idem.open"));
            assert_eq!(expiration.as_deref(), Some(expected));
        }
    }

    #[test]
    fn what_cannot_be_sent_is_told_before_it_is_sent() {
        let long = "x".repeat(256);
        let not_json = std::collections::BTreeMap::from([((1, 2), 3)]);
        for (refused, expected) in [
            (
                Message::json("leases", &not_json),
                Unsendable::Json("key must be a string".into()),
            ),
            (Message::json(&long, &1), Unsendable::Queue(256)),
            (Message::json("", &1), Unsendable::Queue(0)),
            (message().with_id(""), Unsendable::Key(0)),
            (message().with_id(&long), Unsendable::Key(256)),
            (
                message().with_header("", "x"),
                Unsendable::Header(String::new()),
            ),
            (
                message().with_header("idem-reason", "x"),
                Unsendable::Header("idem-reason".into()),
            ),
            (
                message().with_header("x", &"y".repeat(MAX_HEADERS)),
                Unsendable::Headers,
            ),
            (
                Message::json("leases", &"x".repeat(MAX_BODY)),
                Unsendable::Body(MAX_BODY + 2),
            ),
        ] {
            assert_eq!(refused.unwrap_err(), expected);
        }
    }
}
