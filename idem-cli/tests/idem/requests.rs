//! Keys of HTTP requests: what an operator does, as the service meets it.

use std::{convert::Infallible, time::Duration};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use idem_amqp::{
    AnyStore, Key, Policy, Store as _,
    handler::InDoubt,
    store::{Claim, ClaimRequest},
};
use idem_http::IdempotencyLayer;
use serde_json::Value;
use tempfile::tempdir;
use tower::{ServiceBuilder, ServiceExt as _, service_fn};

use crate::command::each_store;

/// What the service answers to a tenant's request with this idempotency key.
async fn charge(store: &AnyStore, key: &str) -> (StatusCode, Value) {
    let policy = Policy::builder().in_doubt(InDoubt::Quarantine).build();
    let layer = IdempotencyLayer::new(store.clone()).scoped_by(|_| Some("tenant-7".into()));
    let layer = layer.named("orders.api").policy(policy.unwrap());
    let handler = service_fn(async |_| {
        let created = Response::builder().status(StatusCode::CREATED);
        let body = Full::new(Bytes::from_static(br#""created""#));
        Ok::<_, Infallible>(created.body(body).unwrap())
    });
    let request = Request::post("/charges").header("idempotency-key", key);
    let request = request.body(Full::new(Bytes::from_static(b"{}"))).unwrap();
    let service = ServiceBuilder::new().layer(layer).service(handler);
    let answer = service.oneshot(request).await.unwrap();
    let status = answer.status();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap())
}

/// The process that handled a request with this idempotency key has died, and its lease has run out.
async fn die(store: &AnyStore, idempotency_key: &str) {
    let key = Key::builder("orders.api").part("scope", "tenant-7");
    let key = key.part("idempotency-key", idempotency_key).build();
    let mut claim = ClaimRequest::new(key.unwrap(), &Policy::DEFAULT);
    claim.lease = Duration::ZERO;
    let claim = store.claim(&claim).await.unwrap();
    assert!(matches!(claim, Claim::Acquired(_)), "{claim:?}");
}

/// An operator looks up whether they have had their effect. The first has not; the others have, and the receipt of one
/// is known.
#[tokio::test]
async fn requests_in_doubt_are_let_run_or_answered_by_an_operator() {
    let folder = tempdir().unwrap();
    for (store, idem) in each_store(folder.path()).await {
        for idempotency_key in ["k-1", "k-2", "k-3"] {
            die(&store, idempotency_key).await;
            let (status, problem) = charge(&store, idempotency_key).await;
            assert_eq!(
                (status, &problem["type"]),
                (StatusCode::CONFLICT, &"urn:idem:http:in-doubt".into())
            );
            let key = format!("orders.api:tenant-7:{idempotency_key}");
            let shown = idem.run(&["keys", "show", &key]).await;
            assert!(shown.ends(0).contains("quarantined"), "{shown:?}");
        }
        let release = ["keys", "release", "orders.api:tenant-7:k-1", "--yes"];
        idem.run(&release).await.ends(0);
        assert_eq!(
            charge(&store, "k-1").await,
            (StatusCode::CREATED, "created".into())
        );

        let response = r#"{"status":201,"body":{"json":"by hand"}}"#;
        let complete = ["keys", "complete", "orders.api:tenant-7:k-2", "--yes"];
        let ran = idem
            .run(&[&complete[..], &["--outcome", response]].concat())
            .await;
        ran.ends(0);
        assert_eq!(
            charge(&store, "k-2").await,
            (StatusCode::CREATED, "by hand".into())
        );

        let complete = ["keys", "complete", "orders.api:tenant-7:k-3", "--yes"];
        idem.run(&complete).await.ends(0);
        let (status, problem) = charge(&store, "k-3").await;
        assert_eq!(
            (status, &problem["type"]),
            (
                StatusCode::CONFLICT,
                &"urn:idem:http:response-not-kept".into()
            )
        );
    }
}
