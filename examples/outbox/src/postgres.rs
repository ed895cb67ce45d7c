//! On PostgreSQL.

use idem_amqp::{
    PostgresStore, Publication,
    outbox::Outbox,
    prelude::*,
    sqlx::{self, Connection as _, PgConnection},
};

use crate::{
    Command, Error, Shipping,
    messages::{OrderPlaced, ShipOrder},
};

/// Without unique constraints: that there is one row for each order is the workers' doing. The lock is for services
/// that start at the same time, whom `IF NOT EXISTS` alone does not keep apart.
const CREATE_TABLES: &str = "
BEGIN;
SET LOCAL client_min_messages = warning;
SELECT pg_advisory_xact_lock(hashtext('charges'));
CREATE TABLE IF NOT EXISTS charges (order_id text NOT NULL, amount_cents bigint NOT NULL);
CREATE TABLE IF NOT EXISTS shipments (order_id text NOT NULL, customer text NOT NULL);
COMMIT";

const SELECT_LEDGER: &str = "
SELECT order_id, sum(charged), sum(shipped)
FROM (SELECT order_id, 1 AS charged, 0 AS shipped FROM charges
      UNION ALL SELECT order_id, 0, 1 FROM shipments) AS rows
GROUP BY order_id ORDER BY order_id";

/// The charge, the event and the record that the order is charged commit together.
// The scope is durable: it stands in every key.
#[idempotent(key = "order_id", scope = "orders.charge")]
async fn charge(
    order: OrderPlaced,
    outbox: Outbox,
    State(shipping): State<Shipping>,
    db: &mut PgConnection,
) -> Result<(), Failed> {
    sqlx::query("INSERT INTO charges (order_id, amount_cents) VALUES ($1, $2)")
        .bind(&order.order_id)
        .bind(order.amount_cents)
        .execute(db)
        .await?;
    let event = ShipOrder {
        order_id: order.order_id,
        customer: order.customer,
    };
    outbox.publish(Publication::json(&shipping.0, &event))?;
    Ok(())
}

/// An event may come twice: its key is made of what it tells.
// The scope is durable: it stands in every key.
#[idempotent(key = "order_id", scope = "orders.ship")]
async fn ship(event: ShipOrder, db: &mut PgConnection) -> Result<(), Failed> {
    sqlx::query("INSERT INTO shipments (order_id, customer) VALUES ($1, $2)")
        .bind(&event.order_id)
        .bind(&event.customer)
        .execute(db)
        .await?;
    Ok(())
}

pub(crate) async fn run(command: Command, store_url: &str) -> Result<(), Error> {
    let store = PostgresStore::connect(store_url).await?;
    let mut db = PgConnection::connect(store_url).await?;
    sqlx::raw_sql(CREATE_TABLES).execute(&mut db).await?;
    match command {
        Command::Charge => crate::serve::<charge, _>(store, command).await,
        Command::Ship => crate::serve::<ship, _>(store, command).await,
        Command::Ledger => {
            let rows = sqlx::query_as(SELECT_LEDGER).fetch_all(&mut db).await?;
            crate::print_ledger(rows);
            Ok(())
        }
    }
}
