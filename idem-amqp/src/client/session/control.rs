//! What a client asks its server beside requests: sessions, signs of life, keys.

use std::time::Duration;

use idem_core::handler::Refusal;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    super::{
        Client, call_state::Fault, message::Message, ongoing_call::OngoingCall, reply::RawReply,
        retry_interval::RetryInterval,
    },
    SessionError,
};

/// A session as the server has opened it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Granted {
    pub(super) session: String,
    pub(super) window: u32,
    pub(super) life_ms: u64,
}

#[derive(Serialize)]
struct Nothing {}

#[derive(Serialize)]
struct Named<'a> {
    session: &'a str,
}

/// An answer that says nothing but that it is one.
#[derive(Deserialize)]
struct Done {}

#[derive(Deserialize)]
struct Reserved {
    key: String,
}

/// Whether a session lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pulse {
    Living,
    Expired,
}

/// Each time it is asked the server opens another session: those that nobody heard of end by themselves.
pub(super) async fn open(client: &Client) -> Result<Granted, SessionError> {
    ask(client, "idem.open", &Nothing {}, client.deadline).await
}

pub(super) async fn heartbeat(
    client: &Client,
    session: &str,
    deadline: Duration,
) -> Result<Pulse, SessionError> {
    let named = Named { session };
    match ask::<Done>(client, "idem.heartbeat", &named, deadline).await {
        Ok(Done {}) => Ok(Pulse::Living),
        Err(SessionError::Refused { code, .. }) if code == Refusal::SESSION_EXPIRED => {
            Ok(Pulse::Expired)
        }
        Err(error) => Err(error),
    }
}

pub(super) async fn close(client: &Client, session: &str) -> Result<(), SessionError> {
    let named = Named { session };
    let asked = ask::<Done>(client, "idem.close", &named, client.deadline);
    asked.await.map(|Done {}| ())
}

pub(crate) async fn reserve(client: &Client) -> Result<String, SessionError> {
    let asked = ask::<Reserved>(client, "idem.reserve", &Nothing {}, client.deadline);
    asked.await.map(|reserved| reserved.key)
}

/// Asks on the server's queue for this, beside its requests, until there is an answer.
async fn ask<T: DeserializeOwned>(
    client: &Client,
    kind: &'static str,
    body: &impl Serialize,
    deadline: Duration,
) -> Result<T, SessionError> {
    let queue = format!("{}.sessions", client.queue);
    let message =
        Message::json(&queue, body).map_err(|error| SessionError::Request(error.into()))?;
    let shared = &client.shared;
    let call = OngoingCall::new(
        message.asking(kind, deadline),
        RetryInterval::new(client.timeout.min(deadline)),
        shared.orders.clone(),
        &shared.pending_calls,
    );
    match call.hold(deadline, &shared.pending_calls).await {
        Ok(told) => answer(told.reply, queue),
        Err(Fault::Unroutable) => Err(SessionError::NoSessions { queue }),
        Err(Fault::Unsent(why)) => Err(SessionError::Unsent(why)),
        Err(Fault::Unknown(last)) => Err(SessionError::Unanswered(last)),
    }
}

fn answer<T: DeserializeOwned>(reply: RawReply, queue: String) -> Result<T, SessionError> {
    let error = if reply.is_refusal() {
        match serde_json::from_slice::<Refusal>(&reply.body) {
            Ok(refusal) => {
                return Err(SessionError::Refused {
                    code: refusal.code().to_owned(),
                    message: refusal.message().to_owned(),
                });
            }
            Err(error) => error,
        }
    } else {
        match serde_json::from_slice(&reply.body) {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        }
    };
    Err(SessionError::Reply {
        queue,
        body: reply.body,
        source: error.into(),
    })
}
