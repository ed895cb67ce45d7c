use sqlx::postgres::PgConnectOptions;

use super::*;

#[tokio::test]
async fn a_store_connects_with_an_applications_own_options() {
    let database = Database::new();
    let options: PgConnectOptions = database.url.parse().unwrap();
    let store = PostgresStore::builder_with(options.application_name("shop"));
    let store = store.build().await.unwrap();
    acquire(&store, "a").await;
    let named = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'shop'";
    assert!(database.number(named).await >= 2);
}
