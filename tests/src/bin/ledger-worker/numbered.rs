//! The same handlers for orders that their publisher numbers.

use idem_amqp::{
    prelude::*,
    sqlx::{PgConnection, SqliteConnection},
};
use idem_tests::{
    ledger::{in_postgres, in_sqlite},
    script::Order,
};

use crate::desk::{Desk, say_started};

#[idempotent(key = sequence(window = 50), scope = "orders.charge")]
pub(crate) async fn charge_next_in_sqlite(
    order: Order,
    State(desk): State<Desk>,
    attempt: Attempt,
    db: &mut SqliteConnection,
) -> Result<(), Failed> {
    say_started(&order, attempt);
    desk.work().await;
    in_sqlite::write(db, &desk.charge(&order, attempt)).await?;
    Ok(())
}

#[idempotent(key = sequence(window = 50), scope = "orders.charge")]
pub(crate) async fn charge_next_in_postgres(
    order: Order,
    State(desk): State<Desk>,
    attempt: Attempt,
    db: &mut PgConnection,
) -> Result<(), Failed> {
    say_started(&order, attempt);
    desk.work().await;
    in_postgres::write(db, &desk.charge(&order, attempt)).await?;
    Ok(())
}

#[idempotent(key = sequence(window = 50), scope = "orders.charge")]
pub(crate) async fn charge_next_leased(
    order: Order,
    State(desk): State<Desk>,
    attempt: Attempt,
) -> Result<(), Failed> {
    say_started(&order, attempt);
    desk.work().await;
    desk.charge_elsewhere(&order, attempt).await?;
    Ok(())
}
