//! `PostgreSQL` through TLS, on a server with a certificate of its own.

use std::sync::Arc;

use idem_amqp::{
    Key, Policy, PostgresStore,
    handler::Outcome,
    sqlx::PgConnection,
    store::{Begun, ClaimRequest, Completion, ConnectError, Finish, Finished, TransactionalStore},
};
use idem_servers::{Postgres, postgres::DatabaseServer};
use idem_tests::servers::off_thread;

/// What the server runs in the folder of its data, as its own user: its key has to be that user's.
const CERTIFICATES: &str = "\
    openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=idem-tests \
        -keyout authority.key -out authority.crt && \
    openssl req -newkey rsa:2048 -nodes -subj /CN=postgres -keyout server.key -out server.csr && \
    printf subjectAltName=IP:127.0.0.1 > server.ext && \
    openssl x509 -req -in server.csr -CA authority.crt -CAkey authority.key -CAcreateserial \
        -days 2 -extfile server.ext -out server.crt";

/// A server that takes part in TLS, and who has signed its certificate.
fn encrypting() -> idem_servers::Result<(Postgres, String)> {
    let server = Postgres::start()?;
    ask(
        &server,
        &format!("COPY (SELECT 1) TO PROGRAM '{CERTIFICATES}'"),
    )?;
    ask(&server, "ALTER SYSTEM SET ssl = on")?;
    server.restart()?;
    let data = ask(&server, "SHOW data_directory")?;
    Ok((server, format!("{data}/authority.crt")))
}

fn ask(server: &DatabaseServer, sql: &str) -> idem_servers::Result<String> {
    let answer = server.query("idem", sql)?;
    Ok(answer.trim().to_owned())
}

/// The store's connections, by whether they are encrypted: whether these are its own two and the handler's.
const CONNECTIONS: &str = "SELECT ssl, count(*) > 2 \
    FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
    WHERE datname = 'idem' AND application_name <> 'psql' GROUP BY ssl";

/// The URL of PostgreSQL asks for TLS, and for a certificate that is checked.
///
/// - does: encrypts all its connections; returns a clear error for an authority that it does not know
#[tokio::test]
async fn a_store_on_postgres_is_reached_through_tls() {
    let (server, authority) = off_thread(encrypting).await;
    let server = Arc::new(server);
    let url = format!("{}?sslmode=verify-full", server.url());
    let unknown = PostgresStore::connect(&url).await.unwrap_err();
    assert!(chain(&unknown).contains("UnknownIssuer"), "{unknown:?}");

    let url = format!("{url}&sslrootcert={authority}");
    let store = PostgresStore::connect(&url).await.unwrap();
    let request = ClaimRequest::new(Key::new("orders.charge", "o-1").unwrap(), &Policy::DEFAULT);
    let handled = handle(&store, &request, {
        let server = Arc::clone(&server);
        move || ask(&server, CONNECTIONS)
    });
    let (seen, ended) = handled.await;
    assert_eq!(seen, "t|t");
    assert_eq!(ended, Finished::Committed);
}

/// Atomically, and what is seen meanwhile.
async fn handle<T: Send + 'static>(
    store: &impl TransactionalStore<PgConnection>,
    request: &ClaimRequest,
    look: impl FnOnce() -> idem_servers::Result<T> + Send + 'static,
) -> (T, Finished) {
    let Begun::Acquired(lease, transaction) = store.begin(request).await.unwrap() else {
        panic!("the key is new")
    };
    let seen = off_thread(look).await;
    let outcome = Outcome::new("17");
    let complete = Finish::Complete(Completion::new(
        &lease,
        &outcome,
        Policy::DEFAULT.retention(),
    ));
    let committed = store.finish(transaction, complete).await;
    (seen, committed.unwrap())
}

/// The URL of the store asks for TLS, and the server offers none.
///
/// - does: returns an error that says so; sends nothing unencrypted
#[tokio::test]
async fn a_server_without_tls_is_refused_where_tls_is_required() {
    let server = off_thread(Postgres::start).await;
    let url = format!("{}?sslmode=require", server.url());
    let refused = PostgresStore::connect(&url).await.unwrap_err();
    let said = "server does not support TLS";
    assert!(chain(&refused).contains(said), "{refused:?}");
}

/// An error and its causes.
fn chain(error: &ConnectError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
