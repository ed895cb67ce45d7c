//! What the clones of a session have together: its window of requests, its end, where it is kept.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use idem_core::{
    ErrorChain,
    session_storage::{SessionStorageError, StoredSession},
};
use tokio::{
    sync::{self, Notify},
    task::JoinHandle,
};

use super::{
    super::{Client, message::Message},
    notes::{Notes, to_the_end},
    request_window::{Place, RequestWindow, Taken},
    state::{EndReason, SessionState},
};

/// What the clones of a session have together.
pub(super) struct SharedSession {
    pub(super) id: String,
    pub(super) window: u32,
    pub(super) life: Duration,
    pub(super) client: Client,
    requests: Mutex<RequestWindow>,
    notes: Option<Arc<Notes>>,
    /// Calls get their numbers in the order in which they came.
    entrance: sync::Mutex<()>,
    /// A number was settled, or set aside.
    freed: Notify,
    pub(super) state: Arc<SessionState>,
}

/// A number that a call asks with. When it is dropped, nobody waits for its answer any more.
pub(super) struct CallSlot {
    shared: Arc<SharedSession>,
    pub(super) place: Place,
}

impl SharedSession {
    pub(super) fn new(
        client: Client,
        session: &StoredSession,
        requests: RequestWindow,
        notes: Option<Arc<Notes>>,
    ) -> Self {
        Self {
            id: session.id.clone(),
            window: session.window,
            life: Duration::from_millis(session.life_ms),
            client,
            requests: Mutex::new(requests),
            notes,
            entrance: sync::Mutex::default(),
            freed: Notify::new(),
            state: Arc::default(),
        }
    }

    /// The next number, as soon as the window has room for it.
    pub(super) async fn begin(
        self: &Arc<Self>,
        message: &Arc<Message>,
    ) -> Result<CallSlot, EndReason> {
        let _turn = self.entrance.lock().await;
        loop {
            if let Some(end) = self.state.ended() {
                return Err(end);
            }
            if let Some(place) = self.place(message) {
                return Ok(self.slot(place));
            }
            tokio::select! {
                () = self.freed.notified() => {}
                () = self.state.over().cancelled() => {}
            }
        }
    }

    /// The next number, if the window has room for it.
    fn place(&self, message: &Arc<Message>) -> Option<Place> {
        let mut requests = self.requests();
        let before = requests.given_up();
        let place = requests.begin(message);
        let given_up = requests.given_up() - before;
        drop(requests);
        if given_up > 0 {
            tracing::warn!(
                session = self.id,
                given_up,
                below = place.map(|place| place.awaited),
                "the window was full: requests without an answer were given up, and nobody can tell \
                 any more what became of them"
            );
        }
        place
    }

    /// A number once more, with its request.
    pub(super) fn again(self: &Arc<Self>, number: u64) -> Result<(CallSlot, Arc<Message>), Taken> {
        let (place, message) = self.requests().again(number)?;
        Ok((self.slot(place), message))
    }

    fn slot(self: &Arc<Self>, place: Place) -> CallSlot {
        CallSlot {
            shared: Arc::clone(self),
            place,
        }
    }

    /// Saves what has changed, if the session is kept anywhere.
    ///
    /// # Cancel safety
    /// It is saved all the same.
    pub(super) async fn save(self: &Arc<Self>) -> Result<(), SessionStorageError> {
        let Some(notes) = self.notes.clone() else {
            return Ok(());
        };
        let shared = Arc::clone(self);
        to_the_end(async move {
            let version = shared.requests().version();
            notes.save(version, || shared.to_keep()).await
        })
        .await
    }

    /// Saves that a request which is kept was not sent, in a task of its own.
    pub(super) fn correct(self: &Arc<Self>) -> JoinHandle<()> {
        let shared = Arc::clone(self);
        tokio::spawn(async move {
            if let Err(error) = shared.save().await {
                let (session, error) = (&shared.id, ErrorChain::of(&error).to_string());
                tracing::warn!(
                    session,
                    error,
                    "it cannot be saved that a request was not sent: after a restart it is unanswered"
                );
            }
        })
    }

    /// Saves the session though nothing may have changed: it is an error if another one has its place.
    pub(super) async fn insist(self: &Arc<Self>) -> Result<(), SessionStorageError> {
        self.requests().touch();
        self.save().await
    }

    /// Removes what was saved.
    pub(super) async fn forget(&self) -> Result<(), SessionStorageError> {
        match &self.notes {
            Some(notes) => notes.remove().await,
            None => Ok(()),
        }
    }

    fn to_keep(&self) -> (u64, StoredSession) {
        let (version, next, unanswered) = self.requests().to_keep();
        let session = StoredSession {
            holder: String::new(),
            server: self.client.queue.to_string(),
            id: self.id.clone(),
            window: self.window,
            life_ms: self.life.as_millis().try_into().unwrap_or(u64::MAX),
            next,
            unanswered,
        };
        (version, session)
    }

    /// Nobody is to await this number's answer any more, unless a call does now.
    pub(super) fn give_up(&self, number: u64) -> bool {
        let given_up = self.requests().give_up(number);
        self.freed.notify_one();
        given_up
    }

    /// Nobody awaits this number's answer any more.
    fn settle(&self, number: u64) {
        self.requests().settle(number);
        self.freed.notify_one();
    }

    pub(super) fn requests(&self) -> MutexGuard<'_, RequestWindow> {
        // What is written under the lock is never half done.
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CallSlot {
    /// It may be sent from now on.
    pub(super) fn mark_doubtful(&mut self) {
        self.place.doubtful = true;
    }

    /// Its answer has come, or never will.
    pub(super) fn settle(self) {
        self.shared.settle(self.place.number);
    }
}

impl Drop for CallSlot {
    fn drop(&mut self) {
        let number = self.place.number;
        if self.place.doubtful {
            self.shared.requests().set_aside(number);
            self.shared.freed.notify_one();
        } else {
            self.shared.settle(number);
        }
    }
}
