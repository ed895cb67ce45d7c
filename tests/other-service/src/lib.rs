//! Another service on the store of the tests. Its handler has the same name as one of theirs, and no scope either.

use idem_amqp::prelude::*;
use serde::Deserialize;

/// What the tests publish, as far as this service reads it.
#[derive(Debug, Deserialize)]
pub struct Order {
    /// The key.
    pub id: String,
}

/// Its scope is `idem-other-service.handle`.
///
/// # Errors
/// Never.
#[idempotent(key = "id")]
pub async fn handle(order: Order) -> Result<(), Failed> {
    drop(order.id);
    Ok(())
}
