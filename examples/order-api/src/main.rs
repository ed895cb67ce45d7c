//! One service with two doors: orders come by `POST /charges` and by a queue. Each is charged once, whichever way it
//! comes, and however often.
//!
//! ```sh
//! cargo run -p order-api    # until ctrl-c or SIGTERM
//! curl -i localhost:8080/charges -H 'Idempotency-Key: k-1' -H 'Content-Type: application/json' \
//!      -d '{"order_id": "o-1", "customer": "ann", "amount_cents": 1299}'
//! ```
//!
//! A copy of a request, or of a message, is known by its key. The same order under another key, or by the other door,
//! is known by its row in `charged_orders`. The payment gateway has to know an order by its id, too: it is asked before
//! there is a row.
//!
//! To read it: `open` below is the whole service, `sqlite.rs` what it does with an order. `postgres.rs` is the same on
//! PostgreSQL.

use std::{env, process::ExitCode, time::Duration};

use axum::{Router, routing::MethodRouter};
use idem_amqp::{
    Policy, Queue, Store, Worker,
    error::ErrorChain,
    executor::RunsOn,
    handler::{AtomicOwned, Handler},
    shutdown_signal,
    store::{Purge, TransactionalStore},
};
use idem_http::IdempotencyLayer;
use tokio::net::TcpListener;

mod order;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

use order::{Shop, Tenant};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// How long requests and messages under way may take when the service is told to stop.
const GRACE: Duration = Duration::from_secs(30);

/// | variable | default | |
/// |---|---|---|
/// | `HTTP_ADDR` | `127.0.0.1:8080` | where requests are taken |
/// | `STORE_URL` | `sqlite:orders.db` | or `postgres://…`; what is in its `charges` before the first start is not known |
/// | `AMQP_URL` | `amqp://127.0.0.1:5672/%2f` | the broker; `none` leaves the queue out |
/// | `ORDERS_QUEUE` | `orders` | the queue, which is declared if it is not there |
/// | `WORK_MS` | 0 | how long the payment gateway takes |
/// | `LEASE_MS` | 30000 | how long a process that went silent keeps an order |
struct Settings {
    http_addr: String,
    amqp_url: String,
    queue: String,
    policy: Policy,
    shop: Shop,
}

impl Settings {
    fn from_env() -> Result<Self, Error> {
        let lease = Duration::from_millis(number("LEASE_MS", 30_000)?);
        Ok(Self {
            http_addr: text("HTTP_ADDR", "127.0.0.1:8080"),
            amqp_url: text("AMQP_URL", "amqp://127.0.0.1:5672/%2f"),
            queue: text("ORDERS_QUEUE", "orders"),
            policy: Policy::builder().lease(lease).build()?,
            shop: Shop::new(Duration::from_millis(number("WORK_MS", 0)?)),
        })
    }
}

fn text(name: &str, default: &str) -> String {
    env::var(name).unwrap_or_else(|_| default.to_owned())
}

fn number(name: &str, default: u64) -> Result<u64, Error> {
    let text = text(name, &default.to_string());
    let wrong = |_| format!("{name}: `{text}` is not a number in range").into();
    text.parse().map_err(wrong)
}

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("order-api: {}", ErrorChain::of(&*error));
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Error> {
    let settings = Settings::from_env()?;
    let store_url = text("STORE_URL", "sqlite:orders.db");
    match store_url.split(':').next() {
        #[cfg(feature = "sqlite")]
        Some("sqlite") => sqlite::serve(settings, &store_url).await,
        #[cfg(feature = "postgres")]
        Some("postgres" | "postgresql") => postgres::serve(settings, &store_url).await,
        _ => Err(format!("STORE_URL: `{store_url}` is neither `sqlite:FILE` nor `postgres://…`, or its feature is off").into()),
    }
}

/// Opens both doors on one store, and closes them when the process is told to stop.
async fn open<Db, H, S>(
    settings: Settings,
    store: S,
    charge: MethodRouter<Shop>,
) -> Result<(), Error>
where
    Db: Send + 'static,
    H: Handler<Shop>,
    H::Mode: RunsOn<S>,
    S: Store + Purge + TransactionalStore<Db> + Clone,
    AtomicOwned<Db>: RunsOn<S>,
{
    let once = IdempotencyLayer::new(store.clone())
        .scoped_by(|request| Tenant::of(request).map(|it| it.as_str().to_owned()))
        .named("orders.api")
        .policy(settings.policy)
        .atomic::<Db>();
    let app = Router::new()
        .route("/charges", charge.layer(once.clone()))
        .with_state(settings.shop.clone());
    let listener = TcpListener::bind(&settings.http_addr).await?;
    println!("listening on {}", listener.local_addr()?);
    let requests = async {
        let serving = axum::serve(listener, app).with_graceful_shutdown(shutdown_signal());
        serving.await?;
        Ok::<_, Error>(())
    };
    let messages = async {
        if settings.amqp_url == "none" {
            return Ok(());
        }
        let worker = Worker::builder(store)
            .state(settings.shop)
            .consume::<H>(Queue::quorum(&settings.queue).policy(settings.policy))
            .build(&settings.amqp_url)?;
        worker.run_until(shutdown_signal()).await?;
        Ok::<_, Error>(())
    };
    let stopped = async {
        shutdown_signal().await;
        tokio::time::sleep(GRACE).await;
    };
    let doors = Box::pin(async { tokio::try_join!(requests, messages) });
    let closed = tokio::select! {
        closed = doors => closed.map(drop),
        () = stopped => Ok(()),
    };
    // What clients have left behind runs to its end.
    once.drain(GRACE).await;
    closed
}
