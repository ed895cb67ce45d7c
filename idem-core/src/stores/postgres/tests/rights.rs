use super::*;

/// A URL for a new role that may do nothing in the database.
pub(super) async fn stranger(database: &Database) -> (String, String) {
    let role = format!(
        "stranger_{:x}",
        u128::from_be_bytes(*Owner::new().as_bytes())
    );
    database
        .run(&format!(
            "REVOKE CREATE ON SCHEMA public FROM public; CREATE ROLE {role} LOGIN"
        ))
        .await;
    let url = database.url.replacen("idem@", &format!("{role}@"), 1);
    (role, url)
}

fn told(refused: Result<PostgresStore, ConnectError>) -> String {
    match refused {
        Err(ConnectError::Unavailable(source)) => source.to_string(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn tables_that_are_there_need_no_right_to_create_any() {
    let database = Database::new();
    drop(database.store().await);
    let (role, url) = stranger(&database).await;
    database
        .run(&format!(
            "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role};
             GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {role}"
        ))
        .await;
    let store = PostgresStore::connect(&url).await.unwrap();
    let lease = acquire(&store, "a").await;
    complete(&store, &lease).await;
    assert_eq!(store.purge(10).await.unwrap(), 0);
}

#[tokio::test]
async fn tables_that_may_not_be_used_are_refused_at_the_start() {
    let database = Database::new();
    drop(database.store().await);
    let (role, url) = stranger(&database).await;
    database
        .run(&format!(
            "GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}"
        ))
        .await;
    let said = told(PostgresStore::connect(&url).await);
    assert!(said.contains("cannot be used"), "{said}");
}

/// Not before a lease is extended, which may be long after the start.
#[tokio::test]
async fn rights_that_only_atomic_handlers_need_are_missed_at_the_start() {
    for missing in ["INSERT", "UPDATE"] {
        let database = Database::new();
        drop(database.store().await);
        let (role, url) = stranger(&database).await;
        database
            .run(&format!(
                "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role};
                 GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {role};
                 REVOKE {missing} ON idem_records_open FROM {role}"
            ))
            .await;
        let said = told(PostgresStore::connect(&url).await);
        assert!(said.contains("cannot be used"), "{missing}: {said}");
    }
}

/// The page of this store, from which teams copy.
const PAGE: &str = include_str!("../../../../../docs/stores/postgres.md");

/// What the page says that a worker needs, for this role.
fn rights_of_the_page(role: &str) -> String {
    let (_, behind) = PAGE.split_once("```sql\nGRANT").expect("the statements");
    let (statements, _) = behind.split_once("```").expect("their end");
    format!("GRANT{}", statements.replace("my_worker", role))
}

#[tokio::test]
async fn a_worker_with_the_rights_that_the_page_grants_can_do_all() {
    let database = Database::new();
    drop(database.store().await);
    let (role, url) = stranger(&database).await;
    database.run(&rights_of_the_page(&role)).await;
    let store = PostgresStore::connect(&url).await.unwrap();
    let lease = acquire(&store, "a").await;
    complete(&store, &lease).await;
    assert_eq!(store.purge(10).await.unwrap(), 0);
    let outbox = crate::store::TransactionalStore::<PgConnection>::outbox(&store).unwrap();
    outbox.check().await.unwrap();
}

/// Not before the first message, else.
#[tokio::test]
async fn each_right_of_the_page_that_is_taken_away_is_missed_at_the_start() {
    let database = Database::new();
    drop(database.store().await);
    let (role, url) = stranger(&database).await;
    let tables = ["", "_open", "_sessions", "_sequences", "_exceptions"];
    let mut rights: Vec<_> = tables
        .iter()
        .flat_map(|table| {
            let on = |right| format!("{right} ON idem_records{table}");
            ["SELECT", "INSERT", "UPDATE", "DELETE"].map(on)
        })
        .collect();
    rights.push("SELECT ON idem_records_meta".into());
    rights.push("USAGE ON SEQUENCE idem_records_token".into());
    // The page does not grant it: these rows come and go.
    rights.retain(|right| right != "UPDATE ON idem_records_exceptions");
    let mut unnoticed = Vec::new();
    for missing in rights {
        database.run(&rights_of_the_page(&role)).await;
        database.run(&format!("REVOKE {missing} FROM {role}")).await;
        match PostgresStore::connect(&url).await {
            Ok(_) => unnoticed.push(missing),
            refused => {
                let said = told(refused);
                assert!(said.contains("cannot be used"), "{missing}: {said}");
            }
        }
    }
    assert!(unnoticed.is_empty(), "{unnoticed:#?}");
}

/// A person has to grant it: it is no outage that ends by itself.
#[tokio::test]
async fn a_right_that_is_taken_away_later_is_a_refusal() {
    let database = Database::new();
    drop(database.store().await);
    let (role, url) = stranger(&database).await;
    database.run(&rights_of_the_page(&role)).await;
    let store = PostgresStore::connect(&url).await.unwrap();
    database
        .run(&format!("REVOKE INSERT ON idem_records FROM {role}"))
        .await;
    let refused = store.claim(&request("a")).await;
    let Err(StoreError::Refused(source)) = refused else {
        panic!("{refused:?}");
    };
    let said = source.to_string();
    assert!(said.contains("permission denied"), "{said}");
}

#[tokio::test]
async fn tables_that_may_not_be_created_are_refused_at_the_start() {
    let database = Database::new();
    let (_, url) = stranger(&database).await;
    let said = told(PostgresStore::connect(&url).await);
    assert!(
        said.contains("could not be created: error returned from database: permission denied"),
        "{said}"
    );
}

#[tokio::test]
async fn tables_that_shall_not_be_created_are_missed() {
    let database = Database::new();
    let builder = PostgresStore::builder(&database.url).migrate(Migrate::Never);
    let said = told(builder.build().await);
    assert!(
        said.contains("`public.idem_records` are not there"),
        "{said}"
    );
}
