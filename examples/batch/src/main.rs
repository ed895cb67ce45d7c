//! Batches: parcels are announced to a carrier that takes many at a time.
//!
//! Four parcels are published, one of them twice, and one without an address. The handler is called once, with all of
//! them; each has an outcome of its own.
//!
//! ```sh
//! AMQP_URL=amqp://127.0.0.1:5672/%2f cargo run -p batch
//! ```

use std::env;

use idem_amqp::{MemoryStore, Publication, prelude::*};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

const QUEUE: &str = "example.batch";

#[derive(Serialize, Deserialize)]
struct Parcel {
    parcel_id: String,
    address: String,
}

/// Announces all parcels by one call of the carrier's.
// The scope is durable: it stands in every key. It waits for others only so that this example prints the same each
// time.
#[idempotent(
    key = "parcel_id",
    scope = "parcels.announce",
    batch = 4,
    batch_wait = "10s"
)]
async fn announce(parcels: Batch<Parcel>) -> Result<(), Failed> {
    for (i, parcel) in parcels.iter().enumerate() {
        if parcel.address.is_empty() {
            parcels.reject(i, "no address");
        }
    }
    let mut addresses: Vec<_> = parcels.accepted().map(|it| &*it.address).collect();
    addresses.sort_unstable();
    println!("announced: {}", addresses.join(", "));
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let amqp_url = env::var("AMQP_URL").unwrap_or_else(|_| "amqp://127.0.0.1:5672/%2f".to_owned());
    publish(&amqp_url).await?;

    let (told, mut settled) = mpsc::unbounded_channel();
    let all_settled = async move {
        for _ in 0..5 {
            settled.recv().await;
        }
    };
    let balance = Worker::builder(MemoryStore::new())
        .consume::<announce>(QUEUE)
        .on_settled(move |_| {
            let _ = told.send(());
        })
        .run_until(amqp_url, all_settled)
        .await?;
    println!("{balance}");
    Ok(())
}

async fn publish(amqp_url: &str) -> Result<(), Box<dyn std::error::Error>> {
    let publisher = Publisher::connect(amqp_url).await?;
    publisher.declare(QUEUE).await?;
    for (parcel_id, address) in [
        ("p-1", "Utrecht"),
        ("p-1", "Utrecht"),
        ("p-2", "Ghent"),
        ("p-3", ""),
        ("p-4", "Aachen"),
    ] {
        let parcel = Parcel {
            parcel_id: parcel_id.to_owned(),
            address: address.to_owned(),
        };
        publisher
            .publish(&Publication::json(QUEUE, &parcel))
            .await?;
    }
    Ok(())
}
