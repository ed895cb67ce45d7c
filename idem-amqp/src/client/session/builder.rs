//! A session in the making.

use std::{fmt, sync::Arc};

use idem_core::session_storage::{SessionStorage, SessionStorageError, StoredSession};

use super::{
    super::Client,
    Session, SessionError,
    control::{self, Pulse},
    notes::{DynStorage, Notes},
    request_window::RequestWindow,
    shared_session::SharedSession,
};
use crate::client::Unanswered;

/// A session in the making, by [`Client::session`].
///
/// ```no_run
/// # async fn example(leases: idem_amqp::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use idem_amqp::session::FileSessionStorage;
///
/// let storage = FileSessionStorage::open("leases.session").await?;
/// let session = leases.session().keep_in(storage).open().await?;
/// println!("{} calls at once", session.window());
/// # Ok(()) }
/// ```
#[must_use = "a session is made by `open` or `resume_from`"]
pub struct SessionBuilder {
    client: Client,
    storage: Option<Arc<dyn DynStorage>>,
}

impl SessionBuilder {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            storage: None,
        }
    }

    /// Keeps the session that is opened next there, in place of what is kept there now, so that
    /// [`resume_from`](Self::resume_from) finds it after a restart. One session of the process at a time is
    /// kept in one place: until it is closed, or dropped with its calls, no other one is.
    pub fn keep_in(mut self, storage: impl SessionStorage) -> Self {
        self.storage = Some(Arc::new(storage));
        self
    }

    /// Opens a new session. Without [`keep_in`](Self::keep_in) it is lost with the process, and with
    /// it what became of the requests in flight.
    ///
    /// # Errors
    /// If the server opens no sessions, does not answer before the client's deadline, or the session cannot
    /// be kept: another one of this process is kept there, say.
    ///
    /// # Cancel safety
    /// The server may have opened a session, which ends by itself.
    pub async fn open(self) -> Result<Session, SessionError> {
        let notes = self.take().await?;
        Self::open_in(self.client, notes).await
    }

    /// Takes the place where it is to be kept.
    async fn take(&self) -> Result<Option<Arc<Notes>>, SessionStorageError> {
        match &self.storage {
            Some(storage) => Ok(Some(Notes::take(Arc::clone(storage)).await?)),
            None => Ok(None),
        }
    }

    async fn open_in(client: Client, notes: Option<Arc<Notes>>) -> Result<Session, SessionError> {
        let granted = control::open(&client).await?;
        let session = StoredSession {
            holder: String::new(),
            server: client.queue.to_string(),
            id: granted.session,
            window: granted.window,
            life_ms: granted.life_ms,
            next: 0,
            unanswered: Vec::new(),
        };
        if let Some(notes) = &notes {
            notes.begin(session.clone()).await?;
        }
        let requests = RequestWindow::new(session.window);
        Ok(Session::start(SharedSession::new(
            client, &session, requests, notes,
        )))
    }

    /// Goes on with the session that is kept there, or opens a new one and keeps it there if none is.
    /// Every request is saved before it is sent; it is forgotten, once its answer was handed over, with the
    /// next request that is saved, or by [`Session::save`].
    ///
    /// The requests that were in flight are [`Session::unanswered`]. They are not sent again by
    /// themselves: [`Session::resume`] asks for their replies.
    ///
    /// ```no_run
    /// # use idem_amqp::{Client, Request, session::{FileSessionStorage, SessionError}};
    /// # async fn lease<R>(client: Client) -> Result<(), Box<dyn std::error::Error>>
    /// # where R: Request, R::Error: std::fmt::Debug {
    /// let storage = FileSessionStorage::open("leases.session").await?;
    /// let session = match client.session().resume_from(storage.clone()).await {
    ///     Err(SessionError::Expired { unanswered, .. }) => {
    ///         eprintln!("may have been handled, or not: {unanswered:?}");
    ///         client.session().keep_in(storage).open().await?
    ///     }
    ///     session => session?,
    /// };
    /// for request in session.unanswered() {
    ///     let replied = session.resume::<R>(&request.number).await?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`SessionError::Expired`] if the session that is kept has ended: its requests without an answer are
    /// named, and stay where they are kept until [`keep_in`](Self::keep_in) replaces them. And as
    /// [`open`](Self::open).
    ///
    /// # Cancel safety
    /// As [`open`](Self::open).
    pub async fn resume_from(self, storage: impl SessionStorage) -> Result<Session, SessionError> {
        let notes = Notes::take(Arc::new(storage)).await?;
        match notes.load().await? {
            Some(kept) => Self::resume(self.client, kept, notes).await,
            None => Self::open_in(self.client, Some(notes)).await,
        }
    }

    async fn resume(
        client: Client,
        kept: StoredSession,
        notes: Arc<Notes>,
    ) -> Result<Session, SessionError> {
        if kept.server != client.queue() {
            return Err(SessionError::OtherQueue {
                kept: kept.server,
                queue: client.queue().to_owned(),
            });
        }
        if control::heartbeat(&client, &kept.id, client.deadline).await? == Pulse::Expired {
            let unanswered = kept.unanswered.into_iter();
            return Err(SessionError::Expired {
                unanswered: unanswered
                    .map(|request| Unanswered::of(&kept.id, request))
                    .collect(),
                id: kept.id,
            });
        }
        let requests = RequestWindow::kept(kept.clone());
        let requests = requests.map_err(|error| SessionError::Request(error.into()))?;
        // From now on it is ours: whoever had it before can save no more.
        notes.begin(kept.clone()).await?;
        let shared = SharedSession::new(client, &kept, requests, Some(notes));
        Ok(Session::start(shared))
    }
}

impl fmt::Debug for SessionBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionBuilder")
            .field("client", &self.client)
            .finish_non_exhaustive()
    }
}
