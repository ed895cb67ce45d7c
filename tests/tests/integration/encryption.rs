//! Stores through TLS, on servers with certificates of their own.

use std::{fs, sync::Arc};

use idem_amqp::{
    Key, Policy, PostgresStore, RedisStore,
    handler::Outcome,
    redis::{Client, ClientTlsConfig, TlsCertificates},
    sqlx::PgConnection,
    store::{
        Begun, Claim, ClaimRequest, Completion, ConnectError, Finish, Finished, Store as _,
        TransactionalStore,
    },
};
use idem_servers::{Postgres, Redis, free_ports, postgres::DatabaseServer};
use idem_tests::{
    bed::Bed,
    ledger::Ledger,
    process::{Mode, Process, Settings},
    servers::off_thread,
    store_at::StoreAt,
};

use crate::encrypted_links::Authority;

const LEDGER_WORKER: &str = env!("CARGO_BIN_EXE_ledger-worker");

/// Whether Redis wants its clients to show a certificate.
const MUST_SHOW_ONE: &str = "yes";
const NEED_NOT: &str = "no";

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
/// - does: encrypts all its connections; returns a clear error for an authority that it does not know, or a certificate
///   of another host
#[tokio::test]
async fn a_store_on_postgres_is_reached_through_tls() {
    let (server, authority) = off_thread(encrypting).await;
    let server = Arc::new(server);
    let url = format!("{}?sslmode=verify-full", server.url());
    let unknown = PostgresStore::connect(&url).await.unwrap_err();
    assert!(chain(&unknown).contains("UnknownIssuer"), "{unknown:?}");

    let url = format!("{url}&sslrootcert={authority}");
    let elsewhere = url.replace("127.0.0.1", "localhost");
    let elsewhere = PostgresStore::connect(&elsewhere).await.unwrap_err();
    let said = "not valid for name";
    assert!(chain(&elsewhere).contains(said), "{elsewhere:?}");

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

/// A Redis that speaks nothing but TLS, with this certificate and key.
async fn encrypting_redis(
    authority: &Authority,
    (certificate, key): (String, String),
    clients: &'static str,
) -> (Redis, u16, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let authority = file("authority.crt", &authority.pem());
    let certificate = file("server.crt", &certificate);
    let key = file("server.key", &key);
    let started = off_thread(move || {
        let [port] = free_ports()?;
        let server = Redis::start_with(&[
            ("tls-port", &port.to_string()),
            ("tls-ca-cert-file", &authority),
            ("tls-cert-file", &certificate),
            ("tls-key-file", &key),
            ("tls-auth-clients", clients),
        ])?;
        Ok((server, port))
    });
    let (server, port) = started.await;
    (server, port, folder)
}

/// Connects by what is believed and shown.
async fn connect_to_redis(
    url: &str,
    believed: &Authority,
    shown: Option<(String, String)>,
) -> Result<RedisStore, ConnectError> {
    let certificates = TlsCertificates {
        client_tls: shown.map(|(certificate, key)| ClientTlsConfig {
            client_cert: certificate.into_bytes(),
            client_key: key.into_bytes(),
        }),
        root_cert: Some(believed.pem().into_bytes()),
    };
    let client = Client::build_with_tls(url, certificates).unwrap();
    let info = client.get_connection_info().clone();
    RedisStore::builder_with(info).build().await
}

/// The URL of Redis begins with `rediss://`, and Redis wants to see a certificate, too.
///
/// - does: encrypts its connections, and shows its own; returns a clear error for a certificate of an authority that it
///   does not know, of another host, or that has expired
#[tokio::test]
async fn a_store_on_redis_is_reached_through_tls() {
    let (authority, stranger) = (
        Authority::new("idem tests"),
        Authority::new("somebody else"),
    );
    let here = authority.certificate_for("127.0.0.1");
    let (_server, port, _folder) = encrypting_redis(&authority, here, MUST_SHOW_ONE).await;
    let url = format!("rediss://127.0.0.1:{port}");
    let refused = async |url: &str, believed, shown| {
        let refused = connect_to_redis(url, believed, shown).await;
        chain(&refused.map(drop).unwrap_err())
    };
    let own = || Some(authority.certificate_for("worker"));
    let unknown = refused(&url, &stranger, own()).await;
    assert!(unknown.contains("UnknownIssuer"), "{unknown}");
    let elsewhere = url.replace("127.0.0.1", "localhost");
    let elsewhere = refused(&elsewhere, &authority, own()).await;
    assert!(elsewhere.contains("not valid for name"), "{elsewhere}");
    let without = refused(&url, &authority, None).await;
    assert!(without.contains("CertificateRequired"), "{without}");
    let unencrypted = RedisStore::connect(&url.replace("rediss", "redis")).await;
    assert!(unencrypted.is_err(), "it speaks nothing but TLS there");

    let store = connect_to_redis(&url, &authority, own()).await.unwrap();
    let request = ClaimRequest::new(Key::new("orders.charge", "o-1").unwrap(), &Policy::DEFAULT);
    let claimed = store.claim(&request).await.unwrap();
    assert!(matches!(claimed, Claim::Acquired(_)), "{claimed:?}");

    let expired = authority.expired_certificate_for("127.0.0.1");
    let (_server, port, _folder) = encrypting_redis(&authority, expired, MUST_SHOW_ONE).await;
    let expired = refused(&format!("rediss://127.0.0.1:{port}"), &authority, own()).await;
    assert!(expired.contains("expired"), "{expired}");
}

/// A worker's store is a Redis whose certificate a private authority has signed, and its URL begins with `rediss://`.
///
/// - does: handles messages and recognises their copies, also after a restart, if the system trusts the authority
///   (`SSL_CERT_FILE`)
/// - leased: once
#[tokio::test]
async fn a_worker_with_a_store_on_redis_through_tls_charges_once() {
    let authority = Authority::new("idem tests");
    let here = authority.certificate_for("127.0.0.1");
    let (server, port, folder) = encrypting_redis(&authority, here, NEED_NOT).await;
    let trusted = folder.path().join("authority.crt");
    let store = StoreAt {
        url: format!("rediss://127.0.0.1:{port}"),
        ..StoreAt::redis_on(&server)
    };
    let (bed, ledger) = (Bed::new().await, Ledger::of(&store).await);
    let settings = Settings::new(bed.url(), bed.name(), &ledger).with(|settings| {
        settings.mode = Mode::Leased;
    });
    let start = || Process::start_trusting(&trusted, LEDGER_WORKER, &settings);
    let first = start();
    bed.order("a").await;
    first.ended("executed", 1).await;
    bed.order("a").await;
    first.ended("duplicate", 1).await;
    first.stop().await;

    let second = start();
    bed.order("a").await;
    second.ended("duplicate", 1).await;
    second.stop().await;
    // By its other port, where it speaks no TLS.
    let unencrypted = StoreAt {
        url: server.url(),
        ..store
    };
    unencrypted.until_recorded(1).await;
    assert_eq!(ledger.count().await, 1);
    bed.assert_nothing_stuck().await;
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
