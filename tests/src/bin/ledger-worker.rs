//! A worker that charges orders to a SQLite ledger, and crashes where a test tells it to.

use std::{error::Error, time::Duration};

use idem_amqp::{Backoff, Handler, InDoubt, Policy, RunsOn, SqliteStore, Worker, prelude::*, sqlx};
use idem_tests::{
    interfered::{Call, Fate, Interfered, die},
    ledger,
    process::{Crash, Event, Mode, SETTINGS_VARIABLE, Settings},
    script::Order,
};
use sqlx::{SqliteConnection, SqlitePool, sqlite::SqlitePoolOptions};
use tracing_subscriber::EnvFilter;

#[derive(Clone)]
struct Desk {
    settings: Settings,
    /// Of the leased handler's own.
    pool: SqlitePool,
}

#[idempotent(key = "id", scope = "orders.charge")]
async fn charge_atomically(
    order: Order,
    State(desk): State<Desk>,
    attempt: Attempt,
    db: &mut SqliteConnection,
) -> Result<(), Failed> {
    desk.work(&order, attempt).await;
    ledger::charge(db, &order.id, attempt.number(), &desk.settings.name).await?;
    desk.crash();
    Ok(())
}

/// The charge is made at once, so that it is there when the process dies in the middle of work.
#[idempotent(key = "id", scope = "orders.charge")]
async fn charge_leased(
    order: Order,
    State(desk): State<Desk>,
    attempt: Attempt,
) -> Result<(), Failed> {
    let mut db = desk.pool.acquire().await?;
    ledger::charge(&mut db, &order.id, attempt.number(), &desk.settings.name).await?;
    drop(db);
    desk.work(&order, attempt).await;
    desk.crash();
    Ok(())
}

impl Desk {
    async fn work(&self, order: &Order, attempt: Attempt) {
        say(&Event::Started {
            order_id: order.id.clone(),
            attempt: attempt.number(),
            in_doubt: attempt.is_in_doubt(),
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

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let filter = EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| "idem_amqp=debug,idem_core=debug,warn".into());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
    let settings: Settings = serde_json::from_str(&std::env::var(SETTINGS_VARIABLE)?)?;
    match settings.mode {
        Mode::Atomic => consume::<charge_atomically>(settings).await,
        Mode::Leased => consume::<charge_leased>(settings).await,
    }
}

async fn consume<H>(settings: Settings) -> Result<(), Box<dyn Error>>
where
    H: Handler<Desk>,
    H::Mode: RunsOn<Interfered<SqliteStore>>,
{
    let crash = settings.crash;
    let store = SqliteStore::connect(&settings.ledger).await?;
    let store = Interfered::new(store, move |call, number| fate(crash, call, number));
    let pool = SqlitePoolOptions::new().connect_lazy_with(ledger::options(&settings.ledger));
    let desk = Desk {
        settings: settings.clone(),
        pool,
    };
    let balance = Worker::builder(store)
        .state(desk)
        .consume::<H>(queue(&settings)?)
        .grace(Duration::from_millis(settings.grace_ms))
        .on_settled(|settled| {
            say(&Event::Ended {
                kind: settled.kind.label().into(),
                attempt: settled.attempt,
                error: settled.error.map(Into::into),
            });
        })
        .run_until(&settings.amqp_url, shutdown_signal())
        .await?;
    let ended = balance.iter().filter(|(_, count)| *count > 0);
    say(&Event::Balance {
        even: balance.is_even(),
        ended: ended
            .map(|(kind, count)| (kind.label().into(), count))
            .collect(),
    });
    Ok(())
}

fn queue(settings: &Settings) -> Result<Queue, Box<dyn Error>> {
    let quick = Backoff::new(Duration::from_millis(20), Duration::from_millis(40));
    let policy = Policy::builder()
        .lease(Duration::from_millis(settings.lease_ms))
        .max_attempts(settings.max_attempts)
        .backoff(quick)
        .in_doubt(if settings.quarantine {
            InDoubt::Quarantine
        } else {
            InDoubt::Retry
        })
        .build()?;
    let queue = Queue::declare(&settings.queue)
        .prefetch(settings.prefetch)
        .policy(policy);
    let queue = if settings.prefetch == 1 {
        queue.held(0)
    } else {
        queue
    };
    Ok(if settings.classic {
        queue.classic()
    } else {
        queue
    })
}

fn fate(crash: Option<Crash>, call: Call, number: u64) -> Fate {
    match (crash, call) {
        (Some(Crash::AfterClaim(nth)), Call::Claim) if nth == number => Fate::DieAfter,
        (Some(Crash::BeforeCompletion(nth)), Call::Complete) if nth == number => Fate::DieBefore,
        (Some(Crash::AfterCompletion(nth)), Call::Complete) if nth == number => Fate::DieAfter,
        _ => Fate::Pass,
    }
}

fn say(event: &Event) {
    let line = serde_json::to_string(event).expect("JSON expresses events");
    println!("{line}");
}
