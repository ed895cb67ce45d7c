//! Requests to services behind the layer of `idem-http`: processes of their own, on sockets, killed with SIGKILL at a
//! chosen point, and a PostgreSQL that is replaced by its standby. Their clients send what was not answered again, with
//! the same key.

use std::collections::BTreeMap;

use futures_util::future::{join, join_all};
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use idem_tests::{
    journal::{eventually, within},
    ledger::{Charge, Ledger},
    postgres_pair::PostgresPair,
    process::{Crash, Event, Mode, Process, Settings},
    script::Order,
    store_at::Product::{self, Postgres, Redis, Sqlite},
};
use serde_json::Value;

type Bytes = Full<axum::body::Bytes>;

const CHARGE_API: &str = env!("CARGO_BIN_EXE_charge-api");

/// A service that charges orders, in a process of its own, and a client of it.
struct Service {
    process: Process,
    url: String,
    client: Client<HttpConnector, Bytes>,
}

/// What the client was answered.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    is_replay: bool,
    charge: Value,
}

impl Service {
    async fn start(ledger: &Ledger, mode: Mode, name: &str, crash: Option<Crash>) -> Self {
        let settings = Settings::new("none", "none", ledger).with(|settings| {
            (settings.mode, settings.crash) = (mode, crash);
            settings.name = name.into();
        });
        let process = Process::start(CHARGE_API, &settings);
        let said = process.events.count("the service listens", 1).await;
        let [Event::Listening { port }] = said[..] else {
            panic!("it says something else first: {said:?}");
        };
        let client = Client::builder(TokioExecutor::new());
        Self {
            process,
            url: format!("http://127.0.0.1:{port}/charges"),
            client: client.build_http(),
        }
    }

    /// Sends a request, once: what is answered if the order is charged, or why that is not known.
    async fn charge(&self, id: &str) -> Result<Answer, String> {
        let order = serde_json::to_vec(&Order::new(id)).expect("JSON expresses orders");
        let request = Request::post(&self.url)
            .header("content-type", "application/json")
            .header("idempotency-key", format!("key-of-{id}"));
        let request = request.body(Full::from(order)).expect("a request");
        let response = within("a response", self.client.request(request)).await;
        let (head, body) = response.map_err(|error| error.to_string())?.into_parts();
        let body = within("its body", body.collect()).await;
        let body = body.map_err(|error| error.to_string())?.to_bytes();
        if head.status != StatusCode::CREATED {
            let body = String::from_utf8_lossy(&body);
            return Err(format!("{}: {body}", head.status));
        }
        Ok(Answer {
            is_replay: head.headers.contains_key("idempotency-replayed"),
            charge: serde_json::from_slice(&body).expect("JSON"),
        })
    }

    /// Sends a request until it is answered with the charge.
    async fn charge_until_answered(&self, id: &str) -> Answer {
        eventually("an answer", || self.charge(id)).await
    }
}

/// Where the client's second answer comes from.
#[derive(Debug, PartialEq, Eq)]
enum Origin {
    /// The first service has recorded it.
    Recorded,
    /// The second service's handler ran.
    Run,
    /// The same, and its attempt was in doubt.
    RunInDoubt,
}

impl Origin {
    fn of(answer: &Answer) -> Self {
        match (answer.is_replay, answer.charge["in_doubt"].as_bool()) {
            (true, Some(false)) => Self::Recorded,
            (false, Some(false)) => Self::Run,
            (false, Some(true)) => Self::RunInDoubt,
            _ => panic!("the first attempt was in doubt: {answer:?}"),
        }
    }
}

/// A service dies at this point of a request; another one takes its place, and the client asks again. Where the answer
/// comes from, and who has charged in the end.
async fn after(crash: Crash, product: Product, mode: Mode) -> (Origin, Vec<Charge>) {
    let ledger = Ledger::on(product).await;
    let first = Service::start(&ledger, mode, "first", Some(crash)).await;
    let lost = first.charge("a").await;
    assert!(lost.is_err(), "it was to die before it answers: {lost:?}");
    first.process.died().await;

    let second = Service::start(&ledger, mode, "second", None).await;
    let answer = second.charge_until_answered("a").await;
    let copy = second.charge("a").await.expect("an answer");
    assert!(copy.is_replay, "{copy:?}");
    assert_eq!(
        copy.charge, answer.charge,
        "a copy is answered like the first"
    );
    (Origin::of(&answer), ledger.charges().await)
}

const ATOMIC: [Product; 2] = [Sqlite, Postgres];
const LEASED: [Product; 3] = [Sqlite, Postgres, Redis];

/// The same on each of these stores, at once.
async fn assert_after<const N: usize>(
    crash: Crash,
    mode: Mode,
    products: [Product; N],
    expected: (Origin, &[Charge]),
) {
    let each = products.map(|product| after(crash, product, mode));
    for (product, (origin, charges)) in products.into_iter().zip(join_all(each).await) {
        assert_eq!((origin, &charges[..]), expected, "{product:?}");
    }
}

fn charge(attempt: u32, by: &str) -> Charge {
    Charge::new("a", attempt, by)
}

/// A service is killed before the claim of a request.
///
/// - does: handles the request when its client sends it again
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn an_atomic_service_on_sqlite_and_postgres_killed_before_its_claim_has_done_nothing() {
    let expected = (Origin::Run, &[charge(1, "second")][..]);
    assert_after(Crash::BeforeClaim(1), Mode::Atomic, ATOMIC, expected).await;
}

/// Shares the promise of `requests::an_atomic_service_on_sqlite_and_postgres_killed_before_its_claim_has_done_nothing`.
#[tokio::test]
async fn a_leased_service_on_sqlite_postgres_and_redis_killed_before_its_claim_has_done_nothing() {
    let expected = (Origin::Run, &[charge(1, "second")][..]);
    assert_after(Crash::BeforeClaim(1), Mode::Leased, LEASED, expected).await;
}

/// A service is killed after the claim of a request, before its handler.
///
/// - does: handles the request, which is sent again, when the lease has run out
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn an_atomic_service_on_sqlite_and_postgres_killed_after_its_claim_is_replaced() {
    let expected = (Origin::Run, &[charge(2, "second")][..]);
    assert_after(Crash::AfterClaim(1), Mode::Atomic, ATOMIC, expected).await;
}

/// Shares the promise of `requests::an_atomic_service_on_sqlite_and_postgres_killed_after_its_claim_is_replaced`.
#[tokio::test]
async fn a_leased_service_on_sqlite_postgres_and_redis_killed_after_its_claim_is_replaced() {
    let expected = (Origin::RunInDoubt, &[charge(2, "second")][..]);
    assert_after(Crash::AfterClaim(1), Mode::Leased, LEASED, expected).await;
}

/// A service is killed after the effect of a request, before its response is recorded.
///
/// - does: handles the request, which is sent again, when the lease has run out
/// - atomic: once
/// - leased: effect twice, in doubt
#[tokio::test]
async fn an_atomic_service_on_sqlite_and_postgres_killed_after_its_effect_has_done_nothing() {
    let expected = (Origin::Run, &[charge(2, "second")][..]);
    assert_after(Crash::BeforeCompletion(1), Mode::Atomic, ATOMIC, expected).await;
}

/// Shares the promise of `requests::an_atomic_service_on_sqlite_and_postgres_killed_after_its_effect_has_done_nothing`.
#[tokio::test]
async fn a_leased_service_on_sqlite_postgres_and_redis_killed_after_its_effect_has_it_twice() {
    let expected = (
        Origin::RunInDoubt,
        &[charge(1, "first"), charge(2, "second")][..],
    );
    assert_after(Crash::BeforeCompletion(1), Mode::Leased, LEASED, expected).await;
}

/// A service is killed after the response to a request is recorded, before it is sent.
///
/// - does: sends the recorded response when the request is sent again
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn an_atomic_service_on_sqlite_and_postgres_killed_before_it_responds_is_not_repeated() {
    let expected = (Origin::Recorded, &[charge(1, "first")][..]);
    assert_after(Crash::AfterCompletion(1), Mode::Atomic, ATOMIC, expected).await;
}

/// Shares the promise of
/// `requests::an_atomic_service_on_sqlite_and_postgres_killed_before_it_responds_is_not_repeated`.
#[tokio::test]
async fn a_leased_service_on_sqlite_postgres_and_redis_killed_before_it_responds_is_not_repeated() {
    let expected = (Origin::Recorded, &[charge(1, "first")][..]);
    assert_after(Crash::AfterCompletion(1), Mode::Leased, LEASED, expected).await;
}

const CLIENTS: usize = 8;
const REQUESTS: usize = 40;

/// Clients send requests, and PostgreSQL fails over to its standby, which confirms each commit.
///
/// - does: answers 503 or nothing while there is no server, goes on by itself, and answers copies with the recorded
///   responses
/// - atomic: once each
#[tokio::test]
async fn an_atomic_service_whose_postgres_fails_over_charges_each_request_once() {
    let pair = PostgresPair::start().await;
    let ledger = Ledger::of(&pair.store().await).await;
    pair.commit_on_both().await;
    let service = Service::start(&ledger, Mode::Atomic, "api", None).await;
    let ids = |client| (0..REQUESTS).map(move |number| format!("{client}-{number}"));
    let (answers, failed_over) = (idem_tests::journal::Journal::default(), pair.fail_over());
    let sending = join_all((0..CLIENTS).map(async |client| {
        for id in ids(client) {
            let answer = service.charge_until_answered(&id).await;
            answers.write((id, answer.charge));
        }
    }));
    let failing = async {
        answers
            .count("some are answered", CLIENTS * REQUESTS / 4)
            .await;
        failed_over.await;
    };
    join(sending, failing).await;

    let answers: BTreeMap<_, _> = answers.entries().into_iter().collect();
    for (id, charge) in &answers {
        let copy = service.charge(id).await.expect("an answer");
        assert_eq!((copy.is_replay, &copy.charge), (true, charge), "{id}");
    }
    let charges = ledger.charges_per_order().await;
    let doubled = charges.iter().filter(|(_, times)| **times != 1);
    assert_eq!(doubled.collect::<Vec<_>>(), [], "charged more than once");
    assert_eq!(
        (answers.len(), charges.len()),
        (CLIENTS * REQUESTS, CLIENTS * REQUESTS)
    );
}
