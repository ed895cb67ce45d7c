//! A session in a row of a SQLite database.

use std::{fmt, path::Path, time::Duration};

use sqlx::{
    Row as _, SqlitePool,
    sqlite::{SqliteConnectOptions, SqlitePoolOptions, SqliteRow, SqliteSynchronous},
};

use super::{KeeperError, KeepingPlace, KeptSession, SessionKeeper};

const SCHEMA: &str = include_str!("sqlite/schema.sql");
const TAKE: &str = include_str!("sqlite/take.sql");
const LOAD: &str = include_str!("sqlite/load.sql");
const SAVE: &str = include_str!("sqlite/save.sql");

/// Keeps a client's session in a row of a SQLite database, which may be the application's own:
/// table `idem_kept_sessions`. Clones share it.
///
/// A save is on the disk before it has ended; calls that wait for it at the same time share one.
///
/// The row belongs to the keeper that was opened last: an earlier one, of another process say, cannot
/// save any more, so that its session sends no request, asks for no number again and does not close, each
/// time for [`KeeperError::InUse`].
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use idem_core::{SessionKeeper, SqliteKeeper};
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("shop.db");
///
/// let keeper = SqliteKeeper::open(path, "leases").await?;
/// assert_eq!(keeper.load().await?, None); // nothing is kept yet; `SessionBuilder::resume_from` takes it
/// # Ok::<_, idem_core::KeeperError>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct SqliteKeeper {
    pool: SqlitePool,
    name: String,
    /// How often the row has been taken, this time included.
    taken: i64,
    place: KeepingPlace,
}

impl SqliteKeeper {
    /// Opens a file, or creates it, and takes the row of this name: one for each session that is kept.
    ///
    /// # Errors
    /// If the file cannot be opened or written.
    pub async fn open(
        path: impl AsRef<Path>,
        name: impl Into<String>,
    ) -> Result<Self, KeeperError> {
        let (path, name) = (path.as_ref(), name.into());
        let place = KeepingPlace::new(format!("row `{name}` of `{}`", path.display()));
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
        let (pool, taken) = taken.map_err(|error| KeeperError::failed(place.name(), error))?;
        Ok(Self {
            pool,
            name,
            taken,
            place,
        })
    }

    async fn write(&self, session: Option<String>) -> Result<(), KeeperError> {
        let save = sqlx::query(SAVE).bind(&self.name).bind(self.taken);
        let saved = save.bind(session).execute(&self.pool).await;
        match saved.map_err(|error| self.failed(error))?.rows_affected() {
            0 => Err(self.in_use()),
            _ => Ok(()),
        }
    }

    fn read(&self, row: &SqliteRow) -> Result<Option<KeptSession>, KeeperError> {
        let taken: i64 = row.try_get(0).map_err(|error| self.failed(error))?;
        if taken != self.taken {
            return Err(self.in_use());
        }
        let session: Option<String> = row.try_get(1).map_err(|error| self.failed(error))?;
        let session = session.map(|session| serde_json::from_str(&session));
        session
            .transpose()
            .map_err(|error| KeeperError::unreadable(self.place.name().into(), error))
    }

    fn in_use(&self) -> KeeperError {
        let place = self.place.name().into();
        KeeperError::InUse { place }
    }

    fn failed(&self, error: sqlx::Error) -> KeeperError {
        KeeperError::failed(self.place.name(), error)
    }
}

impl SessionKeeper for SqliteKeeper {
    fn place(&self) -> &KeepingPlace {
        &self.place
    }

    async fn load(&self) -> Result<Option<KeptSession>, KeeperError> {
        let row = sqlx::query(LOAD).bind(&self.name);
        let row = row.fetch_optional(&self.pool).await;
        match row.map_err(|error| self.failed(error))? {
            Some(row) => self.read(&row),
            None => Err(self.in_use()),
        }
    }

    async fn save(&self, session: &KeptSession) -> Result<(), KeeperError> {
        let session = serde_json::to_string(session)
            .map_err(|error| KeeperError::failed(self.place.name(), error))?;
        self.write(Some(session)).await
    }

    async fn remove(&self) -> Result<(), KeeperError> {
        self.write(None).await
    }
}

impl fmt::Debug for SqliteKeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteKeeper")
            .field("place", &self.place.name())
            .finish_non_exhaustive()
    }
}
