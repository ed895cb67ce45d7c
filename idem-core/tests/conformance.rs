//! The conformance suite on the stores of this crate.

#[cfg(any(feature = "sqlite", feature = "postgres", feature = "redis"))]
#[path = "conformance/any.rs"]
mod any_harness;
#[path = "conformance/cached.rs"]
mod cached_harness;
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
#[cfg(feature = "postgres")]
#[path = "conformance/postgres_pool.rs"]
mod postgres_pool;
#[cfg(feature = "redis")]
#[path = "conformance/redis.rs"]
mod redis_harness;
#[cfg(all(feature = "postgres", feature = "redis"))]
#[path = "conformance/shared.rs"]
mod shared_harness;
#[cfg(feature = "sqlite")]
#[path = "conformance/sqlite.rs"]
mod sqlite_harness;
#[cfg(feature = "sqlite")]
#[path = "conformance/sqlite_transaction.rs"]
mod sqlite_transaction_harness;

#[cfg(any(feature = "sqlite", feature = "postgres", feature = "redis"))]
#[path = "conformance/twice.rs"]
mod twice;

#[cfg(any(feature = "sqlite", feature = "postgres", feature = "redis"))]
use any_harness::AnyHarness;
use cached_harness::CachedHarness;
use memory_harness::MemoryHarness;
#[cfg(feature = "redis")]
use redis_harness::{RedisClusterHarness, RedisHarness};
#[cfg(all(feature = "postgres", feature = "redis"))]
use shared_harness::InRedis;
#[cfg(feature = "postgres")]
use {
    postgres_atomic_harness::TransactionHarness,
    postgres_grouped_harness::GroupedHarness,
    postgres_harness::PostgresHarness,
    postgres_level::{ReadCommitted, RepeatableRead, Serializable},
};
#[cfg(feature = "sqlite")]
use {sqlite_harness::SqliteHarness, sqlite_transaction_harness::SqliteTransactionHarness};

idem_testing::conformance!(memory; MemoryHarness; Purge, Look, OperatorStore, SessionStore, SessionExpiry, SequenceStore, SequencePurge, StreamStore);
idem_testing::conformance!(cached_memory; CachedHarness<MemoryHarness>; Purge, Look, OperatorStore, SessionStore, SessionExpiry, SequenceStore, SequencePurge, StreamStore);
#[cfg(feature = "sqlite")]
idem_testing::conformance!(cached_sqlite; CachedHarness<SqliteHarness>; Purge, Look, OperatorStore, Durable, TransactionalLooks, TransactionalStore, BatchStore, Outbox, RecordedByStore, SessionStore, SessionExpiry, DurableSessions, TransactionalSessions, SequenceStore, SequencePurge, DurableSequences, TransactionalSequences, StreamStore, DurableStreams, TransactionalStreams);
#[cfg(feature = "sqlite")]
idem_testing::conformance!(sqlite; SqliteHarness; Purge, Look, OperatorStore, Durable, TransactionalLooks, TransactionalStore, BatchStore, Outbox, RecordedByStore, SessionStore, SessionExpiry, DurableSessions, TransactionalSessions, SequenceStore, SequencePurge, DurableSequences, TransactionalSequences, StreamStore, DurableStreams, TransactionalStreams);
// Two that are purged, and below one that forgets by itself.
#[cfg(feature = "sqlite")]
idem_testing::conformance!(any_sqlite; AnyHarness<SqliteHarness>; Purge, Look, OperatorStore, Durable, SessionStore, SessionExpiry, DurableSessions, SequenceStore, SequencePurge, DurableSequences, StreamStore, DurableStreams);
#[cfg(feature = "sqlite")]
idem_testing::conformance!(sqlite_transaction; SqliteTransactionHarness; TransactionalStore, BatchStore, RecordedByStore, TransactionalStreams);
#[cfg(feature = "postgres")]
idem_testing::conformance!(postgres; PostgresHarness<ReadCommitted>; ServerClock, Purge, Look, OperatorStore, Durable, SessionStore, SessionExpiry, DurableSessions, SequenceStore, SequencePurge, DurableSequences, StreamStore, DurableStreams);
#[cfg(feature = "postgres")]
idem_testing::conformance!(postgres_repeatable_read; PostgresHarness<RepeatableRead>; Purge, Look, OperatorStore, Durable, SessionStore, SessionExpiry, DurableSessions, SequenceStore, SequencePurge, DurableSequences, StreamStore, DurableStreams);
#[cfg(feature = "postgres")]
idem_testing::conformance!(postgres_serializable; PostgresHarness<Serializable>; Purge, Look, OperatorStore, Durable, SessionStore, SessionExpiry, DurableSessions, SequenceStore, SequencePurge, DurableSequences, StreamStore, DurableStreams);
#[cfg(feature = "postgres")]
idem_testing::conformance!(any_postgres; AnyHarness<PostgresHarness<ReadCommitted>>; ServerClock, Purge, Look, OperatorStore, Durable, SessionStore, SessionExpiry, DurableSessions, SequenceStore, SequencePurge, DurableSequences, StreamStore, DurableStreams);
#[cfg(feature = "postgres")]
idem_testing::conformance!(cached_postgres; CachedHarness<PostgresHarness<ReadCommitted>>; ServerClock, Purge, Look, OperatorStore, Durable, SessionStore, SessionExpiry, DurableSessions, SequenceStore, SequencePurge, DurableSequences, StreamStore, DurableStreams);
#[cfg(feature = "postgres")]
idem_testing::conformance!(cached_postgres_atomic; CachedHarness<PostgresHarness<ReadCommitted>>; only TransactionalLooks, TransactionalStore, GroupStore, BatchStore, Outbox, RecordedByStore, TransactionalSessions, TransactionalSequences, TransactionalStreams);
// Redis in front of PostgreSQL.
#[cfg(all(feature = "postgres", feature = "redis"))]
idem_testing::conformance!(shared_postgres; CachedHarness<PostgresHarness<ReadCommitted>, InRedis>; ServerClock, Purge, Look, OperatorStore, Durable, SessionStore, SessionExpiry, DurableSessions, SequenceStore, SequencePurge, DurableSequences, StreamStore, DurableStreams);
#[cfg(all(feature = "postgres", feature = "redis"))]
idem_testing::conformance!(shared_postgres_atomic; CachedHarness<PostgresHarness<ReadCommitted>, InRedis>; only TransactionalLooks, TransactionalStore, GroupStore, BatchStore, Outbox, RecordedByStore, TransactionalSessions, TransactionalSequences, TransactionalStreams);
/// What the default of the database is must not matter.
#[cfg(feature = "postgres")]
mod postgres_atomic {
    use super::*;

    idem_testing::conformance!(read_committed_connection; PostgresHarness<ReadCommitted>; only TransactionalLooks, TransactionalStore, GroupStore, BatchStore, Outbox, RecordedByStore, TransactionalSessions, TransactionalSequences, TransactionalStreams);
    idem_testing::conformance!(read_committed_transaction; TransactionHarness<ReadCommitted>; only TransactionalLooks, TransactionalStore, GroupStore, BatchStore, RecordedByStore, TransactionalSessions, TransactionalSequences, TransactionalStreams);
    idem_testing::conformance!(repeatable_read_connection; PostgresHarness<RepeatableRead>; only TransactionalLooks, TransactionalStore, BatchStore, TransactionalSessions, TransactionalSequences, TransactionalStreams);
    idem_testing::conformance!(repeatable_read_transaction; TransactionHarness<RepeatableRead>; only TransactionalLooks, TransactionalStore, TransactionalSessions, TransactionalSequences, TransactionalStreams);
    idem_testing::conformance!(serializable_connection; PostgresHarness<Serializable>; only TransactionalLooks, TransactionalStore, TransactionalSessions, TransactionalSequences, TransactionalStreams);
    idem_testing::conformance!(serializable_transaction; TransactionHarness<Serializable>; only TransactionalLooks, TransactionalStore, BatchStore, Outbox, TransactionalSessions, TransactionalSequences, TransactionalStreams);
}
// As in a transaction of one's own, but that others commit with it.
#[cfg(feature = "postgres")]
idem_testing::conformance!(postgres_grouped; GroupedHarness; only TransactionalStore);
#[cfg(feature = "redis")]
idem_testing::conformance!(redis; RedisHarness; ServerClock, Look, OperatorStore, Durable, SessionStore, DurableSessions, SequenceStore, DurableSequences, StreamStore, DurableStreams);
#[cfg(feature = "redis")]
idem_testing::conformance!(redis_cluster; RedisClusterHarness; ServerClock, Look, OperatorStore, Durable, SessionStore, DurableSessions, SequenceStore, DurableSequences, StreamStore, DurableStreams);
#[cfg(feature = "redis")]
idem_testing::conformance!(any_redis; AnyHarness<RedisHarness>; ServerClock, Look, OperatorStore, Durable, SessionStore, DurableSessions, SequenceStore, DurableSequences, StreamStore, DurableStreams);
#[cfg(feature = "redis")]
idem_testing::conformance!(cached_redis; CachedHarness<RedisHarness>; ServerClock, Look, OperatorStore, Durable, SessionStore, DurableSessions, SequenceStore, DurableSequences, StreamStore, DurableStreams);

/// Cases use stores one after the other.
#[cfg(feature = "postgres")]
#[test]
fn a_case_on_postgres_finds_nothing_of_the_cases_before_it() {
    use idem_core::{
        Key, Outcome, Policy, Store as _,
        store::{Claim, ClaimRequest, Write},
    };
    use idem_testing::conformance::{Harness as _, TransactionalHarness, run};
    use std::time::Duration;

    type OnConnections = PostgresHarness<ReadCommitted>;

    for _ in 0..20 {
        run(async |harness: &OnConnections| {
            let key = Key::new("scope", "the same each time").expect("a short name");
            let request = ClaimRequest::new(key, &Policy::DEFAULT);
            let (store, other) = (harness.store(), harness.store());
            let claim = store.claim(&request).await.expect("the server is up");
            let Claim::Acquired(lease) = claim else {
                panic!("an earlier case has claimed it: {claim:?}");
            };
            assert_eq!(lease.attempt, 1);
            assert_eq!(harness.effects("the same each time").await, 0);
            let outcome = Outcome::new("done");
            let completed = store.complete(&lease, &outcome, Duration::from_hours(1));
            let completed = completed.await.expect("the server is up");
            assert_eq!(completed, Write::Applied);
            let again = other.claim(&request).await.expect("the server is up");
            assert!(matches!(again, Claim::Completed { .. }), "{again:?}");
            harness.advance(Duration::from_mins(1)).await;
        });
    }
}

/// No case can move the system's clock: the stores of servers do not look at it.
#[test]
fn the_stores_of_servers_never_ask_for_the_systems_time() {
    let stores = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src/stores"));
    let names = ["postgres", "postgres.rs", "redis", "redis.rs"];
    let mut paths: Vec<_> = names.map(|name| stores.join(name)).into();
    while let Some(path) = paths.pop() {
        if path.ends_with("tests") || path.ends_with("tests.rs") {
            continue;
        }
        if path.is_dir() {
            let entries = std::fs::read_dir(&path).expect("it can be read");
            paths.extend(entries.map(|entry| entry.expect("it can be read").path()));
        } else {
            let text = std::fs::read_to_string(&path).expect("it is text");
            assert!(!text.contains("SystemTime"), "{}", path.display());
        }
    }
}
