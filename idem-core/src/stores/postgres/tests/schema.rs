use futures_util::future::join_all;

use super::*;
use crate::store::Look as _;

/// What the catalogue says about the tables.
const CATALOGUE: &str = "
    SELECT string_agg(line, E'\\n' ORDER BY line) FROM (
        SELECT format('%s.%s %s %s %s', table_name, column_name, data_type, is_nullable,
                      collation_name)
        FROM information_schema.columns WHERE table_schema = 'shop'
        UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = 'shop'
        UNION ALL SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'shop'::regnamespace
        UNION ALL SELECT sequencename FROM pg_sequences WHERE schemaname = 'shop'
        UNION ALL SELECT format('%s %s', relname, reloptions)
        FROM pg_class WHERE relnamespace = 'shop'::regnamespace
    ) AS lines (line)";

#[tokio::test]
async fn a_newer_version_is_refused() {
    let database = Database::new();
    drop(database.store().await);
    database.run("UPDATE idem_records_meta SET value = 2").await;
    let refused = PostgresStore::connect(&database.url).await;
    assert_matches!(
        refused,
        Err(ConnectError::SchemaVersion { found: 2, known: 1 })
    );
}

#[tokio::test]
async fn the_printed_schema_is_the_one_that_a_store_creates() {
    let [printed, created] = [Database::new(), Database::new()];
    let statements = PostgresStore::schema(Some("shop"), "Dedup").unwrap();
    printed.run(&statements).await;
    printed.run(&statements).await;
    let mut catalogues = Vec::new();
    for (database, migrate) in [(printed, Migrate::Never), (created, Migrate::AtStart)] {
        let builder = PostgresStore::builder(&database.url);
        let builder = builder.schema("shop").table("Dedup").migrate(migrate);
        acquire(&builder.build().await.unwrap(), "a").await;
        let catalogue: String = sqlx::query_scalar(CATALOGUE)
            .fetch_one(&mut database.bystander().await)
            .await
            .unwrap();
        assert!(catalogue.contains("Dedup_purge_after"), "{catalogue}");
        assert!(!catalogue.contains("idem_records"), "{catalogue}");
        catalogues.push(catalogue);
    }
    assert_eq!(catalogues[0], catalogues[1]);
}

/// Whatever the database's default isolation level is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stores_that_start_on_a_new_database_at_once_all_open_it() {
    for level in ["read committed", "repeatable read", "serializable"] {
        let database = Database::new();
        let name = database.url.rsplit('/').next().unwrap();
        let set = "SET default_transaction_isolation";
        database
            .run(&format!("ALTER DATABASE {name} {set} = '{level}'"))
            .await;
        let starts = (0..12).map(|_| {
            let builder = PostgresStore::builder(&database.url).schema("shop");
            tokio::spawn(builder.build())
        });
        let stores: Vec<PostgresStore> = join_all(starts)
            .await
            .into_iter()
            .map(|start| start.unwrap().unwrap())
            .collect();
        let claims = join_all(stores.iter().map(|store| async {
            let claim = store.claim(&request("a")).await.unwrap();
            matches!(claim, Claim::Acquired(_))
        }));
        let winners = claims.await.into_iter().filter(|won| *won).count();
        assert_eq!(winners, 1, "{level}");
    }
}

#[tokio::test]
async fn a_database_that_cannot_hold_every_text_is_refused() {
    let database = Database::new();
    let url = format!("{}_latin", database.url);
    let (_, name) = url.rsplit_once('/').unwrap();
    let options = "ENCODING 'LATIN1' TEMPLATE template0 LOCALE 'C'";
    database
        .run(&format!("CREATE DATABASE {name} {options}"))
        .await;
    let refused = PostgresStore::connect(&url).await;
    let Err(ConnectError::Unavailable(source)) = refused else {
        panic!("{refused:?}")
    };
    assert!(source.to_string().contains("`LATIN1`"), "{source}");
}

#[tokio::test]
async fn two_tables_in_one_database_know_nothing_of_each_other() {
    let database = Database::new();
    let one = database.store().await;
    let other = PostgresStore::builder(&database.url).table("other");
    let other = other.build().await.unwrap();
    let lease = acquire(&one, "a").await;
    complete(&one, &lease).await;
    acquire(&other, "a").await;
}

#[tokio::test]
async fn a_table_that_is_not_ours_is_refused() {
    let database = Database::new();
    drop(database.store().await);
    database
        .run("ALTER TABLE idem_records RENAME COLUMN token TO ticket")
        .await;
    let refused = PostgresStore::connect(&database.url).await;
    let Err(ConnectError::Unavailable(source)) = refused else {
        panic!("{refused:?}")
    };
    let told = source.to_string();
    let expected = "the tables of `public.idem_records` cannot be used by this program or by this role: error returned \
                    from database: column \"token\" of relation \"idem_records\" does not exist";
    assert!(told.starts_with(expected), "{told}");
}

#[tokio::test]
async fn tables_are_found_by_the_search_path() {
    let database = Database::new();
    database.run("CREATE SCHEMA a; CREATE SCHEMA b").await;
    let in_b = PostgresStore::builder(&database.url).schema("b");
    let lease = acquire(&in_b.build().await.unwrap(), "a").await;
    let url = format!("{}?options[search_path]=a,b", database.url);
    let store = PostgresStore::connect(&url).await.unwrap();
    complete(&store, &lease).await;

    let nowhere = format!("{}?options[search_path]=c", database.url);
    let refused = PostgresStore::connect(&nowhere).await;
    let Err(ConnectError::Unavailable(source)) = refused else {
        panic!("{refused:?}")
    };
    assert!(source.to_string().contains("`search_path`"), "{source}");
}

/// A database whose `search_path` is a schema of this name.
async fn database_with(schema: &str) -> Database {
    let database = Database::new();
    let own = database.url.rsplit('/').next().unwrap();
    let schema = schema.replace('"', "\"\"");
    database
        .run(&format!(
            "CREATE SCHEMA \"{schema}\"; ALTER DATABASE {own} SET search_path = \"{schema}\""
        ))
        .await;
    database
}

#[tokio::test]
async fn a_schema_of_the_search_path_need_not_have_a_plain_name() {
    let database = database_with("the shop-floor").await;
    acquire(&database.store().await, "a").await;
    let records = "SELECT count(*) FROM \"the shop-floor\".idem_records";
    assert_eq!(database.number(records).await, 1);
}

#[tokio::test]
async fn a_schema_of_the_search_path_that_would_break_statements_is_refused() {
    for schema in ["o'brien", "x{key}y", "a\"b", "a\\b"] {
        let database = database_with(schema).await;
        let refused = PostgresStore::connect(&database.url).await;
        assert!(
            matches!(refused, Err(ConnectError::InvalidSchema { .. })),
            "{schema}: {refused:?}"
        );
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_once() {
    let refused = PostgresStore::connect("postgres://127.0.0.1:1/none").await;
    let error = refused.unwrap_err();
    crate::stores::tests::each_cause_is_told_once(&error);
    assert!(format!("{error:?}").contains("refused"), "{error:?}");
}

#[tokio::test]
async fn tables_that_this_role_cannot_use_are_told_once() {
    let database = Database::new();
    database
        .run("CREATE TABLE idem_records_meta (value TEXT)")
        .await;
    let error = PostgresStore::connect(&database.url).await.unwrap_err();
    crate::stores::tests::each_cause_is_told_once(&error);
    assert!(format!("{error:?}").contains("does not exist"), "{error:?}");
}

#[tokio::test]
async fn names_that_cannot_be_are_refused() {
    let builder = || PostgresStore::builder("postgres://localhost/none");
    let table = builder().table("a b").build().await;
    assert!(
        matches!(table, Err(ConnectError::InvalidTable { .. })),
        "{table:?}"
    );
    let schema = builder().schema("pg_own").build().await;
    assert_matches!(schema, Err(ConnectError::InvalidSchema { .. }));
}

/// What an earlier version of this program has not created.
const OUTDATED: &str =
    "DROP VIEW idem_records_readable; ALTER TABLE idem_records DROP COLUMN created_at";

/// Workers of that version, and handlers' transactions, are at the tables meanwhile.
#[tokio::test]
async fn tables_of_an_earlier_version_get_what_they_lack() {
    let database = Database::new();
    let store = database.store().await;
    let lease = acquire(&store, "held").await;
    complete(&store, &acquire(&store, "done").await).await;
    drop(store);
    database.run(OUTDATED).await;
    let mut other = database.bystander().await;
    let mut handler = other.begin().await.unwrap();
    sqlx::query("UPDATE idem_records SET attempts = attempts WHERE key LIKE '%done'")
        .execute(&mut *handler)
        .await
        .unwrap();
    let url = database.url.clone();
    let starting = tokio::spawn(async move { PostgresStore::connect(&url).await });
    // In turns with whoever waits for the lock: none of these waits for the handler.
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_millis(150)).await;
        let asked = std::time::Instant::now();
        database
            .run("UPDATE idem_records SET attempts = attempts WHERE key LIKE '%held'")
            .await;
        assert!(
            asked.elapsed() < Duration::from_secs(2),
            "{:?}",
            asked.elapsed()
        );
    }
    assert!(!starting.is_finished());
    handler.rollback().await.unwrap();
    let store = starting.await.unwrap().unwrap();
    complete(&store, &lease).await;
    let claim = store.claim(&request("done")).await.unwrap();
    assert!(matches!(claim, Claim::Completed { .. }), "{claim:?}");
    let record = store.look(&lease.key).await.unwrap().unwrap().record;
    assert_eq!(record.created_at, None);
    assert!(record.completed_at.is_some());
    let new = acquire(&store, "new").await;
    let record = store.look(&new.key).await.unwrap().unwrap().record;
    assert!(record.created_at.is_some());
}

/// The column is there, and the function that moves marks is not.
#[tokio::test]
async fn tables_of_an_earlier_version_get_the_function_that_moves_marks() {
    const IS_THERE: &str = "SELECT count(*) FROM pg_proc WHERE proname = 'idem_records_move_mark'";
    let database = Database::new();
    drop(database.store().await);
    let without = "DROP FUNCTION idem_records_move_mark";
    database.run(without).await;
    drop(database.store().await);
    assert_eq!(database.number(IS_THERE).await, 1);

    // Who may not create it starts all the same.
    database.run(without).await;
    let (role, url) = rights::stranger(&database).await;
    database
        .run(&format!(
            "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role};
             GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {role}"
        ))
        .await;
    acquire(&PostgresStore::connect(&url).await.unwrap(), "a").await;
    assert_eq!(database.number(IS_THERE).await, 0);
}

#[tokio::test]
async fn tables_of_an_earlier_version_that_may_not_be_changed_name_who_can_help() {
    let database = Database::new();
    drop(database.store().await);
    database.run(OUTDATED).await;
    let (role, url) = rights::stranger(&database).await;
    database
        .run(&format!(
            "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role};
             GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {role}"
        ))
        .await;
    for migrate in [Migrate::AtStart, Migrate::Never] {
        let refused = PostgresStore::builder(&url).migrate(migrate).build().await;
        let Err(ConnectError::Unavailable(source)) = refused else {
            panic!("{refused:?}")
        };
        let source = source.to_string();
        assert!(
            source.ends_with("let their owner run `idem migrate`"),
            "{source}"
        );
        let is_refused = source.contains("(error returned from database: permission denied");
        assert_eq!(is_refused, migrate == Migrate::AtStart, "{source}");
    }
}

#[tokio::test]
async fn an_outcome_is_read_as_json_or_text_or_digits() {
    let database = Database::new();
    let store = database.store().await;
    let table: &[(&[u8], &str)] = &[
        (br#"{ "receipt": "r-17" }"#, r#"{ "receipt": "r-17" }"#),
        (b"!no", r#""!no""#),
        (b"\xff\x00", r#""ff00""#),
        (br#""a\u0000b""#, r#""a\u0000b""#),
    ];
    for (index, (outcome, expected)) in table.iter().enumerate() {
        let lease = acquire(&store, &index.to_string()).await;
        let outcome = Outcome::new(outcome.to_vec());
        let written = store.complete(&lease, &outcome, MINUTE).await;
        assert_eq!(written.unwrap(), Write::Applied);
        let query = "SELECT outcome::text, created_at <= completed_at FROM idem_records_readable WHERE key = $1";
        let (shown, is_later): (String, bool) = sqlx::query_as(query)
            .bind(lease.key.as_str())
            .fetch_one(&mut database.bystander().await)
            .await
            .unwrap();
        assert_eq!(shown, *expected);
        assert!(is_later);
    }
}
