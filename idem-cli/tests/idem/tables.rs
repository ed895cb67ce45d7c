//! `migrate`, and tables that are not there or of an earlier version.

use std::path::Path;

use idem_amqp::{
    PostgresStore,
    sqlx::{self, Connection as _, PgConnection},
    stores::Migrate,
};
use idem_tests::store_at::StoreAt;
use tempfile::tempdir;

use crate::command::Idem;

pub(crate) async fn execute(store: &StoreAt, statements: &str) {
    let mut connection = PgConnection::connect(&store.url).await.unwrap();
    let statements = sqlx::AssertSqlSafe(statements.to_owned());
    sqlx::raw_sql(statements)
        .execute(&mut connection)
        .await
        .unwrap();
}

#[tokio::test]
async fn tables_are_made_only_when_it_is_asked_for() {
    let store = StoreAt::postgres().await;
    let idem = Idem::on(&store);
    let before = idem.run(&["keys", "list"]).await;
    before.ends(1);
    assert!(before.err.contains("or `idem migrate`"), "{before:?}");
    for _ in 0..2 {
        let migrated = idem.run(&["migrate"]).await;
        assert_eq!(migrated.ends(0), "the tables are there\n");
    }
    assert_eq!(idem.run(&["keys", "list"]).await.ends(0), "0 keys\n");
}

#[tokio::test]
async fn printed_statements_make_the_tables() {
    let store = StoreAt::postgres().await;
    let options = ["--schema", "Dedup", "--table", "keys_of_shop"];
    let printed = Idem::on(&store)
        .run(&[&options[..], &["migrate", "--print"]].concat())
        .await;
    execute(&store, printed.ends(0)).await;
    let by_hand = ["keys", "complete", "orders.charge:o-1", "--yes"];
    let idem = Idem::on(&store);
    idem.run(&[&options[..], &by_hand].concat()).await.ends(0);
    let listed = idem.run(&[&options[..], &["keys", "list"]].concat()).await;
    assert!(listed.ends(0).ends_with("1 key\n"));
}

#[tokio::test]
async fn tables_from_before_interventions_were_noted_down_are_completed() {
    let store = StoreAt::postgres().await;
    let idem = Idem::on(&store);
    idem.run(&["migrate"]).await.ends(0);
    execute(&store, "DROP TABLE idem_records_audit").await;
    let shown = idem.run(&["keys", "show", "orders.charge:o-1"]).await;
    shown.ends(3);
    let by_hand = ["keys", "complete", "orders.charge:o-1", "--yes"];
    idem.run(&by_hand).await.ends(0);
    let shown = idem.run(&["keys", "show", "orders.charge:o-1"]).await;
    assert!(shown.ends(0).contains("\ncomplete by "), "{shown:?}");
}

#[tokio::test]
async fn tables_from_before_there_was_an_outbox_are_completed() {
    let store = StoreAt::postgres().await;
    let idem = Idem::on(&store);
    idem.run(&["migrate"]).await.ends(0);
    execute(
        &store,
        "DROP TABLE idem_records_outbox; DROP SEQUENCE idem_records_outbox_number; DROP FUNCTION idem_records_send",
    )
    .await;
    let listed = idem.run(&["outbox", "list"]).await;
    listed.ends(1);
    assert!(listed.err.contains("`idem migrate`"), "{listed:?}");
    idem.run(&["migrate"]).await.ends(0);
    let listed = idem.run(&["outbox", "list"]).await;
    assert_eq!(listed.ends(0), "0 messages\n");
    // A worker looks whether it can publish.
    let store = PostgresStore::builder(&store.url).migrate(Migrate::Never);
    let outbox = store.build().await.unwrap().outbox();
    outbox.check().await.unwrap();
}

#[tokio::test]
async fn a_sqlite_file_is_made_by_migrating() {
    let folder = tempdir().unwrap();
    let store = StoreAt::sqlite(&folder.path().join("idem.db"));
    let idem = Idem::on(&store);
    idem.run(&["keys", "list"]).await.ends(1);
    idem.run(&["migrate"]).await.ends(0);
    assert_eq!(idem.run(&["keys", "list"]).await.ends(0), "0 keys\n");
    let printed = idem.run(&["migrate", "--print"]).await;
    assert!(
        printed
            .ends(0)
            .contains("CREATE TABLE IF NOT EXISTS \"idem_records_audit\"")
    );
}

#[tokio::test]
async fn a_mistyped_table_or_file_of_sqlite_is_left_as_it_is() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("idem.db");
    let idem = Idem::on(&StoreAt::sqlite(&path));
    idem.run(&["migrate"]).await.ends(0);
    let change = ["keys", "complete", "orders.charge:o-1", "--yes"];
    let mistyped = ["--table", "idem_recrods"];
    let refused = idem.run(&[&mistyped[..], &change].concat()).await;
    refused.ends(1);
    assert!(refused.err.contains("`idem_recrods`"), "{refused:?}");

    // Not ours, and in its own journal mode.
    let other = folder.path().join("shop.db");
    std::fs::write(&other, []).unwrap();
    let at = |file: &Path, options: &str| {
        let mut at = StoreAt::sqlite(file);
        at.url += options;
        at
    };
    for options in ["", "?mode=rwc"] {
        let store = at(&other, options);
        Idem::on(&store).run(&["keys", "list"]).await.ends(1);
        assert_eq!(std::fs::metadata(&other).unwrap().len(), 0);
    }
    let none = folder.path().join("none.db");
    let store = at(&none, "?mode=rwc");
    Idem::on(&store).run(&["keys", "list"]).await.ends(1);
    assert!(!none.exists());
}

#[tokio::test]
async fn redis_needs_no_tables() {
    let idem = Idem::on(&StoreAt::redis().await);
    assert_eq!(
        idem.run(&["migrate"]).await.ends(0),
        "redis needs no tables\n"
    );
    idem.run(&["migrate", "--print"]).await.ends(2);
}
