//! Saves a session whenever it is to outlive the process.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use idem_core::session_storage::{
    LocationGuard, SessionStorage, SessionStorageError, StorageLocation, StoredSession,
};
use tokio::sync::Mutex;
use uuid::Uuid;

/// Where a session is kept, and what of it is there.
pub(super) struct Notes {
    storage: Arc<dyn DynStorage>,
    /// Nobody else's: tells whether what is kept there is ours.
    holder: String,
    /// Locked while something is being saved.
    state: Mutex<State>,
}

struct State {
    /// The version that was saved last.
    saved: u64,
    /// Given back when what is kept is removed: nothing is saved after that.
    place: Option<LocationGuard>,
}

impl Notes {
    /// Takes the storage's place, so that no other session of this process has it.
    pub(super) async fn take(
        storage: Arc<dyn DynStorage>,
    ) -> Result<Arc<Self>, SessionStorageError> {
        let taken = storage.place().take().await?;
        Ok(Arc::new(Self {
            storage,
            holder: Uuid::new_v4().simple().to_string(),
            state: Mutex::new(State {
                saved: 0,
                place: Some(taken),
            }),
        }))
    }

    /// What an earlier session has left.
    pub(super) async fn load(&self) -> Result<Option<StoredSession>, SessionStorageError> {
        self.storage.load().await
    }

    /// Saves the session in place of what is there, whosever that is. Whoever had it can save no more.
    ///
    /// # Cancel safety
    /// It is saved all the same, and the place is free when it is.
    pub(super) async fn begin(
        self: &Arc<Self>,
        session: StoredSession,
    ) -> Result<(), SessionStorageError> {
        let notes = Arc::clone(self);
        to_the_end(async move {
            let _alone = notes.state.lock().await;
            notes.write(session).await
        })
        .await
    }

    /// Saves the session, unless that version of it is saved already.
    pub(super) async fn save(
        &self,
        version: u64,
        session: impl FnOnce() -> (u64, StoredSession),
    ) -> Result<(), SessionStorageError> {
        let mut state = self.state.lock().await;
        if state.place.is_some() && state.saved < version {
            self.look().await?;
            // With all that has changed while this has waited for its turn.
            let (version, session) = session();
            self.write(session).await?;
            state.saved = version;
        }
        Ok(())
    }

    /// Removes what is kept, and leaves the place to others.
    ///
    /// # Cancel safety
    /// It is removed all the same, and the place is free when it is.
    pub(super) async fn remove(self: &Arc<Self>) -> Result<(), SessionStorageError> {
        let notes = Arc::clone(self);
        to_the_end(async move {
            let mut state = notes.state.lock().await;
            if state.place.is_some() {
                notes.look().await?;
                notes.storage.remove().await?;
                state.place = None;
            }
            Ok(())
        })
        .await
    }

    /// Checks that what is kept is ours: another process may have taken it over, and its storage not have noticed.
    async fn look(&self) -> Result<(), SessionStorageError> {
        match self.storage.load().await? {
            Some(kept) if kept.holder != self.holder => Err(SessionStorageError::InUse {
                place: self.storage.place().name().to_owned(),
            }),
            _ => Ok(()),
        }
    }

    async fn write(&self, mut session: StoredSession) -> Result<(), SessionStorageError> {
        session.holder.clone_from(&self.holder);
        self.storage.save(&session).await
    }
}

/// Does it in a task of its own: whoever waits for it may be dropped, what is written is not left half done
/// for the next one to come across.
pub(super) async fn to_the_end(
    work: impl Future<Output = Result<(), SessionStorageError>> + Send + 'static,
) -> Result<(), SessionStorageError> {
    let done = tokio::spawn(work).await;
    done.unwrap_or_else(|ended| Err(SessionStorageError::failed("its storage", ended)))
}

/// A [`SessionStorage`] without its type.
pub(super) trait DynStorage: Send + Sync {
    fn place(&self) -> &StorageLocation;
    fn load(&self) -> BoxFuture<'_, Result<Option<StoredSession>, SessionStorageError>>;
    fn save<'a>(
        &'a self,
        session: &'a StoredSession,
    ) -> BoxFuture<'a, Result<(), SessionStorageError>>;
    fn remove(&self) -> BoxFuture<'_, Result<(), SessionStorageError>>;
}

impl<K: SessionStorage> DynStorage for K {
    fn place(&self) -> &StorageLocation {
        SessionStorage::place(self)
    }

    fn load(&self) -> BoxFuture<'_, Result<Option<StoredSession>, SessionStorageError>> {
        Box::pin(SessionStorage::load(self))
    }

    fn save<'a>(
        &'a self,
        session: &'a StoredSession,
    ) -> BoxFuture<'a, Result<(), SessionStorageError>> {
        Box::pin(SessionStorage::save(self, session))
    }

    fn remove(&self) -> BoxFuture<'_, Result<(), SessionStorageError>> {
        Box::pin(SessionStorage::remove(self))
    }
}
