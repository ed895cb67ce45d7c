//! Passwords of the broker: never in a log, never in an error.

use std::net::TcpListener;

use idem_tests::{
    bed::Bed,
    ledger::Ledger,
    process::{Process, Settings},
    proxy::Proxy,
    servers::off_thread,
};

const LEDGER_WORKER: &str = env!("CARGO_BIN_EXE_ledger-worker");
const PASSWORD: &str = "s3same-0pen";

/// A user of the test's own; the broker's URL for it.
async fn user(bed: &Bed) -> String {
    let (broker, name) = (bed.broker().clone(), bed.name().to_owned());
    off_thread(move || {
        broker.rabbitmqctl(["add_user", &name, PASSWORD])?;
        broker.rabbitmqctl(["set_permissions", &name, ".*", ".*", ".*"])
    })
    .await;
    bed.url()
        .replace("guest:guest", &format!("{}:{PASSWORD}", bed.name()))
}

fn shows_password(lines: &[String]) -> Option<&String> {
    lines.iter().find(|line| line.contains(PASSWORD))
}

async fn until_logged(worker: &Process, words: &str) {
    let logged = |lines: &[String]| lines.iter().any(|line| line.contains(words));
    let lines = worker
        .log
        .until(&format!("`{words}` in the log"), logged)
        .await;
    assert_eq!(shows_password(&lines), None);
}

/// A connection fails in any way, with a password in the URL.
///
/// - does: shows it neither in the log nor in an error
#[tokio::test]
async fn no_failure_of_a_connection_shows_the_password() {
    let bed = Bed::bare().await;
    let ledger = Ledger::create().await;
    let url = user(&bed).await;
    let by = |port: u16| url.replace(&format!(":{}/", bed.broker().port()), &format!(":{port}/"));
    let away = Proxy::closed(bed.broker().port());
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let good = Proxy::open(bed.broker().port()).await;
    let urls = [
        by(away.port()),
        by(silent.local_addr().unwrap().port()) + "?connection_timeout=300",
        url.replace(PASSWORD, &format!("not-{PASSWORD}")),
        url.replace("%2f", "no-such-vhost"),
        by(good.port()) + "?heartbeat=1",
    ];
    let settings = Settings::new(&urls.join(","), bed.name(), &ledger);
    let worker = Process::start(LEDGER_WORKER, &settings);
    bed.until_consumed(bed.name(), 1).await;
    good.cut();
    for incident in ["connection-broken", "unreachable", "refused"] {
        until_logged(&worker, &format!("incident={incident}")).await;
    }
    bed.order("a").await;
    worker.ended("executed", 1).await;
    good.freeze();
    until_logged(&worker, "incident=heartbeat-missed").await;
    bed.order("b").await;
    worker.ended("executed", 2).await;
    let log = worker.log.clone();
    worker.stop().await;
    assert_eq!(shows_password(&log.entries()), None);
    bed.assert_nothing_stuck().await;
}

/// Shares the promise of `secrets::no_failure_of_a_connection_shows_the_password`.
#[tokio::test]
async fn no_error_that_ends_a_worker_shows_the_password() {
    let bed = Bed::bare().await;
    let ledger = Ledger::create().await;
    let url = user(&bed).await;
    for (wrong, told) in [
        (
            url.replace(PASSWORD, &format!("not-{PASSWORD}")),
            "refused the connection",
        ),
        (
            url.replace("amqp://", "http://"),
            "the AMQP URL is not valid",
        ),
        (url.replace("amqp://", "amqp:"), "the AMQP URL is not valid"),
        (
            url.replace("127.0.0.1", "/127.0.0.1"),
            "the AMQP URL is not valid",
        ),
    ] {
        let settings = Settings::new(&wrong, bed.name(), &ledger);
        let mut worker = Process::start(LEDGER_WORKER, &settings);
        assert!(!worker.exit().await.success());
        until_logged(&worker, told).await;
        assert_eq!(shows_password(&worker.log.entries()), None);
    }
    bed.assert_nothing_stuck().await;
}
