//! Nothing that is generated is for a lint to complain about.

#![deny(
    warnings,
    missing_docs,
    missing_debug_implementations,
    nonstandard_style,
    rust_2018_idioms,
    single_use_lifetimes,
    trivial_casts,
    unreachable_pub,
    unused,
    unused_lifetimes,
    unused_qualifications,
    elided_lifetimes_in_paths
)]
#![forbid(unsafe_code)]

/// Handlers.
pub mod handlers {
    use idem_core::{Attempt, Failed, IdempotencyKey, State, idempotent};
    use serde::Deserialize;

    /// An order.
    #[derive(Debug, Deserialize, IdempotencyKey)]
    pub struct Order {
        #[key]
        order_id: String,
        amount_cents: i64,
    }

    /// Something lent.
    #[derive(Debug)]
    pub struct Connection<'c>(pub &'c str);

    /// Charges.
    #[idempotent(key = ["order_id", first(message_id(), amount_cents)], lease = "5s", fingerprint = [amount_cents])]
    pub async fn charge(
        order: Order,
        State(mailer): State<String>,
        attempt: Attempt,
        db: &mut Connection<'_>,
    ) -> Result<usize, Failed> {
        let _ = (attempt, db.0);
        Ok(order.order_id.len() + mailer.len())
    }

    /// Refunds.
    #[idempotent]
    pub(crate) async fn refund(order: Order) -> Result<(), Failed> {
        drop(order);
        Ok(())
    }
}

fn consume<H: idem_core::handler::Handler<String>>() {}

fn main() {
    consume::<handlers::charge>();
    consume::<handlers::refund>();
}
