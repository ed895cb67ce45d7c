//! What clients ask the queue of registrations and heartbeats, and what they are told (pure).

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::place::MAX_ID;

/// What a client asks beside its requests. It may ask the same again: each is harmless to repeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Control {
    /// To open a session, which the worker names: a late copy opens another one, of which nobody ever
    /// hears.
    Open,
    /// To note that it lives.
    Heartbeat(String),
    /// To end its session.
    Close(String),
    /// For a key of its own.
    Reserve,
}

/// What a session is opened with: the worker says, not the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Granted {
    pub(crate) window: u32,
    pub(crate) life: Duration,
}

const OPEN: &str = "idem.open";
const HEARTBEAT: &str = "idem.heartbeat";
const CLOSE: &str = "idem.close";
const RESERVE: &str = "idem.reserve";

#[derive(Deserialize)]
struct Nothing {}

#[derive(Deserialize)]
struct Named {
    session: String,
}

impl Control {
    /// Reads a message by its property `type`, and its body.
    ///
    /// # Errors
    /// What is wrong with it, and what to send instead.
    pub(crate) fn read(kind: &str, body: &[u8]) -> Result<Self, String> {
        match kind {
            OPEN => nothing(body).map(|Nothing {}| Self::Open),
            HEARTBEAT => Ok(Self::Heartbeat(named(body)?)),
            CLOSE => Ok(Self::Close(named(body)?)),
            RESERVE => nothing(body).map(|Nothing {}| Self::Reserve),
            _ => Err(format!(
                "this queue is for registrations and heartbeats: the property `type` must be \
                 `{OPEN}`, `{HEARTBEAT}`, `{CLOSE}` or `{RESERVE}`"
            )),
        }
    }
}

fn nothing(body: &[u8]) -> Result<Nothing, String> {
    serde_json::from_slice(body).map_err(|error| format!("the body must be `{{}}`: {error}"))
}

fn named(body: &[u8]) -> Result<String, String> {
    let named: Named = serde_json::from_slice(body)
        .map_err(|error| format!("the body must be `{{\"session\": \"…\"}}`: {error}"))?;
    if named.session.is_empty() || named.session.len() > MAX_ID {
        return Err(format!("the id of a session has 1 to {MAX_ID} bytes"));
    }
    Ok(named.session)
}

impl Granted {
    /// The reply to a client whose session is open.
    pub(crate) fn reply(self, session: &str) -> Value {
        let life = u64::try_from(self.life.as_millis()).unwrap_or(u64::MAX);
        json!({ "session": session, "window": self.window, "life_ms": life })
    }
}

/// The reply to a client that has reserved a key.
pub(crate) fn reserved() -> Value {
    json!({ "key": new_id() })
}

/// A name that nothing else has or had.
pub(crate) fn new_id() -> String {
    Uuid::now_v7().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clients_ask_is_read() {
        let session = || "s-1".to_owned();
        let table = [
            (OPEN, "{}", Control::Open),
            (
                HEARTBEAT,
                r#"{"session":"s-1"}"#,
                Control::Heartbeat(session()),
            ),
            (
                CLOSE,
                r#"{"session":"s-1","why":"done"}"#,
                Control::Close(session()),
            ),
            (RESERVE, r#"{"later":"more"}"#, Control::Reserve),
        ];
        for (kind, body, expected) in table {
            assert_eq!(Control::read(kind, body.as_bytes()), Ok(expected));
        }
    }

    #[test]
    fn what_cannot_be_read_is_told_what_to_send() {
        let long = json!({ "session": "x".repeat(65) }).to_string();
        let table = [
            ("", "{}", "the property `type` must be"),
            ("idem.refresh", "{}", "the property `type` must be"),
            (OPEN, "", "the body must be `{}`"),
            (OPEN, "[1]", "the body must be `{}`"),
            (RESERVE, "7", "the body must be `{}`"),
            (HEARTBEAT, "{}", "the body must be `{\"session\""),
            (HEARTBEAT, r#"{"session":""}"#, "1 to 64 bytes"),
            (CLOSE, &long, "1 to 64 bytes"),
            (CLOSE, r#"{"session":7}"#, "the body must be `{\"session\""),
        ];
        for (kind, body, expected) in table {
            let error = Control::read(kind, body.as_bytes()).unwrap_err();
            assert!(error.contains(expected), "{kind} {body}: {error}");
        }
    }

    #[test]
    fn the_reply_says_what_is_granted() {
        let granted = Granted {
            window: 5,
            life: Duration::from_mins(5),
        };
        let expected = r#"{"life_ms":300000,"session":"s-1","window":5}"#;
        assert_eq!(granted.reply("s-1").to_string(), expected);
    }
}
