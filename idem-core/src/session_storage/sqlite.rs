//! A session in a row of a SQLite database.

use std::{fmt, path::Path, time::Duration};

use sqlx::{
    Row as _, SqlitePool,
    sqlite::{SqliteConnectOptions, SqlitePoolOptions, SqliteRow, SqliteSynchronous},
};

use super::{SessionStorage, SessionStorageError, StorageLocation, StoredSession};

const SCHEMA: &str = include_str!("sqlite/schema.sql");
const TAKE: &str = include_str!("sqlite/take.sql");
const LOAD: &str = include_str!("sqlite/load.sql");
const SAVE: &str = include_str!("sqlite/save.sql");

/// Keeps a client's session in a row of a SQLite database, which may be the application's own:
/// table `idem_kept_sessions`. Clones share it.
///
/// A save is on the disk before it has ended; calls that wait for it at the same time share one.
///
/// The row belongs to the storage that was opened last: an earlier one, of another process say, cannot
/// save any more, so that its session sends no request, asks for no number again and does not close, each
/// time for [`SessionStorageError::InUse`].
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use idem_core::session_storage::{SessionStorage, SqliteSessionStorage};
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("shop.db");
///
/// let storage = SqliteSessionStorage::open(path, "leases").await?;
/// assert_eq!(storage.load().await?, None); // nothing is kept yet; `SessionBuilder::resume_from` takes it
/// # Ok::<_, idem_core::session_storage::SessionStorageError>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct SqliteSessionStorage {
    pool: SqlitePool,
    name: String,
    /// How often the row has been taken, this time included.
    taken: i64,
    place: StorageLocation,
}

impl SqliteSessionStorage {
    /// Opens a file, or creates it, and takes the row of this name: one for each session that is kept.
    ///
    /// # Errors
    /// If the file cannot be opened or written.
    ///
    /// # Cancel safety
    /// A dropped call may have taken the row: then a storage that had it before cannot save any more.
    pub async fn open(
        path: impl AsRef<Path>,
        name: impl Into<String>,
    ) -> Result<Self, SessionStorageError> {
        let (path, name) = (path.as_ref(), name.into());
        let place = StorageLocation::new(format!("row `{name}` of `{}`", path.display()));
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .busy_timeout(Duration::from_secs(10))
            .synchronous(SqliteSynchronous::Full);
        let take = async {
            let one = SqlitePoolOptions::new().max_connections(1);
            let pool = one.connect_with(options).await?;
            sqlx::raw_sql(SCHEMA).execute(&pool).await?;
            let taken = sqlx::query_scalar(TAKE).bind(&name);
            let taken = taken.fetch_one(&pool).await?;
            Ok((pool, taken))
        };
        let taken: Result<_, sqlx::Error> = take.await;
        let (pool, taken) =
            taken.map_err(|error| SessionStorageError::failed(place.name(), error))?;
        Ok(Self {
            pool,
            name,
            taken,
            place,
        })
    }

    async fn write(&self, session: Option<String>) -> Result<(), SessionStorageError> {
        let save = sqlx::query(SAVE).bind(&self.name).bind(self.taken);
        let saved = save.bind(session).execute(&self.pool).await;
        match saved.map_err(|error| self.failed(error))?.rows_affected() {
            0 => Err(self.in_use()),
            _ => Ok(()),
        }
    }

    fn read(&self, row: &SqliteRow) -> Result<Option<StoredSession>, SessionStorageError> {
        let taken: i64 = row.try_get(0).map_err(|error| self.failed(error))?;
        if taken != self.taken {
            return Err(self.in_use());
        }
        let session: Option<String> = row.try_get(1).map_err(|error| self.failed(error))?;
        let session = session.map(|session| serde_json::from_str(&session));
        session
            .transpose()
            .map_err(|error| SessionStorageError::unreadable(self.place.name().into(), error))
    }

    fn in_use(&self) -> SessionStorageError {
        let place = self.place.name().into();
        SessionStorageError::InUse { place }
    }

    fn failed(&self, error: sqlx::Error) -> SessionStorageError {
        SessionStorageError::failed(self.place.name(), error)
    }
}

impl SessionStorage for SqliteSessionStorage {
    fn place(&self) -> &StorageLocation {
        &self.place
    }

    async fn load(&self) -> Result<Option<StoredSession>, SessionStorageError> {
        let row = sqlx::query(LOAD).bind(&self.name);
        let row = row.fetch_optional(&self.pool).await;
        match row.map_err(|error| self.failed(error))? {
            Some(row) => self.read(&row),
            None => Err(self.in_use()),
        }
    }

    async fn save(&self, session: &StoredSession) -> Result<(), SessionStorageError> {
        let session = serde_json::to_string(session)
            .map_err(|error| SessionStorageError::failed(self.place.name(), error))?;
        self.write(Some(session)).await
    }

    async fn remove(&self) -> Result<(), SessionStorageError> {
        self.write(None).await
    }
}

impl fmt::Debug for SqliteSessionStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteSessionStorage")
            .field("place", &self.place.name())
            .finish_non_exhaustive()
    }
}
