//! Integration tests on real servers: one for each row of `docs/guarantees.md`.

#![expect(
    clippy::unwrap_used,
    reason = "a panic is how a test fails, and the helpers of tests are tests, too"
)]

mod atomic;
mod bad_input;
mod brokers;
mod cached;
mod choices;
mod clocks;
mod cluster;
mod conflicts;
mod connections;
mod crashes;
mod dead_letters;
mod doctor;
mod doubts;
mod duplicates;
mod fail_open;
mod failover;
mod failures;
mod foreign_letters;
mod guarantees;
mod health;
mod isolation;
mod ladder;
mod ladder_faults;
mod ladder_queues;
mod ladder_replays;
mod leases;
mod load;
mod local_memory;
mod long_replays;
mod lost_answers;
mod nodes;
mod on_postgres;
mod on_redis;
mod outages;
mod publishing;
mod replacement;
mod replays;
mod secrets;
mod shutdown;
mod store_crashes;
mod store_freezes;
mod topology;
mod vanished;
mod zombies;
