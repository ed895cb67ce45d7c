//! A session in a file.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio::task::spawn_blocking;

use super::{SessionStorage, SessionStorageError, StorageLocation, StoredSession, file};

/// Keeps a client's session in a file of its own, as JSON. Clones share it.
///
/// The file is written anew each time, beside the old one, and then takes its place, so that a
/// crash leaves one of the two. It is on the disk before a save has ended: that takes a few
/// milliseconds, and calls that wait for it at the same time share one.
///
/// While a clone lives the file `FILE.lock` is locked against other processes of this host. On a network
/// file system such locks may not hold: use a local one.
///
/// The file holds the requests that were not answered; only its owner may read it.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use idem_core::session_storage::{FileSessionStorage, SessionStorage};
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("leases.session");
///
/// let storage = FileSessionStorage::open(path).await?;
/// assert_eq!(storage.load().await?, None); // nothing is kept yet; `SessionBuilder::resume_from` takes it
/// # Ok::<_, idem_core::session_storage::SessionStorageError>(()) }).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct FileSessionStorage {
    file: Arc<Locked>,
    place: StorageLocation,
}

#[derive(Debug)]
struct Locked {
    path: PathBuf,
    /// Locked until `self` is dropped.
    lock: File,
}

/// Closing it would not do: a process that this one has just started has it open, too, until it runs
/// its own program.
impl Drop for Locked {
    fn drop(&mut self) {
        let _ = self.lock.unlock();
    }
}

impl FileSessionStorage {
    /// Takes this file; it need not exist, its folder must.
    ///
    /// # Errors
    /// If another process, or another storage of this one, has the file, or it cannot be locked.
    pub async fn open(path: impl Into<PathBuf>) -> Result<Self, SessionStorageError> {
        let path = path.into();
        let place = StorageLocation::new(file(&path));
        let locked = blocking(file(&path), move || Locked::lock(path)).await?;
        Ok(Self {
            file: Arc::new(locked),
            place,
        })
    }

    async fn with_file<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Locked) -> Result<T, SessionStorageError> + Send + 'static,
    ) -> Result<T, SessionStorageError> {
        let locked = Arc::clone(&self.file);
        blocking(self.file.name(), move || work(&locked)).await
    }
}

impl SessionStorage for FileSessionStorage {
    fn place(&self) -> &StorageLocation {
        &self.place
    }

    async fn load(&self) -> Result<Option<StoredSession>, SessionStorageError> {
        self.with_file(Locked::load).await
    }

    async fn save(&self, session: &StoredSession) -> Result<(), SessionStorageError> {
        let session = serde_json::to_vec_pretty(session)
            .map_err(|error| SessionStorageError::failed(self.file.name(), error))?;
        self.with_file(move |file| file.done(file.replace(&session)))
            .await
    }

    async fn remove(&self) -> Result<(), SessionStorageError> {
        self.with_file(|file| file.done(file.remove())).await
    }
}

impl Locked {
    fn lock(path: PathBuf) -> Result<Self, SessionStorageError> {
        let beside = suffixed(&path, ".lock");
        let failed = |error: io::Error| SessionStorageError::failed(file(&beside), error);
        let lock = private().open(&beside).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path, lock }),
            Err(TryLockError::WouldBlock) => Err(SessionStorageError::InUse { place: file(&path) }),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }

    fn load(&self) -> Result<Option<StoredSession>, SessionStorageError> {
        let saved = match fs::read(&self.path) {
            Ok(saved) => saved,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return self.done(Err(error)),
        };
        let session = serde_json::from_slice(&saved);
        session.map_err(|error| SessionStorageError::unreadable(self.name(), error))
    }

    fn replace(&self, session: &[u8]) -> io::Result<()> {
        let beside = suffixed(&self.path, ".new");
        let mut new = private().truncate(true).open(&beside)?;
        new.write_all(session)?;
        new.sync_all()?;
        fs::rename(&beside, &self.path)?;
        self.sync_folder()
    }

    fn remove(&self) -> io::Result<()> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(()) => self.sync_folder(),
        }
    }

    /// What a file is named is on the disk when its folder is.
    fn sync_folder(&self) -> io::Result<()> {
        if !cfg!(unix) {
            return Ok(());
        }
        let folder = self.path.parent().filter(|path| path != &Path::new(""));
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }

    fn done<T>(&self, done: io::Result<T>) -> Result<T, SessionStorageError> {
        done.map_err(|error| SessionStorageError::failed(self.name(), error))
    }

    fn name(&self) -> String {
        file(&self.path)
    }
}

/// How a file is opened that only its owner may read.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn suffixed(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// # Cancel safety
/// What was begun is ended all the same.
async fn blocking<T: Send + 'static>(
    place: String,
    work: impl FnOnce() -> Result<T, SessionStorageError> + Send + 'static,
) -> Result<T, SessionStorageError> {
    let done = spawn_blocking(work).await;
    done.unwrap_or_else(|ended| Err(SessionStorageError::failed(place, ended)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_process_that_was_started_meanwhile_does_not_keep_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("leases.session");
        let storage = FileSessionStorage::open(&path).await.unwrap();
        let inherited = storage.file.lock.try_clone().unwrap();
        drop(storage);
        FileSessionStorage::open(&path).await.unwrap();
        drop(inherited);
    }
}
