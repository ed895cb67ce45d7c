use idem_servers::PgBouncer;

use super::*;

/// The database of the test, behind a pooler.
fn behind(database: &Database, pooler: &PgBouncer) -> String {
    let port = postgres::shared().unwrap().port().to_string();
    database.url.replacen(&port, &pooler.port().to_string(), 1)
}

#[tokio::test]
async fn a_pooler_that_forgets_prepared_statements_is_refused() {
    let database = Database::new();
    let pooler = PgBouncer::start(postgres::shared().unwrap(), &[]).unwrap();
    for _ in 0..3 {
        let refused = PostgresStore::connect(&behind(&database, &pooler)).await;
        assert_matches!(refused, Err(ConnectError::ForgetfulPooler));
    }
}

#[tokio::test]
async fn a_pooler_that_keeps_sessions_is_welcome() {
    let database = Database::new();
    let settings = [("pool_mode", "session")];
    let pooler = PgBouncer::start(postgres::shared().unwrap(), &settings).unwrap();
    let store = PostgresStore::connect(&behind(&database, &pooler)).await;
    acquire(&store.unwrap(), "a").await;
}
