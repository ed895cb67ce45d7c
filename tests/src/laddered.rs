//! A worker whose failed messages wait on short rungs of a ladder, in a vhost of one test's own.

use std::time::Duration;

use idem_amqp::{Failed, Ladder, MemoryStore, Queue, Worker};

use crate::{
    bed::Bed,
    running::Running,
    script::{Order, Script, charge},
};

/// The delay of the first rung.
pub const FIRST_RUNG: Duration = Duration::from_millis(200);
/// The delay of the second rung, `idem.retry.500ms`, the last.
pub const SECOND_RUNG: Duration = Duration::from_millis(500);
/// A delay that needs the second rung.
pub const DELAY: Duration = Duration::from_millis(300);

/// A queue with these two rungs.
#[must_use]
pub fn laddered(queue: Queue) -> Queue {
    queue.ladder(rungs([FIRST_RUNG, SECOND_RUNG]))
}

/// A ladder with these rungs.
///
/// # Panics
/// If there can be none.
pub fn rungs(rungs: impl IntoIterator<Item = Duration>) -> Ladder {
    Ladder::new(rungs).expect("rungs that rise")
}

/// Fails until it is this attempt, and asks for the delay each time.
pub fn failing_until(attempt: u32, delay: Duration) -> Script {
    Script::new(move |call| async move {
        if call.attempt < attempt {
            return Err(Failed::retry_after(delay, "the gateway timed out"));
        }
        Ok(())
    })
}

/// Starts a worker that handles the queue's orders as the script says.
pub fn start(bed: &Bed, store: &MemoryStore, script: &Script, queue: impl Into<Queue>) -> Running {
    let worker = Worker::builder(store.clone()).state(script.clone());
    bed.start(worker.consume::<charge>(queue))
}

/// The body of an order.
///
/// # Panics
/// Never: an order is JSON.
pub fn body(id: &str) -> Vec<u8> {
    serde_json::to_vec(&Order::new(id)).expect("an order is JSON")
}
