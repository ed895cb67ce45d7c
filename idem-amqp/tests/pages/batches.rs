use idem_amqp::{prelude::*, sqlx::{self, PgConnection}};
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
struct OrderPlaced { order_id: String, amount_cents: i64 }

// The scope is durable: it stands in every key.
#[idempotent(key = "order_id", scope = "orders.charge", batch = 256)]
async fn charge(orders: Batch<OrderPlaced>, db: &mut PgConnection) -> Result<(), Failed> {
    let (ids, cents): (Vec<_>, Vec<_>) = orders.iter().map(|it| (&*it.order_id, it.amount_cents)).unzip();
    sqlx::query("INSERT INTO charges (order_id, amount_cents) SELECT * FROM unnest($1::text[], $2::bigint[])")
        .bind(ids).bind(cents).execute(db).await?;
    Ok(())
}

#[derive(Serialize)]
struct Parcel;

#[derive(Clone)]
struct Carrier;

impl Carrier {
    fn is_full(&self, _order: &str) -> bool {
        false
    }

    async fn ship(&self, ids: &[&str]) -> std::io::Result<Vec<Parcel>> {
        Ok(ids.iter().map(|_| Parcel).collect())
    }
}

#[idempotent(key = "order_id", scope = "orders.ship", batch = 100)]
async fn ship(orders: Batch<OrderPlaced>, State(carrier): State<Carrier>) -> Result<Vec<Parcel>, Failed> {
    for (i, order) in orders.iter().enumerate() {
        if order.amount_cents <= 0 {
            orders.reject(i, "nothing was paid"); // for good: it is dead-lettered
        } else if carrier.is_full(&order.order_id) {
            orders.retry(i, "no room today"); // this attempt has failed
        }
    }
    let ids: Vec<_> = orders.accepted().map(|order| &*order.order_id).collect();
    Ok(carrier.ship(&ids).await?)
}

#[derive(Deserialize)]
struct Booking { id: String, account: String }

#[idempotent(key = "id", scope = "accounts.book", batch = 256)]
async fn book(orders: Batch<Booking>, db: &mut PgConnection) -> Result<(), Failed> {
    let mut orders: Vec<_> = orders.accepted().collect();
    orders.sort_by_key(|order| &*order.account);
    // UPDATE accounts … FROM unnest($1, $2): add up what falls on the same account before, as UPDATE changes a row once
    drop((orders, db));
    Ok(())
}
