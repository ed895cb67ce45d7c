//! The harness for users' HTTP services: what it sends, how it crashes, and which services it sees through.

#![expect(
    clippy::unwrap_used,
    reason = "tests, though clippy does not see that of functions beside them"
)]

#[cfg(feature = "sqlite")]
mod atomic;
mod broken;
mod leased;
#[cfg(feature = "postgres")]
mod postgres;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use axum::{Json, extract::State, http::StatusCode};
use http::Request;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::task::yield_now;

type Bytes = bytes::Bytes;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Order {
    id: String,
    cents: i64,
}

fn order(key: &str, id: &str) -> Request<Bytes> {
    let order = Order {
        id: id.into(),
        cents: 1250,
    };
    Request::post("/charges")
        .header("idempotency-key", key)
        .header("content-type", "application/json")
        .body(serde_json::to_vec(&order).unwrap().into())
        .unwrap()
}

/// A downstream service that knows a charge by its order.
#[derive(Debug, Clone, Default)]
struct Bank(Arc<Mutex<BTreeMap<String, i64>>>);

impl Bank {
    fn charges(&self) -> Vec<(String, i64)> {
        self.0.lock().unwrap().clone().into_iter().collect()
    }
}

async fn charge(State(bank): State<Bank>, Json(order): Json<Order>) -> (StatusCode, Json<Value>) {
    yield_now().await;
    bank.0.lock().unwrap().insert(order.id.clone(), order.cents);
    yield_now().await;
    (StatusCode::CREATED, Json(json!({ "charged": order.id })))
}

/// What handlers have done, in their order.
#[derive(Debug, Clone, Default)]
struct Journal(Arc<Mutex<Vec<String>>>);

impl Journal {
    fn write(&self, entry: impl Into<String>) {
        self.0.lock().unwrap().push(entry.into());
    }

    fn read(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// The words of a panic.
async fn panic_of(work: impl Future) -> String {
    use futures_util::FutureExt as _;
    let caught = std::panic::AssertUnwindSafe(work).catch_unwind().await;
    let Err(panic) = caught else {
        panic!("it did not panic");
    };
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(other) => (*other.downcast::<&str>().unwrap()).to_owned(),
    }
}
