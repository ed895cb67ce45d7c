//! Tests of handlers with no broker and no server: on tokio's paused clock, in milliseconds.
//!
//! A [`Harness`] is the product's own worker for one handler, without a connection: its executor, its store
//! ([`MemoryStore`](idem_core::MemoryStore) behind a link that can fail), its rules for held messages and for
//! settlements. It delivers messages as badly as RabbitMQ may, and tells what RabbitMQ, and whoever waits for a
//! reply, would be told.
//!
//! ```test_harness
//! use idem_amqp::{
//!     dead_letters::Reason, executor::ExecutionKind, prelude::*,
//!     worker::Settlement,
//! };
//! use idem_testing::amqp::{CrashPoint, Message, Setup, assert_idempotent};
//! # use std::{collections::BTreeMap, sync::{Arc, Mutex}};
//! # use serde::{Deserialize, Serialize};
//! # #[derive(Serialize, Deserialize)]
//! # struct OrderPlaced { order_id: String, amount_cents: i64 }
//! # #[derive(Clone, Default)]
//! # struct Bank(Arc<Mutex<BTreeMap<String, i64>>>);
//! # impl Bank {
//! #     fn charge(&self, id: String, cents: i64) { self.0.lock().unwrap().insert(id, cents); }
//! #     fn charges(&self) -> BTreeMap<String, i64> { self.0.lock().unwrap().clone() }
//! # }
//!
//! // The scope is durable: it stands in every key.
//! #[idempotent(key = "order_id", scope = "orders.charge")]
//! async fn charge(order: OrderPlaced, State(bank): State<Bank>) -> Result<(), Failed> {
//!     if order.amount_cents <= 0 {
//!         return Err(Failed::rejected("amount must be positive"));
//!     }
//!     bank.charge(order.order_id, order.amount_cents);
//!     Ok(())
//! }
//!
//! # fn order(amount_cents: i64) -> Message {
//! #     Message::json(&OrderPlaced { order_id: "o-17".into(), amount_cents })
//! # }
//! #[tokio::test(start_paused = true)]
//! async fn an_order_is_charged_once() {
//!     let harness = Setup::new(Bank::default).consume::<charge>("orders.charge");
//!
//!     let refused = harness.deliver(&order(-5)).await;
//!     assert_eq!(refused.settlement(), Settlement::DeadLetter(Reason::Rejected));
//!     assert_eq!(refused.error(), Some("amount must be positive"));
//!
//!     harness.crash(CrashPoint::BeforeCompletion, &order(1250)).await;
//!     let again = harness.deliver(&order(1250).redelivered()).await;
//!     assert_eq!((again.kind(), again.attempt()), (ExecutionKind::Executed, Some(2)));
//!     assert_eq!(again.settlement(), Settlement::Ack);
//!
//!     assert_idempotent(&harness, &order(1250), async |run| run.state().charges()).await;
//! }
//! ```
//!
//! A queue whose clients may open sessions is consumed with [`Setup::consume_in_sessions`]. [`Harness::open_session`]
//! is a client's session: it gives requests their numbers, and says with each which answers are awaited.
//!
//! `docs/testing.md` shows how an application's own suite looks. The [root](crate) is the part without AMQP: why there
//! are functions and no attribute, and what cannot be tested so, is said there.

mod delivered;
mod harness;
mod message;
mod session;

#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub use crate::Database;
#[cfg(feature = "postgres")]
pub use crate::OnPostgres;
#[cfg(feature = "sqlite")]
pub use crate::OnSqlite;
pub use crate::{
    Call, CrashPoint, Ending, FaultyStore, Ground, InMemory, Rehearsal, RehearsalTogether, Setup,
    assert_distinct_keys, assert_idempotent, assert_idempotent_together,
};
pub use delivered::{Delivered, Reply};
pub use harness::Harness;
pub use message::Message;
pub use session::Session;
