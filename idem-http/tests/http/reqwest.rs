//! Clients of reqwest with keys and retries, against services with the layer.

use std::time::Duration;

use axum::{Router, response::Redirect, routing::any};
use idem_core::MemoryStore;
use idem_http::{
    IdempotencyLayer,
    client::{ClientLayer, Reqwest, RetryPolicy, SentKey, Unanswered},
};
use tokio::net::TcpListener;

use crate::{
    cutting::{By, Cut, Proxy},
    service::Service,
};

/// A client that waits little, and tries so often.
fn client(max_tries: u32) -> (reqwest::Client, Reqwest) {
    // A connection of its own for each try.
    let client = reqwest::Client::builder().pool_max_idle_per_host(0);
    let client = client.build().unwrap();
    let retries = RetryPolicy::new().max_tries(max_tries);
    let retries = retries.waits(Duration::from_millis(5), Duration::from_millis(100));
    let layer = ClientLayer::new().retries(retries);
    (client.clone(), Reqwest::with(client, &layer))
}

#[tokio::test]
async fn a_request_of_reqwest_that_is_cut_off_is_sent_again_and_has_its_effect_once() {
    let layer = IdempotencyLayer::new(MemoryStore::new()).unscoped();
    let service = Service::start(layer.wait(Duration::from_secs(30))).await;
    let proxy = Proxy::start(service.address, |connection| match connection {
        0 => Cut::Request(100, By::End),
        1 => Cut::Response(1, By::Reset),
        2 => Cut::Response(100, By::End),
        _ => Cut::Never,
    })
    .await;
    let (client, once) = client(100);
    let url = format!("http://{}/charges", proxy.address);
    let charge = client.post(&url).body("{}").build().unwrap();
    let response = once.execute(charge).await.unwrap();
    assert_eq!(response.status(), 201);
    assert_eq!(response.url().as_str(), url);
    let is_replayed = response.headers().contains_key("idempotency-replayed");
    assert!(is_replayed, "the first answer was lost on its way");
    let key = response.extensions().get::<SentKey>().unwrap().clone();
    let first = response.text().await.unwrap();
    assert_eq!(proxy.connections(), 4);
    assert_eq!(service.effects.count(), 1);

    // Whoever keeps the key can ask for the answer later.
    let again = client.post(&url).body("{}");
    let again = again.header("idempotency-key", key.header());
    let copy = once.execute(again.build().unwrap()).await.unwrap();
    assert_eq!(copy.text().await.unwrap(), first);
    assert_eq!(service.effects.count(), 1);
}

/// reqwest follows a redirect with a body that it can send again.
#[tokio::test]
async fn a_request_of_reqwest_that_is_sent_elsewhere_arrives_there_with_its_key_and_its_body() {
    let layer = IdempotencyLayer::new(MemoryStore::new()).unscoped();
    let service = Service::start(layer).await;
    let there = format!("http://{}/charges", service.address);
    let moved = any(async move || Redirect::permanent(&there));
    let moved = Router::new().route("/old", moved);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let old = format!("http://{}/old", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, moved).await });
    let (client, once) = client(2);
    let charge = client.post(old).body(r#"{"id":"o-1"}"#).build().unwrap();
    let response = once.execute(charge).await.unwrap();
    assert_eq!(response.status(), 201);
    assert!(response.url().path().ends_with("/charges"));
    assert!(response.text().await.unwrap().contains("o-1"));
    assert_eq!(service.effects.count(), 1);
}

#[tokio::test]
async fn a_request_of_reqwest_without_an_answer_tells_its_key_and_why() {
    // Nobody listens there any more.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/charges", listener.local_addr().unwrap());
    drop(listener);
    let (client, once) = client(2);
    let charge = client.post(&url).header("idempotency-key", "k-1");
    let error = once.execute(charge.build().unwrap()).await.unwrap_err();
    let unanswered = error.downcast_ref::<Unanswered>().unwrap();
    assert_eq!(unanswered.key().header(), "k-1");
    let cause = std::error::Error::source(unanswered).unwrap();
    let cause = cause.downcast_ref::<reqwest::Error>().unwrap();
    assert!(cause.is_connect(), "{cause:?}");
    // A request that is repeated without harm has no key, and is sent once.
    let look = client.get(&url).build().unwrap();
    let error = once.execute(look).await.unwrap_err();
    assert!(error.is::<reqwest::Error>(), "{error:?}");
}
