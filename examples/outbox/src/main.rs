//! Two services: one charges orders and publishes by its outbox what is to be shipped, the other ships that.
//!
//! Kill either at any moment (`kill -9`) and start it again: each order is charged once and shipped once.
//!
//! ```sh
//! cargo run -p outbox -- charge   # charges until ctrl-c or SIGTERM
//! cargo run -p outbox -- ship     # ships until ctrl-c or SIGTERM
//! cargo run -p publish-orders     # publishes orders, each twice
//! cargo run -p outbox -- ledger   # prints for each order how often it was charged and shipped
//! ```
//!
//! | variable | default | |
//! |---|---|---|
//! | `AMQP_URL` | `amqp://127.0.0.1:5672/%2f` | the broker |
//! | `STORE_URL` | `sqlite:shop.db` | `sqlite:FILE`, or `postgres://…` with the feature `postgres` |
//! | `ORDERS_QUEUE` | `orders` | the queue of `charge` |
//! | `SHIPPING_QUEUE` | `shipping` | the queue of `ship` |
//!
//! Services of different teams have a database each. Here they share one, so that one ledger shows both.

use std::{env, process::ExitCode};

use idem_amqp::{
    Publisher, Store, Worker, error::ErrorChain, executor::RunsOn, handler::Handler,
    shutdown_signal, store::Purge, worker::Settled,
};
use tracing_subscriber::EnvFilter;

mod messages;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// The queue that events go to.
#[derive(Debug, Clone)]
struct Shipping(String);

#[derive(Debug, Clone, Copy)]
enum Command {
    Charge,
    Ship,
    Ledger,
}

#[tokio::main]
async fn main() -> ExitCode {
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info,lapin=off"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("outbox: {}", ErrorChain::of(&*error));
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Error> {
    let command = match env::args().nth(1).as_deref() {
        Some("charge") => Command::Charge,
        Some("ship") => Command::Ship,
        Some("ledger") => Command::Ledger,
        _ => return Err("say what to do: `charge`, `ship` or `ledger`".into()),
    };
    let store_url = variable("STORE_URL", "sqlite:shop.db");
    match store_url.split(':').next() {
        #[cfg(feature = "sqlite")]
        Some("sqlite") => sqlite::run(command, &store_url).await,
        #[cfg(feature = "postgres")]
        Some("postgres" | "postgresql") => postgres::run(command, &store_url).await,
        _ => Err(format!(
            "STORE_URL `{store_url}`: an outbox is kept by `sqlite:` and `postgres:`, where compiled in"
        )
        .into()),
    }
}

/// What is the same for each service and each store.
async fn serve<H, S>(store: S, command: Command) -> Result<(), Error>
where
    H: Handler<Shipping>,
    H::Mode: RunsOn<S>,
    S: Store + Purge + Clone,
{
    let amqp_url = variable("AMQP_URL", "amqp://127.0.0.1:5672/%2f");
    let shipping = variable("SHIPPING_QUEUE", "shipping");
    let queue = match command {
        Command::Ship => shipping.clone(),
        _ => variable("ORDERS_QUEUE", "orders"),
    };
    // Whoever starts first: an event that no queue takes is given up.
    let publisher = Publisher::connect(&*amqp_url).await?;
    publisher.declare(&*shipping).await?;
    let stats = Worker::builder(store)
        .state(Shipping(shipping))
        .consume::<H>(&*queue)
        .on_settled(line)
        .run_until(&*amqp_url, shutdown_signal())
        .await?;
    println!("done: {stats}");
    Ok(())
}

/// `executed     orders.ship:o-17`
fn line(settled: &Settled<'_>) {
    let key = settled.key.map(ToString::to_string);
    let key = key.as_deref().unwrap_or("(no key)");
    println!("{:<12} {key}", settled.kind.label());
}

/// One line for each order.
fn print_ledger(rows: Vec<(String, i64, i64)>) {
    for (order_id, charges, shipments) in rows {
        let row = serde_json::json!({
            "order_id": order_id,
            "charges": charges,
            "shipments": shipments,
        });
        println!("{row}");
    }
}

fn variable(name: &str, default: &str) -> String {
    env::var(name).unwrap_or_else(|_| default.to_owned())
}
