//! A fencing token that is passed on: a late write of an earlier attempt is refused by the system that
//! it reaches.
//!
//! The first attempt's write is slow: the handler gives up on it, and the next attempt writes. Then the
//! first write arrives after all, with an older token.
//!
//! ```sh
//! AMQP_URL=amqp://127.0.0.1:5672/%2f cargo run -p fencing-token
//! ```

use std::{
    env,
    sync::{Arc, Mutex, PoisonError},
};

use idem_amqp::{MemoryStore, Publication, prelude::*};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

const QUEUE: &str = "example.fencing-token";

#[derive(Serialize, Deserialize)]
struct Stocktaking {
    shelf: String,
    pieces: u32,
}

/// A shelf in somebody else's warehouse. It knows nothing of idem, and refuses a write whose token is
/// smaller than one that it has seen: `UPDATE shelves SET pieces = ?, token = ? WHERE token <= ?`.
#[derive(Clone, Default)]
struct Shelf(Arc<Mutex<(u32, i64)>>);

impl Shelf {
    fn set(&self, pieces: u32, token: FencingToken) -> Result<(), Failed> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if token.get() < kept.1 {
            return Err(Failed::rejected("a later attempt has written"));
        }
        *kept = (pieces, token.get());
        Ok(())
    }

    fn pieces(&self) -> u32 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0
    }
}

/// The worker's state.
#[derive(Clone)]
struct Warehouse {
    shelf: Shelf,
    /// A network that delivers when it likes.
    slow_network: mpsc::UnboundedSender<(u32, FencingToken)>,
}

/// The first attempt miscounts, and gives up on a write that nobody can call back.
// The scope is durable: it stands in every key.
#[idempotent(key = "shelf", scope = "stock.count")]
async fn count(
    stock: Stocktaking,
    State(warehouse): State<Warehouse>,
    attempt: Attempt,
    token: FencingToken,
) -> Result<(), Failed> {
    if attempt.number() == 1 {
        warehouse.slow_network.send((stock.pieces - 1, token))?;
        return Err(Failed::retry("the warehouse did not answer in time"));
    }
    warehouse.shelf.set(stock.pieces, token)?;
    println!("attempt 2 wrote {} pieces", stock.pieces);
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let amqp_url = env::var("AMQP_URL").unwrap_or_else(|_| "amqp://127.0.0.1:5672/%2f".to_owned());
    let publisher = Publisher::connect(amqp_url.as_str()).await?;
    publisher.declare(QUEUE).await?;
    let stock = Stocktaking {
        shelf: "A7".to_owned(),
        pieces: 3,
    };
    publisher.publish(&Publication::json(QUEUE, &stock)).await?;

    let (slow_network, mut underway) = mpsc::unbounded_channel();
    let shelf = Shelf::default();
    let warehouse = Warehouse {
        shelf: shelf.clone(),
        slow_network,
    };
    let (told, mut settled) = mpsc::unbounded_channel();
    let both_attempts = async move {
        for _ in 0..2 {
            settled.recv().await;
        }
    };
    Worker::builder(MemoryStore::new())
        .state(warehouse)
        .consume::<count>(QUEUE)
        .on_settled(move |_| {
            let _ = told.send(());
        })
        .run_until(amqp_url, both_attempts)
        .await?;

    while let Ok((pieces, token)) = underway.try_recv() {
        match shelf.set(pieces, token) {
            Ok(()) => println!("attempt 1 wrote {pieces} pieces, late"),
            Err(refused) => println!("attempt 1 was refused: {refused}"),
        }
    }
    println!("shelf A7 holds {} pieces", shelf.pieces());
    Ok(())
}
