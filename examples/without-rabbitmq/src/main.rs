//! The executor alone: work that is done once, whatever brings it. Here it is a nightly job that two
//! schedulers start.
//!
//! ```sh
//! cargo run -p without-rabbitmq
//! ```

use std::time::Duration;

use idem_core::{Attempt, Execution, Executor, Failed, Key, MemoryStore, Policy};

/// Invoices a day, and returns how many there were.
async fn invoice(day: &str, attempt: Attempt) -> Result<u32, Failed> {
    if attempt.number() == 1 {
        return Err(Failed::retry_after(
            Duration::from_millis(100),
            "the price list is locked",
        ));
    }
    println!("invoicing {day}");
    tokio::time::sleep(Duration::from_millis(20)).await;
    Ok(17)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // With `PostgresStore` the schedulers may be on two machines.
    let executor = Executor::new(MemoryStore::new());
    let policy = Policy::builder()
        .retention(Duration::from_hours(48))
        .build()?;
    let day = "2026-02-03";
    let key = Key::new("nightly.invoices", day)?;

    for scheduler in ["first", "second"] {
        loop {
            let work = async |attempt| invoice(day, attempt).await;
            let ended = executor.execute(key.clone(), &policy, work).await;
            match &ended {
                Execution::Executed {
                    output, attempt, ..
                } => println!("{scheduler}: {output} invoices, at attempt {attempt}"),
                Execution::Duplicate { outcome, .. } => {
                    let remembered = String::from_utf8_lossy(outcome.as_bytes());
                    println!("{scheduler}: done before, {remembered} invoices");
                }
                Execution::Failed { retry_after, .. } => {
                    println!("{scheduler}: {}", ended.error().unwrap_or_default());
                    tokio::time::sleep(*retry_after).await;
                    continue;
                }
                // Another scheduler is at it, the attempts are used up, the store is away, …
                other => println!("{scheduler}: {}", other.kind()),
            }
            break;
        }
    }
    Ok(())
}
