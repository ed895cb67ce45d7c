//! What the clones of a session have together: its book, its end, where it is kept.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use idem_core::{ErrorChain, KeeperError, KeptSession};
use tokio::{
    sync::{self, Notify},
    task::JoinHandle,
};

use super::{
    super::{Client, message::Message},
    book::{Book, Place, Taken},
    ending::{End, Ending},
    notes::{Notes, to_the_end},
};

/// What the clones of a session have together.
pub(super) struct Desk {
    pub(super) id: String,
    pub(super) window: u32,
    pub(super) life: Duration,
    pub(super) client: Client,
    book: Mutex<Book>,
    notes: Option<Arc<Notes>>,
    /// Calls get their numbers in the order in which they came.
    entrance: sync::Mutex<()>,
    /// A number was settled, or set aside.
    freed: Notify,
    pub(super) ending: Arc<Ending>,
}

/// A number that a call asks with. When it is dropped, nobody waits for its answer any more.
pub(super) struct Seat {
    desk: Arc<Desk>,
    pub(super) place: Place,
}

impl Desk {
    pub(super) fn new(
        client: Client,
        session: &KeptSession,
        book: Book,
        notes: Option<Arc<Notes>>,
    ) -> Self {
        Self {
            id: session.id.clone(),
            window: session.window,
            life: Duration::from_millis(session.life_ms),
            client,
            book: Mutex::new(book),
            notes,
            entrance: sync::Mutex::default(),
            freed: Notify::new(),
            ending: Arc::default(),
        }
    }

    /// The next number, as soon as the window has room for it.
    pub(super) async fn begin(self: &Arc<Self>, message: &Arc<Message>) -> Result<Seat, End> {
        let _turn = self.entrance.lock().await;
        loop {
            if let Some(end) = self.ending.ended() {
                return Err(end);
            }
            if let Some(place) = self.place(message) {
                return Ok(self.seat(place));
            }
            tokio::select! {
                () = self.freed.notified() => {}
                () = self.ending.over().cancelled() => {}
            }
        }
    }

    /// The next number, if the window has room for it.
    fn place(&self, message: &Arc<Message>) -> Option<Place> {
        let mut book = self.book();
        let before = book.given_up();
        let place = book.begin(message);
        let given_up = book.given_up() - before;
        drop(book);
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
    pub(super) fn again(self: &Arc<Self>, number: u64) -> Result<(Seat, Arc<Message>), Taken> {
        let (place, message) = self.book().again(number)?;
        Ok((self.seat(place), message))
    }

    fn seat(self: &Arc<Self>, place: Place) -> Seat {
        Seat {
            desk: Arc::clone(self),
            place,
        }
    }

    /// Saves what has changed, if the session is kept anywhere.
    ///
    /// # Cancel safety
    /// It is saved all the same.
    pub(super) async fn save(self: &Arc<Self>) -> Result<(), KeeperError> {
        let Some(notes) = self.notes.clone() else {
            return Ok(());
        };
        let desk = Arc::clone(self);
        to_the_end(async move {
            let version = desk.book().version();
            notes.save(version, || desk.to_keep()).await
        })
        .await
    }

    /// Saves that a request which is kept was not sent, in a task of its own.
    pub(super) fn correct(self: &Arc<Self>) -> JoinHandle<()> {
        let desk = Arc::clone(self);
        tokio::spawn(async move {
            if let Err(error) = desk.save().await {
                let (session, error) = (&desk.id, ErrorChain::of(&error).to_string());
                tracing::warn!(
                    session,
                    error,
                    "it cannot be saved that a request was not sent: after a restart it is unanswered"
                );
            }
        })
    }

    /// Saves the session though nothing may have changed: it is an error if another one has its place.
    pub(super) async fn insist(self: &Arc<Self>) -> Result<(), KeeperError> {
        self.book().touch();
        self.save().await
    }

    /// Removes what was saved.
    pub(super) async fn forget(&self) -> Result<(), KeeperError> {
        match &self.notes {
            Some(notes) => notes.remove().await,
            None => Ok(()),
        }
    }

    fn to_keep(&self) -> (u64, KeptSession) {
        let (version, next, unanswered) = self.book().to_keep();
        let session = KeptSession {
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
        let given_up = self.book().give_up(number);
        self.freed.notify_one();
        given_up
    }

    /// Nobody awaits this number's answer any more.
    fn settle(&self, number: u64) {
        self.book().settle(number);
        self.freed.notify_one();
    }

    pub(super) fn book(&self) -> MutexGuard<'_, Book> {
        // What is written under the lock is never half done.
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    /// It may be sent from now on.
    pub(super) fn may_be_sent(&mut self) {
        self.place.doubtful = true;
    }

    /// Its answer has come, or never will.
    pub(super) fn settle(self) {
        self.desk.settle(self.place.number);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let number = self.place.number;
        if self.place.doubtful {
            self.desk.book().set_aside(number);
            self.desk.freed.notify_one();
        } else {
            self.desk.settle(number);
        }
    }
}
