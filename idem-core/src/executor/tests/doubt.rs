//! Attempts that ended without a word.

use super::*;

/// A worker claims and dies without a word.
async fn vanish(store: &Faulty) {
    acquire(store).await;
    sleep(LEASE).await;
}

#[tokio::test(start_paused = true)]
async fn an_attempt_in_doubt_runs_again_by_default_and_knows_it() {
    let (executor, store) = executor();
    vanish(&store).await;
    let work = async |attempt: Attempt| Ok::<_, Failed>(attempt.is_in_doubt());
    let ended = executor.execute(key(), &Policy::DEFAULT, work).await;
    assert_output(&ended, 2, &true);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_in_doubt_is_quarantined_if_the_policy_says_so_until_a_replay() {
    let (executor, store) = executor();
    let policy = Policy::builder()
        .in_doubt(InDoubt::Quarantine)
        .build()
        .unwrap();
    vanish(&store).await;
    for _ in 0..2 {
        let work = async |_: Attempt| Ok::<_, Failed>(());
        let ended = executor.execute(key(), &policy, work).await;
        assert_ended(&ended, "in-doubt 0");
    }
    let replay = ClaimRequest::new(key(), &policy).replay(true);
    let work = async |_: Attempt| Ok::<_, Failed>(());
    let ended = executor.execute_request(&replay, &policy, work).await;
    assert_ended(&ended, "executed 1");
}

#[tokio::test(start_paused = true)]
async fn a_message_that_kills_its_workers_is_given_up_without_running() {
    let (executor, store) = executor();
    for _ in 0..3 {
        vanish(&store).await;
    }
    let work = async |_: Attempt| -> Result<(), Failed> { panic!("must not run") };
    let ended = executor.execute(key(), &attempts(3), work).await;
    assert!(
        matches!(
            ended,
            Execution::Exhausted {
                cause: Cause::Vanished,
                attempt: 3
            }
        ),
        "{ended:?}"
    );
}
