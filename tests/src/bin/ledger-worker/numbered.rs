//! The same handlers for orders that their publisher numbers.

use idem_amqp::{
    prelude::*,
    sqlx::{PgConnection, SqliteConnection},
};
use idem_tests::{
    ledger::{in_postgres, in_sqlite},
    script::Order,
};

use crate::handlers::{WorkerState, say_started};

#[idempotent(key = sequence(window = 50), scope = "orders.charge")]
pub(crate) async fn charge_next_in_sqlite(
    order: Order,
    State(state): State<WorkerState>,
    attempt: Attempt,
    db: &mut SqliteConnection,
) -> Result<(), Failed> {
    say_started(&order, attempt);
    state.work().await;
    in_sqlite::write(db, &state.charge(&order, attempt)).await?;
    Ok(())
}

#[idempotent(key = sequence(window = 50), scope = "orders.charge")]
pub(crate) async fn charge_next_in_postgres(
    order: Order,
    State(state): State<WorkerState>,
    attempt: Attempt,
    db: &mut PgConnection,
) -> Result<(), Failed> {
    say_started(&order, attempt);
    state.work().await;
    in_postgres::write(db, &state.charge(&order, attempt)).await?;
    Ok(())
}

#[idempotent(key = sequence(window = 50), scope = "orders.charge")]
pub(crate) async fn charge_next_leased(
    order: Order,
    State(state): State<WorkerState>,
    attempt: Attempt,
) -> Result<(), Failed> {
    say_started(&order, attempt);
    state.work().await;
    state.charge_elsewhere(&order, attempt).await?;
    Ok(())
}
