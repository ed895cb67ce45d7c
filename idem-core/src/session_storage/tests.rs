use super::*;

fn kept(number: u64) -> StoredSession {
    StoredSession {
        holder: "h".into(),
        server: "leases".into(),
        id: "s".into(),
        window: 5,
        life_ms: 300_000,
        next: number + 1,
        unanswered: vec![StoredRequest {
            number,
            body: r#"{"name":"printer"}"#.into(),
            headers: vec![("tenant".into(), "a".into())],
        }],
    }
}

/// What every storage does.
async fn keeps<K: SessionStorage>(open: impl AsyncFn() -> Result<K, SessionStorageError>) {
    let storage = open().await.unwrap();
    assert_eq!(storage.load().await.unwrap(), None);
    for number in [0, 7] {
        storage.save(&kept(number)).await.unwrap();
        assert_eq!(storage.load().await.unwrap(), Some(kept(number)));
    }
    drop(storage);
    let storage = open().await.unwrap();
    assert_eq!(storage.load().await.unwrap(), Some(kept(7)));
    for _ in 0..2 {
        storage.remove().await.unwrap();
        assert_eq!(storage.load().await.unwrap(), None);
    }
}

#[tokio::test]
async fn a_file_keeps_what_was_saved_last_until_it_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leases.session");
    keeps(async || FileSessionStorage::open(&path).await).await;
}

#[tokio::test]
async fn a_file_is_one_keepers_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leases.session");
    let storage = FileSessionStorage::open(&path).await.unwrap();
    let clone = storage.clone();
    drop(storage);
    let error = FileSessionStorage::open(&path).await.unwrap_err();
    assert_matches!(error, SessionStorageError::InUse { .. });
    assert!(error.to_string().contains("leases.session"), "{error}");
    drop(clone);
    FileSessionStorage::open(&path).await.unwrap();
}

#[tokio::test]
async fn a_file_that_is_no_session_is_told_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leases.session");
    std::fs::write(&path, "{}").unwrap();
    let storage = FileSessionStorage::open(&path).await.unwrap();
    let error = storage.load().await.unwrap_err();
    assert_matches!(error, SessionStorageError::Unreadable { .. });
    assert_eq!(std::fs::read(&path).unwrap(), b"{}");
}

#[tokio::test]
async fn a_file_that_cannot_be_written_says_which() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nowhere").join("leases.session");
    let error = FileSessionStorage::open(&path).await.unwrap_err();
    assert_matches!(error, SessionStorageError::Failed { .. });
    assert!(error.to_string().contains("nowhere"), "{error}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leases.session");
    let storage = FileSessionStorage::open(&path).await.unwrap();
    storage.save(&kept(0)).await.unwrap();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// What a crash leaves between writing the new file and putting it in the old one's place.
#[tokio::test]
async fn a_file_that_was_begun_and_not_finished_does_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leases.session");
    let storage = FileSessionStorage::open(&path).await.unwrap();
    storage.save(&kept(0)).await.unwrap();
    let begun = folder.path().join("leases.session.new");
    std::fs::write(begun, "x".repeat(100_000)).unwrap();
    assert_eq!(storage.load().await.unwrap(), Some(kept(0)));
    storage.save(&kept(1)).await.unwrap();
    assert_eq!(storage.load().await.unwrap(), Some(kept(1)));
}

#[tokio::test(start_paused = true)]
async fn a_place_is_one_sessions_at_a_time_and_one_that_is_about_to_be_free_is_waited_for() {
    let place = StorageLocation::new("the row `a`");
    let taken = place.take().await.unwrap();
    let error = place.clone().take().await.unwrap_err();
    assert_matches!(error, SessionStorageError::Occupied { .. });
    assert!(error.to_string().contains("the row `a`"), "{error}");
    let (second, ()) = tokio::join!(place.take(), async { drop(taken) });
    assert!(second.is_ok());
}

/// What was kept before there were holders can be read.
#[test]
fn what_is_kept_may_have_no_holder() {
    let mut before = serde_json::to_value(kept(7)).unwrap();
    before.as_object_mut().unwrap().remove("holder").unwrap();
    let read: StoredSession = serde_json::from_value(before).unwrap();
    assert_eq!((read.next, &*read.holder), (8, ""));
}

#[test]
fn what_is_kept_is_not_shown() {
    let shown = format!("{:?}", kept(7));
    assert!(!shown.contains("printer"), "{shown}");
}

#[cfg(feature = "sqlite")]
mod sqlite {
    use super::*;

    #[tokio::test]
    async fn a_row_keeps_what_was_saved_last_until_it_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("client.db");
        keeps(async || SqliteSessionStorage::open(&path, "leases").await).await;
    }

    #[tokio::test]
    async fn a_row_is_the_keepers_that_took_it_last() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("client.db");
        let first = SqliteSessionStorage::open(&path, "leases").await.unwrap();
        first.save(&kept(0)).await.unwrap();
        let other = SqliteSessionStorage::open(&path, "others").await.unwrap();
        let second = SqliteSessionStorage::open(&path, "leases").await.unwrap();
        for refused in [first.save(&kept(1)).await, first.remove().await] {
            let error = refused.unwrap_err();
            assert_matches!(error, SessionStorageError::InUse { .. });
        }
        let error = first.load().await.unwrap_err();
        assert_matches!(error, SessionStorageError::InUse { .. });
        assert_eq!(second.load().await.unwrap(), Some(kept(0)));
        other.save(&kept(7)).await.unwrap();
        assert_eq!(second.load().await.unwrap(), Some(kept(0)));
    }

    #[tokio::test]
    async fn a_row_that_is_no_session_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("client.db");
        let storage = SqliteSessionStorage::open(&path, "leases").await.unwrap();
        let pool = sqlx::SqlitePool::connect(path.to_str().unwrap());
        let spoil = sqlx::query("UPDATE idem_kept_sessions SET session = '{}'");
        spoil.execute(&pool.await.unwrap()).await.unwrap();
        let error = storage.load().await.unwrap_err();
        assert_matches!(error, SessionStorageError::Unreadable { .. });
        assert!(error.to_string().contains("`leases`"), "{error}");
    }
}
