//! Integration tests on a real RabbitMQ: one for each row of `docs/guarantees.md`.

mod bad_input;
mod crashes;
mod dead_letters;
mod duplicates;
mod failures;
mod outages;
mod shutdown;
mod zombies;
