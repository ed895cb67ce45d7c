//! User code that panics where it is no future.

use super::*;

/// Serialises and describes itself with a panic.
#[derive(Debug)]
struct Bomb;

impl Serialize for Bomb {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        panic!("boom")
    }
}

impl std::fmt::Display for Bomb {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        panic!("boom")
    }
}

impl Failure for Bomb {}

#[tokio::test(start_paused = true)]
async fn an_output_that_cannot_be_serialised_is_no_reason_to_repeat_the_work() {
    let (executor, _) = executor();
    let work = async |_: Attempt| Ok::<_, Failed>(Bomb);
    let ended = executor.execute(key(), &Policy::DEFAULT, work).await;
    assert_ended(&ended, "executed");
    assert_ended(&run(&executor).await, "duplicate");
}

#[tokio::test(start_paused = true)]
async fn an_error_that_panics_when_asked_is_a_failed_attempt() {
    let (executor, _) = executor();
    let work = async |_: Attempt| Err::<(), _>(Bomb);
    let failed = executor.execute(key(), &Policy::DEFAULT, work).await;
    assert_matches!(
        failed,
        Execution::Failed {
            cause: Cause::Panicked(_),
            ..
        }
    );
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_a_failed_attempt() {
    let (executor, _) = executor();
    let work = async |_: Attempt| -> Result<(), Failed> { panic!("boom") };
    let failed = executor.execute(key(), &Policy::DEFAULT, work).await;
    wait_for_retry(&failed).await;
    let Execution::Failed { cause, .. } = failed else {
        panic!("{failed:?}");
    };
    assert!(matches!(cause, Cause::Panicked(message) if message == "boom"));
    assert_ended(&run(&executor).await, "executed 2");
}

#[tokio::test(start_paused = true)]
async fn work_that_panics_before_it_returns_its_future_is_a_failed_attempt() {
    let (executor, store) = executor();
    #[expect(unreachable_code, reason = "the future's type is needed")]
    let work = |_: Attempt| {
        panic!("boom");
        ready(Ok::<(), Failed>(()))
    };
    let failed = executor.execute(key(), &Policy::DEFAULT, work).await;
    wait_for_retry(&failed).await;
    let Execution::Failed { cause, .. } = failed else {
        panic!("{failed:?}");
    };
    assert!(matches!(cause, Cause::Panicked(message) if message == "boom"));
    assert_eq!(store.count(Call::Release), 1, "the key is free at once");
    assert_ended(&run(&executor).await, "executed 2");
}
