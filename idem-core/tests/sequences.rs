//! The property test for sequences: whatever two producers, their workers and a purger do, in
//! whatever order, a store answers as a small model does. And one number that is delayed while
//! thousands pass.

#[path = "conformance/cached.rs"]
mod cached_harness;
#[path = "sequences/call.rs"]
mod call;
#[path = "sequences/delayed.rs"]
mod delayed;
#[path = "sequences/drive.rs"]
mod drive;
#[path = "conformance/memory.rs"]
mod memory_harness;
#[path = "sequences/oracle.rs"]
mod oracle;
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

use cached_harness::CachedHarness;
use drive::Purges;
use idem_core::store::{Purge, SequenceStore};
use idem_testing::conformance::{Clock, Harness};
use memory_harness::MemoryHarness;
use proptest::test_runner::TestRunner;
use tokio::runtime::{Builder, Runtime};

#[test]
fn memory_keeps_sequences_as_the_model_does() {
    keeps_sequences_as_the_model_does::<MemoryHarness>(4000, told());
}

#[test]
fn a_cache_keeps_sequences_as_the_model_does() {
    keeps_sequences_as_the_model_does::<CachedHarness<MemoryHarness>>(1000, told());
}

#[cfg(feature = "sqlite")]
#[test]
fn sqlite_keeps_sequences_as_the_model_does() {
    keeps_sequences_as_the_model_does::<sqlite_harness::SqliteHarness>(100, told());
}

#[cfg(feature = "postgres")]
#[test]
fn postgres_keeps_sequences_as_the_model_does() {
    use postgres_harness::PostgresHarness;
    use postgres_level::ReadCommitted;

    keeps_sequences_as_the_model_does::<PostgresHarness<ReadCommitted>>(100, told());
}

#[cfg(feature = "redis")]
#[test]
fn redis_keeps_sequences_as_the_model_does() {
    keeps_sequences_as_the_model_does::<redis_harness::RedisHarness>(300, None);
}

#[cfg(feature = "redis")]
#[test]
fn a_redis_cluster_keeps_sequences_as_the_model_does() {
    keeps_sequences_as_the_model_does::<redis_harness::RedisClusterHarness>(200, None);
}

#[test]
fn one_number_is_delayed_in_memory_while_thousands_pass() {
    delayed::while_many_pass::<MemoryHarness>(20_000);
}

#[cfg(feature = "sqlite")]
#[test]
fn one_number_is_delayed_in_sqlite_while_thousands_pass() {
    delayed::while_many_pass::<sqlite_harness::SqliteHarness>(2_000);
}

#[cfg(feature = "postgres")]
#[test]
fn one_number_is_delayed_in_postgres_while_thousands_pass() {
    use postgres_harness::PostgresHarness;
    use postgres_level::ReadCommitted;

    delayed::while_many_pass::<PostgresHarness<ReadCommitted>>(2_000);
}

#[cfg(feature = "redis")]
#[test]
fn one_number_is_delayed_in_redis_while_thousands_pass() {
    delayed::while_many_pass::<redis_harness::RedisHarness>(5_000);
}

/// On one store, with sequences of its own for each interleaving.
fn keeps_sequences_as_the_model_does<H>(cases: u32, purges: Purges<H::Store>)
where
    H: Harness<Store: SequenceStore>,
{
    let runtime = runtime::<H>();
    let harness = runtime.block_on(H::start());
    let outcome = TestRunner::new(drive::config(cases)).run(&call::calls(), |calls| {
        runtime.block_on(drive::run(&harness, purges, &calls))
    });
    outcome.expect("the store keeps sequences as the model does");
}

fn runtime<H: Harness>() -> Runtime {
    Builder::new_current_thread()
        .enable_all()
        .start_paused(H::CLOCK == Clock::Paused)
        .build()
        .expect("a runtime can be built")
}

/// A store that forgets when it is told to.
#[expect(clippy::unnecessary_wraps, reason = "others forget by themselves")]
fn told<S: Purge>() -> Purges<S> {
    Some(|store| Box::pin(store.purge(100)))
}
