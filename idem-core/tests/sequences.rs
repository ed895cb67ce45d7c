//! The property test for sequences: whatever two producers, their workers and a purger do, in
//! whatever order, a store answers as a small model does. And one number that is delayed while
//! thousands pass.

#[path = "sequences/call.rs"]
mod call;
#[path = "model/compare.rs"]
mod compare;
#[path = "sequences/delayed.rs"]
mod delayed;
#[path = "sequences/drive.rs"]
mod drive;
#[path = "sequences/oracle.rs"]
mod oracle;
#[path = "model/stores.rs"]
mod stores;

use drive::Purges;
use idem_core::store::Purge;
use idem_testing::conformance::SequenceHarness;

#[test]
fn memory_keeps_sequences_as_the_model_does() {
    keeps_sequences_as_the_model_does::<stores::MemoryHarness>(4000, told());
}

#[test]
fn a_cache_keeps_sequences_as_the_model_does() {
    keeps_sequences_as_the_model_does::<stores::CachedMemory>(1000, told());
}

#[cfg(feature = "sqlite")]
#[test]
fn sqlite_keeps_sequences_as_the_model_does() {
    keeps_sequences_as_the_model_does::<stores::SqliteHarness>(100, told());
}

#[cfg(feature = "postgres")]
#[test]
fn postgres_keeps_sequences_as_the_model_does() {
    keeps_sequences_as_the_model_does::<stores::PostgresHarness>(100, told());
}

#[cfg(feature = "redis")]
#[test]
fn redis_keeps_sequences_as_the_model_does() {
    keeps_sequences_as_the_model_does::<stores::RedisHarness>(300, None);
}

#[cfg(feature = "redis")]
#[test]
fn a_redis_cluster_keeps_sequences_as_the_model_does() {
    keeps_sequences_as_the_model_does::<stores::RedisClusterHarness>(200, None);
}

#[test]
fn one_number_is_delayed_in_memory_while_thousands_pass() {
    delayed::while_many_pass::<stores::MemoryHarness>(20_000);
}

#[cfg(feature = "sqlite")]
#[test]
fn one_number_is_delayed_in_sqlite_while_thousands_pass() {
    delayed::while_many_pass::<stores::SqliteHarness>(2_000);
}

#[cfg(feature = "postgres")]
#[test]
fn one_number_is_delayed_in_postgres_while_thousands_pass() {
    delayed::while_many_pass::<stores::PostgresHarness>(2_000);
}

#[cfg(feature = "redis")]
#[test]
fn one_number_is_delayed_in_redis_while_thousands_pass() {
    delayed::while_many_pass::<stores::RedisHarness>(5_000);
}

fn keeps_sequences_as_the_model_does<H: SequenceHarness>(cases: u32, purges: Purges<H::Store>) {
    stores::answers_as_the_model::<H, _>(cases, &call::calls(), &async |harness, calls| {
        drive::run(harness, purges, calls).await
    });
}

/// A store that forgets when it is told to.
#[expect(clippy::unnecessary_wraps, reason = "others forget by themselves")]
fn told<S: Purge>() -> Purges<S> {
    Some(|store| Box::pin(store.purge(100)))
}
