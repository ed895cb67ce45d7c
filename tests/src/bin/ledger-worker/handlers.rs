//! What the handlers do: say so, work, wait, charge, crash.

use std::{
    fs::File,
    time::{Duration, SystemTime},
};

use idem_amqp::{
    prelude::*,
    sqlx::{self, PgConnection, SqliteConnection, SqlitePool, sqlite::SqlitePoolOptions},
};
use idem_tests::{
    interfered::die,
    ledger::{Charge, in_postgres, in_sqlite},
    manner::Manner,
    process::{Crash, Event, Settings},
    script::Order,
};

/// The worker's state.
#[derive(Clone)]
pub(crate) struct WorkerState {
    settings: Settings,
    /// Of the leased handler's own.
    pool: SqlitePool,
}

#[idempotent(key = "id", scope = "orders.charge")]
pub(crate) async fn charge_in_sqlite(
    order: Order,
    State(state): State<WorkerState>,
    attempt: Attempt,
    db: &mut SqliteConnection,
) -> Result<(), Failed> {
    say_started(&order, attempt);
    obey_manner(&order, attempt)?;
    state.work().await;
    in_sqlite::write(db, &state.charge(&order, attempt)).await?;
    state.crash(&order);
    Ok(())
}

#[idempotent(key = "id", scope = "orders.charge")]
pub(crate) async fn charge_in_postgres(
    order: Order,
    State(state): State<WorkerState>,
    attempt: Attempt,
    db: &mut PgConnection,
) -> Result<(), Failed> {
    say_started(&order, attempt);
    obey_manner(&order, attempt)?;
    state.work().await;
    in_postgres::write(db, &state.charge(&order, attempt)).await?;
    state.crash(&order);
    Ok(())
}

#[idempotent(key = "id", scope = "orders.charge", group = 8)]
pub(crate) async fn charge_in_group(
    order: Order,
    State(state): State<WorkerState>,
    attempt: Attempt,
    db: &mut PgConnection,
) -> Result<(), Failed> {
    say_started(&order, attempt);
    obey_manner(&order, attempt)?;
    state.work().await;
    in_postgres::write(db, &state.charge(&order, attempt)).await?;
    state.crash(&order);
    Ok(())
}

#[idempotent(
    key = "id",
    scope = "orders.charge",
    recorded_by = "charged_order_id_key"
)]
pub(crate) async fn charge_in_entity_in_postgres(
    order: Order,
    State(state): State<WorkerState>,
    attempt: Attempt,
    db: &mut PgConnection,
) -> Result<(), Failed> {
    say_started(&order, attempt);
    obey_manner(&order, attempt)?;
    state.work().await;
    in_postgres::write_once(db, &state.charge(&order, attempt)).await?;
    state.crash(&order);
    Ok(())
}

#[idempotent(
    key = "id",
    scope = "orders.charge",
    recorded_by = "charged_order_id_key"
)]
pub(crate) async fn charge_in_entity_in_sqlite(
    order: Order,
    State(state): State<WorkerState>,
    attempt: Attempt,
    db: &mut SqliteConnection,
) -> Result<(), Failed> {
    say_started(&order, attempt);
    obey_manner(&order, attempt)?;
    state.work().await;
    in_sqlite::write_once(db, &state.charge(&order, attempt)).await?;
    state.crash(&order);
    Ok(())
}

/// The charge is made at once, so that it is there when the process dies or is paused in the middle
/// of work: tests do that as soon as they hear of the start.
#[idempotent(key = "id", scope = "orders.charge")]
pub(crate) async fn charge_leased(
    order: Order,
    State(state): State<WorkerState>,
    attempt: Attempt,
) -> Result<(), Failed> {
    let manner = obey_manner(&order, attempt);
    if manner.is_ok() {
        state.charge_elsewhere(&order, attempt).await?;
    }
    say_started(&order, attempt);
    manner?;
    state.work().await;
    state.crash(&order);
    Ok(())
}

impl WorkerState {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            settings: settings.clone(),
            pool: SqlitePoolOptions::new().connect_lazy_with(in_sqlite::options(&settings.ledger)),
        }
    }

    pub(crate) fn charge(&self, order: &Order, attempt: Attempt) -> Charge {
        Charge::new(&order.id, attempt.number(), &self.settings.name)
    }

    pub(crate) async fn charge_elsewhere(
        &self,
        order: &Order,
        attempt: Attempt,
    ) -> Result<(), sqlx::Error> {
        let mut db = self.pool.acquire().await?;
        in_sqlite::write(&mut db, &self.charge(order, attempt)).await
    }

    /// The queue to which events go.
    pub(crate) fn events(&self) -> &str {
        let events = self.settings.events.as_deref();
        events.expect("handlers that publish are told where to")
    }

    pub(crate) async fn work(&self) {
        tokio::time::sleep(Duration::from_millis(self.settings.work_ms)).await;
        let Some(gate) = &self.settings.gate else {
            return;
        };
        // There is no event for a file: a look every few milliseconds.
        while !gate.file.exists() {
            let pause = Duration::from_millis(5);
            if gate.blocking {
                std::thread::sleep(pause);
            } else {
                tokio::time::sleep(pause).await;
            }
        }
    }

    pub(super) fn crash(&self, order: &Order) {
        let first_time = || {
            let mark = format!("{}.killed", order.id);
            File::create_new(self.settings.ledger.with_file_name(mark)).is_ok()
        };
        if self.settings.crash == Some(Crash::InHandler)
            || (order.manner == Manner::Kills && first_time())
        {
            die();
        }
    }
}

pub(crate) fn say_started(order: &Order, attempt: Attempt) {
    say(&Event::Started {
        order_id: order.id.clone(),
        attempt: attempt.number(),
        in_doubt: attempt.is_in_doubt(),
        at: SystemTime::now(),
    });
}

/// Fails if that is the order's manner.
fn obey_manner(order: &Order, attempt: Attempt) -> Result<(), Failed> {
    match order.manner {
        Manner::Fails(times) if attempt.number() <= times => Err(Failed::retry("not yet")),
        Manner::Hopeless => Err(Failed::retry("never")),
        Manner::Rejected => Err(Failed::rejected("nobody wants it")),
        _ => Ok(()),
    }
}

pub(crate) fn say(event: &Event) {
    let line = serde_json::to_string(event).expect("JSON expresses events");
    println!("{line}");
}
