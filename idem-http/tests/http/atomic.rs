//! Handlers that write in the transaction in which their response is recorded.

use std::time::Duration;

use axum::{
    Extension, Json, Router,
    extract::State,
    http::{Extensions, StatusCode},
    response::{IntoResponse, Response},
    routing::post as route,
};
use idem_core::{
    Policy,
    handler::{IntoOutgoing, Outbox, OutboxError, OutgoingContent},
    store::{
        TransactionalStore,
        operator::{Intervened, Intervention, Listing, OperatorStore},
    },
};
use idem_http::{IdempotencyLayer, KeyRule, Tx};
use serde_json::{Value, json};

use crate::{
    client::{answer, post},
    service::{Effects, LEASE, PATIENCE, Service, WAIT_FOR_TRANSACTION, meaning},
    stores::{Ledger, on_each_database},
};

on_each_database!(
    what_is_written_commits_with_the_response,
    a_response_that_is_an_error_rolls_back_what_was_written,
    what_a_handler_says_of_its_response_commits_or_rolls_back,
    a_handler_that_panics_has_written_nothing,
    a_handler_whose_client_has_gone_commits,
    copies_at_once_write_once,
    a_request_that_lost_its_lease_waits_like_a_copy,
    a_transaction_that_a_task_keeps_commits_nothing,
    a_transaction_that_a_task_gives_back_in_time_is_committed,
    a_response_that_is_not_kept_commits,
    requests_without_a_key_write_each,
    a_request_without_a_key_may_have_any_size,
    a_body_that_does_not_arrive_holds_no_transaction,
    a_request_that_is_kept_waiting_for_a_transaction_does_not_run,
    what_is_published_commits_with_the_response,
    a_handler_without_the_layer_is_told_what_it_lacks,
);

async fn charge<L: Ledger>(
    State(effects): State<Effects>,
    Tx(mut db): Tx<L::Connection>,
    Extension(outbox): Extension<Outbox>,
    Json(order): Json<Value>,
) -> Response {
    effects.begin();
    outbox.publish(Told).unwrap();
    if order["behave"] == "wait first" {
        effects.pass().await;
    }
    L::write(db.as_mut(), order["id"].as_str().unwrap()).await;
    let behave = order["behave"].as_str().unwrap_or_default();
    match behave {
        "wait" => effects.pass().await,
        "panic" => panic!("the handler panics"),
        "keep" => {
            let gate = effects.clone();
            tokio::spawn(async move {
                gate.pass().await;
                L::write(db.as_mut(), "late").await;
                drop(db);
                gate.begin();
            });
        }
        _ => {}
    }
    let status = order["status"].as_u64().unwrap_or(201).try_into().unwrap();
    let status = StatusCode::from_u16(status).unwrap();
    let count = effects.end();
    let bytes = order["bytes"].as_u64().unwrap_or(0).try_into().unwrap();
    let answer = json!({ "run": count, "padding": "x".repeat(bytes) });
    let mut response = (status, Json(answer)).into_response();
    if let Some(means) = meaning(behave) {
        response.extensions_mut().insert(means);
    }
    response
}

/// What the handler publishes.
struct Told;

impl IntoOutgoing for Told {
    fn into_outgoing(self, id: String) -> Result<OutgoingContent, OutboxError> {
        Ok(OutgoingContent {
            message_id: id,
            target: "shipping".into(),
            head: Vec::new(),
            body: b"{}".to_vec(),
        })
    }
}

pub(crate) async fn start<L: Ledger>(
    ledger: &L,
    change: impl FnOnce(IdempotencyLayer<L::Store>) -> IdempotencyLayer<L::Store>,
) -> Service
where
    L::Store: TransactionalStore<L::Connection>,
{
    start_on(ledger, ledger.store(), change).await
}

async fn start_on<L: Ledger>(
    ledger: &L,
    store: L::Store,
    change: impl FnOnce(IdempotencyLayer<L::Store>) -> IdempotencyLayer<L::Store>,
) -> Service
where
    L::Store: TransactionalStore<L::Connection>,
{
    ledger.create().await;
    let effects = Effects::new();
    let policy = Policy::builder().lease(LEASE).build().unwrap();
    let layer = IdempotencyLayer::new(store).unscoped().policy(policy);
    let layer = change(layer.wait(Duration::from_secs(30))).atomic::<L::Connection>();
    let app = Router::new()
        .route("/charges", route(charge::<L>))
        .layer(layer);
    Service::serve(app.with_state(effects.clone()), effects)
}

/// Three of them have claimed ahead, and the others wait to claim. Nothing of them is recorded.
async fn a_request_that_is_kept_waiting_for_a_transaction_does_not_run<L: Ledger>()
where
    L::Store: TransactionalStore<L::Connection>,
{
    let ledger = L::open().await;
    let store = ledger.with_one_connection().await;
    // No lease ends within this test.
    let policy = Policy::builder().lease(10 * PATIENCE).build().unwrap();
    let wait = WAIT_FOR_TRANSACTION;
    let service = start_on(&ledger, store, |it| it.policy(policy).wait(wait)).await;
    let first = service.spawn(post(r#"{"id":"first","behave":"wait"}"#).key("first"));
    service.effects.begun().await;
    let request = |n: u32| post(&format!(r#"{{"id":"{n}"}}"#)).key(&n.to_string());
    let sent: Vec<_> = (0..6).map(|n| service.spawn(request(n))).collect();
    for sent in sent {
        let told = sent.await.unwrap();
        told.assert_problem(503, "busy");
        assert_eq!(told.header("retry-after"), Some("1"));
    }
    service.effects.open();
    first.await.unwrap().assert(201, false);
    for n in 0..6 {
        service.send(request(n)).await.assert(201, false);
    }
    let written = ["0", "1", "2", "3", "4", "5", "first"];
    assert_eq!(ledger.written().await, written);
}

async fn what_is_written_commits_with_the_response<L: Ledger>()
where
    L::Store: TransactionalStore<L::Connection>,
{
    let ledger = L::open().await;
    let service = start(&ledger, |it| it).await;
    for is_copy in [false, true, true] {
        let answer = service.send(post(r#"{"id":"a"}"#).key("k")).await;
        answer.assert(201, is_copy);
        assert_eq!(answer.json()["run"], 1);
    }
    service
        .send(post(r#"{"id":"b"}"#).key("k"))
        .await
        .assert_problem(422, "key-reused");
    assert_eq!(ledger.written().await, ["a"]);
}

async fn a_response_that_is_an_error_rolls_back_what_was_written<L: Ledger>()
where
    L::Store: TransactionalStore<L::Connection>,
{
    let ledger = L::open().await;
    let service = start(&ledger, |it| it).await;
    for is_copy in [false, true] {
        let refused = service
            .send(post(r#"{"id":"a","status":422}"#).key("refused"))
            .await;
        refused.assert(422, is_copy);
        assert_eq!(refused.json()["run"], 1);
    }
    for run in [2, 3] {
        let failed = service
            .send(post(r#"{"id":"b","status":503}"#).key("failed"))
            .await;
        failed.assert(503, false);
        assert_eq!(failed.json()["run"], run);
    }
    assert!(ledger.written().await.is_empty());
    service
        .send(post(r#"{"id":"c"}"#).key("done"))
        .await
        .assert(201, false);
    assert_eq!(ledger.written().await, ["c"]);
}

/// Whatever its status is.
async fn what_a_handler_says_of_its_response_commits_or_rolls_back<L: Ledger>()
where
    L::Store: TransactionalStore<L::Connection>,
{
    let ledger = L::open().await;
    let service = start(&ledger, |it| it).await;
    let request = |behave: &str, status: u16| {
        let order =
            json!({ "id": format!("{behave}-{status}"), "behave": behave, "status": status });
        post(&order.to_string()).key(&format!("{behave}-{status}"))
    };
    for (behave, status) in [
        ("done", 422),
        ("done", 503),
        ("refused", 201),
        ("refused", 500),
    ] {
        let runs = service.effects.count();
        for is_copy in [false, true] {
            let answer = service.send(request(behave, status)).await;
            answer.assert(status, is_copy);
            assert_eq!(answer.json()["run"], runs + 1);
        }
    }
    for (behave, status) in [("failed", 201), ("failed", 422)] {
        for _ in 0..2 {
            let runs = service.effects.count();
            let answer = service.send(request(behave, status)).await;
            answer.assert(status, false);
            assert_eq!(answer.json()["run"], runs + 1);
        }
    }
    for (behave, status) in [("done-not-kept", 201), ("done-not-kept", 422)] {
        let first = service.send(request(behave, status)).await;
        first.assert(status, false);
        for _ in 0..2 {
            let copy = service.send(request(behave, status)).await;
            copy.assert_problem(409, "response-not-kept");
        }
    }
    let written = [
        "done-422",
        "done-503",
        "done-not-kept-201",
        "done-not-kept-422",
    ];
    assert_eq!(ledger.written().await, written);
}

async fn a_handler_that_panics_has_written_nothing<L: Ledger>()
where
    L::Store: TransactionalStore<L::Connection>,
{
    let ledger = L::open().await;
    let service = start(&ledger, |it| it).await;
    for _ in 0..2 {
        let request = post(r#"{"id":"a","behave":"panic"}"#).key("k");
        service
            .send(request)
            .await
            .assert_problem(500, "handler-failed");
        service.effects.begun().await;
    }
    assert!(ledger.written().await.is_empty());
}

async fn a_handler_whose_client_has_gone_commits<L: Ledger>()
where
    L::Store: TransactionalStore<L::Connection>,
{
    let ledger = L::open().await;
    let service = start(&ledger, |it| it).await;
    let request = post(r#"{"id":"a","behave":"wait"}"#).key("k");
    request
        .send_and_leave(service.address, service.effects.begun())
        .await;
    // Longer than the lease, which is kept.
    tokio::time::sleep(LEASE + Duration::from_secs(1)).await;
    service.effects.open();
    service.send(request).await.assert(201, true);
    assert_eq!(ledger.written().await, ["a"]);
}

async fn copies_at_once_write_once<L: Ledger>()
where
    L::Store: TransactionalStore<L::Connection>,
{
    let ledger = L::open().await;
    let service = start(&ledger, |it| it).await;
    let requests =
        (0..60).map(|n| post(&format!(r#"{{"id":"{}"}}"#, n % 3)).key(&format!("k{}", n % 3)));
    let sent: Vec<_> = requests.map(|request| service.spawn(request)).collect();
    let mut replayed = 0;
    for sent in sent {
        let answer = sent.await.unwrap();
        assert_eq!(answer.status, 201, "{answer:?}");
        replayed += usize::from(answer.is_replayed());
    }
    assert_eq!(replayed, 57);
    assert_eq!(ledger.written().await, ["0", "1", "2"]);
}

async fn a_request_that_lost_its_lease_waits_like_a_copy<L: Ledger>()
where
    L::Store: TransactionalStore<L::Connection> + OperatorStore,
{
    let ledger = L::open().await;
    let service = start(&ledger, |it| it).await;
    let sent = service.spawn(post(r#"{"id":"a","behave":"wait first"}"#).key("k"));
    service.effects.begun().await;
    let store = ledger.store();
    let page = store.list(&Listing::all()).await.unwrap();
    let record = &page.records[0];
    let forget = Intervention::forget(record.key.clone(), Some(record.seen()), "somebody");
    assert_eq!(store.intervene(&forget).await.unwrap(), Intervened::Applied);
    // The heartbeat finds the lease gone. Nobody else has the key, so the request has it again.
    service.effects.begun().await;
    service.effects.open();
    sent.await.unwrap().assert(201, false);
    assert_eq!(ledger.written().await, ["a"]);
}

async fn a_transaction_that_a_task_keeps_commits_nothing<L: Ledger>()
where
    L::Store: TransactionalStore<L::Connection>,
{
    let ledger = L::open().await;
    let service = start(&ledger, |it| it).await;
    let request = post(r#"{"id":"a","behave":"keep"}"#).key("k");
    let told = service.send(request.clone()).await;
    told.assert_problem(500, "handler-failed");
    assert!(ledger.written().await.is_empty());
    service.effects.begun().await;
    // The task writes into a transaction that nobody commits any more.
    service.effects.open();
    service.effects.begun().await;
    let other = post(r#"{"id":"b"}"#).key("other");
    service.send(other).await.assert(201, false);
    assert_eq!(ledger.written().await, ["b"]);
}

async fn a_transaction_that_a_task_gives_back_in_time_is_committed<L: Ledger>()
where
    L::Store: TransactionalStore<L::Connection>,
{
    let ledger = L::open().await;
    let policy = Policy::builder()
        .lease(Duration::from_secs(30))
        .build()
        .unwrap();
    let service = start(&ledger, |it| it.policy(policy)).await;
    let sent = service.spawn(post(r#"{"id":"a","behave":"keep"}"#).key("k"));
    service.effects.begun().await;
    assert!(ledger.written().await.is_empty());
    service.effects.open();
    sent.await.unwrap().assert(201, false);
    assert_eq!(ledger.written().await, ["a", "late"]);
}

async fn a_response_that_is_not_kept_commits<L: Ledger>()
where
    L::Store: TransactionalStore<L::Connection>,
{
    let ledger = L::open().await;
    let service = start(&ledger, |it| it.max_response(100)).await;
    let request = post(r#"{"id":"a","bytes":100}"#).key("k");
    service.send(request.clone()).await.assert(201, false);
    service
        .send(request)
        .await
        .assert_problem(409, "response-not-kept");
    assert_eq!(ledger.written().await, ["a"]);
}

async fn requests_without_a_key_write_each<L: Ledger>()
where
    L::Store: TransactionalStore<L::Connection> + OperatorStore,
{
    let ledger = L::open().await;
    let service = start(&ledger, |it| it.key(KeyRule::Optional)).await;
    for _ in 0..2 {
        let answer = service.send(post(r#"{"id":"a"}"#)).await;
        answer.assert(201, false);
        assert_eq!(answer.header("idempotency-retention"), None);
    }
    assert_eq!(ledger.written().await, ["a", "a"]);
    // Nobody can ask for what was answered.
    let page = ledger.store().list(&Listing::all()).await.unwrap();
    assert_eq!(page.records.len(), 2);
    for record in page.records {
        let kept = record.remembered_for;
        assert!(kept <= LEASE, "{kept:?}");
    }
}

async fn a_request_without_a_key_may_have_any_size<L: Ledger>()
where
    L::Store: TransactionalStore<L::Connection>,
{
    let ledger = L::open().await;
    let service = start(&ledger, |it| it.key(KeyRule::Optional).max_request(20)).await;
    let order = r#"{"id":"a","behave":"nothing in particular"}"#;
    let refused = service.send(post(order).key("k")).await;
    refused.assert_problem(413, "body-too-large");
    // Nothing is compared, so nothing is too large for it.
    service.send(post(order)).await.assert(201, false);
    assert_eq!(ledger.written().await, ["a"]);
}

async fn a_body_that_does_not_arrive_holds_no_transaction<L: Ledger>()
where
    L::Store: TransactionalStore<L::Connection>,
{
    let ledger = L::open().await;
    let timeout = Duration::from_millis(200);
    let service = start(&ledger, |it| {
        it.key(KeyRule::Optional)
            .compare_no_body()
            .body_timeout(timeout)
    })
    .await;
    for request in [post("{}"), post("{}").key("k")] {
        let sent = request.begin(service.address, 10).await;
        let told = tokio::time::timeout(Duration::from_secs(10), answer(sent)).await;
        let told = told.expect("the handler does not wait for the rest");
        assert_eq!(told.status, 400, "{told:?}");
    }
    assert_eq!(service.effects.count(), 0);
}

async fn what_is_published_commits_with_the_response<L: Ledger>()
where
    L::Store: TransactionalStore<L::Connection>,
{
    let ledger = L::open().await;
    let service = start(&ledger, |it| it).await;
    let store = ledger.store();
    let waiting = async || store.outbox().unwrap().counts().await.unwrap().waiting;
    for status in [422, 503] {
        let request = post(&format!(r#"{{"id":"a","status":{status}}}"#)).key(&status.to_string());
        service.send(request).await.assert(status, false);
    }
    assert_eq!(waiting().await, 0);
    for is_copy in [false, true] {
        service
            .send(post(r#"{"id":"a"}"#).key("k"))
            .await
            .assert(201, is_copy);
    }
    // It waits for nobody: a relay, or a worker on the store, takes it at its next look.
    assert_eq!(waiting().await, 1);
    let taken = store
        .outbox()
        .unwrap()
        .take(10, Duration::from_secs(1))
        .await
        .unwrap();
    assert_eq!(taken.len(), 1);
}

async fn a_handler_without_the_layer_is_told_what_it_lacks<L: Ledger>() {
    let ledger = L::open().await;
    let effects = Effects::new();
    let layer = IdempotencyLayer::new(ledger.store()).unscoped();
    let app = Router::new()
        .route("/charges", route(charge::<L>))
        .layer(layer);
    let service = Service::serve(app.with_state(effects.clone()), effects);
    for _ in 0..2 {
        let answer = service.send(post(r#"{"id":"a"}"#).key("k")).await;
        answer.assert_problem(500, "handler-failed");
    }
    assert_eq!(service.effects.count(), 0);
    // As `main` shows it.
    let none = Tx::<L::Connection>::from_extensions(&Extensions::new());
    let shown = format!("{:?}", none.err().unwrap());
    assert_eq!(shown, "the service has no transaction for it");
}
