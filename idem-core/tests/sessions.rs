//! The property test for sessions: whatever two clients, their workers and an expirer do, in
//! whatever order, a store answers as a small model does.

#[path = "sessions/call.rs"]
mod call;
#[path = "model/compare.rs"]
mod compare;
#[path = "sessions/drive.rs"]
mod drive;
#[path = "sessions/oracle.rs"]
mod oracle;
#[path = "model/stores.rs"]
mod stores;

use drive::Forgets;
use idem_testing::conformance::SessionHarness;

#[test]
fn memory_keeps_sessions_as_the_model_does() {
    keeps_sessions_as_the_model_does::<stores::MemoryHarness>(2000, Forgets::WhenTold);
}

#[test]
fn a_cache_keeps_sessions_as_the_model_does() {
    keeps_sessions_as_the_model_does::<stores::CachedMemory>(1000, Forgets::WhenTold);
}

#[cfg(feature = "sqlite")]
#[test]
fn sqlite_keeps_sessions_as_the_model_does() {
    keeps_sessions_as_the_model_does::<stores::SqliteHarness>(200, Forgets::WhenTold);
}

#[cfg(feature = "postgres")]
#[test]
fn postgres_keeps_sessions_as_the_model_does() {
    keeps_sessions_as_the_model_does::<stores::PostgresHarness>(200, Forgets::WhenTold);
}

#[cfg(feature = "redis")]
#[test]
fn redis_keeps_sessions_as_the_model_does() {
    keeps_sessions_as_the_model_does::<stores::RedisHarness>(300, Forgets::ByItself);
}

#[cfg(feature = "redis")]
#[test]
fn a_redis_cluster_keeps_sessions_as_the_model_does() {
    keeps_sessions_as_the_model_does::<stores::RedisClusterHarness>(300, Forgets::ByItself);
}

fn keeps_sessions_as_the_model_does<H: SessionHarness>(cases: u32, forgets: Forgets) {
    stores::answers_as_the_model::<H, _>(cases, &call::calls(), &async |harness, calls| {
        drive::run(harness, forgets, calls).await
    });
}
