//! A service that charges orders by requests to `POST /charges`, on any store, and dies where a test tells it to.

use std::{error::Error, net::Ipv4Addr, time::Duration};

use axum::{
    Extension, Json, Router,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::post,
};
use idem_amqp::{
    Policy, Store,
    prelude::*,
    sqlx::{self, PgConnection, SqliteConnection, SqlitePool, sqlite::SqlitePoolOptions},
};
use idem_http::{IdempotencyLayer, Tx};
use idem_tests::{
    interfered::{Fate, Interfered},
    ledger::{Charge, in_postgres, in_sqlite},
    process::{Event, Mode, SETTINGS_VARIABLE, Settings},
    script::Order,
    store_at::Product,
};
use serde_json::json;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
    let settings: Settings = serde_json::from_str(&std::env::var(SETTINGS_VARIABLE)?)?;
    let at = &settings.store;
    let charges = |handler| Router::new().route("/charges", handler);
    let router = match (at.product(), settings.mode) {
        (Product::Sqlite, Mode::Atomic) => {
            let once = once(&settings, at.open_sqlite().await);
            charges(post(charge_in_sqlite)).layer(once.atomic::<SqliteConnection>())
        }
        (Product::Postgres, Mode::Atomic) => {
            let once = once(&settings, at.open_postgres().await);
            charges(post(charge_in_postgres)).layer(once.atomic::<PgConnection>())
        }
        (Product::Sqlite, Mode::Leased) => {
            charges(post(charge_leased)).layer(once(&settings, at.open_sqlite().await))
        }
        (Product::Postgres, Mode::Leased) => {
            charges(post(charge_leased)).layer(once(&settings, at.open_postgres().await))
        }
        (Product::Redis, Mode::Leased) => {
            charges(post(charge_leased)).layer(once(&settings, at.open_redis().await))
        }
        other => return Err(format!("no handler of requests for {other:?}").into()),
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let port = listener.local_addr()?.port();
    let listening = serde_json::to_string(&Event::Listening { port })?;
    println!("{listening}");
    axum::serve(listener, router.with_state(Api::new(&settings))).await?;
    Ok(())
}

fn once<S: Store>(settings: &Settings, store: S) -> IdempotencyLayer<Interfered<S>> {
    let crash = settings.crash;
    let store = Interfered::new(store, move |call, number| {
        crash.map_or(Fate::Pass, |crash| crash.fate(call, number))
    });
    let lease = Duration::from_millis(settings.lease_ms);
    let policy = Policy::builder().lease(lease).build();
    let policy = policy.expect("tests have policies that hold");
    let once = IdempotencyLayer::new(store).unscoped();
    once.named("orders.api").policy(policy)
}

/// The service's state.
#[derive(Clone)]
struct Api {
    name: String,
    /// Of the leased handler's own.
    pool: SqlitePool,
}

impl Api {
    fn new(settings: &Settings) -> Self {
        Self {
            name: settings.name.clone(),
            pool: SqlitePoolOptions::new().connect_lazy_with(in_sqlite::options(&settings.ledger)),
        }
    }
}

async fn charge_in_sqlite(
    State(api): State<Api>,
    Extension(attempt): Extension<Attempt>,
    Tx(mut db): Tx<SqliteConnection>,
    Json(order): Json<Order>,
) -> Response {
    let charge = Charge::new(&order.id, attempt.number(), &api.name);
    let written = in_sqlite::write(db.as_mut(), &charge).await;
    told(written, &charge, attempt)
}

async fn charge_in_postgres(
    State(api): State<Api>,
    Extension(attempt): Extension<Attempt>,
    Tx(mut db): Tx<PgConnection>,
    Json(order): Json<Order>,
) -> Response {
    let charge = Charge::new(&order.id, attempt.number(), &api.name);
    let written = in_postgres::write(db.as_mut(), &charge).await;
    told(written, &charge, attempt)
}

async fn charge_leased(
    State(api): State<Api>,
    Extension(attempt): Extension<Attempt>,
    Json(order): Json<Order>,
) -> Response {
    let charge = Charge::new(&order.id, attempt.number(), &api.name);
    let written = async {
        let mut db = api.pool.acquire().await?;
        in_sqlite::write(&mut db, &charge).await
    };
    told(written.await, &charge, attempt)
}

fn told(written: Result<(), sqlx::Error>, charge: &Charge, attempt: Attempt) -> Response {
    match written {
        Ok(()) => {
            let told = json!({
                "order": charge.order_id,
                "attempt": charge.attempt,
                "in_doubt": attempt.is_in_doubt(),
                "by": charge.worker,
            });
            (StatusCode::CREATED, Json(told)).into_response()
        }
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()).into_response(),
    }
}
