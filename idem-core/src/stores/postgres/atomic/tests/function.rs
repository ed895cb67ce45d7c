//! The function that completes, which lies in the database.

use super::*;
use crate::{store::ConnectError, stores::Migrate};

/// Why a store on this shop's tables does not start.
async fn refusal_at_start(url: &str, schema: &str) -> String {
    let refused = PostgresStore::builder(url).schema(schema).build().await;
    match refused {
        Err(ConnectError::Unavailable(source)) => format!("{source:?}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn tables_without_the_function_are_refused_at_the_start() {
    let shop = Shop::open().await;
    let without = "DROP FUNCTION idem_records_complete_one";
    execute(&mut shop.bystander().await, without).await.unwrap();
    let said = refusal_at_start(&shop.url, &shop.schema).await;
    assert!(said.contains("idem_records_complete_one"), "{said}");
}

#[tokio::test]
async fn a_role_that_may_not_execute_the_function_is_refused_at_the_start() {
    let shop = Shop::open().await;
    let (role, schema) = (format!("role_{}", shop.schema), &shop.schema);
    let rights = format!(
        "CREATE ROLE {role};
         GRANT USAGE ON SCHEMA {schema} TO {role};
         GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {role};
         GRANT ALL ON ALL SEQUENCES IN SCHEMA {schema} TO {role}"
    );
    let mut bystander = shop.bystander().await;
    execute(&mut bystander, rights).await.unwrap();
    let url = format!("{}&options[role]={role}", shop.url);
    let allowed = PostgresStore::builder(&url).schema(schema).build().await;
    allowed.unwrap();

    let revoke = "REVOKE EXECUTE ON FUNCTION idem_records_complete_one FROM public";
    execute(&mut bystander, revoke).await.unwrap();
    let said = refusal_at_start(&url, schema).await;
    assert!(said.contains("permission denied for function"), "{said}");
}

#[tokio::test]
async fn tables_that_somebody_created_without_naming_a_schema_are_found_by_every_handler() {
    let server = postgres::shared().expect("PostgreSQL can be started");
    let schema = unique();
    let url = format!("{}?options[search_path]={schema}", server.url());
    let mut bystander = PgConnection::connect(&url).await.unwrap();
    let statements = PostgresStore::schema(None, "idem_records").unwrap();
    let created = format!("CREATE SCHEMA {schema}; {statements}");
    execute(&mut bystander, created).await.unwrap();
    let builder = PostgresStore::builder(&url).migrate(Migrate::Never);
    let store = builder.build().await.unwrap();
    let Ok(Begun::Acquired(lease, mut open)) = begin(&store, &request("o-1")).await else {
        panic!("the key is free");
    };
    let elsewhere = "SET search_path = pg_temp";
    execute(lend(&mut open), elsewhere).await.unwrap();
    let outcome = Outcome::new("done");
    let commit =
        TransactionalStore::<Lent>::finish(&store, open, complete(&lease, &outcome, MINUTE));
    assert!(matches!(commit.await, Ok(Finished::Committed)));
}
