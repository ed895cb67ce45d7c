//! The same order by HTTP and by the queue is charged once, also when the service is killed in the middle.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, ChildStderr, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread::{sleep, spawn},
    time::{Duration, Instant},
};

use idem_amqp::{
    Publication, Publisher,
    sqlx::{self, Connection as _, PgConnection, SqliteConnection},
};
use idem_servers::{Postgres, example};
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_order-api");
const A_MINUTE: Duration = Duration::from_mins(1);

/// A service on a port of its own.
struct Service {
    process: Child,
    address: String,
    /// What it logs.
    log: Receiver<String>,
}

impl Service {
    fn start(database: &Database, variables: &[(&str, &str)]) -> Self {
        let mut process = Command::new(PROGRAM)
            .env("HTTP_ADDR", "127.0.0.1:0")
            .env("STORE_URL", database.url())
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = lines(process.stderr.take().unwrap());
        let mut said = String::new();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        output.read_line(&mut said).unwrap();
        let address = said.trim().strip_prefix("listening on ");
        let address = address.expect("it says where it listens").to_owned();
        Self {
            process,
            address,
            log,
        }
    }

    /// Waits until the handler of a request runs.
    fn until_it_pays(&self) {
        let deadline = Instant::now() + A_MINUTE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self.log.recv_timeout(left);
            let line = line.expect("not within 60 s: a handler asks the payment gateway");
            if line.contains("asking the payment gateway") {
                return;
            }
        }
    }

    fn begin(&self, key: &str, order: &Value) -> TcpStream {
        self.begin_with(&format!("idempotency-key: {key}\r\n"), order)
    }

    fn begin_with(&self, headers: &str, order: &Value) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let order = order.to_string();
        let length = order.len();
        write!(
            stream,
            "POST /charges HTTP/1.1\r\nhost: test\r\nconnection: close\r\n{headers}\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{order}"
        )
        .unwrap();
        stream
    }

    /// The status, whether it is a replay, and the body.
    fn post(&self, key: &str, order: &Value) -> (u16, bool, Value) {
        answer(self.begin(key, order))
    }

    /// The same of a tenant.
    fn post_of(&self, tenant: &str, key: &str, order: &Value) -> (u16, bool, Value) {
        let headers = format!("idempotency-key: {key}\r\nx-tenant: {tenant}\r\n");
        answer(self.begin_with(&headers, order))
    }

    /// Sends SIGTERM, and waits until it has ended.
    fn stop(mut self) {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").arg(id).status().unwrap().success());
        assert!(self.process.wait().unwrap().success());
    }
}

fn answer(mut sent: TcpStream) -> (u16, bool, Value) {
    let mut answer = String::new();
    sent.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let is_replayed = head.contains("\r\nidempotency-replayed: true");
    let is_problem = head.contains("\r\ncontent-type: application/problem+json");
    assert_eq!(is_problem, status != 201, "{head}");
    (status, is_replayed, serde_json::from_str(body).unwrap())
}

/// The lines of a process, which this one's output shows too.
fn lines(output: ChildStderr) -> Receiver<String> {
    let (sender, lines) = channel();
    spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            eprintln!("{line}");
            // Not every test reads them.
            let _ = sender.send(line);
        }
    });
    lines
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn order(id: &str, amount_cents: i64) -> Value {
    json!({ "order_id": id, "customer": "ann", "amount_cents": amount_cents })
}

fn receipt(id: &str, amount_cents: i64) -> Value {
    json!({ "order_id": id, "amount_cents": amount_cents, "charge_id": format!("ch-{id}") })
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Runtime::new().unwrap().block_on(work)
}

/// What `STORE_URL` names, of a test's own.
enum Database {
    Sqlite(tempfile::TempDir),
    Postgres(Postgres),
}

impl Database {
    fn sqlite() -> Self {
        Self::Sqlite(tempfile::tempdir().unwrap())
    }

    fn postgres() -> Self {
        Self::Postgres(Postgres::start().unwrap())
    }

    fn url(&self) -> String {
        match self {
            Self::Sqlite(folder) => format!("sqlite:{}", folder.path().join("orders.db").display()),
            Self::Postgres(server) => server.url(),
        }
    }

    /// The orders that were charged, each with the door that it came by.
    fn charges(&self) -> Vec<(String, String)> {
        const ROWS: &str = "SELECT order_id, worker FROM charges ORDER BY order_id, worker";
        let url = self.url();
        block_on(async {
            match self {
                Self::Sqlite(_) => {
                    let mut db = SqliteConnection::connect(&url).await.unwrap();
                    sqlx::query_as(ROWS).fetch_all(&mut db).await.unwrap()
                }
                Self::Postgres(_) => {
                    let mut db = PgConnection::connect(&url).await.unwrap();
                    sqlx::query_as(ROWS).fetch_all(&mut db).await.unwrap()
                }
            }
        })
    }
}

/// Runs each test on each database.
macro_rules! on_each_database {
    ($($test:ident,)*) => {
        mod sqlite {
            $(#[test]
            fn $test() {
                super::$test(&super::Database::sqlite());
            })*
        }

        mod postgres {
            $(#[test]
            fn $test() {
                super::$test(&super::Database::postgres());
            })*
        }
    };
}

on_each_database! {
    an_order_that_comes_by_both_doors_is_charged_once,
    tenants_may_have_orders_of_the_same_id,
    a_service_that_is_killed_in_the_middle_has_done_nothing,
    a_service_that_is_told_to_stop_ends_what_it_has_begun,
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < A_MINUTE, "not within 60 s: {what}");
        sleep(Duration::from_millis(20));
    }
}

fn charged(id: &str, door: &str) -> (String, String) {
    (id.into(), door.into())
}

fn an_order_that_comes_by_both_doors_is_charged_once(database: &Database) {
    let url = example::vhost(PROGRAM);
    let variables = [("AMQP_URL", &*url), ("ORDERS_QUEUE", "shop-orders")];
    let service = Service::start(database, &variables);
    let publish = |id: &str| {
        let order = order(id, 500);
        block_on(async {
            let publisher = Publisher::connect(&*url).await.unwrap();
            publisher.declare("shop-orders").await.unwrap();
            for _ in 0..2 {
                publisher
                    .publish(&Publication::json("shop-orders", &order))
                    .await
                    .unwrap();
            }
        });
    };
    assert_eq!(
        service.post("k-1", &order("a", 500)),
        (201, false, receipt("a", 500))
    );
    assert_eq!(
        service.post("k-1", &order("a", 500)),
        (201, true, receipt("a", 500))
    );
    // The same order under another key, and by the queue.
    assert_eq!(
        service.post("k-2", &order("a", 500)),
        (201, false, receipt("a", 500))
    );
    publish("a");
    // The other way round.
    publish("b");
    until("b is charged", || database.charges().len() == 2);
    assert_eq!(
        service.post("k-3", &order("b", 500)),
        (201, false, receipt("b", 500))
    );
    let (status, is_replayed, problem) = service.post("k-4", &order("b", 900));
    assert_eq!((status, is_replayed), (409, false), "{problem}");
    for (key, amount_cents) in [("k-5", 0), ("k-6", -1)] {
        for is_copy in [false, true] {
            let (status, is_replayed, problem) = service.post(key, &order("c", amount_cents));
            assert_eq!((status, is_replayed), (422, is_copy), "{problem}");
            assert_eq!(problem["detail"], "amount_cents must be positive");
        }
    }
    service.stop();
    assert_eq!(
        database.charges(),
        [charged("a", "http"), charged("b", "queue")]
    );
}

fn tenants_may_have_orders_of_the_same_id(database: &Database) {
    let service = Service::start(database, &[("AMQP_URL", "none")]);
    for is_copy in [false, true] {
        for (tenant, amount_cents) in [("ann", 500), ("bob", 700)] {
            assert_eq!(
                service.post_of(tenant, "k", &order("a", amount_cents)),
                (201, is_copy, receipt("a", amount_cents))
            );
        }
    }
    // Whoever names no tenant is one of its own, called `none`.
    let of_none = service.post("k", &order("a", 900));
    assert_eq!(of_none, (201, false, receipt("a", 900)));
    let of_none = service.post_of("none", "k", &order("a", 900));
    assert_eq!(of_none, (201, true, receipt("a", 900)));
    let (status, ..) = service.post_of("", "k", &order("a", 900));
    assert_eq!(status, 400);
    service.stop();
    assert_eq!(database.charges(), vec![charged("a", "http"); 3]);
}

fn a_service_that_is_killed_in_the_middle_has_done_nothing(database: &Database) {
    let slow = [
        ("AMQP_URL", "none"),
        ("WORK_MS", "60000"),
        ("LEASE_MS", "1000"),
    ];
    let mut service = Service::start(database, &slow);
    let _sent = service.begin("k", &order("a", 500));
    service.until_it_pays();
    service.process.kill().unwrap();
    service.process.wait().unwrap();
    let service = Service::start(database, &[("AMQP_URL", "none")]);
    assert_eq!(
        service.post("k", &order("a", 500)),
        (201, false, receipt("a", 500))
    );
    assert_eq!(
        service.post("k", &order("a", 500)),
        (201, true, receipt("a", 500))
    );
    service.stop();
    assert_eq!(database.charges(), [charged("a", "http")]);
}

fn a_service_that_is_told_to_stop_ends_what_it_has_begun(database: &Database) {
    let slow = [("AMQP_URL", "none"), ("WORK_MS", "1000")];
    let service = Service::start(database, &slow);
    let sent = service.begin("k", &order("a", 500));
    service.until_it_pays();
    // The client goes away.
    drop(sent);
    service.stop();
    assert_eq!(database.charges(), [charged("a", "http")]);
}
