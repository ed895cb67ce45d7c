//! Claims of which nobody hears, or which do not reach their store.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering::SeqCst},
    },
    time::Duration,
};

use axum::{Extension, Json, Router, routing::post as route};
use idem_core::{
    Key, Policy, StoreError,
    handler::{Attempt, FencingToken, InDoubt, Outcome},
    store::{Claim, ClaimRequest, Lease, Release, Store, Write},
};
use idem_http::IdempotencyLayer;
use serde_json::json;

use crate::{
    client::post,
    service::{Effects, PATIENCE, Service},
    stores::{TestStore, on_each_store},
};

on_each_store!(
    a_claim_whose_answer_was_lost_is_given_up,
    what_another_has_claimed_is_not_given_up,
    a_handler_that_follows_a_process_that_has_died_is_told_of_the_doubt,
    a_handler_that_follows_another_has_a_higher_fencing_token,
);

/// A store whose claims fail for as long as the test says.
#[derive(Debug, Clone)]
struct Cut<S>(S, Arc<AtomicU8>);

const ANSWERS: u8 = 0;
const UNHEARD: u8 = 1;
const UNREACHED: u8 = 2;

impl<S: Store> Store for Cut<S> {
    async fn claim(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        let fault = self.1.load(SeqCst);
        if fault == UNREACHED {
            return Err(StoreError::unavailable("the claim was lost"));
        }
        let answer = self.0.claim(request).await;
        if fault == UNHEARD {
            return Err(StoreError::unavailable("the answer was lost"));
        }
        answer
    }

    async fn extend(&self, lease: &Lease, by: Duration) -> Result<Write, StoreError> {
        self.0.extend(lease, by).await
    }

    async fn complete(
        &self,
        lease: &Lease,
        outcome: &Outcome,
        retention: Duration,
    ) -> Result<Write, StoreError> {
        self.0.complete(lease, outcome, retention).await
    }

    async fn release(&self, lease: &Lease, reason: &Release) -> Result<Write, StoreError> {
        self.0.release(lease, reason).await
    }
}

/// Answers with which attempt it is, and whether it is in doubt.
pub(crate) async fn attempt(Extension(attempt): Extension<Attempt>) -> Json<(u32, bool)> {
    Json((attempt.number(), attempt.is_in_doubt()))
}

fn serve<S: Store>(layer: IdempotencyLayer<S>) -> Service {
    let app = Router::new().route("/charges", route(attempt));
    Service::serve(app.layer(layer), Effects::new())
}

/// The claim of a process that has died while a layer of this name handled a request with the key `k`: its lease has
/// run out.
pub(crate) async fn claim_of_the_dead<S: Store>(store: &S, name: &str) -> Lease {
    let key = Key::builder(name).part("idempotency-key", "k").build();
    let mut claim = ClaimRequest::new(key.unwrap(), &Policy::DEFAULT);
    claim.lease = Duration::ZERO;
    let Claim::Acquired(lease) = store.claim(&claim).await.unwrap() else {
        panic!("nobody else has the key")
    };
    lease
}

/// Its client sends it again, to another process. That waits neither for the lease, nor for a person.
async fn a_claim_whose_answer_was_lost_is_given_up<T: TestStore>() {
    let opened = T::open().await;
    let fault = Arc::new(AtomicU8::new(UNHEARD));
    // No lease ends within this test.
    let policy = Policy::builder().lease(10 * PATIENCE);
    let policy = policy.in_doubt(InDoubt::Quarantine).build().unwrap();
    let layer = IdempotencyLayer::new(Cut(opened.store(), Arc::clone(&fault))).unscoped();
    let layer = layer.policy(policy).wait(Duration::from_millis(50));
    let service = serve(layer.clone());
    let request = post("{}").key("k");
    let told = service.send(request.clone()).await;
    told.assert_problem(503, "store-unavailable");
    fault.store(ANSWERS, SeqCst);
    assert!(layer.drain(PATIENCE).await);
    let layer = IdempotencyLayer::new(opened.store()).unscoped();
    let another = serve(layer.policy(policy).wait(Duration::ZERO));
    for is_copy in [false, true] {
        let answer = another.send(request.clone()).await;
        answer.assert(200, is_copy);
        assert_eq!(answer.json(), json!([1, false]));
    }
}

/// Its lease has run out, and it may complete all the same.
async fn what_another_has_claimed_is_not_given_up<T: TestStore>() {
    let opened = T::open().await;
    let (store, fault) = (opened.store(), Arc::new(AtomicU8::new(UNREACHED)));
    let layer = IdempotencyLayer::new(Cut(store.clone(), Arc::clone(&fault))).unscoped();
    let layer = layer.wait(Duration::from_millis(50));
    let service = serve(layer.clone());
    let lease = claim_of_the_dead(&store, "http").await;
    let told = service.send(post("{}").key("k")).await;
    told.assert_problem(503, "store-unavailable");
    fault.store(ANSWERS, SeqCst);
    assert!(layer.drain(PATIENCE).await);
    let outcome = Outcome::new("done");
    let written = store.complete(&lease, &outcome, Duration::from_mins(1));
    assert_eq!(written.await.unwrap(), Write::Applied);
}

/// Nobody knows whether that has had its effect.
async fn a_handler_that_follows_a_process_that_has_died_is_told_of_the_doubt<T: TestStore>() {
    let opened = T::open().await;
    claim_of_the_dead(&opened.store(), "http").await;
    let service = serve(IdempotencyLayer::new(opened.store()).unscoped());
    for is_copy in [false, true] {
        let answer = service.send(post("{}").key("k")).await;
        answer.assert(200, is_copy);
        assert_eq!(answer.json(), json!([2, true]));
    }
}

async fn a_handler_that_follows_another_has_a_higher_fencing_token<T: TestStore>() {
    let opened = T::open().await;
    let first = claim_of_the_dead(&opened.store(), "http").await.token;
    let token = async |Extension(token): Extension<FencingToken>| token.to_string();
    let app = Router::new().route("/charges", route(token));
    let layer = IdempotencyLayer::new(opened.store()).unscoped();
    let service = Service::serve(app.layer(layer), Effects::new());
    let answer = service.send(post("{}").key("k")).await;
    let second = answer.assert(200, false).json();
    assert!(second.as_i64().unwrap() > first.get(), "{second}, {first}");
}
