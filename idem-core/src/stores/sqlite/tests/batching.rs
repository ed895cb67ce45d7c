use futures_util::future::join_all;
use tokio::task::yield_now;

use super::*;

/// How many commits the write-ahead log holds: each ends with a frame that tells the file's size.
fn commits(file: &File) -> usize {
    let log = std::fs::read(file.path().with_extension("db-wal")).unwrap();
    let page = u32::from_be_bytes(log[8..12].try_into().unwrap()) as usize;
    log[32..]
        .chunks_exact(24 + page)
        .filter(|frame| frame[4..8] != [0; 4])
        .count()
}

/// Lets the writer begin its batch behind a lock, so that whatever comes next has to queue.
async fn hold_the_write_lock(file: &File) -> sqlx::SqliteConnection {
    let mut bystander = file.bystander().await;
    sqlx::query("BEGIN IMMEDIATE")
        .execute(&mut bystander)
        .await
        .unwrap();
    bystander
}

#[tokio::test]
async fn calls_that_queue_share_a_commit() {
    let file = File::new();
    let store = file.store().await;
    let before = commits(&file);
    let lock = hold_the_write_lock(&file).await;

    let calls: Vec<_> = (0..100_u32)
        .map(|id| {
            let store = store.clone();
            tokio::spawn(async move { acquire(&store, id).await })
        })
        .collect();
    yield_now().await;
    drop(lock);
    join_all(calls).await.into_iter().for_each(|call| {
        call.unwrap();
    });

    let commits = commits(&file) - before;
    assert!((1..=3).contains(&commits), "{commits} commits");
}

#[tokio::test]
async fn a_corrupt_record_fails_its_own_caller_only() {
    let file = File::new();
    let store = file.store().await;
    acquire(&store, "bad").await;
    sqlx::query("UPDATE idem_records SET state = 'mended'")
        .execute(&mut file.bystander().await)
        .await
        .unwrap();

    let lock = hold_the_write_lock(&file).await;
    let calls = ["before", "bad", "after"].map(|id| {
        let store = store.clone();
        tokio::spawn(async move { store.claim(&request(id)).await })
    });
    yield_now().await;
    drop(lock);
    let mut answers = Vec::new();
    for call in calls {
        answers.push(call.await.unwrap());
    }
    alike::only_the_second_is_corrupt(&answers);
}

#[tokio::test]
async fn a_dropped_caller_does_not_disturb_its_batch() {
    let file = File::new();
    let store = file.store().await;
    let lock = hold_the_write_lock(&file).await;
    let mut calls: Vec<_> = ["first", "dropped", "kept"]
        .into_iter()
        .map(|id| {
            let store = store.clone();
            tokio::spawn(async move { store.claim(&request(id)).await })
        })
        .collect();
    yield_now().await;
    calls.remove(1).abort();
    yield_now().await;
    drop(lock);
    for call in calls {
        assert!(matches!(call.await.unwrap(), Ok(Claim::Acquired(_))));
    }
    acquire(&store, "dropped").await;
}

#[tokio::test]
async fn a_batch_that_cannot_commit_fails_for_all_and_the_next_one_works() {
    let file = File::new();
    let store = SqliteStore::builder(file.path())
        .busy_timeout(Duration::from_millis(20))
        .build()
        .await
        .unwrap();
    let lock = hold_the_write_lock(&file).await;
    let calls = join_all((0..3_u32).map(|id| {
        let store = store.clone();
        async move { store.claim(&request(id)).await }
    }));
    for answer in calls.await {
        assert_matches!(answer, Err(StoreError::Unavailable(_)));
    }
    // Closed, and not dropped: that ends the transaction some time later.
    sqlx::Connection::close(lock).await.unwrap();
    for id in 0..3_u32 {
        acquire(&store, id).await;
    }
}

#[tokio::test]
async fn the_writer_connects_again_but_never_to_a_new_file() {
    let file = File::new();
    let store = file.store().await;
    acquire(&store, "a").await;
    let mut bystander = file.bystander().await;
    let rename = |from: &str, to: &str| format!("ALTER TABLE {from} RENAME TO {to}");
    sqlx::raw_sql(sqlx::AssertSqlSafe(rename("idem_records", "away")))
        .execute(&mut bystander)
        .await
        .unwrap();
    for _ in 0..2 {
        let answer = store.claim(&request("b")).await;
        assert_matches!(answer, Err(StoreError::Unavailable(_)));
    }
    sqlx::raw_sql(sqlx::AssertSqlSafe(rename("away", "idem_records")))
        .execute(&mut bystander)
        .await
        .unwrap();
    acquire(&store, "b").await;
}

#[tokio::test]
async fn purge_removes_a_batch_at_a_time_and_keeps_the_highest_token() {
    let file = File::new();
    let store = file.store().await;
    let mut last = None;
    for id in 0..5_u32 {
        let lease = acquire(&store, id).await;
        complete(&store, &lease).await;
        last = Some(lease);
    }
    let held = acquire(&store, 5_u32).await;
    let kept = store.extend(&held, 20 * MINUTE).await;
    assert_eq!(kept.unwrap(), Write::Applied);
    assert_eq!(store.purge(10).await.unwrap(), 0);

    store.advance(10 * MINUTE);
    assert_eq!(store.purge(3).await.unwrap(), 3);
    assert_eq!(store.purge(3).await.unwrap(), 2);
    assert_matches!(store.claim(&request(5_u32)).await, Ok(Claim::Held { .. }));

    let floor: i64 = sqlx::query_scalar("SELECT value FROM idem_records_meta WHERE name = 'floor'")
        .fetch_one(&mut file.bystander().await)
        .await
        .unwrap();
    assert_eq!(floor, last.unwrap().token.get());
}

#[tokio::test]
async fn a_row_that_the_database_refuses_fails_its_own_caller_only() {
    let file = File::new();
    let store = file.store().await;
    let refuse = "CREATE TRIGGER refuse BEFORE INSERT ON idem_records WHEN new.key LIKE '%bad'
        BEGIN SELECT raise(ABORT, 'not this one'); END";
    let mut bystander = file.bystander().await;
    sqlx::query(refuse).execute(&mut bystander).await.unwrap();

    let lock = hold_the_write_lock(&file).await;
    // More than a statement writes; the first occupies the writer.
    let names: Vec<_> = (0..100).map(|id| format!("{id}")).collect();
    let names = names.iter().map(String::as_str).chain(["bad", "after"]);
    let calls: Vec<_> = names
        .map(|id| {
            let (store, request) = (store.clone(), request(id));
            tokio::spawn(async move { store.claim(&request).await })
        })
        .collect();
    yield_now().await;
    drop(lock);
    let answers = join_all(calls).await.into_iter().map(Result::unwrap);
    let answers: Vec<_> = answers.collect();

    let (bad, good): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.is_err());
    let [Err(StoreError::Corrupt { key, source })] = bad[..] else {
        panic!("{bad:?}");
    };
    assert_eq!(key, "orders:bad");
    assert!(source.to_string().contains("not this one"), "{source}");
    assert_eq!(good.len(), 101);
    let kept: i64 = sqlx::query_scalar("SELECT count(*) FROM idem_records")
        .fetch_one(&mut bystander)
        .await
        .unwrap();
    assert_eq!(kept, 101);
}
