use serde::Deserialize;

#[derive(Deserialize)]
struct OrderPlaced { order_id: String, amount_cents: i64 }

#[derive(Clone)]
struct Mailer;

#[derive(Clone)]
struct Limits { most_cents: i64 }

use anyhow::{Context as _, bail};
use idem_amqp::{FromRef, PostgresStore, prelude::*, sqlx::{self, PgConnection}};

#[derive(Clone, FromRef)]
struct App { mail: Mailer, limits: Limits }   // a handler takes a part: State<Mailer>

#[idempotent(key = "order_id", scope = "orders.charge", timeout = "30s")]
async fn charge(order: OrderPlaced, State(limits): State<Limits>, db: &mut PgConnection) -> anyhow::Result<()> {
    if order.amount_cents > limits.most_cents {
        bail!(Failed::rejected("more than a customer may spend"));   // dead-lettered at once
    }
    sqlx::query("INSERT INTO charges (order_id, amount_cents) VALUES ($1, $2)")
        .bind(order.order_id).bind(order.amount_cents).execute(db).await
        .context("cannot write the charge")?;                        // runs again after a backoff
    Ok(())
}

async fn run(app: App) -> anyhow::Result<()> {
    let store = PostgresStore::connect("postgres://shop@db.example/orders").await?;
    let queue = Queue::existing("orders")
        .dead_letter_exchange("failed", "orders")
        .concurrency(16);
    let worker = Worker::builder(store)
        .state(app)                                                  // before the handlers that take parts of it
        .consume::<charge>(queue)
        .build("amqps://broker.example/shop")?;
    worker.run_until(shutdown_signal()).await?;
    Ok(())
}
