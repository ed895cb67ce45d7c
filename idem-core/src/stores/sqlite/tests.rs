use tempfile::TempDir;

use super::*;
use crate::{
    handler::Policy,
    store::StoreError,
    stores::tests::{self as alike, MINUTE, acquire, complete, is_completed, request},
};

mod atomic;
mod batching;
mod durability;
mod operator;
mod schema;
mod sequences;
mod sessions;
mod sharing;

/// A file of its own for each test, gone with it.
struct File(TempDir);

impl File {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> std::path::PathBuf {
        self.0.path().join("idem.db")
    }

    async fn store(&self) -> SqliteStore {
        SqliteStore::connect(self.path()).await.unwrap()
    }

    /// A connection that is none of the store's.
    async fn bystander(&self) -> sqlx::SqliteConnection {
        use sqlx::ConnectOptions;
        sqlx::sqlite::SqliteConnectOptions::new()
            .filename(self.path())
            .connect()
            .await
            .unwrap()
    }
}
