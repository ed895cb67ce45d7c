//! The stores on which interleavings run beside a model, and how they are run.

#[path = "../conformance/cached.rs"]
mod cached_harness;
#[path = "../conformance/memory.rs"]
mod memory_harness;
#[cfg(feature = "postgres")]
#[path = "../conformance/postgres.rs"]
mod postgres_harness;
#[cfg(feature = "postgres")]
#[path = "../conformance/postgres_level.rs"]
mod postgres_level;
#[cfg(feature = "postgres")]
#[path = "../conformance/postgres_pool.rs"]
mod postgres_pool;
#[cfg(feature = "redis")]
#[path = "../conformance/redis.rs"]
mod redis_harness;
#[cfg(feature = "sqlite")]
#[path = "../conformance/sqlite.rs"]
mod sqlite_harness;
#[cfg(any(feature = "postgres", feature = "redis", feature = "sqlite"))]
#[path = "../conformance/twice.rs"]
mod twice;

use idem_testing::conformance::{Clock, Harness};
use proptest::{
    strategy::Strategy,
    test_runner::{TestCaseError, TestRunner},
};
use tokio::runtime::{Builder, Runtime};

use crate::compare::config;

pub(crate) use memory_harness::MemoryHarness;
#[cfg(feature = "redis")]
pub(crate) use redis_harness::{RedisClusterHarness, RedisHarness};
#[cfg(feature = "sqlite")]
pub(crate) use sqlite_harness::SqliteHarness;

pub(crate) type CachedMemory = cached_harness::CachedHarness<MemoryHarness>;
#[cfg(feature = "postgres")]
pub(crate) type PostgresHarness = postgres_harness::PostgresHarness<postgres_level::ReadCommitted>;

/// Runs interleavings on one store, each with keys of its own.
pub(crate) fn answers_as_the_model<H: Harness, C: std::fmt::Debug>(
    cases: u32,
    interleavings: &impl Strategy<Value = Vec<C>>,
    run: &impl AsyncFn(&H, &[C]) -> Result<(), TestCaseError>,
) {
    let runtime = runtime::<H>();
    let harness = runtime.block_on(H::start());
    let outcome = TestRunner::new(config(cases)).run(interleavings, |calls| {
        runtime.block_on(run(&harness, &calls))
    });
    outcome.expect("the store answers as the model does");
}

pub(crate) fn runtime<H: Harness>() -> Runtime {
    Builder::new_current_thread()
        .enable_all()
        .start_paused(H::CLOCK == Clock::Paused)
        .build()
        .expect("a runtime can be built")
}
