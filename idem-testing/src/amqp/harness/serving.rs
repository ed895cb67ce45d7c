//! A harness whose queue serves sessions: what it opens, and what it has opened.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use idem_amqp::{BuildError, Queue, session::Sessions, worker::unconnected::SessionServer};
use idem_core::{
    executor::RunsOn,
    handler::Handler,
    message::SessionKey,
    store::{OpenSession, SessionStore as _},
};
use tokio::time::{Instant, sleep, sleep_until};

use super::{super::Session, Harness};
use crate::{FaultyStore, Ground, harness::Make};

/// What serves the sessions of a queue.
pub(super) struct Served {
    pub(super) sessions: Sessions,
    server: SessionServer,
    opened: Mutex<Vec<OpenSession>>,
}

impl<H, St, G> Harness<H, St, G>
where
    H: Handler<St>,
    H::Mode: RunsOn<FaultyStore<G::Store>>,
    St: Send + Sync + 'static,
    G: Ground,
{
    /// # Errors
    /// What a worker's builder says if it cannot consume so.
    pub(crate) fn in_sessions(
        ground: G,
        state: Arc<St>,
        make: Make<St, G>,
        queue: Queue,
        sessions: Sessions,
    ) -> Result<Self, BuildError> {
        // By the ground's own link: whoever opens sessions is no process that vanishes.
        let store = ground.store().clone();
        let server = SessionServer::of::<H, _, _>(store, Arc::clone(&state), queue, sessions)?;
        let queue = server.queue().clone();
        Ok(Self {
            served: Some(Served {
                sessions,
                server,
                opened: Mutex::default(),
            }),
            ..Self::on(ground, state, make, queue)
        })
    }

    /// Opens a session, as a client does: it numbers the requests that are to be delivered.
    ///
    /// # Panics
    /// If the queue is not [consumed in sessions](crate::Setup::consume_in_sessions), or the store does not answer.
    pub async fn open_session(&self) -> Session {
        let Some(served) = &self.served else {
            panic!(
                "the queue `{}` serves no sessions: consume it with `consume_in_sessions`",
                self.queue.name()
            );
        };
        let session = Session::open(served.server.clone()).await;
        let key = SessionKey::new(H::SCOPE, session.id()).expect("the server has made it");
        let opened = OpenSession::new(key)
            .window(session.window())
            .life(session.life());
        served.remember(opened);
        session
    }

    /// Lets time pass in which no message is delivered. Sessions live on: their clients are there.
    pub(super) async fn wait(&self, wait: Duration) {
        let until = Instant::now() + wait;
        let sessions = self.served.as_ref().map_or_else(Vec::new, Served::opened);
        if let Some(life) = sessions.iter().map(|session| session.life).min() {
            // As often as a client does.
            while Instant::now() + life / 3 < until {
                sleep(life / 3).await;
                for session in &sessions {
                    // One that has ended stays so; a store that does not answer hears the next one.
                    let _ = self.store().touch(&session.session).await;
                }
            }
        }
        sleep_until(until).await;
    }

    /// Opens sessions that another harness has opened. They begin anew.
    pub(super) async fn open_again(&self, sessions: &[OpenSession]) {
        for session in sessions {
            let opened = self.store().open(session).await;
            opened.expect("nothing is wrong yet with the store of a harness");
            if let Some(served) = &self.served {
                served.remember(session.clone());
            }
        }
    }
}

impl Served {
    pub(super) fn opened(&self) -> Vec<OpenSession> {
        // What is written under the lock is never half done.
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened.clone()
    }

    fn remember(&self, session: OpenSession) {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened.push(session);
    }
}
