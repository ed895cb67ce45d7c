use tempfile::TempDir;

use super::*;
use crate::{handler::Policy, message::Key, store::StoreError};

mod atomic;
mod batching;
mod durability;
mod operator;
mod schema;
mod sequences;
mod sessions;
mod sharing;

const MINUTE: Duration = Duration::from_mins(1);

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

fn request(id: impl crate::message::KeyPart) -> ClaimRequest {
    let policy = Policy::builder()
        .lease(MINUTE)
        .retention(10 * MINUTE)
        .build()
        .unwrap();
    ClaimRequest::new(Key::new("orders", id).unwrap(), &policy)
}

async fn acquire(store: &SqliteStore, id: impl crate::message::KeyPart) -> Lease {
    match store.claim(&request(id)).await.unwrap() {
        Claim::Acquired(lease) => lease,
        other => panic!("{other:?}"),
    }
}

async fn complete(store: &SqliteStore, lease: &Lease) {
    let outcome = Outcome::new("done");
    let written = store.complete(lease, &outcome, 10 * MINUTE).await;
    assert_eq!(written.unwrap(), Write::Applied);
}

async fn is_completed(store: &SqliteStore, id: impl crate::message::KeyPart) -> bool {
    let claim = store.claim(&request(id)).await.unwrap();
    matches!(claim, Claim::Completed { .. })
}
