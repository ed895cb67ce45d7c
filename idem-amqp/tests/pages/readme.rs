use idem_amqp::{SqliteStore, prelude::*};
use serde::{Deserialize, Serialize};

use super::Error;

#[derive(Deserialize)]
struct Notice { customer: String, order_id: String, amount_cents: i64 }

#[derive(Serialize)]
struct Receipt;

#[derive(Clone)]
struct Mailer;

impl Mailer {
    async fn send(&self, _: &Notice, _: u32) -> Result<Receipt, Failed> { Ok(Receipt) }
}

#[idempotent(
    key = ["customer", "order_id"],   // fields; also "nested.field", header("x-id"), message_id(),
                                      // content(), first(a, b, …), key_with = path, or
                                      // sequence(producer = …, number = …)
    scope = "orders.notify",          // the handler's durable name, its own alone; default: "<package>.<function>"
    lease = "30s", retention = "72h", max_attempts = 10,
    in_doubt = "retry",               // or "quarantine"
    fingerprint = ["amount_cents"],   // default: the whole body; or off
)]
async fn notify(order: Notice, State(mail): State<Mailer>, attempt: Attempt) -> Result<Receipt, Failed> {
    mail.send(&order, attempt.number()).await
}

#[derive(Deserialize)]
struct OrderPlaced { order_id: String }

#[idempotent(key = "order_id", scope = "orders.charge")]
async fn charge(order: OrderPlaced) -> Result<(), Failed> {
    drop(order.order_id);
    Ok(())
}

async fn in_production(store: SqliteStore, amqp_urls: &str) -> Result<(), Error> {
    let worker = Worker::builder(store)
        .consume::<charge>("orders.charge")
        .build(amqp_urls)?;
    let health = worker.health();   // for a probe: what is wrong, and for how long
    worker.run_until(shutdown_signal()).await?;
    drop(health);
    Ok(())
}
