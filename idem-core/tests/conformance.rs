//! The conformance suite on the stores of this crate.

#[path = "conformance/cached_memory.rs"]
mod cached_memory_harness;
#[cfg(feature = "sqlite")]
#[path = "conformance/cached_sqlite.rs"]
mod cached_sqlite_harness;
#[path = "conformance/memory.rs"]
mod memory_harness;
#[cfg(feature = "postgres")]
#[path = "conformance/postgres_atomic.rs"]
mod postgres_atomic_harness;
#[cfg(feature = "postgres")]
#[path = "conformance/postgres_grouped.rs"]
mod postgres_grouped_harness;
#[cfg(feature = "postgres")]
#[path = "conformance/postgres.rs"]
mod postgres_harness;
#[cfg(feature = "postgres")]
#[path = "conformance/postgres_level.rs"]
mod postgres_level;
#[cfg(feature = "redis")]
#[path = "conformance/redis.rs"]
mod redis_harness;
#[cfg(feature = "sqlite")]
#[path = "conformance/sqlite.rs"]
mod sqlite_harness;
#[cfg(feature = "sqlite")]
#[path = "conformance/sqlite_transaction.rs"]
mod sqlite_transaction_harness;

use cached_memory_harness::CachedMemoryHarness;
#[cfg(feature = "sqlite")]
use cached_sqlite_harness::CachedSqliteHarness;
use memory_harness::MemoryHarness;
#[cfg(feature = "redis")]
use redis_harness::{RedisClusterHarness, RedisHarness};
#[cfg(feature = "postgres")]
use {
    postgres_atomic_harness::{ConnectionHarness, TransactionHarness},
    postgres_grouped_harness::GroupedHarness,
    postgres_harness::PostgresHarness,
    postgres_level::{ReadCommitted, RepeatableRead, Serializable},
};
#[cfg(feature = "sqlite")]
use {sqlite_harness::SqliteHarness, sqlite_transaction_harness::SqliteTransactionHarness};

idem_core::conformance!(memory; MemoryHarness; Purge, OperatorStore, SessionStore, SessionExpiry, SequenceStore, SequencePurge);
idem_core::conformance!(cached_memory; CachedMemoryHarness; Purge, OperatorStore, SessionStore, SessionExpiry, SequenceStore, SequencePurge);
#[cfg(feature = "sqlite")]
idem_core::conformance!(cached_sqlite; CachedSqliteHarness; Purge, OperatorStore, Durable, TransactionalStore, SessionStore, SessionExpiry, DurableSessions, TransactionalSessions, SequenceStore, SequencePurge, DurableSequences, TransactionalSequences);
#[cfg(feature = "sqlite")]
idem_core::conformance!(sqlite; SqliteHarness; Purge, OperatorStore, Durable, TransactionalStore, SessionStore, SessionExpiry, DurableSessions, TransactionalSessions, SequenceStore, SequencePurge, DurableSequences, TransactionalSequences);
#[cfg(feature = "sqlite")]
idem_core::conformance!(sqlite_transaction; SqliteTransactionHarness; TransactionalStore);
#[cfg(feature = "postgres")]
idem_core::conformance!(postgres; PostgresHarness<ReadCommitted>; Purge, OperatorStore, Durable, SessionStore, SessionExpiry, DurableSessions, SequenceStore, SequencePurge, DurableSequences);
#[cfg(feature = "postgres")]
idem_core::conformance!(postgres_repeatable_read; PostgresHarness<RepeatableRead>; Purge, OperatorStore, Durable, SessionStore, SessionExpiry, DurableSessions, SequenceStore, SequencePurge, DurableSequences);
#[cfg(feature = "postgres")]
idem_core::conformance!(postgres_serializable; PostgresHarness<Serializable>; Purge, OperatorStore, Durable, SessionStore, SessionExpiry, DurableSessions, SequenceStore, SequencePurge, DurableSequences);
/// What the default of the database is must not matter.
#[cfg(feature = "postgres")]
mod postgres_atomic {
    use super::*;

    idem_core::conformance!(read_committed_connection; ConnectionHarness<ReadCommitted>; only TransactionalStore, TransactionalSessions, TransactionalSequences);
    idem_core::conformance!(read_committed_transaction; TransactionHarness<ReadCommitted>; only TransactionalStore, TransactionalSessions, TransactionalSequences);
    idem_core::conformance!(repeatable_read_connection; ConnectionHarness<RepeatableRead>; only TransactionalStore, TransactionalSessions, TransactionalSequences);
    idem_core::conformance!(repeatable_read_transaction; TransactionHarness<RepeatableRead>; only TransactionalStore, TransactionalSessions, TransactionalSequences);
    idem_core::conformance!(serializable_connection; ConnectionHarness<Serializable>; only TransactionalStore, TransactionalSessions, TransactionalSequences);
    idem_core::conformance!(serializable_transaction; TransactionHarness<Serializable>; only TransactionalStore, TransactionalSessions, TransactionalSequences);
}
// As in a transaction of one's own, but that others commit with it.
#[cfg(feature = "postgres")]
idem_core::conformance!(postgres_grouped; GroupedHarness; only TransactionalStore);
#[cfg(feature = "redis")]
idem_core::conformance!(redis; RedisHarness; OperatorStore, Durable, SessionStore, DurableSessions, SequenceStore, DurableSequences);
#[cfg(feature = "redis")]
idem_core::conformance!(redis_cluster; RedisClusterHarness; OperatorStore, Durable, SessionStore, DurableSessions, SequenceStore, DurableSequences);
