//! The conformance suite: every rule of the store contract as cases that any store can run.
//!
//! Switch the feature `conformance` on, say how a fresh store is made and how its clock is moved,
//! and let [`conformance!`](crate::conformance!) write one test per case:
//!
//! ```
//! use std::time::Duration;
//!
//! use idem_core::{MemoryStore, conformance::{Clock, Harness}};
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
//! idem_core::conformance!(memory; MemoryHarness; Purge);
//! # idem_core::conformance::run::<MemoryHarness>(
//! #     idem_core::conformance::claims::a_new_key_is_acquired_as_its_first_attempt,
//! # );
//! ```
//!
//! | list | asks for | holds the store to |
//! |---|---|---|
//! | always | [`Harness`] | [`Store`](crate::Store) |
//! | `Purge` | a store with [`Purge`](crate::Purge), and data that no other case shares | purging |
//! | `TransactionalStore` | [`TransactionalHarness`] | [`TransactionalStore`](crate::TransactionalStore) |
//! | `Durable` | [`DurableHarness`] | remembering what it answered over a restart |
//!
//! A case that fails names the rule it holds the store to. No case sleeps.

pub mod atomic_claims;
pub mod attempts;
pub mod bytes;
pub mod claims;
pub mod completion;
pub mod concurrency;
pub mod durability;
pub mod fencing;
pub mod fingerprints;
pub mod owners;
pub mod purge;
pub mod replay;
pub mod retention;
pub mod retries;
#[doc(hidden)]
pub mod rules;
pub mod tokens;
pub mod transactions;

mod case;
mod claimant;
mod harness;
mod holder;
mod list;
mod open;
mod race;
mod rule;
mod scene;

pub use case::{Case, run};
pub use harness::{Clock, DurableHarness, Harness, TransactionalHarness};

use rule::Rule;
use scene::{LEASE, RETENTION, Scene};
