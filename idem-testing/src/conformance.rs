//! The conformance suite: every rule of the store contract as cases that any store can run.
//!
//! Say how a fresh store is made and how its clock is moved,
//! and let [`conformance!`](crate::conformance!) write one test per case:
//!
//! ```
//! use std::time::Duration;
//!
//! use idem_core::MemoryStore;
//! use idem_testing::conformance::{Clock, Harness};
//!
//! struct MemoryHarness(MemoryStore);
//!
//! impl Harness for MemoryHarness {
//!     type Store = MemoryStore;
//!     const CLOCK: Clock = Clock::Paused;
//!
//!     async fn start() -> Self {
//!         Self(MemoryStore::new())
//!     }
//!
//!     fn store(&self) -> MemoryStore {
//!         self.0.clone()
//!     }
//!
//!     async fn advance(&self, by: Duration) {
//!         Clock::advance_paused(by).await;
//!     }
//! }
//!
//! idem_testing::conformance!(memory; MemoryHarness; Purge);
//! # idem_testing::conformance::run::<MemoryHarness>(
//! #     idem_testing::conformance::claims::a_new_key_is_acquired_as_its_first_attempt,
//! # );
//! ```
//!
//! | list | asks for | holds the store to |
//! |---|---|---|
//! | always | [`Harness`] | [`Store`](idem_core::Store) |
//! | `Purge` | a store with [`Purge`](idem_core::store::Purge), and data that no other case shares | purging |
//! | `TransactionalStore` | [`TransactionalHarness`] | [`TransactionalStore`](idem_core::store::TransactionalStore) |
//! | `GroupStore` | [`GroupHarness`] | sharing a transaction among messages |
//! | `BatchStore` | [`BatchHarness`] | completing several messages with one commit |
//! | `Outbox` | [`TransactionalHarness`], a store with an [outbox](idem_core::store::outbox), and data that no other case shares | publishing what was committed |
//! | `RecordedByStore` | [`EntityHarness`] | telling by a constraint what was handled |
//! | `ServerClock` | [`WorkerClockHarness`] | a time that is no worker's |
//! | `SessionStore` | a store with [`SessionStore`](idem_core::store::SessionStore) | keeping sessions |
//! | `SessionExpiry` | the same, one that has to be told to remove them, and data that no other case shares | removing sessions |
//! | `DurableSessions` | the same, and [`DurableHarness`] | remembering sessions over a restart |
//! | `TransactionalSessions` | the same, and [`TransactionalHarness`] | atomic handlers in sessions |
//! | `SequenceStore` | a store with [`SequenceStore`](idem_core::store::SequenceStore) | keeping sequences |
//! | `SequencePurge` | the same, with [`Purge`](idem_core::store::Purge), and data that no other case shares | purging sequences |
//! | `DurableSequences` | the same, and [`DurableHarness`] | remembering sequences over a restart |
//! | `TransactionalSequences` | the same, and [`TransactionalHarness`] | atomic handlers in sequences |
//! | `StreamStore` | a store with [`StreamStore`](idem_core::store::StreamStore) | keeping marks of streams |
//! | `DurableStreams` | the same, and [`DurableHarness`] | remembering marks over a restart |
//! | `TransactionalStreams` | the same, and [`BatchHarness`] | atomic handlers that move the mark of a stream |
//! | `Look` | a store with [`Look`](idem_core::store::Look) | what is told of a key |
//! | `TransactionalLooks` | the same, and [`TransactionalHarness`] | telling nothing of a transaction before its commit |
//! | `OperatorStore` | a store with [`OperatorStore`](idem_core::store::operator::OperatorStore) | what operators see and change |
//! | `Durable` | [`DurableHarness`] | remembering what it answered over a restart |
//!
//! A case that fails names the rule it holds the store to. No case sleeps.

pub mod ahead;
pub mod atomic_claims;
pub mod attempts;
pub mod batches;
pub mod bytes;
pub mod cancellation;
pub mod claims;
pub mod completion;
pub mod concurrency;
pub mod durability;
pub mod entities;
pub mod fencing;
pub mod fingerprints;
pub mod groups;
pub mod look_transactions;
pub mod looks;
pub mod operator_changes;
pub mod operator_fences;
pub mod operator_listings;
pub mod outbox;
pub mod owners;
pub mod positions;
pub mod purge;
pub mod replay;
pub mod retention;
pub mod retries;
pub mod sequence_gaps;
pub mod sequence_lives;
pub mod sequence_marks;
pub mod sequence_purge;
pub mod sequence_races;
pub mod sequence_restarts;
pub mod sequence_transactions;
pub mod sequences;
pub mod session_expiry;
pub mod session_lives;
pub mod session_marks;
pub mod session_races;
pub mod session_restarts;
pub mod session_transactions;
pub mod sessions;
pub mod stream_restarts;
pub mod stream_transactions;
pub mod streams;
pub mod tokens;
pub mod transactions;
pub mod worker_clocks;

mod case;
mod claimant;
mod client;
mod dropped;
mod harness;
mod holder;
mod list;
mod open;
mod operator;
mod producer;
mod race;
mod reader;
mod rule;
mod scene;

pub use case::{Case, run};
pub use harness::{
    BatchHarness, Clock, DurableHarness, EntityHarness, GroupHarness, Harness, LookHarness,
    OperatorHarness, PurgeHarness, SequenceHarness, SessionHarness, StreamHarness,
    TransactionalHarness, WorkerClockHarness,
};

use client::{Client, LIFE, WINDOW};
use holder::RETENTION;
use producer::Producer;
use rule::Rule;
use scene::{LEASE, Scene};
