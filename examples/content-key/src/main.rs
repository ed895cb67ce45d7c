//! The key is the content: for producers that give their messages no id.
//!
//! A sensor sends a reading twice, and another one. The copies have the same bytes, and count as one. Two
//! readings that are alike must differ in something, their time say: here they do.
//!
//! ```sh
//! AMQP_URL=amqp://127.0.0.1:5672/%2f cargo run -p content-key
//! ```

use std::env;

use idem_amqp::{MemoryStore, Publication, prelude::*};
use serde::Deserialize;
use tokio::sync::mpsc;

const QUEUE: &str = "example.content-key";

#[derive(Deserialize)]
struct Reading {
    at: String,
    celsius: f64,
}

/// `first(message_id(), content())` would prefer the publisher's id, where there is one that its
/// retries repeat.
// The scope is durable: it stands in every key.
#[idempotent(key = content(), scope = "readings.record")]
async fn record(reading: Reading) -> Result<(), Failed> {
    println!("recorded {} degrees at {}", reading.celsius, reading.at);
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let amqp_url = env::var("AMQP_URL").unwrap_or_else(|_| "amqp://127.0.0.1:5672/%2f".to_owned());
    let publisher = Publisher::connect(amqp_url.as_str()).await?;
    publisher.declare(QUEUE).await?;
    let readings = [
        r#"{"at": "10:00", "celsius": 21.5}"#,
        r#"{"at": "10:00", "celsius": 21.5}"#,
        r#"{"at": "10:05", "celsius": 21.5}"#,
    ];
    for reading in readings {
        publisher
            .publish(&Publication::bytes(QUEUE, reading))
            .await?;
    }

    let (told, mut settled) = mpsc::unbounded_channel();
    let all_settled = async move {
        for _ in readings {
            settled.recv().await;
        }
    };
    let balance = Worker::builder(MemoryStore::new())
        .consume::<record>(Queue::quorum(QUEUE).prefetch(1))
        .on_settled(move |_| {
            let _ = told.send(());
        })
        .run_until(amqp_url, all_settled)
        .await?;
    println!("{balance}");
    Ok(())
}
