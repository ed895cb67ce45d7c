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

/// By the name that the next client gives to another one.
#[tokio::test]
async fn a_statement_that_another_client_has_left_is_not_taken_for_ones_own() {
    let database = Database::new();
    let settings = [("ignore_startup_parameters", "extra_float_digits")];
    let pooler = PgBouncer::start(postgres::shared().unwrap(), &settings).unwrap();
    let url = behind(&database, &pooler);
    let connect = async || PgConnection::connect(&url).await.unwrap();
    let (mut first, mut second) = (connect().await, connect().await);
    // Two server processes. It is left on the one that was not used last.
    sqlx::raw_sql("BEGIN").execute(&mut first).await.unwrap();
    let left = sqlx::query("SELECT pg_backend_pid()");
    left.execute(&mut second).await.unwrap();
    sqlx::raw_sql("ROLLBACK").execute(&mut first).await.unwrap();
    let (mut one, mut other) = (connect().await, connect().await);
    let kept = pooler::keeps_statements(&mut one, &mut other).await;
    assert!(!kept.unwrap());
}

#[tokio::test]
async fn a_pooler_that_keeps_sessions_is_welcome() {
    let database = Database::new();
    let settings = [("pool_mode", "session")];
    let pooler = PgBouncer::start(postgres::shared().unwrap(), &settings).unwrap();
    let store = PostgresStore::connect(&behind(&database, &pooler)).await;
    acquire(&store.unwrap(), "a").await;
}
