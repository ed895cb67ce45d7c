//! The rules of the contract as pure functions over a record: what each state answers, and what comes next.
//!
//! Stores that decide in Rust (memory, SQLite) call them; those that decide in SQL or Lua are held to them by the
//! conformance suite.

pub(crate) mod record;
pub(crate) mod sequence;
pub(crate) mod session;
pub(crate) mod stream;
