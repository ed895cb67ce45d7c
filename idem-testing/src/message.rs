//! A message as a test writes it.

use serde::Serialize;

use idem_core::message::Envelope;

/// A message as a transport delivers it.
///
/// ```
/// use idem_testing::Message;
///
/// let order = Message::json(&serde_json::json!({ "order_id": "o-17" }))
///     .id("m-1")
///     .header("x-tenant", "acme");
/// let again = order.redelivered();
/// # let _ = again;
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Message {
    body: Vec<u8>,
    id: Option<String>,
    headers: Vec<(String, String)>,
    expects_reply: bool,
    /// As a transport makes it: all of the above stands in it.
    made: Option<Envelope>,
    pub(super) redelivered: bool,
    pub(super) replay: bool,
}

impl Message {
    /// With a value as JSON.
    ///
    /// # Panics
    /// If JSON cannot express it.
    pub fn json(value: &(impl Serialize + ?Sized)) -> Self {
        match serde_json::to_vec(value) {
            Ok(body) => Self::bytes(body),
            Err(error) => panic!("the message cannot be written as JSON: {error}"),
        }
    }

    /// With any body.
    pub fn bytes(body: impl Into<Vec<u8>>) -> Self {
        Self {
            body: body.into(),
            id: None,
            headers: Vec::new(),
            expects_reply: false,
            made: None,
            redelivered: false,
            replay: false,
        }
    }

    /// Its publisher's id of it.
    ///
    /// # Panics
    /// If the message was made of an envelope, which says all of it. So do the next two.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.assert_is_written_here();
        self.id = Some(id.into());
        self
    }

    /// Adds a header.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.assert_is_written_here();
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Somebody waits for an answer.
    pub fn expects_reply(mut self) -> Self {
        self.assert_is_written_here();
        self.expects_reply = true;
        self
    }

    /// The same message, as its transport delivers it again.
    pub fn redelivered(&self) -> Self {
        Self {
            redelivered: true,
            replay: false,
            ..self.clone()
        }
    }

    /// The same message, as a person sends it again that was a dead letter.
    pub fn replayed(&self) -> Self {
        Self {
            redelivered: false,
            replay: true,
            ..self.clone()
        }
    }

    fn assert_is_written_here(&self) {
        assert!(
            self.made.is_none(),
            "the message was made of an envelope: write it there, before it becomes a message"
        );
    }

    pub(super) fn envelope(&self) -> Envelope {
        if let Some(made) = &self.made {
            return made.clone();
        }
        let mut envelope = Envelope::builder(self.body.clone()).expects_reply(self.expects_reply);
        if let Some(id) = &self.id {
            envelope = envelope.id(id);
        }
        for (name, value) in &self.headers {
            envelope = envelope.header(name, value);
        }
        envelope.build()
    }
}

/// As a transport of your own makes it.
impl From<Envelope> for Message {
    fn from(envelope: Envelope) -> Self {
        Self {
            made: Some(envelope),
            ..Self::bytes([])
        }
    }
}
