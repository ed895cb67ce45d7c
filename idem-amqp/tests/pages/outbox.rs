use std::time::{Duration, SystemTime};

use idem_amqp::{
    Key, PostgresStore, Publication, Publisher, StoreError,
    outbox::{OutboxChange, OutboxRelay},
    prelude::*,
    shutdown_signal,
    sqlx::{self, Connection as _, PgConnection},
};
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
struct OrderPlaced { order_id: String, cents: i64, customer: String, due: SystemTime }

#[derive(Serialize)]
struct ShipOrder(String);

impl From<&OrderPlaced> for ShipOrder {
    fn from(order: &OrderPlaced) -> Self {
        Self(order.order_id.clone())
    }
}

use idem_amqp::outbox::Outbox;

// The scope is durable: it stands in every key.
#[idempotent(key = "order_id", scope = "orders.charge")]
async fn charge(order: OrderPlaced, outbox: Outbox, db: &mut PgConnection) -> Result<(), Failed> {
    sqlx::query("INSERT INTO charges (order_id, cents) VALUES ($1, $2)")
        .bind(&order.order_id).bind(order.cents).execute(db).await?;
    outbox.publish(Publication::json("shipping", &ShipOrder::from(&order)))?;
    Ok(())
}

fn later(order: &OrderPlaced, outbox: &Outbox) -> Result<(), Failed> {
    let [remind, invoice, moved] = ["reminders", "invoices", "moved"].map(|queue| Publication::json(queue, &order.order_id));
    outbox.after(Duration::from_hours(24)).publish(remind)?;
    outbox.at(order.due).publish(invoice)?;
    outbox.ordered_by(&order.customer).publish(moved)?;
    Ok(())
}

async fn cancel(store: &PostgresStore, key: &Key) -> Result<u64, StoreError> {
    store.outbox().change(&OutboxChange::Cancel(key.to_string())).await
}

async fn relay(store: PostgresStore) -> Result<(), Box<dyn std::error::Error>> {
    let relay = OutboxRelay::new(store.outbox(), "amqp://127.0.0.1:5672/%2f")?;
    let stats = relay.run_until(shutdown_signal()).await;
    println!("{stats}");
    Ok(())
}

#[idempotent(key = "order_id", scope = "orders.ship")]
async fn ship(order: OrderPlaced, key: Key, State(publisher): State<Publisher>) -> Result<(), Failed> {
    let shipped = Publication::json("shipped", &order.order_id).message_id(&key.derive_id("shipped"));
    publisher.publish(&shipped).await?;
    Ok(())
}

async fn route(store: PostgresStore, db: &mut PgConnection, order_id: String) -> Result<(), Box<dyn std::error::Error>> {
    let mut transaction = db.begin().await?;
    // … what the route writes
    let outbox = Outbox::outside();
    outbox.publish(Publication::json("shipping", &order_id))?;
    store.publish(&mut transaction, outbox).await?;
    transaction.commit().await?;
    Ok(())
}
