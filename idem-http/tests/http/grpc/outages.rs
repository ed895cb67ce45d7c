//! Stores that are frozen or killed, on servers of a test's own.

use std::time::Duration;

use idem_core::{PostgresStore, Store};
use idem_http::{Grpc, IdempotencyLayer};
use idem_servers::{Postgres, Redis};
use tonic::Code;

use crate::{
    grpc::service::{Answer, Call, Service, order},
    outages::redis,
    service::PATIENCE,
};

/// Sends a call again and again, as a client does that is told so, until it is done.
async fn done(service: &Service, call: Call) -> Answer {
    let sending = async {
        loop {
            let answer = service.send(call.clone()).await;
            match answer.code() {
                Code::Aborted | Code::Unavailable => {
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
                _ => return answer,
            }
        }
    };
    let done = tokio::time::timeout(PATIENCE, sending).await;
    done.expect("it is done")
}

/// Nothing runs while the store is away, and all goes on by itself when it is back.
async fn a_call_while_the_store_is_away_does_not_run<S: Store>(
    store: S,
    away: impl FnOnce(),
    back: impl FnOnce(),
) {
    let layer = IdempotencyLayer::new(store).unscoped();
    let layer = layer.wait(Duration::from_millis(500)).grpc(Grpc::new());
    let service = Service::start(layer).await;
    done(&service, order("o-1").key("k"))
        .await
        .assert(Code::Ok, false);
    away();
    for key in ["k", "other"] {
        let told = service.send(order("o-1").key(key)).await;
        told.assert_problem(Code::Unavailable, "STORE_UNAVAILABLE");
        assert_eq!(told.retry_after(), Some(Duration::from_secs(1)));
    }
    assert_eq!(service.effects.count(), 1);
    back();
    done(&service, order("o-1").key("k"))
        .await
        .assert(Code::Ok, true);
    assert_eq!(
        done(&service, order("o-1").key("other")).await.code(),
        Code::Ok
    );
    assert_eq!(service.effects.count(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_postgres_is_killed() {
    let server = Postgres::start().unwrap();
    let store = PostgresStore::connect(&server.url()).await.unwrap();
    let (away, back) = (|| server.kill().unwrap(), || server.restart().unwrap());
    a_call_while_the_store_is_away_does_not_run(store, away, back).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_redis_is_frozen() {
    let server = Redis::start().unwrap();
    let store = redis(&server).await;
    let (away, back) = (|| server.freeze().unwrap(), || server.thaw().unwrap());
    a_call_while_the_store_is_away_does_not_run(store, away, back).await;
}
