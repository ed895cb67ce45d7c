//! Makes commits durable: syncs the write-ahead log to the disk, once for all who wait.
//!
//! The connections of handlers commit with `synchronous = NORMAL`: SQLite writes the log, and does not wait for the
//! disk. Whoever may be told something only when it is durable waits here between the commit and the answer: `atomic`
//! for handlers, `writer` for what a batch has read of others. What must stay true:
//!
//! - A sync begins after all who wait for it have committed, or have read what others committed.
//! - Nobody is told that it is durable when it may not be.
// docs/decisions/0040

use std::{
    error::Error,
    fs::{File, Metadata, OpenOptions},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError, mpsc},
    thread,
    time::Duration,
};

use tokio::sync::oneshot;

/// Clones reach the same thread, which ends when the last of them is dropped.
///
/// It is a thread of its own, by the system's clock: those who wait for a sync may occupy all that the runtime has for
/// blocking work, and the runtime's clock may be paused.
#[derive(Clone)]
pub(super) struct LogSync {
    thread: mpsc::Sender<Sync>,
    /// The first sync that failed. For good: the kernel tells of it once, and counts as written what it could not
    /// write. A later sync would succeed without it.
    lost: Arc<OnceLock<SyncError>>,
}

/// Asks for a sync that begins later than this.
struct Sync {
    /// Whether others are about to commit, so that it pays to wait for them.
    awaits_others: bool,
    caller: oneshot::Sender<Result<(), SyncError>>,
}

/// How long a sync waits for others who are about to commit.
const GATHERING: Duration = Duration::from_millis(1);

impl LogSync {
    /// Starts the task for the database in this file, which a connection has open.
    pub(super) fn spawn(database: &Path) -> io::Result<Self> {
        // SQLite follows symbolic links, too, and puts the log beside the file itself.
        let mut log = database.canonicalize()?.into_os_string();
        log.push("-wal");
        let log = Log::at(log.into());
        // Open from the beginning: an error is told to those who have the file open when it happens.
        log.reopen()?;
        Self::of(move || log.sync())
    }

    pub(super) fn of(
        sync: impl Fn() -> Result<(), SyncError> + Send + 'static,
    ) -> io::Result<Self> {
        let (thread, asked) = mpsc::channel();
        let lost = Arc::default();
        let known = Arc::clone(&lost);
        thread::Builder::new()
            .name("idem-sqlite-sync".to_owned())
            .spawn(move || run(&asked, sync, &known))?;
        Ok(Self { thread, lost })
    }

    /// Fails if anything that was committed may be lost.
    pub(super) fn check(&self) -> Result<(), SyncError> {
        self.lost.get().map_or(Ok(()), |lost| Err(lost.clone()))
    }

    /// Takes note that a sync of SQLite's own has failed.
    pub(super) fn lose(&self, error: impl Into<Box<dyn Error + Send + std::marker::Sync>>) {
        lose(
            &self.lost,
            &SyncError::Lost(Arc::new(io::Error::other(error))),
        );
    }

    /// Waits until all that is committed now is on the disk.
    ///
    /// # Errors
    /// If nobody knows. It is committed all the same, and whoever asks the store again finds it.
    pub(super) async fn synced(&self) -> Result<(), SyncError> {
        self.ask(false).await
    }

    /// The same for a caller beside whom others are about to commit: one sync is to serve several.
    ///
    /// # Errors
    /// As of [`synced`](Self::synced).
    pub(super) async fn synced_with_others(&self) -> Result<(), SyncError> {
        self.ask(true).await
    }

    /// Lets a sync begin for which nobody waits: only a failure of it matters, for those who come later.
    pub(super) fn sync_soon(&self) {
        let (caller, _) = oneshot::channel();
        // If the thread has ended, those who ask are told.
        let _ = self.thread.send(Sync {
            awaits_others: true,
            caller,
        });
    }

    async fn ask(&self, awaits_others: bool) -> Result<(), SyncError> {
        let (caller, synced) = oneshot::channel();
        let asked = self.thread.send(Sync {
            awaits_others,
            caller,
        });
        asked.map_err(|_| SyncError::Ended)?;
        synced.await.unwrap_or(Err(SyncError::Ended))
    }
}

/// Syncs for all who wait, as long as there is somebody.
fn run(
    asked: &mpsc::Receiver<Sync>,
    sync: impl Fn() -> Result<(), SyncError>,
    lost: &OnceLock<SyncError>,
) {
    while let Ok(first) = asked.recv() {
        let mut callers = vec![first];
        callers.extend(asked.try_iter());
        if callers.iter().all(|caller| caller.awaits_others) {
            thread::sleep(GATHERING);
            callers.extend(asked.try_iter());
        }
        let synced = sync();
        if let Err(error @ SyncError::Lost(_)) = &synced {
            lose(lost, error);
        }
        let synced = lost.get().map_or(synced, |lost| Err(lost.clone()));
        for Sync { caller, .. } in callers {
            // Who was dropped meanwhile does not care.
            let _ = caller.send(synced.clone());
        }
    }
}

fn lose(lost: &OnceLock<SyncError>, error: &SyncError) {
    if lost.set(error.clone()).is_ok() {
        tracing::error!(%error, "the store answers nothing that has to be durable any more");
    }
}

/// The write-ahead log, which SQLite writes.
struct Log {
    path: PathBuf,
    /// Kept open, because an error is told to those who have the file open when it happens. Closing it is harmless:
    /// SQLite holds no lock on this file, which would be lost by that.
    open: Mutex<Option<File>>,
}

impl Log {
    fn at(path: PathBuf) -> Self {
        let open = Mutex::default();
        Self { path, open }
    }

    fn sync(&self) -> Result<(), SyncError> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let file = self.current(open.take());
        let file = file.map_err(|error| SyncError::Unopened(Arc::new(error)))?;
        let synced = file.sync_data();
        *open = Some(file);
        synced.map_err(|error| SyncError::Lost(Arc::new(error)))
    }

    fn reopen(&self) -> io::Result<()> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        *open = Some(self.current(None)?);
        Ok(())
    }

    /// The file that is there now: SQLite makes a new one when all its connections have been closed meanwhile.
    fn current(&self, open: Option<File>) -> io::Result<File> {
        if let Some(open) = open
            && is_same(&open.metadata()?, &self.path.metadata()?)
        {
            return Ok(open);
        }
        OpenOptions::new().write(true).open(&self.path)
    }
}

#[cfg(unix)]
fn is_same(one: &Metadata, other: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Nothing tells: it is opened anew each time.
#[cfg(not(unix))]
fn is_same(_: &Metadata, _: &Metadata) -> bool {
    false
}

/// Why nobody knows whether the log is on the disk.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum SyncError {
    /// The next try may do better.
    #[error("SQLite's write-ahead log cannot be opened to sync it to the disk")]
    Unopened(#[source] Arc<io::Error>),
    #[error(
        "SQLite's write-ahead log could not be written to the disk: what other processes read of it may be lost; check the disk, and start all processes of the file again"
    )]
    Lost(#[source] Arc<io::Error>),
    #[error("the thread that syncs SQLite's write-ahead log has ended by a panic")]
    Ended,
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use futures_util::future::join_all;

    use super::*;

    fn failed() -> Result<(), SyncError> {
        Err(SyncError::Lost(Arc::new(io::Error::other("I/O error"))))
    }

    #[tokio::test]
    async fn a_sync_begins_after_all_who_wait_for_it() {
        let (begun, begins) = std::sync::mpsc::channel();
        let (go_on, goes_on) = std::sync::mpsc::channel::<()>();
        let goes_on = Mutex::new(goes_on);
        let log = LogSync::of(move || {
            begun.send(()).unwrap();
            let _ = goes_on.lock().unwrap().recv();
            Ok(())
        })
        .unwrap();
        let first = tokio::spawn({
            let log = log.clone();
            async move { log.synced().await }
        });
        let begins = tokio::task::spawn_blocking(move || {
            begins.recv().unwrap();
            begins
        });
        let begins = begins.await.unwrap();
        // It may have committed after the first sync has begun, so that one is not enough.
        let late = join_all((0..10).map(|_| log.synced()));
        let mut late = std::pin::pin!(late);
        assert!(futures_util::poll!(late.as_mut()).is_pending());
        go_on.send(()).unwrap();
        first.await.unwrap().unwrap();
        assert!(futures_util::poll!(late.as_mut()).is_pending());
        go_on.send(()).unwrap();
        for synced in late.await {
            synced.unwrap();
        }
        assert_eq!(begins.try_iter().count(), 1, "one sync for all who waited");
    }

    #[tokio::test]
    async fn after_a_failed_sync_nothing_is_durable_any_more() {
        let asked = Arc::new(AtomicUsize::new(0));
        let log = LogSync::of({
            let asked = Arc::clone(&asked);
            move || match asked.fetch_add(1, Ordering::Relaxed) {
                0 => failed(),
                // As the kernel does: it has told of the failure.
                _ => Ok(()),
            }
        })
        .unwrap();
        for _ in 0..3 {
            let error = log.synced().await.unwrap_err();
            assert!(matches!(error, SyncError::Lost(_)), "{error:?}");
        }
        assert!(log.check().is_err());
    }

    #[tokio::test]
    async fn a_failed_sync_of_sqlite_counts_too() {
        let log = LogSync::of(|| Ok(())).unwrap();
        log.synced().await.unwrap();
        log.check().unwrap();
        log.lose("disk I/O error");
        assert!(matches!(log.check(), Err(SyncError::Lost(_))));
        assert!(matches!(log.synced().await, Err(SyncError::Lost(_))));
    }

    /// As when all connections were closed: the old one is synced and gone.
    #[test]
    fn the_log_that_is_there_is_synced() {
        let folder = tempfile::tempdir().unwrap();
        let log = Log::at(folder.path().join("idem.db-wal"));
        assert!(matches!(log.sync(), Err(SyncError::Unopened(_))));
        for _ in 0..2 {
            // Beside the old one, so that it has another number.
            let new = folder.path().join("new");
            fs::write(&new, "frames").unwrap();
            fs::rename(&new, &log.path).unwrap();
            for _ in 0..2 {
                log.sync().unwrap();
                let open = log.open.lock().unwrap();
                let open = open.as_ref().unwrap().metadata().unwrap();
                assert_eq!(is_same(&open, &log.path.metadata().unwrap()), cfg!(unix));
            }
        }
    }

    #[tokio::test]
    async fn a_log_that_cannot_be_opened_may_be_there_later() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("idem.db");
        let wal = folder.path().join("idem.db-wal");
        fs::write(&database, "").unwrap();
        assert!(LogSync::spawn(&database).is_err());
        fs::write(&wal, "").unwrap();
        let log = LogSync::spawn(&database).unwrap();
        fs::remove_file(&wal).unwrap();
        assert!(matches!(log.synced().await, Err(SyncError::Unopened(_))));
        fs::write(&wal, "").unwrap();
        log.synced().await.unwrap();
    }
}
