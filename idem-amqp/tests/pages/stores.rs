use std::{num::NonZeroUsize, time::Duration};

use idem_amqp::{MemoryStore, PostgresStore, RedisStore, SqliteStore, prelude::*, sqlx::{PgConnection, SqliteConnection, self}, stores::{Cached, Migrate}};
use serde::Deserialize;

use super::Error;

fn memory() {
    let store = MemoryStore::new();
    let bounded = MemoryStore::builder().capacity(100_000).build();
    drop((store, bounded));
}

async fn sqlite() -> Result<(), Error> {
    let store = SqliteStore::connect("orders.db").await?;
    drop(store);
    Ok(())
}

async fn postgres() -> Result<(), Error> {
    let store = PostgresStore::connect("postgres://app@db/shop").await?;
    let with_options = PostgresStore::builder("postgres://app@db/shop")
        .table("shop_keys")          // `idem_records` unless set; in the schema of the search path
        .connections(32)             // for atomic handlers, 16 unless set
        .migrate(Migrate::Never)     // by your own migrations: `PostgresStore::schema`
        .build()
        .await?;
    drop((store, with_options));
    Ok(())
}

async fn redis() -> Result<(), Error> {
    let store = RedisStore::connect("redis://127.0.0.1:6379").await?;
    for finding in store.findings().await? {
        println!("{finding}");
    }
    let with_replicas = RedisStore::builder("redis://127.0.0.1:6379")
        .min_replicas(NonZeroUsize::MIN, Duration::from_millis(100))
        .build()
        .await?;
    drop(with_replicas);
    Ok(())
}

async fn redis_in_front(database_url: &str) -> Result<(), Error> {
    let first = RedisStore::builder("redis://cache.internal").cache("orders-production")?;
    let second = PostgresStore::connect(database_url).await?;
    let store = Cached::builder(second).shared(first).build();
    drop(store);
    Ok(())
}

#[derive(Deserialize)]
struct OrderPlaced { order_id: String, amount_cents: i64 }

mod group {
    use super::*;

    // The scope is durable: it stands in every key.
    #[idempotent(key = "order_id", scope = "orders.charge", group = 32)]
    async fn charge(order: OrderPlaced, db: &mut PgConnection) -> Result<(), Failed> {
        sqlx::query("INSERT INTO charges (order_id, amount_cents) VALUES ($1, $2)")
            .bind(order.order_id).bind(order.amount_cents).execute(db).await?;
        Ok(())
    }
}

mod recorded_by {
    use super::*;

    // The scope is durable: it stands in every key.
    #[idempotent(key = "order_id", scope = "orders.charge", recorded_by = "payments_order_id_key")]
    async fn charge(order: OrderPlaced, db: &mut PgConnection) -> Result<(), Failed> {
        sqlx::query("INSERT INTO payments (order_id, amount_cents) VALUES ($1, $2)")
            .bind(order.order_id).bind(order.amount_cents).execute(db).await?;
        Ok(())
    }
}

mod recorded_by_on_sqlite {
    use super::*;

    // CREATE UNIQUE INDEX payments_order_id_key ON payments (order_id)
    #[idempotent(key = "order_id", scope = "orders.charge", recorded_by = "payments_order_id_key")]
    async fn charge(order: OrderPlaced, db: &mut SqliteConnection) -> Result<(), Failed> {
        sqlx::query("INSERT INTO payments (order_id, amount_cents) VALUES (?, ?)")
            .bind(order.order_id).bind(order.amount_cents).execute(db).await?;
        Ok(())
    }
}
