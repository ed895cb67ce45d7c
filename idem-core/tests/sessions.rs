//! The property test for sessions: whatever two clients, their workers and an expirer do, in
//! whatever order, a store answers as a small model does.

#[path = "conformance/cached.rs"]
mod cached_harness;
#[path = "sessions/call.rs"]
mod call;
#[path = "sessions/drive.rs"]
mod drive;
#[path = "conformance/memory.rs"]
mod memory_harness;
#[path = "sessions/oracle.rs"]
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
use drive::Forgets;
use idem_core::store::SessionStore;
use idem_testing::conformance::{Clock, Harness};
use memory_harness::MemoryHarness;
use proptest::test_runner::TestRunner;
use tokio::runtime::Builder;

#[test]
fn memory_keeps_sessions_as_the_model_does() {
    keeps_sessions_as_the_model_does::<MemoryHarness>(2000, Forgets::WhenTold);
}

#[test]
fn a_cache_keeps_sessions_as_the_model_does() {
    keeps_sessions_as_the_model_does::<CachedHarness<MemoryHarness>>(1000, Forgets::WhenTold);
}

#[cfg(feature = "sqlite")]
#[test]
fn sqlite_keeps_sessions_as_the_model_does() {
    keeps_sessions_as_the_model_does::<sqlite_harness::SqliteHarness>(200, Forgets::WhenTold);
}

#[cfg(feature = "postgres")]
#[test]
fn postgres_keeps_sessions_as_the_model_does() {
    use postgres_harness::PostgresHarness;
    use postgres_level::ReadCommitted;

    keeps_sessions_as_the_model_does::<PostgresHarness<ReadCommitted>>(200, Forgets::WhenTold);
}

#[cfg(feature = "redis")]
#[test]
fn redis_keeps_sessions_as_the_model_does() {
    keeps_sessions_as_the_model_does::<redis_harness::RedisHarness>(300, Forgets::ByItself);
}

#[cfg(feature = "redis")]
#[test]
fn a_redis_cluster_keeps_sessions_as_the_model_does() {
    keeps_sessions_as_the_model_does::<redis_harness::RedisClusterHarness>(300, Forgets::ByItself);
}

/// On one store, with sessions of its own for each interleaving.
fn keeps_sessions_as_the_model_does<H>(cases: u32, forgets: Forgets)
where
    H: Harness<Store: SessionStore>,
{
    let runtime = Builder::new_current_thread()
        .enable_all()
        .start_paused(H::CLOCK == Clock::Paused)
        .build()
        .expect("a runtime can be built");
    let harness = runtime.block_on(H::start());
    let outcome = TestRunner::new(drive::config(cases)).run(&call::calls(), |calls| {
        runtime.block_on(drive::run(&harness, forgets, &calls))
    });
    outcome.expect("the store keeps sessions as the model does");
}
