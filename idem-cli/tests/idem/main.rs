//! The command itself, on real servers: what it prints, how it ends, and what it does to the store.

#![expect(
    clippy::unwrap_used,
    reason = "a panic is how a test fails, and the helpers of tests are tests, too"
)]

mod changes;
mod command;
mod dead;
mod doctor;
mod keys;
mod marks;
mod outbox;
mod requests;
mod tables;
mod unread;
mod worker;
