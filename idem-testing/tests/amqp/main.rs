//! The harness for users' tests, with deliveries: what RabbitMQ would be told.

#![expect(
    clippy::unwrap_used,
    reason = "tests, though clippy does not see that of functions beside them"
)]

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use idem_amqp::{
    Refused, Request, dead_letters::Reason, executor::ExecutionKind as Kind, prelude::*,
    worker::Settlement,
};
use idem_testing::amqp::{
    CrashPoint, Delivered, Harness, Message, Setup, assert_distinct_keys, assert_idempotent,
};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

mod batches;
mod deliveries;
mod faults;
mod idempotent;
#[cfg(feature = "sqlite")]
mod outbox;
mod replies;
mod retries;
mod sessions;
mod types;

#[derive(Serialize, Deserialize)]
struct OrderPlaced {
    order_id: String,
    amount_cents: i64,
}

fn order(amount_cents: i64) -> Message {
    Message::json(&OrderPlaced {
        order_id: "o-17".into(),
        amount_cents,
    })
}

/// What handlers have done, in their order.
#[derive(Debug, Clone, Default)]
struct Journal(Arc<Mutex<Vec<String>>>);

impl Journal {
    fn write(&self, entry: impl Into<String>) {
        self.0.lock().unwrap().push(entry.into());
    }

    fn read(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

const LEASE: Duration = Duration::from_secs(10);
const WORK: Duration = Duration::from_secs(3);

/// Charges again whenever it runs.
#[idempotent(key = "order_id", lease = "10s", max_attempts = 3)]
async fn charge(order: OrderPlaced, State(journal): State<Journal>) -> Result<i64, Failed> {
    match order.amount_cents {
        0 => return Err(Failed::retry_after(Duration::from_secs(77), "busy")),
        ..0 => return Err(Failed::rejected("amount must be positive")),
        1.. => {}
    }
    sleep(WORK).await;
    journal.write(order.order_id);
    Ok(order.amount_cents)
}

fn charging(queue: impl Into<Queue>) -> Harness<charge, Journal> {
    Setup::new(Journal::default).consume::<charge>(queue)
}

/// The words of a panic.
async fn panic_of(work: impl Future) -> String {
    use futures_util::FutureExt as _;
    let caught = std::panic::AssertUnwindSafe(work).catch_unwind().await;
    let Err(panic) = caught else {
        panic!("it did not panic");
    };
    *panic.downcast::<String>().unwrap()
}
