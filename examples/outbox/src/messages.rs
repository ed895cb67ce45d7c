//! What the services are told.

use serde::{Deserialize, Serialize};

/// To `charge`.
#[derive(Debug, Deserialize)]
pub(crate) struct OrderPlaced {
    pub(crate) order_id: String,
    pub(crate) customer: String,
    pub(crate) amount_cents: i64,
}

/// To `ship`: the order is charged.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ShipOrder {
    pub(crate) order_id: String,
    pub(crate) customer: String,
}
