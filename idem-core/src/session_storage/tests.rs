use super::*;

fn kept(number: u64) -> KeptSession {
    KeptSession {
        holder: "h".into(),
        server: "leases".into(),
        id: "s".into(),
        window: 5,
        life_ms: 300_000,
        next: number + 1,
        unanswered: vec![KeptRequest {
            number,
            body: r#"{"name":"printer"}"#.into(),
            headers: vec![("tenant".into(), "a".into())],
        }],
    }
}

/// What every keeper does.
async fn keeps<K: SessionKeeper>(open: impl AsyncFn() -> Result<K, KeeperError>) {
    let keeper = open().await.unwrap();
    assert_eq!(keeper.load().await.unwrap(), None);
    for number in [0, 7] {
        keeper.save(&kept(number)).await.unwrap();
        assert_eq!(keeper.load().await.unwrap(), Some(kept(number)));
    }
    drop(keeper);
    let keeper = open().await.unwrap();
    assert_eq!(keeper.load().await.unwrap(), Some(kept(7)));
    for _ in 0..2 {
        keeper.remove().await.unwrap();
        assert_eq!(keeper.load().await.unwrap(), None);
    }
}

#[tokio::test]
async fn a_file_keeps_what_was_saved_last_until_it_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leases.session");
    keeps(async || FileKeeper::open(&path).await).await;
}

#[tokio::test]
async fn a_file_is_one_keepers_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leases.session");
    let keeper = FileKeeper::open(&path).await.unwrap();
    let clone = keeper.clone();
    drop(keeper);
    let error = FileKeeper::open(&path).await.unwrap_err();
    assert!(matches!(error, KeeperError::InUse { .. }), "{error:?}");
    assert!(error.to_string().contains("leases.session"), "{error}");
    drop(clone);
    FileKeeper::open(&path).await.unwrap();
}

#[tokio::test]
async fn a_file_that_is_no_session_is_told_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leases.session");
    std::fs::write(&path, "{}").unwrap();
    let keeper = FileKeeper::open(&path).await.unwrap();
    let error = keeper.load().await.unwrap_err();
    assert!(matches!(error, KeeperError::Unreadable { .. }), "{error:?}");
    assert_eq!(std::fs::read(&path).unwrap(), b"{}");
}

#[tokio::test]
async fn a_file_that_cannot_be_written_says_which() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nowhere").join("leases.session");
    let error = FileKeeper::open(&path).await.unwrap_err();
    assert!(matches!(error, KeeperError::Failed { .. }), "{error:?}");
    assert!(error.to_string().contains("nowhere"), "{error}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leases.session");
    let keeper = FileKeeper::open(&path).await.unwrap();
    keeper.save(&kept(0)).await.unwrap();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// What a crash leaves between writing the new file and putting it in the old one's place.
#[tokio::test]
async fn a_file_that_was_begun_and_not_finished_does_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leases.session");
    let keeper = FileKeeper::open(&path).await.unwrap();
    keeper.save(&kept(0)).await.unwrap();
    let begun = folder.path().join("leases.session.new");
    std::fs::write(begun, "x".repeat(100_000)).unwrap();
    assert_eq!(keeper.load().await.unwrap(), Some(kept(0)));
    keeper.save(&kept(1)).await.unwrap();
    assert_eq!(keeper.load().await.unwrap(), Some(kept(1)));
}

#[tokio::test(start_paused = true)]
async fn a_place_is_one_sessions_at_a_time_and_one_that_is_about_to_be_free_is_waited_for() {
    let place = KeepingPlace::new("the row `a`");
    let taken = place.take().await.unwrap();
    let error = place.clone().take().await.unwrap_err();
    assert!(matches!(error, KeeperError::Occupied { .. }), "{error:?}");
    assert!(error.to_string().contains("the row `a`"), "{error}");
    let (second, ()) = tokio::join!(place.take(), async { drop(taken) });
    assert!(second.is_ok());
}

/// What was kept before there were holders can be read.
#[test]
fn what_is_kept_may_have_no_holder() {
    let mut before = serde_json::to_value(kept(7)).unwrap();
    before.as_object_mut().unwrap().remove("holder").unwrap();
    let read: KeptSession = serde_json::from_value(before).unwrap();
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
        keeps(async || SqliteKeeper::open(&path, "leases").await).await;
    }

    #[tokio::test]
    async fn a_row_is_the_keepers_that_took_it_last() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("client.db");
        let first = SqliteKeeper::open(&path, "leases").await.unwrap();
        first.save(&kept(0)).await.unwrap();
        let other = SqliteKeeper::open(&path, "others").await.unwrap();
        let second = SqliteKeeper::open(&path, "leases").await.unwrap();
        for refused in [first.save(&kept(1)).await, first.remove().await] {
            let error = refused.unwrap_err();
            assert!(matches!(error, KeeperError::InUse { .. }), "{error:?}");
        }
        let error = first.load().await.unwrap_err();
        assert!(matches!(error, KeeperError::InUse { .. }), "{error:?}");
        assert_eq!(second.load().await.unwrap(), Some(kept(0)));
        other.save(&kept(7)).await.unwrap();
        assert_eq!(second.load().await.unwrap(), Some(kept(0)));
    }

    #[tokio::test]
    async fn a_row_that_is_no_session_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("client.db");
        let keeper = SqliteKeeper::open(&path, "leases").await.unwrap();
        let pool = sqlx::SqlitePool::connect(path.to_str().unwrap());
        let spoil = sqlx::query("UPDATE idem_kept_sessions SET session = '{}'");
        spoil.execute(&pool.await.unwrap()).await.unwrap();
        let error = keeper.load().await.unwrap_err();
        assert!(matches!(error, KeeperError::Unreadable { .. }), "{error:?}");
        assert!(error.to_string().contains("`leases`"), "{error}");
    }
}
