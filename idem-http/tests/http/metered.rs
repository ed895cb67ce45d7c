//! What is counted of requests, as `docs/http.md` says.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::Router;
use idem_core::{
    MemoryStore, Policy, Store,
    handler::{Enforcement, InDoubt},
    store::TransactionalStore,
};
use idem_http::{IdempotencyLayer, KeyRule};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use tokio::io::AsyncWriteExt as _;
use tower_layer::Layer as _;

use crate::{
    claims::claim_of_the_dead,
    client::{Request, post},
    lifecycle::Unready,
    service::{Effects, PATIENCE, Service},
};

const PAGE: &str = include_str!("../../../docs/http.md");

/// A test's own recorder.
struct Metered {
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
}

impl Metered {
    fn new() -> Self {
        let builder = PrometheusBuilder::new().set_buckets(&[1.0]);
        let recorder = builder.unwrap().build_recorder();
        let handle = recorder.handle();
        Self { recorder, handle }
    }

    /// Layers that are laid meanwhile are counted here.
    async fn over<T>(&self, work: impl Future<Output = T>) -> T {
        let _recorded = metrics::set_default_local_recorder(&self.recorder);
        work.await
    }

    /// A service whose layer is counted here.
    async fn start<S: Store>(&self, layer: impl FnOnce() -> IdempotencyLayer<S>) -> Service {
        self.over(async { Service::start(layer()).await }).await
    }

    /// The values of this metric, by their labels but the handler's.
    fn of(&self, name: &str) -> BTreeMap<String, u64> {
        let text = self.handle.render();
        let lines = text
            .lines()
            .filter_map(|line| line.strip_prefix(name)?.strip_prefix('{'));
        let read = lines.map(|line| {
            let (labels, value) = line.split_once("} ").unwrap();
            let others = labels
                .split(',')
                .filter(|label| *label != r#"handler="shop""#);
            let others: Vec<_> = others.collect();
            (others.join(","), value.parse().unwrap())
        });
        read.filter(|(_, value)| *value > 0).collect()
    }

    fn sum(&self, name: &str) -> u64 {
        self.of(name).values().sum()
    }

    /// How many requests have ended so.
    fn ended(&self, outcome: &str) -> u64 {
        let ended = self.of(OUTCOMES);
        let ended = ended.get(&format!(r#"outcome="{outcome}""#));
        ended.copied().unwrap_or(0)
    }

    /// The law, and these outcomes.
    #[track_caller]
    fn assert(&self, metric: &str, outcomes: &[(&str, u64)]) {
        let told = outcomes.iter();
        let told = told.map(|(outcome, count)| (format!(r#"outcome="{outcome}""#), *count));
        assert_eq!(self.of(metric), told.collect());
        self.assert_law();
    }

    /// Each request has ended in one outcome, or is in flight.
    #[track_caller]
    fn assert_law(&self) {
        let (requests, ended) = (self.sum("idem_http_requests_total"), self.sum(OUTCOMES));
        assert_eq!(requests, ended + self.sum(IN_FLIGHT));
        assert_eq!(self.sum("idem_http_request_seconds_count"), ended);
    }

    async fn until(&self, so: impl Fn(&Self) -> bool) {
        let awaited = async {
            while !so(self) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let awaited = tokio::time::timeout(PATIENCE, awaited).await;
        assert!(awaited.is_ok(), "{}", self.handle.render());
    }
}

const OUTCOMES: &str = "idem_http_outcomes_total";
const IN_FLIGHT: &str = "idem_http_in_flight";

fn wait(key: &str) -> Request {
    post(r#"{"behave":"wait"}"#).key(key)
}

#[tokio::test]
async fn each_request_ends_in_exactly_one_outcome() {
    let metered = Metered::new();
    let layer = || {
        let layer = IdempotencyLayer::new(MemoryStore::new()).unscoped();
        let layer = layer.named("shop").wait(Duration::from_millis(50));
        layer
            .max_request(1000)
            .body_timeout(Duration::from_millis(100))
    };
    let service = metered.start(layer).await;
    let order = || post(r#"{"id":"o-1"}"#);
    service.send(order().key("k")).await.assert(201, false);
    service.send(order().key("k")).await.assert(201, true);
    service
        .send(post("{}").key("k"))
        .await
        .assert_problem(422, "key-reused");
    service
        .send(order())
        .await
        .assert_problem(400, "key-missing");
    service
        .send(post(&"x".repeat(1001)).key("l"))
        .await
        .assert_problem(413, "body-too-large");
    service
        .send(post(r#"{"status":422}"#).key("r"))
        .await
        .assert(422, false);
    service
        .send(post(r#"{"status":503}"#).key("f"))
        .await
        .assert(503, false);
    service
        .send(post(r#"{"behave":"panic"}"#).key("p"))
        .await
        .assert_problem(500, "handler-failed");
    // Not for the layer.
    service.send(order().method("GET")).await.assert(201, false);
    metered.assert(
        OUTCOMES,
        &[
            ("duplicate", 1),
            ("executed", 1),
            ("failed", 2),
            ("key-reused", 1),
            ("keyless", 1),
            ("refused", 1),
            ("undecodable", 1),
        ],
    );

    // One whose client goes away while it runs ends all the same, and so does one whose client goes before it is there.
    let service_begun = service.effects.begun();
    wait("w")
        .send_and_leave(service.address, service_begun)
        .await;
    let mut broken = order().key("b").begin(service.address, 100).await;
    broken.write_all(b"{").await.unwrap();
    metered.until(|it| it.sum(IN_FLIGHT) == 2).await;
    drop(broken);
    metered.until(|it| it.sum(IN_FLIGHT) == 1).await;
    service
        .send(wait("w"))
        .await
        .assert_problem(409, "in-progress");
    assert_eq!(metered.sum(IN_FLIGHT), 1);
    service.effects.open();
    metered.until(|it| it.sum(IN_FLIGHT) == 0).await;
    assert_eq!(["conflict", "executed"].map(|it| metered.ended(it)), [1, 2]);
    // Which of the two it is is a matter of who notices first.
    let broken = ["abandoned", "undecodable"].map(|it| metered.ended(it));
    assert_eq!(broken.iter().sum::<u64>(), 2, "{broken:?}");
    metered.assert_law();
}

/// A copy of it runs again, whatever the mode. A refusal is a failure: nothing is remembered.
#[tokio::test]
async fn a_request_that_runs_without_a_key_is_counted_as_unclaimed() {
    let metered = Metered::new();
    let layer = || {
        let layer = IdempotencyLayer::new(MemoryStore::new()).unscoped();
        layer.named("shop").key(KeyRule::Optional)
    };
    let service = metered.start(layer).await;
    for status in [201, 201, 422, 503] {
        let request = post(&format!(r#"{{"status":{status}}}"#));
        service.send(request).await.assert(status, false);
    }
    service.send(post("{}").key("k")).await.assert(201, false);
    metered.assert(
        OUTCOMES,
        &[("executed", 1), ("failed", 2), ("unclaimed", 2)],
    );
}

#[tokio::test]
async fn a_request_takes_two_calls_of_the_store_and_a_copy_takes_one() {
    let metered = Metered::new();
    let layer = || {
        let layer = IdempotencyLayer::new(MemoryStore::new()).unscoped();
        layer.named("shop")
    };
    let service = metered.start(layer).await;
    for (is_copy, claims) in [(false, 1), (true, 2)] {
        service.send(post("{}").key("k")).await.assert(201, is_copy);
        let told = [("claim", claims), ("complete", 1)];
        let told = told.map(|(call, count)| (format!(r#"call="{call}""#), count));
        assert_eq!(metered.of("idem_store_seconds_count"), told.into());
    }
}

/// A client that is let go at its deadline leaves a request that goes on.
#[tokio::test]
async fn a_request_past_its_deadline_is_in_flight_until_its_handler_has_ended() {
    let metered = Metered::new();
    let layer = || {
        let layer = IdempotencyLayer::new(MemoryStore::new()).unscoped();
        let layer = layer.named("shop").wait(PATIENCE);
        layer.deadline(Duration::from_millis(100))
    };
    let service = metered.start(layer).await;
    for in_flight in 1..=2 {
        let told = service.send(wait("k")).await;
        told.assert_problem(503, "deadline");
        assert_eq!(metered.sum(IN_FLIGHT), in_flight);
        metered.assert(OUTCOMES, &[]);
    }
    service.effects.open();
    metered.until(|it| it.sum(IN_FLIGHT) == 0).await;
    metered.assert(OUTCOMES, &[("duplicate", 1), ("executed", 1)]);
}

#[tokio::test]
async fn what_a_service_that_stops_does_not_begin_is_counted_as_abandoned() {
    let metered = Metered::new();
    let layer = IdempotencyLayer::new(MemoryStore::new()).unscoped();
    let layer = layer.named("shop");
    let service = metered.start(|| layer.clone()).await;
    service.send(post("{}").key("k")).await.assert(201, false);
    assert!(layer.drain(PATIENCE).await);
    let told = service.send(post("{}").key("l")).await;
    told.assert_problem(503, "shutting-down");
    service.send(post("{}").key("k")).await.assert(201, true);
    metered.assert(
        OUTCOMES,
        &[("abandoned", 1), ("duplicate", 1), ("executed", 1)],
    );
}

#[tokio::test]
async fn a_request_that_is_kept_waiting_is_counted_as_abandoned() {
    let metered = Metered::new();
    let laid = async {
        let layer = IdempotencyLayer::new(MemoryStore::new()).unscoped();
        let layer = layer.named("shop").wait(Duration::ZERO);
        layer.layer(Unready(Arc::default()))
    };
    let app = Router::new().route_service("/charges", metered.over(laid).await);
    let service = Service::serve(app, Effects::new());
    let told = service.send(post("{}").key("k")).await;
    told.assert_problem(503, "busy");
    metered.assert(OUTCOMES, &[("abandoned", 1)]);
}

#[tokio::test]
async fn a_request_whose_key_is_quarantined_is_counted_as_in_doubt() {
    let (metered, store) = (Metered::new(), MemoryStore::new());
    claim_of_the_dead(&store, "shop").await;
    let layer = || {
        let policy = Policy::builder().in_doubt(InDoubt::Quarantine).build();
        let layer = IdempotencyLayer::new(store).unscoped().named("shop");
        layer.policy(policy.unwrap())
    };
    let service = metered.start(layer).await;
    for _ in 0..2 {
        let told = service.send(post("{}").key("k")).await;
        told.assert_problem(409, "in-doubt");
    }
    metered.assert(OUTCOMES, &[("in-doubt", 2)]);
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn a_request_whose_record_cannot_be_read_is_counted_as_that() {
    use crate::stores::{Sqlite, TestStore as _};
    let (metered, opened) = (Metered::new(), Sqlite::open().await);
    let layer = || {
        let layer = IdempotencyLayer::new(opened.store()).unscoped();
        layer.named("shop")
    };
    let service = metered.start(layer).await;
    service.send(post("{}").key("k")).await.assert(201, false);
    opened
        .execute("UPDATE idem_records SET state = 'torn'")
        .await;
    let told = service.send(post("{}").key("k")).await;
    told.assert_problem(500, "record-unreadable");
    metered.assert(OUTCOMES, &[("executed", 1), ("record-corrupt", 1)]);
}

#[cfg(all(feature = "postgres", feature = "redis"))]
mod outages {
    use idem_core::{RedisStore, handler::StoreOutage};
    use idem_servers::Redis;

    use super::*;
    use crate::outages::{begun, redis};

    fn layer(store: RedisStore) -> IdempotencyLayer<RedisStore> {
        let layer = IdempotencyLayer::new(store).unscoped().named("shop");
        layer.wait(Duration::from_millis(500))
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_request_that_finds_the_store_away_ends_in_one_outcome() {
        let (metered, server) = (Metered::new(), Redis::start().unwrap());
        let store = redis(&server).await;
        let service = metered.start(|| layer(store)).await;
        server.freeze().unwrap();
        for key in ["k", "l"] {
            let told = service.send(post("{}").key(key)).await;
            told.assert_problem(503, "store-unavailable");
        }
        metered.assert(OUTCOMES, &[("store-unavailable", 2)]);
        server.thaw().unwrap();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_request_that_runs_while_the_store_is_away_is_counted_as_unprotected() {
        let (metered, server) = (Metered::new(), Redis::start().unwrap());
        let store = redis(&server).await;
        let policy = Policy::builder().store_outage(StoreOutage::FailOpen);
        let policy = policy.build().unwrap();
        let service = metered.start(|| layer(store).policy(policy)).await;
        server.freeze().unwrap();
        for is_copy in [false, true] {
            service.send(post("{}").key("k")).await.assert(201, is_copy);
        }
        metered.assert(OUTCOMES, &[("duplicate", 1), ("unprotected", 1)]);
        server.thaw().unwrap();
    }

    /// It is in flight until the store has recorded its end.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_request_that_is_answered_before_its_end_is_recorded_is_counted_once() {
        let (metered, server) = (Metered::new(), Redis::start().unwrap());
        let store = redis(&server).await;
        let service = metered.start(|| layer(store)).await;
        let sent = begun(&service, &wait("k")).await;
        let before = metered.of(OUTCOMES);
        server.freeze().unwrap();
        service.effects.open();
        sent.await.unwrap().assert(201, false);
        assert_eq!(metered.sum("idem_http_unrecorded_total"), 1);
        assert_eq!((metered.sum(IN_FLIGHT), metered.of(OUTCOMES)), (1, before));
        metered.assert_law();
        server.thaw().unwrap();
        metered.until(|it| it.sum(IN_FLIGHT) == 0).await;
        assert_eq!(metered.ended("executed"), 1);
        metered.assert_law();
    }
}

mod atomic {
    use super::*;
    use crate::{
        atomic::start,
        stores::{Ledger, on_each_database},
    };

    on_each_database!(
        a_request_that_is_handled_in_a_transaction_ends_in_one_outcome,
        a_request_that_is_lent_a_transaction_without_a_key_is_counted_as_unclaimed,
    );

    async fn a_request_that_is_handled_in_a_transaction_ends_in_one_outcome<L: Ledger>()
    where
        L::Store: TransactionalStore<L::Connection>,
    {
        let (metered, ledger) = (Metered::new(), L::open().await);
        let service = metered.over(start(&ledger, |it| it.named("shop"))).await;
        for (body, key, status) in [
            (r#"{"id":"a"}"#, "k", 201),
            (r#"{"id":"a"}"#, "k", 201),
            (r#"{"id":"b"}"#, "k", 422),
            (r#"{"id":"a","status":409}"#, "refused", 409),
            (r#"{"id":"a","status":503}"#, "failed", 503),
            (r#"{"id":"a","behave":"panic"}"#, "panic", 500),
        ] {
            let answer = service.send(post(body).key(key)).await;
            assert_eq!(answer.status, status, "{answer:?}");
        }
        let told = service.send(post(r#"{"id":"a"}"#)).await;
        told.assert_problem(400, "key-missing");
        metered.assert(
            OUTCOMES,
            &[
                ("duplicate", 1),
                ("executed", 1),
                ("failed", 2),
                ("key-reused", 1),
                ("keyless", 1),
                ("refused", 1),
            ],
        );
    }

    async fn a_request_that_is_lent_a_transaction_without_a_key_is_counted_as_unclaimed<L: Ledger>()
    where
        L::Store: TransactionalStore<L::Connection>,
    {
        let (metered, ledger) = (Metered::new(), L::open().await);
        let service = start(&ledger, |it| it.named("shop").key(KeyRule::Optional));
        let service = metered.over(service).await;
        for status in [201, 201, 422, 503] {
            let request = post(&format!(r#"{{"id":"a","status":{status}}}"#));
            service.send(request).await.assert(status, false);
        }
        let request = post(r#"{"id":"a"}"#).key("k");
        service.send(request).await.assert(201, false);
        metered.assert(
            OUTCOMES,
            &[("executed", 1), ("failed", 2), ("unclaimed", 2)],
        );
    }
}

#[tokio::test]
async fn what_would_have_been_is_counted_beside_what_was() {
    let metered = Metered::new();
    let layer = || {
        let layer = IdempotencyLayer::new(MemoryStore::new()).unscoped();
        let observing = Policy::builder().enforcement(Enforcement::Observe).build();
        layer
            .named("shop")
            .policy(observing.unwrap())
            .max_request(1000)
    };
    let service = metered.start(layer).await;
    let large = "x".repeat(1001);
    for request in [
        post("{}").key("k"),
        post("{}").key("k"),
        post(r#"{"id":"o-2"}"#).key("k"),
        post("{}"),
        post(&large).key("l"),
        post("{}")
            .without("content-type")
            .header("content-type", "application/grpc"),
    ] {
        service.send(request).await.assert(201, false);
    }
    service
        .send(post(r#"{"status":503}"#).key("f"))
        .await
        .assert(503, false);
    metered.assert(OUTCOMES, &[("failed", 1), ("observed", 6)]);
    let would = [
        ("duplicate", 1),
        ("key-reused", 1),
        ("keyless", 1),
        ("undecodable", 2),
    ];
    metered.assert("idem_http_would_have_been_total", &would);
}

/// They are of the layer's name, as its keys are.
#[tokio::test]
async fn the_engine_counts_under_the_name_of_the_layer() {
    let metered = Metered::new();
    let layer = || {
        IdempotencyLayer::new(MemoryStore::new())
            .unscoped()
            .named("shop")
    };
    let service = metered.start(layer).await;
    let sent = service.spawn(wait("k"));
    service.effects.begun().await;
    // `of` leaves out the label of this name, and no other.
    let one = BTreeMap::from([(String::new(), 1)]);
    metered
        .until(|it| it.of("idem_claims_in_progress") == one)
        .await;
    service.effects.open();
    sent.await.unwrap().assert(201, false);
    metered
        .until(|it| it.sum("idem_claims_in_progress") == 0)
        .await;
}

#[tokio::test]
async fn the_page_names_what_is_exported() {
    let metered = Metered::new();
    let layer = || IdempotencyLayer::new(MemoryStore::new()).unscoped();
    let service = metered.start(layer).await;
    service.send(post("{}").key("k")).await.assert(201, false);
    let rendered = metered.handle.render();
    let exported = rendered
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE idem_http_"));
    let mut exported: Vec<_> = exported.map(str::to_owned).collect();
    let rows = PAGE
        .lines()
        .filter_map(|line| line.strip_prefix("| `idem_http_"));
    let mut documented: Vec<_> = rows
        .map(|row| {
            let (name, rest) = row.split_once("` | ").unwrap();
            let (kind, _) = rest.split_once(" |").unwrap();
            format!("{name} {kind}")
        })
        .collect();
    exported.sort();
    documented.sort();
    assert_eq!(exported, documented);
}

#[cfg(feature = "tonic")]
mod grpc {
    use idem_http::Grpc;
    use tonic::Code;

    use super::*;
    use crate::grpc::{Service, order};

    #[tokio::test]
    async fn each_call_ends_in_exactly_one_outcome() {
        let metered = Metered::new();
        let calls = async {
            let layer = IdempotencyLayer::new(MemoryStore::new()).unscoped();
            let layer = layer.named("shop").wait(Duration::from_millis(50));
            let service = Service::start(layer.grpc(Grpc::new())).await;
            let first = service.spawn(order("o-1").behave("wait").key("w"));
            service.effects.begun().await;
            let copy = service.send(order("o-1").behave("wait").key("w")).await;
            copy.assert_problem(Code::Aborted, "IN_PROGRESS");
            service.effects.open();
            first.await.unwrap().assert(Code::Ok, false);
            let failing = |code: Code| order("o-1").but(|order| order.code = code.into());
            for (call, code) in [
                (order("o-1").key("k"), Code::Ok),
                (order("o-1").key("k"), Code::Ok),
                (order("o-2").key("k"), Code::InvalidArgument),
                (order("o-1"), Code::InvalidArgument),
                (failing(Code::NotFound).key("refused"), Code::NotFound),
                (failing(Code::Unavailable).key("failed"), Code::Unavailable),
                (order("o-1").behave("panic").key("p"), Code::Internal),
            ] {
                let answer = service.send(call).await;
                assert_eq!(answer.code(), code, "{answer:?}");
            }
            let broken = service.send_raw(&order("o-1").key("b"), Vec::new()).await;
            assert_eq!(broken.status().code(), Code::InvalidArgument);
            let call = order("o-1").key("j");
            let json = Some("application/json");
            let other = service.send_as(&call, json, Vec::new()).await;
            assert_eq!(other.http, 415);
        };
        metered.over(calls).await;
        metered.assert(
            OUTCOMES,
            &[
                ("conflict", 1),
                ("duplicate", 1),
                ("executed", 2),
                ("failed", 2),
                ("key-reused", 1),
                ("keyless", 1),
                ("refused", 1),
                ("undecodable", 2),
            ],
        );
    }

    #[tokio::test]
    async fn a_call_that_is_passed_through_without_a_key_is_counted_as_unclaimed() {
        let metered = Metered::new();
        let calls = async {
            let layer = IdempotencyLayer::new(MemoryStore::new()).unscoped();
            let layer = layer.named("shop").key(KeyRule::Optional);
            let service = Service::start(layer.grpc(Grpc::new())).await;
            for code in [Code::Ok, Code::Unavailable] {
                let call = order("o-1").but(|order| order.code = code.into());
                service.send(call).await.assert(code, false);
            }
            let call = order("o-1").key("k");
            service.send(call).await.assert(Code::Ok, false);
        };
        metered.over(calls).await;
        metered.assert(OUTCOMES, &[("executed", 1), ("unclaimed", 2)]);
    }
}
