//! Which index can record what was handled, and which row is a transaction's own.

use std::time::Duration;

use sqlx::{Executor as _, query};
use tempfile::TempDir;
use tokio::time::timeout;

use super::*;
use crate::{
    store::{Claim, Finish, Open, Store as _, TransactionalStore},
    stores::tests::request,
};

type Tx = SqliteConnection;

/// A store in a file with these tables.
async fn store(tables: &'static str) -> (TempDir, SqliteStore) {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::connect(folder.path().join("idem.db"))
        .await
        .unwrap();
    store
        .pool
        .connect()
        .await
        .unwrap()
        .execute(tables)
        .await
        .unwrap();
    (folder, store)
}

fn row(index: &'static str, parts: &[&str]) -> RecordedRow {
    RecordedRow::new(index, parts.iter().map(|part| (*part).to_owned()).collect())
}

async fn open(store: &SqliteStore, entity: &RecordedRow) -> OpenTransaction {
    let open = Open::Recorded {
        entity,
        wait: std::time::Duration::from_secs(1),
    };
    TransactionalStore::<Tx>::open(store, open).await.unwrap()
}

async fn finish(store: &SqliteStore, open: OpenTransaction, entity: &RecordedRow) -> Finished {
    let finish = Finish::Record {
        entity,
        lease: None,
    };
    TransactionalStore::<Tx>::finish(store, open, finish)
        .await
        .unwrap()
}

/// A handler that carries out this, and how it ends.
async fn handled(store: &SqliteStore, entity: &RecordedRow, sql: &'static str) -> Finished {
    let mut open = open(store, entity).await;
    query(sql).execute(open.transaction()).await.unwrap();
    finish(store, open, entity).await
}

async fn unfit(store: &SqliteStore, index: &'static str, columns: usize) -> String {
    let checked = RecordedByStore::<Tx>::check(store, index, columns).await;
    checked.unwrap_err().to_string()
}

#[tokio::test]
async fn an_index_that_cannot_record_is_refused_with_what_to_write() {
    let (_folder, store) = store(
        "CREATE TABLE t (a TEXT, b TEXT);
        CREATE INDEX plain ON t (a);
        CREATE UNIQUE INDEX part ON t (a) WHERE b IS NULL;
        CREATE UNIQUE INDEX lowered ON t (lower(a));
        CREATE UNIQUE INDEX both ON t (b, a)",
    )
    .await;
    for (index, columns, words) in [
        ("nothing", 1, "CREATE UNIQUE INDEX"),
        ("plain", 1, "not unique"),
        ("part", 1, "partial"),
        ("lowered", 1, "expression"),
        ("both", 1, "2 (b, a)"),
    ] {
        let said = unfit(&store, index, columns).await;
        assert!(said.contains(words), "{index}: {said}");
    }
    RecordedByStore::<Tx>::check(&store, "both", 2)
        .await
        .unwrap();
}

/// The index's name, the key, and what inserts its row.
#[tokio::test]
async fn a_row_is_found_as_its_index_compares_it() {
    let tables = "CREATE TABLE numbers (id INTEGER NOT NULL);
        CREATE UNIQUE INDEX numbers_id ON numbers (id);
        CREATE TABLE names (name TEXT PRIMARY KEY) WITHOUT ROWID;
        CREATE TABLE \"odd \"\"one\" (\"a b\" TEXT, c TEXT);
        CREATE UNIQUE INDEX odd ON \"odd \"\"one\" (\"a b\" COLLATE NOCASE, c)";
    let cases: [(_, &[&str], _); 3] = [
        ("numbers_id", &["017"], "INSERT INTO numbers VALUES (17)"),
        (
            "sqlite_autoindex_names_1",
            &["x"],
            "INSERT INTO names VALUES ('x')",
        ),
        (
            "odd",
            &["KEY", "c"],
            "INSERT INTO \"odd \"\"one\" VALUES ('key', 'c')",
        ),
    ];
    for (index, parts, insert) in cases {
        let (_folder, store) = store(tables).await;
        let entity = row(index, parts);
        assert_eq!(
            handled(&store, &entity, insert).await,
            Finished::Committed,
            "{index}"
        );
        let is_recorded = RecordedByStore::<Tx>::is_recorded(&store, &entity, None);
        assert!(is_recorded.await.unwrap(), "{index}");
        let mut copy = open(&store, &entity).await;
        let error = query(insert).execute(copy.transaction()).await.unwrap_err();
        assert!(
            RecordedByStore::<Tx>::violates(&store, &error, &entity),
            "{index}: {error}"
        );
        let other = row("numbers_id", &["1"]);
        if index != "numbers_id" {
            assert!(
                !RecordedByStore::<Tx>::violates(&store, &error, &other),
                "{index}"
            );
        }
    }
}

#[tokio::test]
async fn only_what_the_transaction_has_inserted_itself_is_its_own() {
    let (_folder, store) = store(
        "CREATE TABLE t (id TEXT, amount INTEGER DEFAULT 0);
        CREATE UNIQUE INDEX t_id ON t (id);
        CREATE TABLE other (id TEXT)",
    )
    .await;
    let entity = row("t_id", &["a"]);
    let none = handled(&store, &entity, "INSERT INTO other VALUES ('a')").await;
    assert!(matches!(none, Finished::Refused { .. }), "{none:?}");
    let first = handled(&store, &entity, "INSERT INTO t (id) VALUES ('a')").await;
    assert_eq!(first, Finished::Committed);
    for sql in [
        "INSERT OR IGNORE INTO t (id) VALUES ('a')",
        "INSERT INTO t (id) VALUES ('a') ON CONFLICT DO UPDATE SET amount = amount + 1",
        "UPDATE t SET amount = amount + 1",
        "SELECT 1",
    ] {
        let ended = handled(&store, &entity, sql).await;
        assert!(
            matches!(ended, Finished::Violated { .. }),
            "{sql}: {ended:?}"
        );
    }
    let mut connection = store.pool.connect().await.unwrap();
    let amount: i64 = sqlx::query_scalar("SELECT amount FROM t")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!(amount, 0);
}

/// It has read before another one committed, and nothing it sees is so any more.
#[tokio::test]
async fn a_transaction_that_looks_at_the_past_records_nothing() {
    let (_folder, store) =
        store("CREATE TABLE t (id TEXT); CREATE UNIQUE INDEX t_id ON t (id)").await;
    let entity = row("t_id", &["a"]);
    assert_eq!(
        handled(&store, &entity, "INSERT INTO t VALUES ('a')").await,
        Finished::Committed
    );
    let mut past = open(&store, &entity).await;
    query("SELECT * FROM t")
        .fetch_all(past.transaction())
        .await
        .unwrap();
    let mut other = store.pool.connect().await.unwrap();
    query("DELETE FROM t").execute(&mut other).await.unwrap();
    let ended = finish(&store, past, &entity).await;
    assert!(matches!(ended, Finished::Refused { .. }), "{ended:?}");
}

/// Whoever has the write lock looks before it commits, by a connection that others use, too: they must not wait for the
/// lock meanwhile.
#[tokio::test]
async fn a_claim_that_is_removed_holds_up_no_commit() {
    let (_folder, store) =
        store("CREATE TABLE t (a TEXT NOT NULL); CREATE UNIQUE INDEX t_a ON t (a)").await;
    let done = row("t_a", &["done"]);
    let insert = "INSERT INTO t VALUES ('done')";
    assert_eq!(handled(&store, &done, insert).await, Finished::Committed);
    let request = request("done");
    let Claim::Acquired(lease) = store.claim(&request).await.unwrap() else {
        panic!("nobody has it");
    };

    let next = row("t_a", &["next"]);
    let mut open = open(&store, &next).await;
    let insert = "INSERT INTO t VALUES ('next')";
    query(insert).execute(open.transaction()).await.unwrap();
    let removed = RecordedByStore::<Tx>::is_recorded(&store, &done, Some(&lease));
    let mut removed = Box::pin(removed);
    // It waits for the write lock.
    let soon = Duration::from_millis(200);
    assert!(timeout(soon, &mut removed).await.is_err());
    let committed = timeout(Duration::from_secs(5), finish(&store, open, &next));
    assert_eq!(committed.await.expect("at once"), Finished::Committed);
    assert!(removed.await.unwrap());
    assert!(matches!(
        store.claim(&request).await.unwrap(),
        Claim::Acquired(_)
    ));
}
