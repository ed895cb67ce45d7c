//! The property test: whatever the order of calls, a store answers as a small model does.

#[path = "conformance/cached.rs"]
mod cached_harness;
#[path = "model/call.rs"]
mod call;
#[path = "model/drive.rs"]
mod drive;
#[cfg(feature = "redis")]
#[path = "model/expires.rs"]
mod expires;
#[path = "model/forgets.rs"]
mod forgets;
#[path = "conformance/memory.rs"]
mod memory_harness;
#[path = "model/oracle.rs"]
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
use forgets::{Forgets, WhenPurged};
use idem_core::store::Purge;
use idem_testing::conformance::{Clock, Harness};
use memory_harness::MemoryHarness;
use proptest::test_runner::TestRunner;
use tokio::runtime::{Builder, Runtime};

#[test]
fn memory_answers_as_the_model_does() {
    answers_as_the_model_does::<MemoryHarness>();
}

#[test]
fn a_cache_answers_as_the_model_does() {
    answers_as_the_model_does::<CachedHarness<MemoryHarness>>();
}

/// On a fresh store for each interleaving.
fn answers_as_the_model_does<H: Harness<Store: Purge>>() {
    let outcome = TestRunner::new(drive::config(2000)).run(&call::calls(), |calls| {
        runtime::<H>().block_on(async {
            let harness = H::start().await;
            drive::run(&harness, &WhenPurged, &calls).await
        })
    });
    outcome.expect("the store answers as the model does");
}

#[cfg(feature = "sqlite")]
#[test]
fn sqlite_answers_as_the_model_does() {
    one_store_answers_as_the_model_does::<sqlite_harness::SqliteHarness>(&WhenPurged);
}

#[cfg(feature = "postgres")]
#[test]
fn postgres_answers_as_the_model_does() {
    use postgres_harness::PostgresHarness;
    use postgres_level::ReadCommitted;

    one_store_answers_as_the_model_does::<PostgresHarness<ReadCommitted>>(&WhenPurged);
}

#[cfg(feature = "redis")]
#[test]
fn redis_answers_as_the_model_does() {
    one_store_answers_as_the_model_does::<redis_harness::RedisHarness>(&expires::ByItself);
}

#[cfg(feature = "redis")]
#[test]
fn a_redis_cluster_answers_as_the_model_does() {
    one_store_answers_as_the_model_does::<redis_harness::RedisClusterHarness>(&expires::ByItself);
}

/// On one store, with keys of its own for each interleaving.
#[cfg_attr(
    not(any(feature = "sqlite", feature = "postgres", feature = "redis")),
    expect(dead_code, reason = "memory costs nothing to make anew")
)]
fn one_store_answers_as_the_model_does<H: Harness>(forgets: &impl Forgets<H::Store>) {
    let runtime = runtime::<H>();
    let harness = runtime.block_on(H::start());
    let outcome = TestRunner::new(drive::config(300)).run(&call::calls(), |calls| {
        runtime.block_on(drive::run(&harness, forgets, &calls))
    });
    outcome.expect("the store answers as the model does");
}

fn runtime<H: Harness>() -> Runtime {
    Builder::new_current_thread()
        .enable_all()
        .start_paused(H::CLOCK == Clock::Paused)
        .build()
        .expect("a runtime can be built")
}
