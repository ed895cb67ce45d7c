//! Integration tests on a real RabbitMQ: one for each row of `docs/guarantees.md`.

#![expect(
    clippy::unwrap_used,
    reason = "a panic is how a test fails, and the helpers of tests are tests, too"
)]

mod atomic;
mod bad_input;
mod brokers;
mod connections;
mod crashes;
mod dead_letters;
mod duplicates;
mod failures;
mod guarantees;
mod leases;
mod load;
mod outages;
mod publishing;
mod shutdown;
mod tiers;
mod topology;
mod zombies;
