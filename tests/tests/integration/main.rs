//! Integration tests on a real RabbitMQ: one for each row of `docs/guarantees.md`.

mod bad_input;
mod brokers;
mod connections;
mod crashes;
mod dead_letters;
mod duplicates;
mod failures;
mod leases;
mod load;
mod outages;
mod publishing;
mod shutdown;
mod topology;
mod zombies;
