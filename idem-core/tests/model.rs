//! The property test: whatever the order of calls, a store answers as a small model does.

#[path = "conformance/cached_memory.rs"]
mod cached_memory_harness;
#[path = "model/call.rs"]
mod call;
#[path = "model/drive.rs"]
mod drive;
#[path = "conformance/memory.rs"]
mod memory_harness;
#[path = "model/oracle.rs"]
mod oracle;
#[cfg(feature = "sqlite")]
#[path = "conformance/sqlite.rs"]
mod sqlite_harness;

use cached_memory_harness::CachedMemoryHarness;
use idem_core::{
    Purge,
    conformance::{Clock, Harness},
};
use memory_harness::MemoryHarness;
use proptest::test_runner::TestRunner;
use tokio::runtime::{Builder, Runtime};

#[test]
fn memory_answers_as_the_model_does() {
    answers_as_the_model_does::<MemoryHarness>();
}

#[test]
fn a_cache_answers_as_the_model_does() {
    answers_as_the_model_does::<CachedMemoryHarness>();
}

/// On a fresh store for each interleaving.
fn answers_as_the_model_does<H: Harness<Store: Purge>>() {
    let outcome = TestRunner::new(drive::config(2000)).run(&call::calls(), |calls| {
        runtime::<H>().block_on(async {
            let harness = H::start().await;
            drive::run(&harness, &calls).await
        })
    });
    outcome.expect("the store answers as the model does");
}

#[cfg(feature = "sqlite")]
#[test]
fn sqlite_answers_as_the_model_does() {
    use sqlite_harness::SqliteHarness;

    let runtime = runtime::<SqliteHarness>();
    let harness = runtime.block_on(SqliteHarness::start());
    let outcome = TestRunner::new(drive::config(300)).run(&call::calls(), |calls| {
        runtime.block_on(drive::run(&harness, &calls))
    });
    outcome.unwrap();
}

fn runtime<H: Harness>() -> Runtime {
    Builder::new_current_thread()
        .enable_all()
        .start_paused(H::CLOCK == Clock::Paused)
        .build()
        .expect("a runtime can be built")
}
