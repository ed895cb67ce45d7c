//! Numbers its requests, so that its server keeps their answers for as long as they are awaited.

use std::{fmt, sync::Arc, time::Duration};

use idem_core::{Request, session_storage::SessionStorageError};
use serde::Serialize;
use tokio_util::sync::DropGuard;

use super::message::Message;
use crate::client::{RequestNumber, Unanswered};

mod builder;
mod call;
mod control;
mod error;
mod heartbeat;
mod moment;
mod notes;
mod request_window;
mod shared_session;
mod state;
#[cfg(feature = "testing")]
pub mod unconnected;
mod verdict;

pub use builder::SessionBuilder;
pub use call::SessionCall;
pub(super) use control::reserve;
pub use error::SessionError;
use heartbeat::Heart;
use shared_session::SharedSession;
use state::EndReason;

/// A session with the server of a queue, by [`Client::session`](super::Client::session).
///
/// ```no_run
/// # use idem_amqp::{Client, Request};
/// # async fn lease<R>(client: Client, request: R) -> Result<(), Box<dyn std::error::Error>>
/// # where R: Request + serde::Serialize, R::Error: std::fmt::Debug {
/// let session = client.session().open().await?;
/// let replied = session.call(&request).await?;
/// session.close().await?;
/// # Ok(()) }
/// ```
///
/// Its requests are numbered, and each says which is the lowest number whose answer is still awaited.
/// So the server keeps an answer for as long as it may be asked for again, and forgets it then, rather
/// than after a time that somebody has to guess. At most [`window`](Self::window) requests
/// are in flight; further calls wait for a place.
///
/// Clones are the same session. While one lives, a task gives the server a sign of life every third of
/// the session's [`life`](Self::life), on a queue of its own, so that a backlog of requests ends no
/// session. Dropping the last clone ends the signs and nothing else: the server forgets the session when
/// its life is over. [`close`](Self::close) ends it at once.
///
/// # After a restart
/// A session that is kept ([`SessionBuilder::resume_from`]) goes on after a restart of the process; its
/// [`unanswered`](Self::unanswered) requests can be asked again without being handled twice. One that is not
/// is lost with the process: whether the requests in flight were handled, nobody can tell then.
#[derive(Clone)]
pub struct Session {
    handle: Arc<Handle>,
}

/// Ends the signs of life when it is dropped.
struct Handle {
    shared: Arc<SharedSession>,
    _over: DropGuard,
}

impl Session {
    fn start(shared: SharedSession) -> Self {
        let shared = Arc::new(shared);
        let over = shared.state.over().clone().drop_guard();
        let heart = Heart {
            client: shared.client.clone(),
            session: shared.id.clone(),
            life: shared.life,
            state: Arc::clone(&shared.state),
        };
        tokio::spawn(heart.beat());
        Self {
            handle: Arc::new(Handle {
                shared,
                _over: over,
            }),
        }
    }

    /// Sends a request with the session's next number and waits for its reply, when awaited.
    ///
    /// Errors, cancel safety and settings: see [`SessionCall`].
    pub fn call<R: Request + Serialize>(&self, request: &R) -> SessionCall<R> {
        let message = Message::json(&self.shared().client.queue, request);
        SessionCall::new(self.clone(), message)
    }

    /// Asks again for the reply to one of the [`unanswered`](Self::unanswered) requests, as it was sent
    /// before. `R` is what it is: its body is not looked at. One of another session is not sent.
    ///
    /// Errors, cancel safety and settings: see [`SessionCall`].
    pub fn resume<R: Request>(&self, number: &RequestNumber) -> SessionCall<R> {
        SessionCall::again(self.clone(), number.clone())
    }

    /// The requests that may have been handled, that have no answer, and that no call waits for: their
    /// calls ended as [`CallError::Unknown`](super::CallError::Unknown), were dropped, or were an earlier
    /// process's. By number.
    ///
    /// [`resume`](Self::resume) them before new calls need their places in the window, which gives them up.
    pub fn unanswered(&self) -> Vec<Unanswered> {
        let shared = self.shared();
        let unanswered = shared.requests().unanswered().into_iter();
        unanswered
            .map(|request| Unanswered::of(&shared.id, request))
            .collect()
    }

    /// Gives an [`unanswered`](Self::unanswered) request up: with the next request the server is told
    /// that its answer is not awaited any more, and from then on no copy of it is handled. Tells whether it
    /// was unanswered.
    pub fn give_up(&self, number: &RequestNumber) -> bool {
        number.session == self.id() && self.shared().give_up(number.number)
    }

    /// Ends the session: the server forgets its answers now. Calls in flight may end as unknown, later
    /// ones with [`CallError::SessionExpired`](super::CallError::SessionExpired). What was kept is removed.
    ///
    /// # Errors
    /// If the server does not answer before the client's deadline, or what was kept cannot be removed. The
    /// session may have been closed, and takes no more calls; it may be closed again. If another process
    /// has taken it over where it is kept ([`SessionStorageError::InUse`]) it is not closed: it is that one's.
    ///
    /// # Cancel safety
    /// As an error.
    pub async fn close(&self) -> Result<(), SessionError> {
        let shared = self.shared();
        shared.state.end(EndReason::Closed);
        shared.insist().await?;
        control::close(&shared.client, &shared.id).await?;
        shared.forget().await?;
        Ok(())
    }

    /// Saves which requests were answered, if the session is kept. Otherwise that is saved with the next
    /// request: until then an answer that was handed over is not forgotten, and after a crash its request is
    /// among the [`unanswered`](Self::unanswered).
    ///
    /// # Errors
    /// If it could not be saved.
    ///
    /// # Cancel safety
    /// It is saved all the same.
    pub async fn save(&self) -> Result<(), SessionStorageError> {
        self.shared().save().await
    }

    /// The id that the server has given it.
    pub fn id(&self) -> &str {
        &self.shared().id
    }

    /// How many requests may be in flight.
    pub fn window(&self) -> u32 {
        self.shared().window
    }

    /// How long the server keeps it without a sign of life.
    pub fn life(&self) -> Duration {
        self.shared().life
    }

    /// Whether it takes no more calls: it was closed, or the server has said that it has ended.
    pub fn has_ended(&self) -> bool {
        self.shared().state.ended().is_some()
    }

    fn shared(&self) -> &Arc<SharedSession> {
        &self.handle.shared
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("id", &self.id())
            .field("window", &self.window())
            .field("life", &self.life())
            .field("has_ended", &self.has_ended())
            .finish_non_exhaustive()
    }
}
