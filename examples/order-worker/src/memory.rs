//! On the memory store: the charge is a line on standard output.

use idem_amqp::{AnyStore, prelude::*};
use serde_json::json;

use crate::{
    Error,
    order::{OrderPlaced, Shop},
    settings::Settings,
};

/// Leased: at most one worker holds the order, and the charge is remembered after it was made.
// The scope is durable: it stands in every key.
#[idempotent(key = "order_id", scope = "orders.charge")]
async fn charge(
    order: OrderPlaced,
    State(shop): State<Shop>,
    attempt: Attempt,
) -> Result<(), Failed> {
    shop.pay(&order).await?;
    let charge = json!({"charge": {
        "order_id": order.order_id,
        "customer": order.customer,
        "amount_cents": order.amount_cents,
        "attempt": attempt.number(),
        "worker": &*shop.worker,
    }});
    println!("{charge}");
    Ok(())
}

pub(crate) async fn consume(settings: Settings) -> Result<(), Error> {
    let store = AnyStore::connect(&settings.store_url).await?;
    let shop = Shop::new(&settings);
    crate::consume::<charge, _, _>(settings, store, shop).await
}
