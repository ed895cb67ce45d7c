use idem_amqp::{PostgresStore, prelude::*, sqlx::{self, PgConnection, PgPool}};
use serde::Deserialize;

use super::Error;

#[derive(Deserialize)]
struct OrderPlaced { order_id: String, amount_cents: i64 }

// The scope is durable: it stands in every key.
#[idempotent(key = "order_id", scope = "orders.charge", enforcement = "observe")]
async fn charge(order: OrderPlaced, State(db): State<PgPool>) -> Result<(), Failed> {
    let inserted = sqlx::query("INSERT INTO processed_orders (order_id) VALUES ($1) ON CONFLICT DO NOTHING")
        .bind(&order.order_id).execute(&db).await?;
    if inserted.rows_affected() == 0 {
        return Ok(());
    }
    sqlx::query("INSERT INTO charges (order_id, amount_cents) VALUES ($1, $2)")
        .bind(&order.order_id).bind(order.amount_cents).execute(&db).await?;
    Ok(())
}

async fn observe(database_url: &str, amqp_url: &str, pool: PgPool) -> Result<(), Error> {
    let store = PostgresStore::connect(database_url).await?;
    let stats = Worker::builder(store)
        .state(pool)
        .consume::<charge>(Queue::existing("orders.charge").dead_letters("orders.failed"))
        .on_settled(|settled| {
            if let Some(kind) = settled.would_have_been {
                println!("{kind}: {}", settled.key.map_or("", Key::as_str));
            }
        })
        .run_until(amqp_url, shutdown_signal())
        .await?;
    println!("{stats}");
    Ok(())
}

// The scope is durable: it stands in every key.
#[idempotent(key = "order_id", scope = "orders.charge")]
async fn charge_atomically(order: OrderPlaced, db: &mut PgConnection) -> Result<(), Failed> {
    sqlx::query("INSERT INTO charges (order_id, amount_cents) VALUES ($1, $2)")
        .bind(&order.order_id).bind(order.amount_cents).execute(db).await?;
    Ok(())
}
