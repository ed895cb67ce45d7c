use sqlx::{AssertSqlSafe, Row};

use super::*;
use crate::store::Look as _;

async fn run(file: &File, sql: &str) {
    sqlx::raw_sql(AssertSqlSafe(sql))
        .execute(&mut file.bystander().await)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_newer_version_is_refused() {
    let file = File::new();
    drop(file.store().await);
    run(
        &file,
        "UPDATE idem_records_meta SET value = 2 WHERE name = 'version'",
    )
    .await;
    let refused = SqliteStore::connect(file.path()).await;
    assert_matches!(
        refused,
        Err(ConnectError::SchemaVersion { found: 2, known: 1 })
    );
}

#[tokio::test]
async fn the_printed_schema_is_the_one_that_connect_creates() {
    let [printed, created] = [File::new(), File::new()];
    sqlx::raw_sql(AssertSqlSafe(SqliteStore::schema("dedup").unwrap()))
        .execute(
            &mut sqlx::ConnectOptions::connect(
                &sqlx::sqlite::SqliteConnectOptions::new()
                    .filename(printed.path())
                    .create_if_missing(true),
            )
            .await
            .unwrap(),
        )
        .await
        .unwrap();
    // As a script that sets a machine up does it each time.
    run(&printed, &SqliteStore::schema("dedup").unwrap()).await;
    for file in [&printed, &created] {
        let store = SqliteStore::builder(file.path())
            .table("dedup")
            .build()
            .await
            .unwrap();
        acquire(&store, "a").await;
    }
    let mut schemas = Vec::new();
    for file in [&printed, &created] {
        let rows = sqlx::query("SELECT name, sql FROM sqlite_master ORDER BY name")
            .fetch_all(&mut file.bystander().await)
            .await
            .unwrap();
        let schema: Vec<(String, Option<String>)> =
            rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        assert!(schema.iter().all(|(name, _)| name.contains("dedup")));
        schemas.push(schema);
    }
    assert_eq!(schemas[0], schemas[1]);
}

#[tokio::test]
async fn two_tables_in_one_file_know_nothing_of_each_other() {
    let file = File::new();
    let one = file.store().await;
    let other = SqliteStore::builder(file.path())
        .table("other")
        .build()
        .await
        .unwrap();
    let lease = acquire(&one, "a").await;
    complete(&one, &lease).await;
    acquire(&other, "a").await;
}

#[tokio::test]
async fn a_table_that_is_not_ours_is_refused() {
    let file = File::new();
    drop(file.store().await);
    run(&file, "CREATE TABLE orders (id TEXT)").await;
    let refused = SqliteStore::builder(file.path())
        .table("orders")
        .build()
        .await;
    assert_matches!(refused, Err(ConnectError::Unavailable(_)));
}

#[tokio::test]
async fn a_file_that_cannot_be_opened_is_named() {
    let refused = SqliteStore::connect("no/such/folder/idem.db").await;
    let Err(ConnectError::Unavailable(source)) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(
        source.to_string(),
        "`no/such/folder/idem.db` cannot be opened"
    );
    let reason = source.source().unwrap().to_string();
    assert!(reason.contains("unable to open"), "{reason}");
    crate::stores::tests::each_cause_is_told_once(&*source);
}

#[tokio::test]
async fn the_records_can_be_read_by_a_person() {
    let file = File::new();
    let store = file.store().await;
    let lease = acquire(&store, "o-17").await;
    // Times are shown to the millisecond.
    store.advance(Duration::from_secs(1));
    let reason = Release::retry_after(Duration::from_mins(5), "card declined");
    let released = store.release(&lease, &reason).await;
    assert_eq!(released.unwrap(), Write::Applied);

    let row = sqlx::query("SELECT * FROM idem_records_readable")
        .fetch_one(&mut file.bystander().await)
        .await
        .unwrap();
    let text = |column: &str| row.get::<String, _>(column);
    assert_eq!(text("key"), "orders:o-17");
    assert_eq!(
        (text("state"), text("reason")),
        ("failed".into(), "failed".into())
    );
    assert_eq!(text("error"), "card declined");
    assert_eq!(row.get::<i64, _>("attempts"), 1);
    for column in ["updated_at", "not_before", "forget_at"] {
        assert!(text(column).starts_with("20"), "{}", text(column));
    }
    assert!(text("updated_at") < text("not_before"));
    assert!(text("created_at") < text("updated_at"));
    assert_eq!(row.get::<Option<String>, _>("completed_at"), None);
}

#[tokio::test]
async fn an_outcome_that_is_json_is_read_as_json() {
    let file = File::new();
    let store = file.store().await;
    let table: &[(&[u8], &str)] = &[
        (br#"{ "receipt": "r-17" }"#, r#"{"receipt":"r-17"}"#),
        (b"!no", "!no"),
    ];
    for (index, (outcome, expected)) in table.iter().enumerate() {
        let lease = acquire(&store, &index.to_string()).await;
        let outcome = Outcome::new(outcome.to_vec());
        let written = store.complete(&lease, &outcome, MINUTE).await;
        assert_eq!(written.unwrap(), Write::Applied);
        let query = "SELECT outcome, completed_at FROM idem_records_readable WHERE key = ?";
        let (shown, completed_at): (String, String) = sqlx::query_as(query)
            .bind(lease.key.as_str())
            .fetch_one(&mut file.bystander().await)
            .await
            .unwrap();
        assert_eq!(shown, *expected);
        assert!(completed_at.starts_with("20"), "{completed_at}");
    }
}

/// As an earlier version of this program has left it. A store of that version may still be at work.
#[tokio::test]
async fn a_file_of_an_earlier_version_gets_what_it_lacks() {
    let file = File::new();
    let store = file.store().await;
    let lease = acquire(&store, "held").await;
    complete(&store, &acquire(&store, "done").await).await;
    drop(store);
    let outdated = "DROP VIEW idem_records_readable;
        ALTER TABLE idem_records DROP COLUMN created_at;
        CREATE VIEW idem_records_readable AS SELECT key FROM idem_records";
    run(&file, outdated).await;
    let store = file.store().await;
    complete(&store, &lease).await;
    let claim = store.claim(&request("done")).await.unwrap();
    assert!(matches!(claim, Claim::Completed { .. }), "{claim:?}");
    let record = store.look(&lease.key).await.unwrap().unwrap().record;
    assert_eq!(record.created_at, None);
    assert!(record.completed_at.is_some());
    let new = acquire(&store, "new").await;
    let record = store.look(&new.key).await.unwrap().unwrap().record;
    assert!(record.created_at.is_some());
    run(&file, "SELECT completed_at FROM idem_records_readable").await;
    // What an earlier version writes.
    run(
        &file,
        "INSERT INTO idem_records (key, state, attempts, in_doubt, token, owner, retention, updated_at, forget_at)
         SELECT 'orders:old', state, attempts, in_doubt, token, owner, retention, updated_at, forget_at
         FROM idem_records LIMIT 1",
    )
    .await;
}
