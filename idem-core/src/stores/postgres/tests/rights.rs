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
