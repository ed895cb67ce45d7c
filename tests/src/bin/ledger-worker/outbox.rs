//! The same handlers, which publish by their outbox that an order is charged.

use idem_amqp::{
    Publication,
    outbox::{Outbox, OutboxError, Outboxes},
    prelude::*,
    sqlx::{PgConnection, SqliteConnection},
};
use idem_tests::script::Order;

use crate::{
    batches::{charge_batch_in_postgres, charge_batch_in_sqlite},
    handlers::{WorkerState, charge_in_postgres, charge_in_sqlite},
};

#[idempotent(key = "id", scope = "orders.charge")]
pub(crate) async fn charge_and_tell_in_sqlite(
    order: Order,
    State(state): State<WorkerState>,
    attempt: Attempt,
    outbox: Outbox,
    db: &mut SqliteConnection,
) -> Result<(), Failed> {
    tell(&order, &state, &outbox)?;
    charge_in_sqlite(order, State(state), attempt, db).await
}

#[idempotent(key = "id", scope = "orders.charge")]
pub(crate) async fn charge_and_tell_in_postgres(
    order: Order,
    State(state): State<WorkerState>,
    attempt: Attempt,
    outbox: Outbox,
    db: &mut PgConnection,
) -> Result<(), Failed> {
    tell(&order, &state, &outbox)?;
    charge_in_postgres(order, State(state), attempt, db).await
}

#[idempotent(key = "id", scope = "orders.charge", batch = 16, batch_wait = "250ms")]
pub(crate) async fn charge_batch_and_tell_in_sqlite(
    orders: Batch<Order>,
    State(state): State<WorkerState>,
    outboxes: Outboxes,
    db: &mut SqliteConnection,
) -> Result<(), Failed> {
    tell_all(&orders, &state, &outboxes)?;
    charge_batch_in_sqlite(orders, State(state), db).await
}

#[idempotent(key = "id", scope = "orders.charge", batch = 16, batch_wait = "250ms")]
pub(crate) async fn charge_batch_and_tell_in_postgres(
    orders: Batch<Order>,
    State(state): State<WorkerState>,
    outboxes: Outboxes,
    db: &mut PgConnection,
) -> Result<(), Failed> {
    tell_all(&orders, &state, &outboxes)?;
    charge_batch_in_postgres(orders, State(state), db).await
}

/// Before the charge, and before the order fails, if it does: nothing of a failed attempt leaves.
fn tell(order: &Order, state: &WorkerState, outbox: &Outbox) -> Result<(), OutboxError> {
    outbox.publish(Publication::json(state.events(), &Order::new(&order.id)))
}

fn tell_all(
    orders: &Batch<Order>,
    state: &WorkerState,
    outboxes: &Outboxes,
) -> Result<(), OutboxError> {
    let mut each = orders.iter().zip(outboxes.iter());
    each.try_for_each(|(order, outbox)| tell(order, state, outbox))
}
