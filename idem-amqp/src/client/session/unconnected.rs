//! A client's session without a connection: what `idem-testing` takes requests from.
//!
//! Numbers, and which answers are awaited, are the client's own rules. Compiled with the feature `testing`; it may
//! change with any version.

use std::{sync::Arc, time::Duration};

use lapin::BasicProperties;

use super::{
    super::message::{Message, Unsendable},
    SessionError,
    control::Granted,
    request_window::{Place, RequestWindow},
};
use crate::client::RequestNumber;

/// A session as its client sees it, of requests that nobody sends.
#[derive(Debug)]
pub struct UnconnectedSession {
    id: String,
    queue: String,
    window: u32,
    life: Duration,
    requests: RequestWindow,
}

/// Where a client waits for replies that does not say.
const REPLIES: &str = "replies";

impl UnconnectedSession {
    /// A session with the server of this queue, as the server's answer says that it has opened it.
    ///
    /// # Errors
    /// If the answer is none.
    pub fn opened(queue: &str, answer: &[u8]) -> Result<Self, SessionError> {
        let granted: Granted =
            serde_json::from_slice(answer).map_err(|error| SessionError::Reply {
                queue: queue.to_owned(),
                body: answer.to_owned(),
                source: error.into(),
            })?;
        Ok(Self {
            id: granted.session,
            queue: queue.to_owned(),
            window: granted.window,
            life: Duration::from_millis(granted.life_ms),
            requests: RequestWindow::new(granted.window),
        })
    }

    /// The id that the server has given it.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// How many requests may be in flight.
    pub fn window(&self) -> u32 {
        self.window
    }

    /// How long the server keeps it without a sign of life.
    pub fn life(&self) -> Duration {
        self.life
    }

    /// The properties of a new request, which has the session's next number; what these say beside that is kept.
    /// `None` while the window is full: a call waits then.
    ///
    /// # Errors
    /// If a client cannot send it: its body is too long, say.
    pub fn number(
        &mut self,
        body: &[u8],
        properties: &BasicProperties,
    ) -> Result<Option<BasicProperties>, SessionError> {
        let unsendable = |error: Unsendable| SessionError::Request(error.into());
        let message = Message::raw(&self.queue, body.to_vec()).map_err(unsendable)?;
        let message = Arc::new(message);
        let Some(Place {
            number, awaited, ..
        }) = self.requests.begin(&message)
        else {
            return Ok(None);
        };
        let message = Message::clone(&message).in_session(&self.id, number, awaited);
        let message = message.map_err(unsendable)?;
        Ok(Some(laid_over(properties, &message)))
    }

    /// The answer to this request has come: from the next one on the server is told that it is not awaited. Tells
    /// whether it is a request of the session.
    pub fn settle(&mut self, properties: &BasicProperties) -> bool {
        let number = self.number_of(properties);
        if let Some(number) = number {
            self.requests.settle(number);
        }
        number.is_some()
    }

    /// The request's number, read from its key: see [`RequestNumber`].
    fn number_of(&self, properties: &BasicProperties) -> Option<u64> {
        let key = properties.message_id().as_ref()?.as_str();
        let number = key.rsplit('/').next()?.parse().ok()?;
        let of_this = RequestNumber::new(&self.id, number).to_string();
        (key == of_this).then_some(number)
    }
}

/// These properties, and what the client says of its request beside them.
fn laid_over(properties: &BasicProperties, request: &Message) -> BasicProperties {
    let reply_to = properties.reply_to().clone();
    let reply_to = reply_to.unwrap_or_else(|| REPLIES.into());
    let sent = request.properties(request.id(), &reply_to);
    let mut headers = properties.headers().clone().unwrap_or_default();
    for (name, value) in sent.headers().iter().flatten() {
        headers.insert(name.clone(), value.clone());
    }
    (properties.clone())
        .with_message_id(request.id().into())
        .with_correlation_id(request.id().into())
        .with_reply_to(reply_to)
        .with_headers(headers)
}
