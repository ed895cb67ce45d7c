//! What the handlers do: say so, work, wait, charge, crash.

use std::time::{Duration, SystemTime};

use idem_amqp::{
    prelude::*,
    sqlx::{self, PgConnection, SqliteConnection, SqlitePool, sqlite::SqlitePoolOptions},
};
use idem_tests::{
    interfered::die,
    ledger::{Charge, in_postgres, in_sqlite},
    process::{Crash, Event, Settings},
    script::Order,
};

/// The worker's state.
#[derive(Clone)]
pub(crate) struct Desk {
    settings: Settings,
    /// Of the leased handler's own.
    pool: SqlitePool,
}

#[idempotent(key = "id", scope = "orders.charge")]
pub(crate) async fn charge_in_sqlite(
    order: Order,
    State(desk): State<Desk>,
    attempt: Attempt,
    db: &mut SqliteConnection,
) -> Result<(), Failed> {
    desk.work(&order, attempt).await;
    in_sqlite::write(db, &desk.charge(&order, attempt)).await?;
    desk.crash();
    Ok(())
}

#[idempotent(key = "id", scope = "orders.charge")]
pub(crate) async fn charge_in_postgres(
    order: Order,
    State(desk): State<Desk>,
    attempt: Attempt,
    db: &mut PgConnection,
) -> Result<(), Failed> {
    desk.work(&order, attempt).await;
    in_postgres::write(db, &desk.charge(&order, attempt)).await?;
    desk.crash();
    Ok(())
}

/// The charge is made at once, so that it is there when the process dies in the middle of work.
#[idempotent(key = "id", scope = "orders.charge")]
pub(crate) async fn charge_leased(
    order: Order,
    State(desk): State<Desk>,
    attempt: Attempt,
) -> Result<(), Failed> {
    desk.charge_elsewhere(&order, attempt).await?;
    desk.work(&order, attempt).await;
    desk.crash();
    Ok(())
}

impl Desk {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            settings: settings.clone(),
            pool: SqlitePoolOptions::new().connect_lazy_with(in_sqlite::options(&settings.ledger)),
        }
    }

    fn charge(&self, order: &Order, attempt: Attempt) -> Charge {
        Charge::new(&order.id, attempt.number(), &self.settings.name)
    }

    async fn charge_elsewhere(&self, order: &Order, attempt: Attempt) -> Result<(), sqlx::Error> {
        let mut db = self.pool.acquire().await?;
        in_sqlite::write(&mut db, &self.charge(order, attempt)).await
    }

    async fn work(&self, order: &Order, attempt: Attempt) {
        say(&Event::Started {
            order_id: order.id.clone(),
            attempt: attempt.number(),
            in_doubt: attempt.is_in_doubt(),
            at: SystemTime::now(),
        });
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

    fn crash(&self) {
        if self.settings.crash == Some(Crash::InHandler) {
            die();
        }
    }
}

pub(crate) fn say(event: &Event) {
    let line = serde_json::to_string(event).expect("JSON expresses events");
    println!("{line}");
}
