//! The conformance suite on the stores of this crate.

#[path = "conformance/memory.rs"]
mod memory_harness;
#[cfg(feature = "sqlite")]
#[path = "conformance/sqlite.rs"]
mod sqlite_harness;

use memory_harness::MemoryHarness;
#[cfg(feature = "sqlite")]
use sqlite_harness::SqliteHarness;

idem_core::conformance!(memory; MemoryHarness; Purge);
#[cfg(feature = "sqlite")]
idem_core::conformance!(sqlite; SqliteHarness; Purge, TransactionalStore);
