use std::sync::Arc;

use futures_util::future::join_all;
use idem_servers::Postgres;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
};

use super::*;
use crate::{
    store::{Begun, TransactionalStore},
    stores::postgres::transactions::OpenTransaction,
};

const END_ALL: &str = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                       WHERE datname = current_database() AND application_name = 'idem'";

#[tokio::test]
async fn connections_that_are_ended_cost_no_caller_an_error() {
    let database = Database::new();
    let store = database.store().await;
    let work = async {
        for round in 0..20_u32 {
            let claims = (0..20_u32).map(|id| acquire(&store, format!("{round}-{id}")));
            let leases = join_all(claims).await;
            join_all(leases.iter().map(|lease| complete(&store, lease))).await;
        }
    };
    let mut bystander = database.bystander().await;
    let disturbance = async {
        for _ in 0..5 {
            let ended: i64 = sqlx::query_scalar(END_ALL)
                .fetch_one(&mut bystander)
                .await
                .unwrap();
            assert!(ended > 0, "the claims' connection is there");
            acquire(&store, format!("after-{:?}", Owner::new())).await;
        }
    };
    tokio::join!(work, disturbance);
}

#[tokio::test]
async fn a_connection_that_died_while_nobody_used_it_costs_no_caller_an_error() {
    let database = Database::new();
    let store = database.store().await;
    let lease = acquire(&store, "a").await;
    assert_eq!(database.number(END_ALL).await, 2);
    acquire(&store, "b").await;
    complete(&store, &lease).await;
}

/// A way to the server that ends as many new connections at once as it is told to, as a proxy does that is being led
/// to another server.
async fn proxy(target: u16) -> (u16, Arc<AtomicU32>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let to_end = Arc::new(AtomicU32::new(0));
    let left = Arc::clone(&to_end);
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let one_less = |left: u32| left.checked_sub(1);
            if left
                .try_update(Ordering::Relaxed, Ordering::Relaxed, one_less)
                .is_ok()
            {
                continue;
            }
            tokio::spawn(async move {
                let mut server = TcpStream::connect(("127.0.0.1", target)).await.unwrap();
                let _ = copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    (port, to_end)
}

#[tokio::test]
async fn connections_that_are_ended_before_they_are_open_cost_no_caller_an_error() {
    let database = Database::new();
    let server = postgres::shared().unwrap();
    let (port, to_end) = proxy(server.port()).await;
    let direct = format!(":{}/", server.port());
    let url = database.url.replace(&direct, &format!(":{port}/"));
    let store = PostgresStore::connect(&url).await.unwrap();
    acquire(&store, "a").await;
    to_end.store(3, Ordering::Relaxed);
    database.number(END_ALL).await;
    acquire(&store, "b").await;
    assert_eq!(to_end.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_server_that_is_read_only_is_unavailable_until_it_is_not() {
    let database = Database::new();
    let store = database.store().await;
    let lease = acquire(&store, "a").await;
    read_only(&database, "on");
    database.number(END_ALL).await;
    for _ in 0..2 {
        let claim = store.claim(&request("b")).await;
        assert_matches!(claim, Err(StoreError::Unavailable(_)));
    }
    read_only(&database, "off");
    acquire(&store, "b").await;
    complete(&store, &lease).await;
}

/// New sessions of the database can write nothing.
fn read_only(database: &Database, on: &str) {
    let name = database.url.rsplit('/').next().unwrap();
    let set = format!("ALTER DATABASE {name} SET default_transaction_read_only = {on}");
    // From another database, which can be written to.
    postgres::shared().unwrap().query("idem", &set).unwrap();
}

/// One connection for handlers, in a database with a table for them.
async fn lender(database: &Database) -> PostgresStore {
    database.run("CREATE TABLE charges (id text)").await;
    let store = PostgresStore::builder(&database.url).connections(1);
    store.build().await.unwrap()
}

type Lent = PgConnection;

async fn begin(store: &PostgresStore, id: &str) -> OpenTransaction {
    let begun = TransactionalStore::<Lent>::begin(store, &request(id)).await;
    let Ok(Begun::Acquired(_, open)) = begun else {
        panic!("{begun:?}");
    };
    open
}

async fn charge(open: &mut OpenTransaction) -> Result<(), sqlx::Error> {
    let charge = sqlx::query("INSERT INTO charges VALUES ('o-1')");
    let lent: &mut Lent = <PostgresStore as TransactionalStore<Lent>>::lend(open);
    charge.execute(lent).await.map(drop)
}

#[tokio::test]
async fn a_session_that_was_begun_on_a_read_only_server_is_not_lent_later() {
    let database = Database::new();
    let store = lender(&database).await;
    read_only(&database, "on");
    database.number(END_ALL).await;
    let begun = TransactionalStore::<Lent>::begin(&store, &request("a")).await;
    assert_matches!(begun, Err(StoreError::Unavailable(_)));
    read_only(&database, "off");
    let mut open = begin(&store, "a").await;
    charge(&mut open).await.unwrap();
}

/// Its claims' session is older.
#[tokio::test]
async fn no_handler_gets_a_session_that_was_opened_while_the_server_only_reads() {
    let database = Database::new();
    let store = lender(&database).await;
    read_only(&database, "on");
    let begun = TransactionalStore::<Lent>::begin(&store, &request("a")).await;
    read_only(&database, "off");
    let refused = begun.unwrap_err().to_string();
    assert!(refused.contains("unavailable"), "{refused}");
    let mut open = begin(&store, "b").await;
    charge(&mut open).await.unwrap();
    fail(&mut open).await;
    assert!(TransactionalStore::<Lent>::is_alive(&store, &mut open).await);
}

/// All sessions of the server can write nothing unless they ask for it, from now on or not any more.
fn server_only_reads(server: &Postgres, setting: &str) {
    server
        .set("default_transaction_read_only", setting)
        .unwrap();
}

#[tokio::test]
async fn a_handler_that_fails_while_its_server_is_made_read_only_has_not_failed() {
    let server = Postgres::start().unwrap();
    let store = PostgresStore::connect(&server.url()).await.unwrap();
    let (mut before, mut after) = (begin(&store, "a").await, begin(&store, "b").await);
    server_only_reads(&server, "on");
    fail(&mut before).await;
    assert!(!TransactionalStore::<Lent>::is_alive(&store, &mut before).await);
    server_only_reads(&server, "off");
    fail(&mut after).await;
    assert!(TransactionalStore::<Lent>::is_alive(&store, &mut after).await);
}

async fn fail(open: &mut OpenTransaction) {
    let lent: &mut Lent = <PostgresStore as TransactionalStore<Lent>>::lend(open);
    let nonsense = sqlx::query("INSERT INTO nowhere VALUES (1)").execute(lent);
    nonsense.await.unwrap_err();
}

#[tokio::test]
async fn a_frozen_server_is_unavailable_and_heals() {
    let server = Postgres::start().unwrap();
    let store = PostgresStore::builder(&server.url())
        .response_timeout(Duration::from_secs(2))
        .build()
        .await
        .unwrap();
    let lease = acquire(&store, "a").await;
    server.freeze().unwrap();
    let request = request("b");
    let outcome = Outcome::new("done");
    let (claim, written) = tokio::join!(
        store.claim(&request),
        store.complete(&lease, &outcome, MINUTE)
    );
    assert_matches!(claim, Err(StoreError::Unavailable(_)));
    assert_matches!(written, Err(StoreError::Unavailable(_)));
    server.thaw().unwrap();
    let claim = until_available(async || store.claim(&request).await).await;
    assert!(matches!(claim, Claim::Acquired(_)), "{claim:?}");
    let written = until_available(async || store.complete(&lease, &outcome, MINUTE).await).await;
    assert_eq!(written, Write::Applied);
}

#[tokio::test]
async fn a_server_that_crashed_is_unavailable_and_heals() {
    let server = Postgres::start().unwrap();
    let store = PostgresStore::connect(&server.url()).await.unwrap();
    let lease = acquire(&store, "a").await;
    server.kill().unwrap();
    let claim = store.claim(&request("b")).await;
    assert_matches!(claim, Err(StoreError::Unavailable(_)));
    server.restart().unwrap();
    complete(&store, &lease).await;
    acquire(&store, "b").await;
}

async fn until_available<T>(mut ask: impl AsyncFnMut() -> Result<T, StoreError>) -> T {
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(StoreError::Unavailable(_)) => {}
            Err(other) => panic!("{other}"),
        }
    }
}

/// A process of the server waits for the table with each statement, until there are too many.
#[tokio::test]
async fn a_server_that_leaves_statements_unanswered_is_asked_less_and_less() {
    let database = Database::new();
    // Creates the table, which may take longer than the other one waits.
    database.store().await;
    let impatient = PostgresStore::builder(&database.url);
    let impatient = impatient.response_timeout(Duration::from_secs(1));
    let store = impatient.build().await.unwrap();
    let mut bystander = database.bystander().await;
    run(&mut bystander, "BEGIN; LOCK TABLE idem_records").await;
    let end = tokio::time::Instant::now() + Duration::from_secs(8);
    while tokio::time::Instant::now() < end {
        store.claim(&request("a")).await.unwrap_err();
        tokio::task::yield_now().await;
    }
    let waiting = database
        .number(
            "SELECT count(*) FROM pg_stat_activity
             WHERE datname = current_database() AND wait_event_type = 'Lock'",
        )
        .await;
    assert!((2..=6).contains(&waiting), "{waiting}");
    drop(bystander);
    until_available(async || store.claim(&request("a")).await).await;
}

#[tokio::test]
async fn the_server_is_to_notice_within_seconds_that_the_host_of_a_worker_has_vanished() {
    let database = Database::new();
    let address = link::Address {
        options: database.url.parse().unwrap(),
        response_timeout: MINUTE,
    };
    let mut connection = address.connect().await.unwrap();
    let settings = ["idle", "interval", "count"].map(|of| format!("SHOW tcp_keepalives_{of}"));
    let mut told = Vec::new();
    for setting in settings {
        let value: String = sqlx::query_scalar(AssertSqlSafe(setting))
            .fetch_one(&mut connection)
            .await
            .unwrap();
        told.push(value);
    }
    assert_eq!(told, ["10", "5", "3"]);
}
