//! Atomic: a charge and the record that it was made commit together, in one SQLite database.
//!
//! One order is published twice. Another one fails at its first attempt, after its charge was written. In
//! the end there is one charge for each.
//!
//! ```sh
//! AMQP_URL=amqp://127.0.0.1:5672/%2f cargo run -p atomic
//! ```

use std::env;

use idem_amqp::{
    Publication, SqliteStore,
    prelude::*,
    sqlx::{self, Connection as _, SqliteConnection},
};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

const QUEUE: &str = "example.atomic";

#[derive(Serialize, Deserialize)]
struct OrderPlaced {
    order_id: String,
    amount_cents: i64,
}

/// What it writes through `db` commits with its completion, or is rolled back with its failure.
// The scope is durable: it stands in every key.
#[idempotent(key = "order_id", scope = "orders.charge")]
async fn charge(
    order: OrderPlaced,
    db: &mut SqliteConnection,
    attempt: Attempt,
) -> Result<(), Failed> {
    sqlx::query("INSERT INTO charges (order_id, amount_cents) VALUES (?, ?)")
        .bind(&order.order_id)
        .bind(order.amount_cents)
        .execute(db)
        .await?;
    if order.order_id == "o-2" && attempt.number() == 1 {
        return Err(Failed::retry("the receipt could not be printed"));
    }
    println!("charged {} at attempt {}", order.order_id, attempt.number());
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let amqp_url = env::var("AMQP_URL").unwrap_or_else(|_| "amqp://127.0.0.1:5672/%2f".to_owned());
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("orders.db");
    let store = SqliteStore::connect(&file).await?;
    let mut shop = SqliteConnection::connect(&format!("sqlite:{}", file.display())).await?;
    sqlx::query("CREATE TABLE charges (order_id TEXT, amount_cents INTEGER)")
        .execute(&mut shop)
        .await?;
    publish(&amqp_url).await?;

    let (told, mut settled) = mpsc::unbounded_channel();
    // Three messages, one of which comes back for another attempt.
    let all_settled = async move {
        for _ in 0..4 {
            settled.recv().await;
        }
    };
    let balance = Worker::builder(store)
        .consume::<charge>(Queue::quorum(QUEUE).prefetch(1))
        .on_settled(move |_| {
            let _ = told.send(());
        })
        .run_until(amqp_url, all_settled)
        .await?;
    println!("{balance}");

    let charges: Vec<(String, i64)> = sqlx::query_as("SELECT * FROM charges ORDER BY order_id")
        .fetch_all(&mut shop)
        .await?;
    for (order_id, amount_cents) in charges {
        println!("{order_id}: {amount_cents} cents");
    }
    Ok(())
}

async fn publish(amqp_url: &str) -> Result<(), Box<dyn std::error::Error>> {
    let publisher = Publisher::connect(amqp_url).await?;
    publisher.declare(QUEUE).await?;
    for (order_id, amount_cents) in [("o-1", 1299), ("o-1", 1299), ("o-2", 4900)] {
        let order = OrderPlaced {
            order_id: order_id.to_owned(),
            amount_cents,
        };
        publisher.publish(&Publication::json(QUEUE, &order)).await?;
    }
    Ok(())
}
