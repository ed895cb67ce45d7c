//! Where a session is kept: its name, and who has it.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use super::SessionStorageError;

/// Where a storage keeps its session, made once for each place and shared by the storage's clones: its
/// name in messages, and that one session of this process has it at a time.
#[derive(Debug, Clone)]
pub struct StorageLocation {
    name: Arc<str>,
    free: Arc<Semaphore>,
}

/// A place that is taken, until this is dropped.
#[derive(Debug)]
#[must_use = "the place is free again when this is dropped"]
pub struct LocationGuard {
    _permit: OwnedSemaphorePermit,
}

/// A session that was just dropped may still be saved.
const PATIENCE: Duration = Duration::from_secs(1);

impl StorageLocation {
    /// A place of this name: a file's, say, or that of a row of a table.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into().into(),
            free: Arc::new(Semaphore::new(1)),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Takes it for a session. One that is about to be free is waited for, for a second.
    ///
    /// # Errors
    /// [`SessionStorageError::Occupied`] if another session of this process has it.
    ///
    /// # Cancel safety
    /// Nothing is taken.
    pub async fn take(&self) -> Result<LocationGuard, SessionStorageError> {
        let permit = timeout(PATIENCE, Arc::clone(&self.free).acquire_owned()).await;
        match permit {
            Ok(Ok(permit)) => Ok(LocationGuard { _permit: permit }),
            Ok(Err(_)) | Err(_) => Err(SessionStorageError::Occupied {
                place: self.name.to_string(),
            }),
        }
    }
}
