//! Tests of HTTP services behind an [`IdempotencyLayer`](idem_http::IdempotencyLayer): no socket, no server, on tokio's
//! paused clock.
//!
//! A [`Harness`] holds a service of yours as a process that can vanish, on a store behind a link that can fail. It
//! sends requests as badly as clients and networks do: again, twice at once, by a client that goes away in the middle,
//! to a process that is killed at each [`CrashPoint`]. [`assert_idempotent`] does all of that in one call, and says at
//! which point an effect was doubled or missing, or a copy was answered otherwise than the first.
//!
//! ```test_harness
//! use axum::{Json, Router, extract::State, http::StatusCode, routing::post};
//! use http::Request;
//! use idem_http::IdempotencyLayer;
//! use idem_testing::http::{CrashPoint, Setup, assert_idempotent};
//! # use std::{collections::BTreeMap, sync::{Arc, Mutex}};
//! # use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Order { id: String, amount_cents: i64 }
//!
//! /// Instead of the real one: it takes a charge of the same order for the same charge.
//! #[derive(Clone, Default)]
//! struct Bank(Arc<Mutex<BTreeMap<String, i64>>>);
//!
//! async fn charge(State(bank): State<Bank>, Json(order): Json<Order>) -> StatusCode {
//!     bank.0.lock().unwrap().insert(order.id, order.amount_cents);
//!     StatusCode::CREATED
//! }
//!
//! #[tokio::test(start_paused = true)]
//! async fn an_order_is_charged_once() {
//!     let harness = Setup::new(Bank::default).service(|store, bank| {
//!         let once = IdempotencyLayer::new(store).unscoped();
//!         Router::new().route("/charges", post(charge)).layer(once).with_state(bank.clone())
//!     });
//!     let order = serde_json::to_vec(&Order { id: "o-17".into(), amount_cents: 1250 }).unwrap();
//!     let order = Request::post("/charges")
//!         .header("idempotency-key", "k-1")
//!         .header("content-type", "application/json")
//!         .body(order.into())
//!         .unwrap();
//!
//!     harness.crash(CrashPoint::BeforeCompletion, &order).await;
//!     let answer = harness.send_until_done(&order).await;
//!     assert_eq!((answer.status(), answer.is_replay()), (StatusCode::CREATED, false));
//!     assert!(harness.send(&order).await.is_replay());
//!
//!     assert_idempotent(&harness, &order, async |run| run.state().0.lock().unwrap().clone()).await;
//! }
//! ```
//!
//! `docs/testing.md` shows more. Requests are `http::Request<Bytes>`; each has its key. A service has to be one for any
//! type of body, as axum's `Router` is, or for `Full<Bytes>`: one for another type is put into a router by
//! `Router::fallback_service`, or becomes one by tower's `map_request`. Calls of gRPC are not understood.
//!
//! # What it cannot show
//! A process vanishes at each call of the store, and at each `.await` of its handler that has to wait; tasks that the
//! handler has spawned go on. Connections, proxies and time limits of your server are for tests on sockets.

mod answer;
mod harness;
mod service;

#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub use crate::Database;
#[cfg(feature = "postgres")]
pub use crate::OnPostgres;
#[cfg(feature = "sqlite")]
pub use crate::OnSqlite;
pub use crate::{
    Call, CrashPoint, Ending, FaultyStore, Ground, InMemory, Rehearsal, Setup, assert_idempotent,
};
pub use answer::Answer;
pub use harness::Harness;
