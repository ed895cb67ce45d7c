//! What a client keeps of its session, so that it goes on after a restart.

use std::{fmt, path::Path, sync::Arc};

use serde::{Deserialize, Serialize};

mod file;
mod place;
#[cfg(feature = "sqlite")]
mod sqlite;

pub use file::FileSessionStorage;
pub use place::{LocationGuard, StorageLocation};
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteSessionStorage;

/// Keeps a client's session where it outlives the process: its id, its next number, and the requests
/// that were sent and not answered.
///
/// A storage keeps one session at a time. [`FileSessionStorage`] does it in a file; with the feature
/// `sqlite`, `SqliteSessionStorage` does in a row of a database.
///
/// An implementation keeps these rules:
///
/// 1. [`save`](Self::save) has written when it answers `Ok`: the request that it speaks of is sent next.
/// 2. A crash in the middle of it leaves what was saved before, or what was to be saved.
/// 3. Nobody else saves in the same place. Two sessions there would use the same numbers for different
///    requests, and one would get the other's replies, or have its requests forgotten:
///    - of one process: clones of a storage share one [`place`](Self::place), which a session takes for as
///      long as it lives. A second one is refused;
///    - of two processes: what is kept says whose it is ([`StoredSession::holder`]), and a session looks
///      there before it saves or removes. Between that and the save another process may come: a storage
///      that two processes can reach refuses in one step ([`SessionStorageError::InUse`]).
///
/// Calls follow each other: none begins before the last one has ended.
pub trait SessionStorage: Send + Sync + 'static {
    /// Where it keeps its session: the same for all of its clones.
    ///
    /// ```
    /// # use idem_core::session_storage::StorageLocation;
    /// #[derive(Clone)]
    /// struct InRedis {
    ///     place: StorageLocation,
    ///     // …
    /// }
    ///
    /// impl InRedis {
    ///     fn new(key: &str) -> Self {
    ///         Self { place: StorageLocation::new(format!("the key `{key}`")) }
    ///     }
    /// }
    /// ```
    fn place(&self) -> &StorageLocation;

    /// What was saved last; `None` if nothing was, or it was removed.
    ///
    /// # Errors
    /// If it cannot be read.
    fn load(
        &self,
    ) -> impl Future<Output = Result<Option<StoredSession>, SessionStorageError>> + Send;

    /// Saves this in place of what was saved before.
    ///
    /// # Errors
    /// If it is not certain that it was saved; it may have been.
    fn save(
        &self,
        session: &StoredSession,
    ) -> impl Future<Output = Result<(), SessionStorageError>> + Send;

    /// Removes what was saved: the session was closed.
    ///
    /// # Errors
    /// If it is not certain that it was removed; it may have been.
    fn remove(&self) -> impl Future<Output = Result<(), SessionStorageError>> + Send;
}

impl<K: SessionStorage> SessionStorage for Arc<K> {
    fn place(&self) -> &StorageLocation {
        K::place(self)
    }

    fn load(
        &self,
    ) -> impl Future<Output = Result<Option<StoredSession>, SessionStorageError>> + Send {
        K::load(self)
    }

    fn save(
        &self,
        session: &StoredSession,
    ) -> impl Future<Output = Result<(), SessionStorageError>> + Send {
        K::save(self, session)
    }

    fn remove(&self) -> impl Future<Output = Result<(), SessionStorageError>> + Send {
        K::remove(self)
    }
}

/// What is kept of a session. A storage need not look into it: serde writes and reads it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredSession {
    /// Whose it is: another text each time when the session is opened or resumed.
    #[serde(default)]
    pub holder: String,
    /// The server at which it was opened: the name of what takes its requests.
    pub server: String,
    /// The id that the server has given it.
    pub id: String,
    /// How many numbers from the lowest unanswered one on may be in use.
    pub window: u32,
    /// How long it lives without a sign of life, in milliseconds.
    pub life_ms: u64,
    /// The number of the next request: greater than all that were ever sent.
    pub next: u64,
    /// The requests whose replies were not there, or not used yet, by number.
    pub unanswered: Vec<StoredRequest>,
}

/// A request of a session that may have been handled, and whose reply the client has not seen.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredRequest {
    /// Which of the session's requests it is.
    pub number: u64,
    /// The request, as JSON.
    pub body: String,
    /// Its headers, but for those that are idem's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
}

/// Why a session could not be kept.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum SessionStorageError {
    /// Another session of this process is kept there.
    #[error(
        "a session of this process is kept in {place}: close it, or drop it with its clones and calls, \
         before another one is opened or resumed there, or give each a place of its own"
    )]
    Occupied {
        /// The file, or the row of a database.
        place: String,
    },
    /// Another process keeps its session there, or another storage of this one.
    #[error(
        "another process, or another storage of this one, keeps its session in {place}: give each a place \
         of its own"
    )]
    InUse {
        /// The file, or the row of a database.
        place: String,
    },
    /// What was read is no session.
    #[error(
        "{place} holds no session that can be read: restore it, or remove it if no request of an \
         earlier process matters any more"
    )]
    Unreadable {
        /// The file, or the row of a database.
        place: String,
        /// What is wrong with it.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// It could not be read, or written.
    #[error("the session cannot be kept in {place}")]
    Failed {
        /// The file, or the row of a database.
        place: String,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

crate::debug_as_chain!(SessionStorageError);

impl SessionStorageError {
    /// A failure of this place.
    pub fn failed(
        place: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Failed {
            place: place.into(),
            source: source.into(),
        }
    }

    fn unreadable(place: String, source: serde_json::Error) -> Self {
        let source = source.into();
        Self::Unreadable { place, source }
    }
}

/// A file's name in messages.
fn file(path: &Path) -> String {
    format!("`{}`", path.display())
}

/// Leaves out the content of the requests, which may hold private data.
impl fmt::Debug for StoredSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredSession")
            .field("server", &self.server)
            .field("id", &self.id)
            .field("next", &self.next)
            .field("unanswered", &self.unanswered)
            .finish_non_exhaustive()
    }
}

/// Leaves out the body and the headers, which may hold private data.
impl fmt::Debug for StoredRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredRequest")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
