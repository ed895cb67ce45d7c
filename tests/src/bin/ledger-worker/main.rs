//! A worker that charges orders to a ledger, on any store, and crashes where a test tells it to.

use std::{error::Error, time::Duration};

use idem_amqp::{
    Worker,
    executor::RunsOn,
    handler::Handler,
    prelude::*,
    session::Sessions,
    store::{Purge, SessionStore, StreamStore},
};
use idem_tests::{
    flawed::Flawed,
    interfered::{Fate, Interfered},
    process::{Event, Keys, Mode, SETTINGS_VARIABLE, Settings},
    store_at::Product,
};
use tracing_subscriber::EnvFilter;

mod batches;
mod handlers;
mod numbered;
mod outbox;

use batches::{
    charge_batch_in_postgres, charge_batch_in_sqlite, charge_batch_leased,
    charge_by_mark_in_postgres, charge_by_mark_in_sqlite,
};
use handlers::{
    WorkerState, charge_in_entity_in_postgres, charge_in_entity_in_sqlite, charge_in_group,
    charge_in_postgres, charge_in_sqlite, charge_leased, say,
};
use numbered::{charge_next_in_postgres, charge_next_in_sqlite, charge_next_leased};
use outbox::{
    charge_and_tell_in_postgres, charge_and_tell_in_sqlite, charge_batch_and_tell_in_postgres,
    charge_batch_and_tell_in_sqlite,
};

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
    if settings.keys == Keys::Numbers {
        return consume_numbered(&settings).await;
    }
    if settings.keys == Keys::Places {
        return consume_by_mark(&settings).await;
    }
    if settings.events.is_some() {
        return consume_and_tell(&settings).await;
    }
    let at = &settings.store;
    if at.in_front.is_some() {
        return consume_cached(&settings).await;
    }
    match (at.product(), settings.mode) {
        (Product::Sqlite, Mode::Atomic) => {
            consume::<charge_in_sqlite, _>(&settings, at.open_sqlite().await).await
        }
        (Product::Sqlite, Mode::Leased) => {
            consume::<charge_leased, _>(&settings, at.open_sqlite().await).await
        }
        (Product::Postgres, Mode::Atomic) => {
            consume::<charge_in_postgres, _>(&settings, at.open_postgres().await).await
        }
        (Product::Postgres, Mode::Grouped) => {
            consume::<charge_in_group, _>(&settings, at.open_postgres().await).await
        }
        (Product::Postgres, Mode::Batched) => {
            consume::<charge_batch_in_postgres, _>(&settings, at.open_postgres().await).await
        }
        (Product::Sqlite, Mode::Batched) => {
            consume::<charge_batch_in_sqlite, _>(&settings, at.open_sqlite().await).await
        }
        (Product::Postgres, Mode::LeasedBatched) => {
            consume::<charge_batch_leased, _>(&settings, at.open_postgres().await).await
        }
        (Product::Sqlite, Mode::LeasedBatched) => {
            consume::<charge_batch_leased, _>(&settings, at.open_sqlite().await).await
        }
        (Product::Redis, Mode::LeasedBatched) => {
            consume::<charge_batch_leased, _>(&settings, at.open_redis().await).await
        }
        (Product::Postgres, Mode::Leased) => {
            consume::<charge_leased, _>(&settings, at.open_postgres().await).await
        }
        (Product::Postgres, Mode::Entity) => {
            consume::<charge_in_entity_in_postgres, _>(&settings, at.open_postgres().await).await
        }
        (Product::Sqlite, Mode::Entity) => {
            consume::<charge_in_entity_in_sqlite, _>(&settings, at.open_sqlite().await).await
        }
        (Product::Redis, Mode::Leased) => {
            consume::<charge_leased, _>(&settings, at.open_redis().await).await
        }
        (Product::Redis, Mode::Atomic | Mode::Grouped | Mode::Batched | Mode::Entity) => {
            Err("Redis lends no transaction".into())
        }
        (Product::Sqlite, Mode::Grouped) => {
            Err("SQLite has one writer, which commits alone".into())
        }
    }
}

async fn consume_cached(settings: &Settings) -> Result<(), Box<dyn Error>> {
    let at = &settings.store;
    match (at.product(), settings.mode) {
        (Product::Postgres, Mode::Atomic) => {
            let store = at.cached(at.open_postgres().await);
            consume::<charge_in_postgres, _>(settings, store).await
        }
        (Product::Postgres, Mode::Leased) => {
            let store = at.cached(at.open_postgres().await);
            consume::<charge_leased, _>(settings, store).await
        }
        (Product::Redis, Mode::Leased) => {
            consume::<charge_leased, _>(settings, at.cached(at.open_redis().await)).await
        }
        other => Err(format!("no worker with a cache for {other:?}").into()),
    }
}

async fn consume_numbered(settings: &Settings) -> Result<(), Box<dyn Error>> {
    let at = &settings.store;
    match (at.product(), settings.mode) {
        (Product::Sqlite, Mode::Atomic) => {
            consume::<charge_next_in_sqlite, _>(settings, at.open_sqlite().await).await
        }
        (Product::Postgres, Mode::Atomic) => {
            consume::<charge_next_in_postgres, _>(settings, at.open_postgres().await).await
        }
        (Product::Redis, Mode::Leased) => {
            consume::<charge_next_leased, _>(settings, at.open_redis().await).await
        }
        other => Err(format!("no handler of numbered orders for {other:?}").into()),
    }
}

async fn consume_by_mark(settings: &Settings) -> Result<(), Box<dyn Error>> {
    let at = &settings.store;
    match (at.product(), settings.mode) {
        (Product::Sqlite, Mode::Batched) => {
            consume::<charge_by_mark_in_sqlite, _>(settings, at.open_sqlite().await).await
        }
        (Product::Postgres, Mode::Batched) => {
            consume::<charge_by_mark_in_postgres, _>(settings, at.open_postgres().await).await
        }
        other => Err(format!("no handler that the mark records for {other:?}").into()),
    }
}

async fn consume_and_tell(settings: &Settings) -> Result<(), Box<dyn Error>> {
    let at = &settings.store;
    match (at.product(), settings.mode) {
        (Product::Sqlite, Mode::Atomic) => {
            consume::<charge_and_tell_in_sqlite, _>(settings, at.open_sqlite().await).await
        }
        (Product::Postgres, Mode::Atomic) => {
            consume::<charge_and_tell_in_postgres, _>(settings, at.open_postgres().await).await
        }
        (Product::Sqlite, Mode::Batched) => {
            consume::<charge_batch_and_tell_in_sqlite, _>(settings, at.open_sqlite().await).await
        }
        (Product::Postgres, Mode::Batched) => {
            let store = at.open_postgres().await;
            consume::<charge_batch_and_tell_in_postgres, _>(settings, store).await
        }
        other => Err(format!("no handler with an outbox for {other:?}").into()),
    }
}

async fn consume<H, S>(settings: &Settings, store: S) -> Result<(), Box<dyn Error>>
where
    H: Handler<WorkerState>,
    H::Mode: RunsOn<Interfered<Flawed<S>>>,
    S: SessionStore + StreamStore + Purge + Clone,
{
    let crash = settings.crash;
    let store = Flawed::new(store, settings.flaw);
    let store = Interfered::new(store, move |call, number| {
        crash.map_or(Fate::Pass, |crash| crash.fate(call, number))
    });
    let worker = Worker::builder(store).state(WorkerState::new(settings));
    let worker = if settings.sessions {
        worker.consume_in_sessions::<H>(settings.queue(), Sessions::default())
    } else if settings.stream {
        worker.consume_stream::<H>(settings.queue())
    } else {
        worker.consume::<H>(settings.queue())
    };
    let balance = worker
        .grace(Duration::from_millis(settings.grace_ms))
        .on_settled(|settled| {
            say(&Event::Ended {
                key: settled.key.map(ToString::to_string),
                kind: settled.kind.label().into(),
                attempt: settled.attempt,
                error: settled.error.map(Into::into),
                redelivered: settled.redelivered,
            });
        })
        .run_until(&settings.amqp_url, shutdown_signal())
        .await?;
    let ended = balance.iter().filter(|(_, count)| *count > 0);
    say(&Event::WorkerStats {
        even: balance.is_balanced(),
        ended: ended
            .map(|(kind, count)| (kind.label().into(), count))
            .collect(),
    });
    Ok(())
}
