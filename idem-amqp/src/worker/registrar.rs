//! Does what clients ask beside their requests, with the store's types.

use std::time::Duration;

use futures_util::{FutureExt as _, future::BoxFuture};
use idem_core::{
    Executor, StoreError,
    handler::Refusal,
    message::{KeyError, SessionKey},
    store::{OpenSession, SessionStore, Touched},
};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::wire::{
    reply::Reply,
    sessions::{Control, Granted, SessionCounters, new_id, reserved},
};

/// What a client is told.
pub(super) type ControlReply = Result<Value, Refusal>;

/// The sessions of one queue without the type of their store.
pub(super) trait Register: Send + Sync {
    /// Does what is asked, and counts it.
    ///
    /// # Errors
    /// If the store cannot tell: then nothing is known, and the client asks again.
    fn run<'a>(
        &'a self,
        control: &'a Control,
        counters: &'a SessionCounters,
    ) -> BoxFuture<'a, Result<ControlReply, StoreError>>;
}

/// The sessions of one queue in their store.
pub(super) struct Registrar<S> {
    pub(super) executor: Executor<S>,
    pub(super) scope: &'static str,
    pub(super) granted: Granted,
}

/// Clients ask again, by then at the latest.
const TIMEOUT: Duration = Duration::from_secs(10);

impl<S: SessionStore> Register for Registrar<S> {
    fn run<'a>(
        &'a self,
        control: &'a Control,
        counters: &'a SessionCounters,
    ) -> BoxFuture<'a, Result<ControlReply, StoreError>> {
        let ran = timeout(TIMEOUT, self.run_typed(control, counters));
        let silent = |_| StoreError::unavailable("it did not answer");
        ran.map(move |ran| ran.map_err(silent).flatten()).boxed()
    }
}

impl<S: SessionStore> Registrar<S> {
    async fn run_typed(
        &self,
        control: &Control,
        counters: &SessionCounters,
    ) -> Result<ControlReply, StoreError> {
        let id = match control {
            Control::Open => &new_id(),
            Control::Heartbeat(id) | Control::Close(id) => id,
            Control::Reserve => {
                counters.reserved.add();
                return Ok(Ok(reserved()));
            }
        };
        let session = match SessionKey::new(self.scope, id) {
            Ok(session) => session,
            Err(error) => return Ok(Err(unnamed(&error))),
        };
        let store = self.executor.store();
        match control {
            Control::Open => {
                let Granted { window, life } = self.granted;
                let request = OpenSession::new(session).window(window).life(life);
                store.open(&request).await?;
                counters.opened.add();
                Ok(Ok(self.granted.reply(id)))
            }
            Control::Heartbeat(_) => match store.touch(&session).await? {
                Touched::Living => {
                    counters.heartbeats.add();
                    Ok(Ok(json!({})))
                }
                Touched::Expired => {
                    counters.expired.add();
                    Ok(Err(expired()))
                }
            },
            Control::Close(_) => {
                // A client repeats a request whose answer is late: what has ended already is counted once.
                let lived = store.touch(&session).await? == Touched::Living;
                store.close(&session).await?;
                if lived {
                    counters.closed.add();
                }
                Ok(Ok(json!({})))
            }
            Control::Reserve => unreachable!("it has returned"),
        }
    }
}

/// What a client is told, as it is sent.
pub(super) fn reply(told: ControlReply) -> Reply {
    match told {
        Ok(value) => Reply::output(value.to_string().into_bytes()),
        Err(refusal) => Reply::refusal(&refusal),
    }
}

fn expired() -> Refusal {
    let error = "the session is unknown or has ended: open a new one";
    Refusal::new(Refusal::SESSION_EXPIRED, error)
}

fn unnamed(error: &KeyError) -> Refusal {
    Refusal::new("undecodable", error.to_string())
}
