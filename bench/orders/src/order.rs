//! The message, and what a consumer makes of it.

use std::time::Instant;

use fastrand::Rng;
use serde::Deserialize;

use crate::Result;

/// How long each message is.
pub const BYTES: usize = 256;
const CUSTOMERS: usize = 1_000;

/// What every contestant decodes.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Order {
    /// Its key, and the message's id.
    pub id: String,
    /// To count executions by.
    pub number: usize,
    /// Who has ordered, of 1,000 customers.
    pub customer: usize,
    /// What is charged.
    pub amount_cents: i64,
    /// When it was decoded, the first that a consumer does with a delivery.
    #[serde(skip, default = "Instant::now")]
    pub delivered: Instant,
}

impl Order {
    /// Reads a message.
    ///
    /// # Errors
    /// The body is none of [`body`]'s.
    pub fn decode(body: &[u8]) -> Result<Self> {
        Ok(serde_json::from_slice(body)?)
    }
}

/// The body of the message that carries an order.
pub fn body(number: usize) -> Vec<u8> {
    let (id, customer, cents) = (id(number), number % CUSTOMERS, 100 + number % 9_900);
    let beginning = format!(
        r#"{{"id":"{id}","number":{number},"customer":{customer},"amount_cents":{cents},"currency":"EUR","note":""#
    );
    format!("{beginning:.<width$}\"}}", width = BYTES - 2).into_bytes()
}

/// As scattered as random ones, and the same each time.
pub fn id(number: usize) -> String {
    format!("ord-{:016x}", Rng::with_seed(number as u64).u64(..))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_read_from_its_message() {
        for number in [0, 7, 123_456_789] {
            let body = body(number);
            assert_eq!(body.len(), BYTES);
            let order = Order::decode(&body).unwrap();
            assert_eq!((order.id, order.number), (id(number), number));
            assert!(order.delivered.elapsed().as_secs() < 5);
        }
    }

    #[test]
    fn no_two_orders_have_the_same_id() {
        let ids: std::collections::HashSet<_> = (0..50_000).map(id).collect();
        assert_eq!(ids.len(), 50_000);
    }
}
