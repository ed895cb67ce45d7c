//! A client's session that owes nothing to `idem-amqp`: headers and messages as they are on the wire.

use lapin::{
    BasicProperties,
    types::{AMQPValue, FieldTable},
};
use serde_json::{Value, json};

use crate::{
    bed::persistent,
    requester::{Reply, Requester},
};

/// A session of a requester, on a queue.
#[derive(Debug)]
pub struct Session<'a> {
    requester: &'a Requester,
    queue: String,
    /// The id that it was given.
    pub id: String,
}

/// The name of a queue's queue of registrations.
pub fn control(queue: &str) -> String {
    format!("{queue}.sessions")
}

/// Asks the queue of registrations, and waits for the reply.
pub async fn ask_control(
    requester: &Requester,
    queue: &str,
    kind: &str,
    id: &str,
    body: &Value,
) -> Reply {
    let properties = control_properties(kind, id);
    let body = body.to_string().into_bytes();
    let correlation = format!("control-{:016x}", fastrand::u64(..));
    requester
        .ask_with(&control(queue), &body, &correlation, properties)
        .await;
    let reply = requester.reply().await;
    assert_eq!(reply.correlation(), correlation);
    reply
}

/// Properties of a message to the queue of registrations.
pub fn control_properties(kind: &str, id: &str) -> BasicProperties {
    persistent()
        .with_type(kind.into())
        .with_message_id(id.into())
}

/// A new id for a session.
pub fn id() -> String {
    format!(
        "{:08x}-0000-4000-8000-{:012x}",
        fastrand::u32(..),
        fastrand::u64(..1 << 48)
    )
}

impl<'a> Session<'a> {
    /// Opens one.
    ///
    /// # Panics
    /// If it is not opened.
    pub async fn open(requester: &'a Requester, queue: &str) -> Self {
        let id = id();
        let reply = ask_control(requester, queue, "idem.open", &id, &json!({})).await;
        assert_eq!(reply.refusal(), None, "{reply:?}");
        let given = reply.json()["session"].as_str().map(str::to_owned);
        Self {
            requester,
            queue: queue.into(),
            id: given.expect("the id of the session"),
        }
    }

    /// The same session, as somebody else may claim to have it.
    pub fn by<'b>(&self, requester: &'b Requester) -> Session<'b> {
        Session {
            requester,
            queue: self.queue.clone(),
            id: self.id.clone(),
        }
    }

    /// Sends a request.
    pub async fn send(&self, number: i64, awaited: i64, body: &[u8]) {
        let correlation = number.to_string();
        let properties = in_session(&self.id, number, awaited);
        self.requester
            .ask_with(&self.queue, body, &correlation, properties)
            .await;
    }

    /// Sends a request and takes the next reply.
    pub async fn ask(&self, number: i64, awaited: i64, body: &[u8]) -> Reply {
        self.send(number, awaited, body).await;
        let reply = self.requester.reply().await;
        assert_eq!(reply.correlation(), number.to_string());
        reply
    }

    /// Gives a sign of life.
    pub async fn heartbeat(&self) -> Reply {
        self.control("idem.heartbeat").await
    }

    /// Ends it.
    pub async fn close(&self) -> Reply {
        self.control("idem.close").await
    }

    async fn control(&self, kind: &str) -> Reply {
        let body = json!({ "session": self.id });
        ask_control(self.requester, &self.queue, kind, "", &body).await
    }
}

/// Properties of a request in a session.
pub fn in_session(id: &str, number: i64, awaited: i64) -> BasicProperties {
    let mut headers = FieldTable::default();
    headers.insert("idem-session".into(), AMQPValue::LongString(id.into()));
    headers.insert("idem-number".into(), AMQPValue::LongLongInt(number));
    headers.insert("idem-awaited".into(), AMQPValue::LongLongInt(awaited));
    persistent().with_headers(headers)
}
