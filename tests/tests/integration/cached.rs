//! A cache of completed keys in front of a store, and a record that cannot be read.

use std::{sync::atomic::Ordering::SeqCst, time::Duration};

use idem_amqp::{
    MemoryStore, SqliteStore,
    executor::ExecutionKind as Kind,
    sqlx::{Connection as _, SqliteConnection, query},
    stores::Cached,
};
use idem_tests::{
    bed::Bed,
    interfered::{Call, Interfered},
    running::assert_balance,
    script::Script,
};

use super::fail_open::failing_open;

/// A copy comes soon after the first, and the store is cached.
///
/// - does: answers the copy without the store
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_copy_that_comes_soon_is_answered_by_the_cache() {
    let bed = Bed::new().await;
    let (store, away) = Interfered::switched(MemoryStore::new());
    let cached = Cached::new(store.clone());
    let script = Script::succeeding();
    let worker = bed.charging(cached.clone(), &script);
    bed.order("a").await;
    worker.ended(Kind::Executed, 1).await;
    // Not even a store that is away is in the way.
    away.store(true, SeqCst);
    bed.order("a").await;
    worker.ended(Kind::Duplicate, 1).await;

    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 1), (Kind::Duplicate, 1)]);
    assert_eq!(store.count(Call::Claim), 1);
    assert_eq!((cached.stats().lookups(), cached.stats().hits()), (2, 1));
    script.assert_effects(["a"]);
    bed.assert_nothing_stuck().await;
}

/// A store in a file, and a connection behind its back.
async fn in_a_file() -> (tempfile::TempDir, SqliteStore, SqliteConnection) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("idem.db");
    let store = SqliteStore::connect(&file).await.unwrap();
    let url = format!("sqlite:{}", file.display());
    let connection = SqliteConnection::connect(&url).await.unwrap();
    (folder, store, connection)
}

/// An operator forgets a key that is cached.
///
/// - does: runs the message again when the cache has forgotten the key, too
/// - atomic: runs again
/// - leased: runs again
#[tokio::test]
async fn a_key_that_an_operator_forgets_runs_again_when_the_cache_has_forgotten_it_too() {
    let bed = Bed::new().await;
    let (_folder, store, mut operator) = in_a_file().await;
    let longest = Duration::from_secs(5);
    let cached = Cached::builder(store).longest(longest).build();
    let script = Script::succeeding();
    let worker = bed.charging(cached, &script);
    bed.order("a").await;
    worker.ended(Kind::Executed, 1).await;
    let forget = query("DELETE FROM idem_records").execute(&mut operator);
    assert_eq!(forget.await.unwrap().rows_affected(), 1);
    bed.order("a").await;
    worker.ended(Kind::Duplicate, 1).await;
    tokio::time::sleep(longest).await;
    bed.order("a").await;
    worker.ended(Kind::Executed, 2).await;

    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 2), (Kind::Duplicate, 1)]);
    script.assert_effects(["a", "a"]);
    bed.assert_nothing_stuck().await;
}

/// The store's record of a key cannot be read.
///
/// - does: lets the message wait, logs the key as an error, looks again once a minute at most, whatever the policy;
///   mend or delete the record
/// - atomic: not run
/// - leased: not run
#[tokio::test]
async fn a_message_whose_record_cannot_be_read_is_held_and_the_others_go_on() {
    let bed = Bed::new().await;
    let (_folder, store, mut operator) = in_a_file().await;
    let script = Script::succeeding();
    let worker = bed.start(failing_open(&bed, store.clone(), &script));
    bed.order("a").await;
    worker.ended(Kind::Executed, 1).await;
    let garble = query("UPDATE idem_records SET state = 'garbled'").execute(&mut operator);
    assert_eq!(garble.await.unwrap().rows_affected(), 1);
    bed.order("a").await;
    bed.order("b").await;
    worker.ended(Kind::Executed, 2).await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 2), (Kind::RecordCorrupt, 1)]);
    bed.until_waiting(1).await;

    // Mended, it is what it was.
    let mend = query("UPDATE idem_records SET state = 'completed'").execute(&mut operator);
    mend.await.unwrap();
    let worker = bed.charging(store, &script);
    worker.ended(Kind::Duplicate, 1).await;
    assert_balance(&worker.stop().await, [(Kind::Duplicate, 1)]);
    script.assert_effects(["a", "b"]);
    bed.assert_nothing_stuck().await;
}
