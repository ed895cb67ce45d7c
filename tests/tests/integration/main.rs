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
mod client;
mod client_fences;
mod client_keepers;
mod client_links;
mod client_session_workers;
mod client_sessions;
mod client_traces;
mod client_tries;
mod client_workers;
mod clocks;
mod cluster;
mod conflicts;
mod connections;
mod crashes;
mod dead_letters;
mod doctor;
mod doctor_sessions;
mod doubts;
mod duplicates;
mod entities;
mod fail_open;
mod failover;
mod failures;
mod foreign_letters;
mod groups;
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
mod metrics;
mod narrow_windows;
mod nodes;
mod numbered_publishing;
mod observed;
mod on_postgres;
mod on_redis;
mod outages;
mod publishing;
mod registrations;
mod replacement;
mod replays;
mod replies;
mod reply_faults;
mod secrets;
mod sequence_faults;
mod sequence_letters;
mod sequence_stores;
mod sequences;
mod session_faults;
mod sessions;
mod shutdown;
mod store_crashes;
mod store_freezes;
mod topology;
mod traces;
mod vanished;
mod withdrawals;
mod zombies;
