//! Publishes orders for the order worker, each several times, shuffled.
//!
//! ```sh
//! cargo run -p publish-orders -- --orders 1000 --copies 4
//! cargo run -p publish-orders -- --depth
//! ```

use std::process::ExitCode;

use clap::Parser;
use futures_util::{StreamExt as _, stream};
use idem_amqp::{Publication, Publisher};
use serde_json::json;

mod depth;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Publishes orders for the order worker, each several times, shuffled
#[derive(Debug, Parser)]
struct Settings {
    /// How many different orders
    #[arg(long, default_value_t = 10)]
    orders: u32,
    /// How often each is published
    #[arg(long, default_value_t = 2)]
    copies: u32,
    /// The order of the messages is the same for the same seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The orders are named NAME-000001 and so on
    #[arg(long, value_name = "NAME", default_value = "order")]
    run: String,
    /// Prints how many messages wait in the queue and its dead-letter queue, publishes nothing
    #[arg(long)]
    depth: bool,
    /// The broker
    #[arg(
        long,
        env = "AMQP_URL",
        default_value = "amqp://127.0.0.1:5672/%2f",
        hide_env_values = true
    )]
    amqp_url: String,
    /// The queue; declared as the worker declares it
    #[arg(long, env = "ORDERS_QUEUE", default_value = "orders")]
    queue: String,
}

/// Publishes that wait for their confirm at the same time.
const IN_FLIGHT: usize = 256;

#[tokio::main]
async fn main() -> ExitCode {
    let settings = Settings::parse();
    let done = if settings.depth {
        depth::print(&settings.amqp_url, &settings.queue).await
    } else {
        publish(&settings).await
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("publish-orders: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn publish(settings: &Settings) -> Result<(), Error> {
    let publisher = Publisher::connect(&settings.amqp_url).await?;
    publisher.declare(&settings.queue).await?;
    let messages = shuffled(settings);
    let of = messages.len();
    let mut confirmed = stream::iter(messages.iter())
        .map(|message| publisher.publish(message))
        .buffer_unordered(IN_FLIGHT);
    let mut done = 0;
    while let Some(confirm) = confirmed.next().await {
        confirm?;
        done += 1;
        if done % 250 == 0 && done < of {
            println!("{}", json!({"published": done, "of": of}));
        }
    }
    println!("{}", json!({"published": done, "of": of, "done": true}));
    Ok(())
}

/// Every copy is a message of its own, with an id of its own: as from a publisher that retries
/// without knowing.
fn shuffled(settings: &Settings) -> Vec<Publication> {
    let mut random = fastrand::Rng::with_seed(settings.seed);
    let mut messages = Vec::new();
    for number in 1..=settings.orders {
        let order = json!({
            "order_id": format!("{}-{number:06}", settings.run),
            "customer": format!("customer-{:03}", random.u16(..200)),
            "amount_cents": random.i64(100..50_000),
        });
        for _ in 0..settings.copies {
            messages.push(Publication::json(&settings.queue, &order));
        }
    }
    random.shuffle(&mut messages);
    messages
}
