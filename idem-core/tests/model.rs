//! The property test: whatever the order of calls, a store answers as a small model does.

#[path = "model/call.rs"]
mod call;
#[path = "model/compare.rs"]
mod compare;
#[path = "model/drive.rs"]
mod drive;
#[cfg(feature = "redis")]
#[path = "model/expires.rs"]
mod expires;
#[path = "model/forgets.rs"]
mod forgets;
#[path = "model/oracle.rs"]
mod oracle;
#[path = "model/stores.rs"]
mod stores;

use forgets::{Forgets, WhenPurged};
use idem_testing::conformance::{Harness, PurgeHarness};
use proptest::test_runner::TestRunner;

#[test]
fn memory_answers_as_the_model_does() {
    answers_as_the_model_does::<stores::MemoryHarness>();
}

#[test]
fn a_cache_answers_as_the_model_does() {
    answers_as_the_model_does::<stores::CachedMemory>();
}

/// On a fresh store for each interleaving.
fn answers_as_the_model_does<H: PurgeHarness>() {
    let outcome = TestRunner::new(compare::config(2000)).run(&call::calls(), |calls| {
        stores::runtime::<H>().block_on(async {
            let harness = H::start().await;
            drive::run(&harness, &WhenPurged, &calls).await
        })
    });
    outcome.expect("the store answers as the model does");
}

#[cfg(feature = "sqlite")]
#[test]
fn sqlite_answers_as_the_model_does() {
    one_store_answers_as_the_model_does::<stores::SqliteHarness>(&WhenPurged);
}

#[cfg(feature = "postgres")]
#[test]
fn postgres_answers_as_the_model_does() {
    one_store_answers_as_the_model_does::<stores::PostgresHarness>(&WhenPurged);
}

#[cfg(feature = "redis")]
#[test]
fn redis_answers_as_the_model_does() {
    one_store_answers_as_the_model_does::<stores::RedisHarness>(&expires::ByItself);
}

#[cfg(feature = "redis")]
#[test]
fn a_redis_cluster_answers_as_the_model_does() {
    one_store_answers_as_the_model_does::<stores::RedisClusterHarness>(&expires::ByItself);
}

#[cfg_attr(
    not(any(feature = "sqlite", feature = "postgres", feature = "redis")),
    expect(dead_code, reason = "memory costs nothing to make anew")
)]
fn one_store_answers_as_the_model_does<H: Harness>(forgets: &impl Forgets<H::Store>) {
    stores::answers_as_the_model::<H, _>(300, &call::calls(), &async |harness, calls| {
        drive::run(harness, forgets, calls).await
    });
}
