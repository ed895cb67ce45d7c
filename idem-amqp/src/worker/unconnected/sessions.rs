//! What a worker tells the clients of a queue beside the replies to their requests, without a connection.

use std::{fmt, sync::Arc};

use idem_core::{Executor, StoreError, executor::RunsOn, handler::Handler, store::SessionStore};

use super::UnsentReply;
use crate::{
    error::BuildError,
    topology::Queue,
    wire::{
        Sessions,
        sessions::{Control, SessionCounters},
    },
    worker::{
        WorkerBuilder,
        registrar::{self, Register},
    },
};

/// Opens the sessions of one queue, takes their signs of life, and closes them, as a worker does. Each call may be
/// repeated.
#[derive(Clone)]
pub struct SessionServer {
    queue: Queue,
    register: Arc<dyn Register>,
    counters: Arc<SessionCounters>,
}

/// A worker is not built without an address; nothing connects to this one.
const NO_BROKER: &str = "amqp://localhost";

impl SessionServer {
    /// That of a worker that consumes this queue in sessions.
    ///
    /// # Errors
    /// What the worker's builder says if the queue or the handler cannot serve them.
    pub fn of<H, S, St>(
        store: S,
        state: Arc<St>,
        queue: Queue,
        sessions: Sessions,
    ) -> Result<Self, BuildError>
    where
        H: Handler<St>,
        H::Mode: RunsOn<S>,
        S: SessionStore + Clone,
        St: Send + Sync + 'static,
    {
        let worker = WorkerBuilder::new(Executor::new(store)).shared_state(state);
        let worker = worker.consume_in_sessions::<H>(queue, sessions);
        let mut subscriptions = worker.build(NO_BROKER)?.subscriptions;
        let subscription = subscriptions.pop().expect("it consumes one queue");
        let served = subscription.served.expect("it does so in sessions");
        Ok(Self {
            queue: subscription.queue,
            register: served.register,
            counters: Arc::default(),
        })
    }

    /// The queue of the requests, which are taken with their places in sessions.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Opens a session. What its client is told is for
    /// [`UnconnectedSession::opened`](crate::client::unconnected::UnconnectedSession::opened).
    ///
    /// # Errors
    /// If the store does not tell; the session may have been opened.
    pub async fn open(&self) -> Result<UnsentReply, StoreError> {
        self.run(&Control::Open).await
    }

    /// Takes a sign of life. If the session has ended, its client is told a refusal.
    ///
    /// # Errors
    /// If the store does not tell; the session may have been prolonged.
    pub async fn heartbeat(&self, session: &str) -> Result<UnsentReply, StoreError> {
        self.run(&Control::Heartbeat(session.into())).await
    }

    /// Ends a session.
    ///
    /// # Errors
    /// If the store does not tell; the session may have ended.
    pub async fn close(&self, session: &str) -> Result<UnsentReply, StoreError> {
        self.run(&Control::Close(session.into())).await
    }

    async fn run(&self, control: &Control) -> Result<UnsentReply, StoreError> {
        let answer = self.register.run(control, &self.counters).await?;
        Ok(registrar::reply(answer).into())
    }
}

impl fmt::Debug for SessionServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionServer")
            .field("queue", &self.queue.name())
            .finish_non_exhaustive()
    }
}
