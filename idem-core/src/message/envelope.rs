//! All that a key, a decoder or an extractor sees of a transport.

use std::{any::Any, borrow::Cow, collections::BTreeMap, fmt, sync::Arc, time::SystemTime};

use bytes::Bytes;

use crate::message::{Fingerprint, time};

/// Headers of a message, read without copying them out of the transport's own form.
///
/// ```
/// use std::borrow::Cow;
/// use idem_core::{Envelope, message::HeaderSource};
///
/// /// A mail's subject line, which is all that its handler may see of its headers.
/// struct Subject(String);
///
/// impl HeaderSource for Subject {
///     fn get(&self, name: &str) -> Option<Cow<'_, str>> {
///         (name == "subject").then(|| Cow::Borrowed(self.0.as_str()))
///     }
///     fn names(&self) -> Vec<&str> { vec!["subject"] }
/// }
///
/// let envelope = Envelope::builder("hello").headers(Subject("order o-17".into())).build();
/// assert_eq!(envelope.header("subject").as_deref(), Some("order o-17"));
/// ```
pub trait HeaderSource: Send + Sync {
    /// The header's value as text, if it is there and has one.
    fn get(&self, name: &str) -> Option<Cow<'_, str>>;

    /// The names of all headers.
    fn names(&self) -> Vec<&str>;
}

impl HeaderSource for BTreeMap<String, String> {
    fn get(&self, name: &str) -> Option<Cow<'_, str>> {
        Self::get(self, name).map(|value| Cow::Borrowed(value.as_str()))
    }

    fn names(&self) -> Vec<&str> {
        self.keys().map(String::as_str).collect()
    }
}

/// Where a message stands in the session of its client, as the client says. With the handler's scope
/// it makes a [`SessionPlace`](crate::message::SessionPlace).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionNumber {
    /// The session's id, as its client was given it.
    pub id: String,
    /// Which of the session's requests it is.
    pub number: u64,
    /// The lowest number whose answer the client still awaits, this message's at most.
    pub awaited: u64,
}

/// One message as its transport delivered it: body, id, headers and extensions. Clones share it.
///
/// ```
/// use idem_core::Envelope;
///
/// let envelope = Envelope::new(r#"{"order_id":"o-17"}"#);
/// let order: serde_json::Value = envelope.json()?;
/// assert_eq!(order["order_id"], "o-17");
/// # Ok::<_, idem_core::handler::DecodeError>(())
/// ```
#[derive(Clone)]
pub struct Envelope(Arc<Content>);

struct Content {
    body: Bytes,
    id: Option<String>,
    position: Option<String>,
    headers: Arc<dyn HeaderSource>,
    extensions: Extensions,
    expects_reply: bool,
    session: Option<SessionNumber>,
    time: Option<SystemTime>,
}

/// One of each type, and few of them.
type Extensions = Vec<Box<dyn Any + Send + Sync>>;

impl Envelope {
    /// An envelope with nothing but a body.
    pub fn new(body: impl Into<Bytes>) -> Self {
        Self::builder(body).build()
    }

    /// Starts an envelope round a body.
    pub fn builder(body: impl Into<Bytes>) -> EnvelopeBuilder {
        EnvelopeBuilder {
            body: body.into(),
            id: None,
            position: None,
            headers: BTreeMap::new(),
            source: None,
            extensions: Extensions::new(),
            expects_reply: false,
            session: None,
            time: None,
        }
    }

    /// The payload.
    pub fn body(&self) -> &[u8] {
        &self.0.body
    }

    /// The id that the publisher gave the message (AMQP: `message_id`), if it is not empty.
    pub fn id(&self) -> Option<&str> {
        self.0.id.as_deref().filter(|id| !id.is_empty())
    }

    /// Where the message stands in its log, if its transport reads one (Kafka: topic, partition and offset; RabbitMQ:
    /// stream and offset).
    pub fn position(&self) -> Option<&str> {
        self.0.position.as_deref()
    }

    /// A header's value as text.
    pub fn header(&self, name: &str) -> Option<Cow<'_, str>> {
        self.0.headers.get(name)
    }

    /// Whether a header is there that has no text.
    pub(crate) fn has_unreadable(&self, header: &str) -> bool {
        let headers = &self.0.headers;
        headers.get(header).is_none() && headers.names().contains(&header)
    }

    /// What the transport attached, by its type.
    pub fn extension<T: Send + Sync + 'static>(&self) -> Option<&T> {
        let mut extensions = self.0.extensions.iter();
        extensions.find_map(|extension| extension.downcast_ref())
    }

    /// Whether somebody waits for an answer: then a rejection for good is remembered and answered,
    /// instead of given up.
    pub fn expects_reply(&self) -> bool {
        self.0.expects_reply
    }

    /// Where the message stands in the session of its client, if it is in one: then that is its key.
    pub fn session(&self) -> Option<&SessionNumber> {
        self.0.session.as_ref()
    }

    /// When the message was made, as its publisher says: in this header, if one is named, in seconds or milliseconds
    /// since 1970; else as the transport tells (AMQP: `timestamp`).
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use idem_core::Envelope;
    ///
    /// let envelope = Envelope::builder("{}").header("x-made-at", "1750000000123").build();
    /// let made_at = SystemTime::UNIX_EPOCH + Duration::from_millis(1_750_000_000_123);
    /// assert_eq!(envelope.sent_at(Some("x-made-at")), Some(made_at));
    /// assert_eq!(envelope.sent_at(None), None);
    /// ```
    pub fn sent_at(&self, header: Option<&str>) -> Option<SystemTime> {
        match header {
            Some(name) => time::read(&self.header(name)?),
            None => self.0.time,
        }
    }

    /// A digest of the body, for messages that carry no id of their own.
    pub fn content(&self) -> String {
        Fingerprint::of(self.body()).to_string()
    }

    pub(crate) fn headers(&self) -> Arc<dyn HeaderSource> {
        Arc::clone(&self.0.headers)
    }
}

impl fmt::Debug for Envelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Envelope")
            .field("bytes", &self.body().len())
            .field("id", &self.0.id)
            .field("headers", &self.0.headers.names())
            .field("expects_reply", &self.expects_reply())
            .field("session", &self.session())
            .finish_non_exhaustive()
    }
}

/// An envelope in the making.
///
/// ```
/// use idem_core::Envelope;
///
/// let envelope = Envelope::builder("{}").id("m-1").header("x-tenant", "acme").build();
/// assert_eq!(envelope.id(), Some("m-1"));
/// assert_eq!(envelope.header("x-tenant").as_deref(), Some("acme"));
/// ```
#[must_use]
pub struct EnvelopeBuilder {
    body: Bytes,
    id: Option<String>,
    position: Option<String>,
    headers: BTreeMap<String, String>,
    source: Option<Arc<dyn HeaderSource>>,
    extensions: Extensions,
    expects_reply: bool,
    session: Option<SessionNumber>,
    time: Option<SystemTime>,
}

impl EnvelopeBuilder {
    /// The publisher's id of the message.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Sets where the message stands in its log: the same whenever it is read.
    pub fn position(mut self, position: impl Into<String>) -> Self {
        self.position = Some(position.into());
        self
    }

    /// Adds a header.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }

    /// Takes the headers from the transport's own form, instead of those added one by one.
    pub fn headers(mut self, source: impl HeaderSource + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// Attaches something of the transport's own, found again by its type.
    pub fn extension<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.extensions.retain(|extension| !extension.is::<T>());
        self.extensions.push(Box::new(value));
        self
    }

    /// Says whether somebody waits for an answer; nobody does unless it is said.
    pub fn expects_reply(mut self, expects_reply: bool) -> Self {
        self.expects_reply = expects_reply;
        self
    }

    /// Says where the message stands in the session of its client.
    pub fn session(mut self, session: impl Into<Option<SessionNumber>>) -> Self {
        self.session = session.into();
        self
    }

    /// When the message was made, in the transport's own number: seconds since 1970, or milliseconds. 0 is no time.
    pub fn timestamp(mut self, number: u64) -> Self {
        self.time = time::of(number);
        self
    }

    /// Ends the envelope.
    pub fn build(self) -> Envelope {
        Envelope(Arc::new(Content {
            body: self.body,
            id: self.id,
            position: self.position,
            headers: self.source.unwrap_or_else(|| Arc::new(self.headers)),
            extensions: self.extensions,
            expects_reply: self.expects_reply,
            session: self.session,
            time: self.time,
        }))
    }
}

impl fmt::Debug for EnvelopeBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnvelopeBuilder")
            .field("bytes", &self.body.len())
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_id_is_no_id() {
        assert_eq!(Envelope::builder("x").id("").build().id(), None);
    }

    #[test]
    fn extensions_are_found_by_type() {
        let envelope = Envelope::builder("x").extension(7_u16).build();
        assert_eq!(envelope.extension::<u16>(), Some(&7));
        assert_eq!(envelope.extension::<u32>(), None);
    }

    #[test]
    fn an_extension_takes_the_place_of_an_earlier_one_of_its_type() {
        let envelope = Envelope::builder("x").extension(7_u16).extension(8_u32);
        let envelope = envelope.extension(9_u16).build();
        assert_eq!(envelope.extension::<u16>(), Some(&9));
        assert_eq!(envelope.extension::<u32>(), Some(&8));
    }
}
