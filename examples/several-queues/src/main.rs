//! One worker for several queues: each with a handler, a policy and a prefetch of its own, one connection
//! and one store for all.
//!
//! The same order number comes on three queues: the handlers' scopes keep their keys apart. Two queues
//! share a handler, and with it the keys: what came on one is a duplicate on the other.
//!
//! ```sh
//! AMQP_URL=amqp://127.0.0.1:5672/%2f cargo run -p several-queues
//! ```

use std::{collections::BTreeMap, env};

use idem_amqp::{MemoryStore, Publication, prelude::*};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

#[derive(Serialize, Deserialize)]
struct Order {
    id: u32,
}

// The scope is durable: it stands in every key.
#[idempotent(key = "id", scope = "orders.charge", max_attempts = 5)]
async fn charge(_order: Order) -> Result<(), Failed> {
    Ok(())
}

// The scope is durable: it stands in every key.
#[idempotent(key = "id", scope = "orders.ship", lease = "5m")]
async fn ship(_order: Order) -> Result<(), Failed> {
    Ok(())
}

const CHARGES: &str = "example.charges";
const URGENT_CHARGES: &str = "example.charges.urgent";
const SHIPMENTS: &str = "example.shipments";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let amqp_url = env::var("AMQP_URL").unwrap_or_else(|_| "amqp://127.0.0.1:5672/%2f".to_owned());
    let publisher = Publisher::connect(amqp_url.as_str()).await?;
    for queue in [CHARGES, URGENT_CHARGES, SHIPMENTS] {
        publisher.declare(queue).await?;
        for id in [1, 2] {
            let order = Publication::json(queue, &Order { id });
            publisher.publish(&order).await?;
        }
    }

    let mut counts = BTreeMap::<_, u32>::new();
    let (told, mut settled) = mpsc::unbounded_channel();
    let all_settled = async {
        for _ in 0..6 {
            if let Some(scope_and_kind) = settled.recv().await {
                *counts.entry(scope_and_kind).or_default() += 1;
            }
        }
    };
    let balance = Worker::builder(MemoryStore::new())
        .consume::<charge>(Queue::quorum(CHARGES).prefetch(64))
        .consume::<charge>(Queue::quorum(URGENT_CHARGES).prefetch(8))
        .consume::<ship>(SHIPMENTS)
        .on_settled(move |message| {
            let scope = message.key.map_or("", Key::scope).to_owned();
            let _ = told.send((scope, message.kind));
        })
        .run_until(amqp_url, all_settled)
        .await?;
    for ((scope, kind), count) in counts {
        println!("{scope}: {count} {kind}");
    }
    println!("{balance}");
    Ok(())
}
