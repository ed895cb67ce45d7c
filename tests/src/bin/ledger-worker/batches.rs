//! The handlers whose orders share a call.

use idem_amqp::{
    prelude::*,
    sqlx::{PgConnection, SqliteConnection},
};
use idem_tests::{
    ledger::{Charge, in_postgres, in_sqlite},
    manner::Manner,
    process::Event,
    script::Order,
};

use super::handlers::{WorkerState, say, say_started};

// An order waits a quarter of a second for others: few come to a worker at once.

#[idempotent(key = "id", scope = "orders.charge", batch = 16, batch_wait = "250ms")]
pub(crate) async fn charge_batch_in_sqlite(
    orders: Batch<Order>,
    State(state): State<WorkerState>,
    db: &mut SqliteConnection,
) -> Result<(), Failed> {
    begin(&orders)?;
    state.work().await;
    for charge in charges(&orders, &state) {
        in_sqlite::write(db, &charge).await?;
    }
    crash(&orders, &state);
    Ok(())
}

#[idempotent(key = "id", scope = "orders.charge", batch = 16, batch_wait = "250ms")]
pub(crate) async fn charge_batch_in_postgres(
    orders: Batch<Order>,
    State(state): State<WorkerState>,
    db: &mut PgConnection,
) -> Result<(), Failed> {
    begin(&orders)?;
    state.work().await;
    in_postgres::write_all(db, &charges(&orders, &state)).await?;
    crash(&orders, &state);
    Ok(())
}

/// The mark of the orders' stream says which are charged.
#[idempotent(key = position(), scope = "orders.charge", batch = 16)]
pub(crate) async fn charge_by_mark_in_sqlite(
    orders: Batch<Order>,
    State(state): State<WorkerState>,
    db: &mut SqliteConnection,
) -> Result<(), Failed> {
    begin(&orders)?;
    state.work().await;
    for charge in charges(&orders, &state) {
        in_sqlite::write(db, &charge).await?;
    }
    crash(&orders, &state);
    Ok(())
}

#[idempotent(key = position(), scope = "orders.charge", batch = 16)]
pub(crate) async fn charge_by_mark_in_postgres(
    orders: Batch<Order>,
    State(state): State<WorkerState>,
    db: &mut PgConnection,
) -> Result<(), Failed> {
    begin(&orders)?;
    state.work().await;
    in_postgres::write_all(db, &charges(&orders, &state)).await?;
    crash(&orders, &state);
    Ok(())
}

/// Each order is charged by itself, as by a service of which nobody knows how far it has come.
#[idempotent(key = "id", scope = "orders.charge", batch = 16, batch_wait = "250ms")]
pub(crate) async fn charge_batch_leased(
    orders: Batch<Order>,
    State(state): State<WorkerState>,
) -> Result<(), Failed> {
    begin(&orders)?;
    for order in orders.accepted() {
        state.charge_elsewhere(order, order.attempt()).await?;
    }
    state.work().await;
    crash(&orders, &state);
    Ok(())
}

/// Says so, and fails where that is an order's manner. Nothing is written yet, so a call that fails may be repeated.
fn begin(orders: &Batch<Order>) -> Result<(), Failed> {
    say(&Event::Batch {
        messages: orders.len(),
    });
    for order in orders {
        say_started(order, order.attempt());
    }
    for (place, order) in orders.iter().enumerate() {
        let failure = match order.manner {
            Manner::Fails(times) if order.attempt().number() <= times => Failed::retry("not yet"),
            Manner::Hopeless => Failed::retry("never"),
            Manner::Rejected => Failed::rejected("nobody wants it"),
            _ => continue,
        };
        if fails_all(order) {
            return Err(failure);
        }
        orders.fail(place, failure);
    }
    Ok(())
}

/// Whether the order fails the call for all who share it, and not itself alone: every other one does.
fn fails_all(order: &Order) -> bool {
    order.id.ends_with(['1', '3', '5', '7', '9'])
}

fn charges(orders: &Batch<Order>, state: &WorkerState) -> Vec<Charge> {
    let accepted = orders.accepted();
    accepted
        .map(|order| state.charge(order, order.attempt()))
        .collect()
}

fn crash(orders: &Batch<Order>, state: &WorkerState) {
    orders.accepted().for_each(|order| state.crash(order));
}
