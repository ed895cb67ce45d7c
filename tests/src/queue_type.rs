//! The type of the queues that the suite runs with.

use std::env;

use idem_amqp::{Queue, QueueType};
use idem_servers::rabbitmq::QUEUES_VARIABLE;

/// What `cargo xtask test --queues …` says; quorum by default.
///
/// # Panics
/// If the variable holds anything else than `quorum` or `classic`.
pub fn under_test() -> QueueType {
    match env::var(QUEUES_VARIABLE).as_deref() {
        Err(_) | Ok("quorum") => QueueType::Quorum,
        Ok("classic") => QueueType::Classic,
        Ok(other) => {
            panic!("{QUEUES_VARIABLE} is {other}: set it to quorum or classic, or not at all")
        }
    }
}

/// A declared queue of the type under test. A test about one type declares its own.
#[must_use]
pub fn tested(name: &str) -> Queue {
    Queue::of_type(name, under_test())
}
