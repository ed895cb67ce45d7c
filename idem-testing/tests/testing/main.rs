//! The harness for users' tests: what it delivers, how it crashes, and which handlers it sees through.

#![expect(
    clippy::unwrap_used,
    reason = "tests, though clippy does not see that of functions beside them"
)]

use std::sync::{Arc, Mutex};

use idem_core::{Failed, State, idempotent};
use idem_testing::{Harness, Message, Setup};
use serde::{Deserialize, Serialize};

mod batches;
mod crashes;
mod deliveries;
mod distinct_keys;
mod faults;
mod idempotent;
mod pools;
#[cfg(feature = "postgres")]
mod postgres;
mod real_waits;
#[cfg(feature = "sqlite")]
mod sqlite;

#[derive(Serialize, Deserialize)]
struct OrderPlaced {
    order_id: String,
    line: u32,
}

fn order() -> Message {
    Message::json(&OrderPlaced {
        order_id: "o-17".into(),
        line: 1,
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

/// Charges again whenever it runs.
#[idempotent(key = "order_id", lease = "10s")]
async fn charge(
    order: OrderPlaced,
    State(journal): State<Journal>,
    attempt: idem_core::Attempt,
) -> Result<u32, Failed> {
    journal.write(order.order_id);
    Ok(attempt.number())
}

fn charging() -> Harness<charge, Journal> {
    Setup::new(Journal::default).handler::<charge>()
}

/// The words of a panic.
async fn panic_of(work: impl Future) -> String {
    use futures_util::FutureExt as _;
    let caught = std::panic::AssertUnwindSafe(work).catch_unwind().await;
    let Err(panic) = caught else {
        panic!("it did not panic");
    };
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(other) => (*other.downcast::<&str>().unwrap()).to_owned(),
    }
}
