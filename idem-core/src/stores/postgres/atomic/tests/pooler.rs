//! Transactions behind a pooler.

use idem_servers::PgBouncer;
use sqlx::ConnectOptions as _;

use super::*;
use crate::stores::postgres::{
    names::Names,
    pooler::{self, ServerProcess},
    settings,
    sql::Sql,
};

/// The shared server by way of a pooler.
fn behind(mode: &str) -> (PgBouncer, String) {
    let server = postgres::shared().expect("PostgreSQL can be started");
    let pooler = PgBouncer::start(server, &[("pool_mode", mode)]).unwrap();
    let [direct, indirect] = [server.port(), pooler.port()].map(|port| format!(":{port}/"));
    let url = server.url().replace(&direct, &indirect);
    (pooler, url)
}

#[tokio::test]
async fn a_pooler_that_keeps_sessions_takes_atomic_handlers() {
    let (_pooler, url) = behind("session");
    let schema = unique();
    let builder = PostgresStore::builder(&url).schema(&schema).connections(1);
    let store = builder.build().await.unwrap();
    for id in ["o-1", "o-2"] {
        let Ok(Begun::Acquired(lease, mut open)) = begin(&store, &request(id)).await else {
            panic!("the key is free");
        };
        let effect = "CREATE TABLE IF NOT EXISTS pg_temp.effects (id text)";
        execute(lend(&mut open), effect).await.unwrap();
        let outcome = Outcome::new("done");
        let commit =
            TransactionalStore::<Lent>::finish(&store, open, complete(&lease, &outcome, MINUTE));
        assert!(matches!(commit.await, Ok(Finished::Committed)), "{id}");
    }
}

/// The server's connection may be another one after each transaction: what begins and ends one
/// must not fail for it.
#[tokio::test]
async fn what_begins_and_ends_a_transaction_does_not_depend_on_the_session() {
    let (_pooler, url) = behind("transaction");
    let options = crate::stores::postgres::location::parse(&url).unwrap();
    let mut connection = options.connect().await.unwrap();
    let names = Names::new(None, "keys").unwrap();
    let sql = Sql::new(&names, MINUTE, ServerProcess::Shared);
    for _ in 0..3 {
        let idle = Some(Duration::from_secs(30));
        let begin = settings::begin(idle, false, ServerProcess::Shared);
        let begin = sqlx::AssertSqlSafe(begin);
        let mut transaction = connection.begin_with(begin).await.unwrap();
        let rolled_back = transaction_end::roll_back(&mut transaction, &sql.roll_back);
        rolled_back.await.unwrap();
        transaction.rollback().await.unwrap();
    }
}

#[tokio::test]
async fn a_pooler_that_shares_sessions_is_told_from_one_that_does_not() {
    for (mode, expected) in [
        ("session", ServerProcess::Own),
        ("transaction", ServerProcess::Shared),
    ] {
        let (_pooler, url) = behind(mode);
        let options = crate::stores::postgres::location::parse(&url).unwrap();
        let mut one = options.connect().await.unwrap();
        let mut other = options.connect().await.unwrap();
        let told = pooler::server_process(&mut one, &mut other).await.unwrap();
        assert_eq!(told, expected, "{mode}");
    }
}
