//! Methods that write in the transaction in which their response is recorded.

use std::time::Duration;

use idem_core::{Policy, store::TransactionalStore};
use idem_http::{Grpc, IdempotencyLayer, Tx};
use tonic::{Code, Request};

use crate::{
    grpc::service::{Answered, BoxFuture, Order, Service, charge, order},
    service::{Effects, LEASE, WAIT_FOR_TRANSACTION},
    stores::{Ledger, on_each_database},
};

on_each_database!(
    what_a_method_writes_commits_with_its_response,
    a_status_that_is_an_error_rolls_back_what_was_written,
    a_call_that_its_client_cancels_commits,
    calls_at_once_write_once,
    a_method_without_the_layer_is_told_what_it_lacks,
    a_call_that_is_kept_waiting_for_a_transaction_does_not_run,
    nothing_of_a_call_runs_or_commits_behind_a_layer_for_http,
);

fn handler<L: Ledger>(
    effects: &Effects,
) -> impl Fn(Request<Order>) -> BoxFuture<Answered> + Clone + Send + Sync + 'static {
    let effects = effects.clone();
    move |request| {
        let effects = effects.clone();
        Box::pin(async move {
            let Tx(mut db) = Tx::<L::Connection>::from_extensions(request.extensions())?;
            let order = request.into_inner();
            L::write(db.as_mut(), &order.id).await;
            charge(effects, order).await
        })
    }
}

async fn start<L: Ledger>(ledger: &L) -> Service
where
    L::Store: TransactionalStore<L::Connection>,
{
    ledger.create().await;
    let policy = Policy::builder().lease(LEASE).build();
    let layer = IdempotencyLayer::new(ledger.store()).unscoped();
    let layer = layer.policy(policy.unwrap()).wait(Duration::from_secs(30));
    let layer = layer.grpc(Grpc::new()).atomic::<L::Connection>();
    let effects = Effects::new();
    let handler = handler::<L>(&effects);
    Service::serve(layer, effects, handler).await
}

async fn a_call_that_is_kept_waiting_for_a_transaction_does_not_run<L: Ledger>()
where
    L::Store: TransactionalStore<L::Connection>,
{
    let ledger = L::open().await;
    ledger.create().await;
    let layer = IdempotencyLayer::new(ledger.with_one_connection().await).unscoped();
    let layer = layer.wait(WAIT_FOR_TRANSACTION).grpc(Grpc::new());
    let effects = Effects::new();
    let handler = handler::<L>(&effects);
    let service = Service::serve(layer.atomic::<L::Connection>(), effects, handler).await;
    let first = service.spawn(order("first").behave("wait").key("first"));
    service.effects.begun().await;
    let told = service.send(order("second").key("second")).await;
    told.assert_problem(Code::Unavailable, "BUSY");
    assert_eq!(told.retry_after(), Some(Duration::from_secs(1)));
    service.effects.open();
    first.await.unwrap().assert(Code::Ok, false);
    let answer = service.send(order("second").key("second")).await;
    answer.assert(Code::Ok, false);
    assert_eq!(ledger.written().await, ["first", "second"]);
}

async fn what_a_method_writes_commits_with_its_response<L: Ledger>()
where
    L::Store: TransactionalStore<L::Connection>,
{
    let ledger = L::open().await;
    let service = start(&ledger).await;
    for is_copy in [false, true, true] {
        let answer = service.send(order("a").key("k")).await;
        answer.assert(Code::Ok, is_copy);
        assert_eq!(answer.effects(), 1);
    }
    assert_eq!(ledger.written().await, ["a"]);
}

async fn a_status_that_is_an_error_rolls_back_what_was_written<L: Ledger>()
where
    L::Store: TransactionalStore<L::Connection>,
{
    let ledger = L::open().await;
    let service = start(&ledger).await;
    let failing = |code: Code| {
        order("a")
            .key(&format!("{code:?}"))
            .but(|it| it.code = code.into())
    };
    for is_copy in [false, true] {
        let refused = service.send(failing(Code::FailedPrecondition)).await;
        refused.assert(Code::FailedPrecondition, is_copy);
        assert_eq!(refused.metadata("x-run"), Some("1"));
    }
    for run in ["2", "3"] {
        let failed = service.send(failing(Code::Unavailable)).await;
        failed.assert(Code::Unavailable, false);
        assert_eq!(failed.metadata("x-run"), Some(run));
    }
    let panicked = service.send(order("a").key("p").behave("panic")).await;
    panicked.assert_problem(Code::Internal, "HANDLER_FAILED");
    assert!(ledger.written().await.is_empty());
    service
        .send(order("b").key("done"))
        .await
        .assert(Code::Ok, false);
    assert_eq!(ledger.written().await, ["b"]);
}

async fn a_call_that_its_client_cancels_commits<L: Ledger>()
where
    L::Store: TransactionalStore<L::Connection>,
{
    let ledger = L::open().await;
    let service = start(&ledger).await;
    let call = order("a").key("k").behave("wait");
    let sent = service.spawn(call.clone());
    service.effects.begun().await;
    sent.abort();
    // Longer than the lease, which is kept.
    tokio::time::sleep(LEASE + Duration::from_secs(1)).await;
    service.effects.open();
    service.send(call).await.assert(Code::Ok, true);
    assert_eq!(ledger.written().await, ["a"]);
}

async fn calls_at_once_write_once<L: Ledger>()
where
    L::Store: TransactionalStore<L::Connection>,
{
    let ledger = L::open().await;
    let service = start(&ledger).await;
    let calls = (0..60).map(|n| order(&(n % 3).to_string()).key(&(n % 3).to_string()));
    let calls: Vec<_> = calls.map(|call| service.spawn(call)).collect();
    let mut replayed = 0;
    for call in calls {
        let answer = call.await.unwrap();
        assert_eq!(answer.code(), Code::Ok, "{answer:?}");
        replayed += usize::from(answer.is_replayed());
    }
    assert_eq!(replayed, 57);
    assert_eq!(ledger.written().await, ["0", "1", "2"]);
}

async fn a_method_without_the_layer_is_told_what_it_lacks<L: Ledger>() {
    let ledger = L::open().await;
    let effects = Effects::new();
    let handler = handler::<L>(&effects);
    let layer = IdempotencyLayer::new(ledger.store()).unscoped();
    let service = Service::serve(layer.grpc(Grpc::new()), effects, handler).await;
    for _ in 0..2 {
        service
            .send(order("a").key("k"))
            .await
            .assert(Code::Internal, false);
    }
    assert_eq!(service.effects.count(), 0);
}

async fn nothing_of_a_call_runs_or_commits_behind_a_layer_for_http<L: Ledger>()
where
    L::Store: TransactionalStore<L::Connection>,
{
    let ledger = L::open().await;
    ledger.create().await;
    let layer = IdempotencyLayer::new(ledger.store()).unscoped();
    let effects = Effects::new();
    let handler = handler::<L>(&effects);
    let service = Service::serve(layer.atomic::<L::Connection>(), effects, handler).await;
    let call = order("a")
        .key("k")
        .but(|it| it.code = Code::Unavailable.into());
    for call in [call, order("a").key("l")] {
        let told = service.send(call).await;
        assert_eq!(told.code(), Code::Unimplemented, "{told:?}");
        assert!(told.0.unwrap_err().message().contains(".grpc(…)"));
    }
    assert_eq!(service.effects.count(), 0);
    assert!(ledger.written().await.is_empty());
}
