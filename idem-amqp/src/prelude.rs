//! What a service that consumes with idempotent handlers usually needs.
//!
//! Only what nearly every handler names: `State` and `Attempt` are in it, `Queue` and `Worker`
//! too; stores are not, for each service has its own.
//!
//! ```
//! use idem_amqp::prelude::*;
//!
//! // The scope is durable: it stands in every key.
//! #[idempotent(key = message_id(), scope = "orders.notify")]
//! async fn notify(order_id: String, attempt: Attempt) -> Result<(), Failed> {
//!     println!("order {order_id} was placed (attempt {})", attempt.number());
//!     Ok(())
//! }
//! ```

pub use crate::{
    Attempt, Batch, Failed, Failure, FencingToken, FromContext, Headers, Key, Policy, Refused,
    Request, State, Verdict, publisher::Publisher, shutdown::shutdown_signal, topology::Queue,
    wire::Delivery, worker::Worker,
};

#[cfg(feature = "macros")]
pub use crate::{IdempotencyKey, idempotent};
