//! Constraints that will do, and others.

use super::*;

handler!(ByName, "orders_key", 1);
handler!(ByTwo, "orders_key", 2);

async fn check<H>(tables: &str) -> Result<(), String>
where
    H: Operation<Mode = RecordedBy<PgConnection>>,
{
    let till = Till::with(tables).await;
    till.executor
        .check::<H>()
        .await
        .map_err(|error| error.to_string())
}

#[tokio::test]
async fn unique_constraints_and_unique_indexes_will_do() {
    for tables in [
        "CREATE TABLE orders (id text CONSTRAINT orders_key UNIQUE)",
        "CREATE TABLE orders (id text CONSTRAINT orders_key PRIMARY KEY)",
        "CREATE TABLE orders (id text); CREATE UNIQUE INDEX orders_key ON orders (id)",
        "CREATE TABLE orders (id text, n int);
         CREATE UNIQUE INDEX orders_key ON orders (id) INCLUDE (n)",
        "CREATE TABLE orders (id text CONSTRAINT orders_key UNIQUE DEFERRABLE)",
    ] {
        assert_eq!(check::<ByName>(tables).await, Ok(()), "{tables}");
    }
    let two = "CREATE TABLE orders (a int, b uuid, CONSTRAINT orders_key UNIQUE (a, b))";
    assert_eq!(check::<ByTwo>(two).await, Ok(()));
}

#[tokio::test]
async fn what_will_not_do_is_told_with_what_to_do() {
    for (tables, words) in [
        (
            "CREATE TABLE orders (id text); CREATE INDEX orders_key ON orders (id)",
            ["not unique", "add a unique constraint"],
        ),
        (
            "CREATE TABLE orders (id text); CREATE UNIQUE INDEX orders_key ON orders (id) WHERE id > ''",
            ["partial", "without `WHERE`"],
        ),
        (
            "CREATE TABLE orders (id text); CREATE UNIQUE INDEX orders_key ON orders (lower(id))",
            ["expression", "on columns"],
        ),
        (
            "CREATE TABLE orders (a text, b text, CONSTRAINT orders_key UNIQUE (a, b))",
            ["2 (a, b)", "one part of the key for each column"],
        ),
        (
            "CREATE TABLE orders (id text CONSTRAINT orders_key PRIMARY KEY) PARTITION BY HASH (id)",
            ["partitioned", "leave `recorded_by` out"],
        ),
    ] {
        let error = check::<ByName>(tables).await.unwrap_err();
        assert!(error.starts_with("`orders_key` cannot record"), "{error}");
        for words in words {
            assert!(error.contains(words), "{tables}: {words}: {error}");
        }
    }
}

handler!(ByCheck, "orders_check", 1);

#[tokio::test]
async fn a_constraint_that_is_not_there_is_to_be_added() {
    for tables in [
        "",
        "CREATE TABLE orders (id text CONSTRAINT orders_check CHECK (id <> ''))",
    ] {
        let error = check::<ByCheck>(tables).await.unwrap_err();
        for words in [
            "`orders_check`",
            "search_path leads to no",
            "ADD CONSTRAINT",
        ] {
            assert!(error.contains(words), "{words}: {error}");
        }
    }
}

#[tokio::test]
async fn a_constraint_that_the_search_path_does_not_lead_to_is_told_of() {
    let till = Till::with("").await;
    let (_, schema) = till.url.rsplit_once('=').unwrap();
    till.run(&format!(
        "CREATE SCHEMA {schema}_x; CREATE TABLE {schema}_x.elsewhere (id text CONSTRAINT elsewhere_key UNIQUE)"
    ))
    .await;
    handler!(Elsewhere, "elsewhere_key", 1);
    let error = till
        .executor
        .check::<Elsewhere>()
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains(&format!("{schema}_x")), "{error}");
    assert!(error.contains("search_path"), "{error}");
}

#[tokio::test]
async fn a_role_that_may_not_read_the_table_is_told_of() {
    let till = Till::with("CREATE TABLE orders (id text CONSTRAINT orders_key UNIQUE)").await;
    let (_, schema) = till.url.rsplit_once('=').unwrap();
    till.run(&format!(
        "CREATE ROLE blind_{schema} LOGIN; GRANT USAGE ON SCHEMA {schema} TO blind_{schema};
         GRANT ALL ON idem_records, idem_records_open, idem_records_meta, idem_records_sessions,
             idem_records_sequences, idem_records_exceptions TO blind_{schema};
         GRANT USAGE ON SEQUENCE idem_records_token TO blind_{schema}"
    ))
    .await;
    let blind = till
        .url
        .replacen("//idem@", &format!("//blind_{schema}@"), 1);
    let store = PostgresStore::builder(&blind)
        .schema(schema)
        .build()
        .await
        .unwrap();
    let error = Executor::new(store)
        .check::<ByName>()
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("cannot look for rows"), "{error}");
    assert!(error.contains("permission denied"), "{error}");
}

/// Without a check, nothing runs either.
#[tokio::test]
async fn a_handler_whose_constraint_will_not_do_runs_nothing() {
    let till = Till::open().await;
    let panics = act(|_, _, _| Box::pin(async { panic!("it ran") }));
    let execution = till.handle::<ByName, _>("o-1", &panics).await;
    let Execution::StoreUnavailable {
        error: StoreError::Refused(error),
    } = execution
    else {
        panic!("{execution:?}")
    };
    assert!(
        error.to_string().contains("`orders_key` cannot record"),
        "{error}"
    );
}

#[tokio::test]
async fn a_table_that_was_renamed_meanwhile_is_found_again() {
    let till = Till::open().await;
    till.pays("o-1").await;
    till.run("ALTER TABLE payments RENAME TO paid").await;
    let pay = act(|db, message: Message, attempt| {
        Box::pin(async move {
            let insert = sqlx::query("INSERT INTO paid (order_id) VALUES ($1)");
            insert.bind(message[0].clone()).execute(db).await?;
            Ok(attempt.number())
        })
    });
    let mut held = message::<Pay>("o-2");
    assert_eq!(failed(&till.handle_again(&mut held, &pay).await).0, 1);
    till.store().advance(SECOND);
    held.renew_owner();
    assert_eq!(executed(till.handle_again(&mut held, &pay).await), 2);
    is_duplicate(&till.handle::<Pay, _>("o-2", &pay).await);
    is_duplicate(&till.handle::<Pay, _>("o-1", &pay).await);
}
