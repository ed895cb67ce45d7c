//! Attempts that take longer than their policy allows.

use tokio::time::Instant;

use super::*;
use crate::{executor::heartbeat::Limit, handler::Enforcement};

const TIMEOUT: Duration = Duration::from_secs(5);

fn limited() -> crate::handler::PolicyBuilder {
    Policy::builder().timeout(TIMEOUT)
}

fn quarantine() -> Policy {
    let policy = limited().in_doubt(InDoubt::Quarantine);
    policy.build().unwrap()
}

/// After how long it failed of that.
fn timed_out(ended: &Execution<(), Failed>) -> Option<Duration> {
    match ended {
        Execution::Failed { cause, .. } | Execution::Exhausted { cause, .. } => match cause {
            Cause::TimedOut(limit) => Some(*limit),
            _ => None,
        },
        _ => None,
    }
}

/// Never ends.
async fn hang(_: Attempt) -> Result<(), Failed> {
    pending().await
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_takes_too_long_has_failed_and_its_work_is_dropped() {
    let (executor, _) = executor();
    let policy = limited().build().unwrap();
    let held = Arc::new(());
    let work = async |_: Attempt| {
        let _held = Arc::clone(&held);
        pending::<Result<(), Failed>>().await
    };
    let began = Instant::now();
    let ended = executor.execute(key(), &policy, work).await;
    assert_eq!(began.elapsed().as_secs(), TIMEOUT.as_secs());
    assert_eq!(ended.error().as_deref(), Some("timed out after 5s"));
    assert_ended(&ended, "failed 1");
    assert_eq!(timed_out(&ended), Some(TIMEOUT));
    assert_eq!(Arc::strong_count(&held), 1, "the work is still there");
    wait_for_retry(&ended).await;
    let work = async |attempt: Attempt| Ok::<_, Failed>(attempt.is_in_doubt());
    let next = executor.execute(key(), &policy, work).await;
    assert_output(&next, 2, &false);
}

#[tokio::test(start_paused = true)]
async fn work_that_ends_in_time_is_not_stopped() {
    let (executor, _) = executor();
    let policy = limited().build().unwrap();
    let work = async |_: Attempt| {
        sleep(Duration::from_millis(4998)).await;
        Ok::<_, Failed>(())
    };
    let ended = executor.execute(key(), &policy, work).await;
    assert_ended(&ended, "executed");
}

#[tokio::test(start_paused = true)]
async fn attempts_that_take_too_long_are_used_up() {
    let (executor, _) = executor();
    let policy = limited().max_attempts(1).build().unwrap();
    let ended = executor.execute(key(), &policy, hang).await;
    assert_ended(&ended, "exhausted 1");
    assert_eq!(timed_out(&ended), Some(TIMEOUT));
}

#[tokio::test(start_paused = true)]
async fn what_was_stopped_is_quarantined_if_its_doubt_is_to_be() {
    let (executor, _) = executor();
    let stopped = executor.execute(key(), &quarantine(), hang).await;
    assert_eq!(
        stopped.error().as_deref(),
        Some("timed out after 5s: its effects may have happened")
    );
    assert_eq!(stopped.attempt(), Some(1));
    assert_ended(&stopped, "in-doubt");

    let must_not_run = async |_: Attempt| -> Result<(), Failed> { panic!("a copy ran in doubt") };
    let copy = executor.execute(key(), &quarantine(), must_not_run).await;
    assert_ended(&copy, "in-doubt 0");
    let replay = ClaimRequest::new(key(), &quarantine()).replay(true);
    let work = async |_: Attempt| Ok::<_, Failed>(());
    let ended = executor.execute_request(&replay, &quarantine(), work).await;
    assert_ended(&ended, "executed 1");
}

/// The store is told of the doubt: an enforced copy is quarantined.
#[tokio::test(start_paused = true)]
async fn what_is_only_observed_is_attempted_again_whatever_its_doubt() {
    let (executor, _) = executor();
    let observed = quarantine().to_builder();
    let observed = observed.enforcement(Enforcement::Observe).build().unwrap();
    let stopped = executor.execute(key(), &observed, hang).await;
    assert_ended(&stopped, "failed 1");
    let work = async |_: Attempt| Ok::<_, Failed>(());
    let next = executor.execute(key(), &observed, work).await;
    let Execution::Observed {
        would_have_been, ..
    } = next
    else {
        panic!("{next:?}");
    };
    assert_eq!(would_have_been, Some(ExecutionKind::InDoubt));
    let enforced = executor.execute(key(), &quarantine(), work).await;
    assert_ended(&enforced, "in-doubt");
}

#[test]
fn the_shorter_of_two_limits_counts() {
    let (short, long) = (TIMEOUT, 2 * TIMEOUT);
    let table = [
        (None, None, None),
        (Some(short), None, Some(Limit::Policy(short))),
        (None, Some(short), Some(Limit::Store(short))),
        (Some(short), Some(long), Some(Limit::Policy(short))),
        (Some(long), Some(short), Some(Limit::Store(short))),
        (Some(short), Some(short), Some(Limit::Policy(short))),
    ];
    for (policy, store, expected) in table {
        assert_eq!(Limit::shorter(policy, store), expected);
    }
}
