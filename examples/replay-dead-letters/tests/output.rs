//! Dead letters are shown, and chosen ones sent again.

use std::error::Error;

use idem_amqp::{MemoryStore, Publication, Queue, prelude::*};
use idem_servers::example;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

#[derive(Serialize, Deserialize)]
struct Order {
    id: String,
}

// The scope is durable: it stands in every key.
#[idempotent(key = "id", scope = "orders.charge")]
async fn charge(order: Order) -> Result<(), Failed> {
    Err(Failed::rejected(format!("no customer for {}", order.id)))
}

/// Leaves a dead letter for this order.
async fn bury(url: &str, id: &str) -> Result<(), Box<dyn Error>> {
    let publisher = Publisher::connect(url).await?;
    publisher.declare("orders").await?;
    let order = Order { id: id.to_owned() };
    publisher
        .publish(&Publication::json("orders", &order))
        .await?;
    let (told, mut settled) = mpsc::unbounded_channel();
    Worker::builder(MemoryStore::new())
        .consume::<charge>(Queue::quorum("orders"))
        .on_settled(move |_| {
            let _ = told.send(());
        })
        .run_until(url, async move { settled.recv().await.unwrap_or_default() })
        .await?;
    Ok(())
}

#[test]
fn chosen_letters_are_sent_again_and_the_others_stay() {
    let program = env!("CARGO_BIN_EXE_replay-dead-letters");
    let url = example::vhost(program);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    // One after the other: a worker handles several at once.
    for id in ["o-1", "o-2"] {
        runtime.block_on(bury(&url, id)).unwrap();
    }

    let run = |arguments: &[&str]| {
        let queue = ["--queue", "orders.dead"];
        let arguments = [&queue, arguments].concat();
        example::run_with(program, &arguments, &[("AMQP_URL", &url)])
    };
    let line = |id: &str| {
        format!(
            "orders.charge:{id} rejected, attempt 1, 0 min ago, from orders: no customer for {id}\n"
        )
    };
    assert_eq!(
        run(&["--dry-run"]),
        format!(
            "found {}found {}2 letters would be sent again\n",
            line("o-1"),
            line("o-2")
        )
    );
    assert_eq!(
        run(&["--key", "orders.charge:o-2"]),
        format!(
            "sent  {}seen=2 replayed=1 discarded=0 failed=0 left=1\n",
            line("o-2")
        )
    );
    assert_eq!(
        run(&["--dry-run"]),
        format!("found {}1 letters would be sent again\n", line("o-1"))
    );
}
