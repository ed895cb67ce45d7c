//! Outputs and errors that are too large, or that JSON cannot express.

use super::*;

const LIMIT: usize = 64 * 1024;

#[test]
fn by_default_64_kib_are_remembered() {
    assert_eq!(Policy::DEFAULT.max_outcome(), LIMIT);
}

#[tokio::test(start_paused = true)]
async fn an_output_of_exactly_the_limit_is_remembered() {
    let (executor, _) = executor();
    let ended = ask(&executor, Act::Return(LIMIT)).await;
    assert_ended(&ended, "executed");
    let copy = remembered(ask(&executor, Act::Retry).await);
    assert!(matches!(copy.answer(), Answer::Output(output) if output.len() == LIMIT));
}

/// The effect of a leased handler has happened: it must not happen again.
async fn is_done_and_its_output_forgotten(policy: &Policy, act: Act, code: &str) -> Refusal {
    let (executor, _) = executor();
    for kind in [Kind::Request, Kind::Message, Kind::Request] {
        let ended = handle(&executor, policy, kind, act).await;
        let (Execution::Executed { outcome, .. } | Execution::Duplicate { outcome, .. }) = ended
        else {
            panic!("{:?}", ended.kind());
        };
        let Answer::Forgotten(refusal) = outcome.answer() else {
            panic!("{outcome:?}");
        };
        assert_eq!(refusal.code(), code);
    }
    let Answer::Forgotten(refusal) = remembered(ask(&executor, Act::Retry).await).answer() else {
        panic!("forgotten");
    };
    refusal
}

#[tokio::test(start_paused = true)]
async fn an_output_of_one_byte_more_is_done_and_its_copies_are_told_that_it_was_too_large() {
    let act = Act::Return(LIMIT + 1);
    let refusal =
        is_done_and_its_output_forgotten(&Policy::DEFAULT, act, "outcome-too-large").await;
    assert!(refusal.message().contains("65537"), "{refusal}");
}

#[tokio::test(start_paused = true)]
async fn the_limit_is_the_policys() {
    let policy = Policy::builder().max_outcome(10).build().unwrap();
    let act = Act::Return(11);
    is_done_and_its_output_forgotten(&policy, act, "outcome-too-large").await;
}

#[tokio::test(start_paused = true)]
async fn an_output_that_json_cannot_express_is_done_and_its_copies_are_told_so() {
    for act in [Act::ReturnNoJson, Act::ReturnBomb] {
        let code = "outcome-not-serializable";
        is_done_and_its_output_forgotten(&Policy::DEFAULT, act, code).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_typed_error_that_is_too_large_is_left_out_of_its_refusal() {
    let (executor, _) = executor();
    let (told, _) = refusal(ask(&executor, Act::Refuse(2 * LIMIT)).await);
    assert_eq!((told.code(), told.error()), ("rejected", None));
    let copy = remembered(ask(&executor, Act::Return(5)).await);
    assert_eq!(copy.answer(), Answer::Rejected(told));
}

/// Says what it is, but not to a requester.
#[derive(Debug)]
struct Bomb;

impl std::fmt::Display for Bomb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("tick")
    }
}

impl Failure for Bomb {
    fn verdict(&self) -> crate::handler::Verdict {
        crate::handler::Verdict::Reject
    }

    fn refusal(&self) -> Refusal {
        panic!("boom")
    }
}

#[test]
fn an_error_that_panics_as_a_refusal_is_refused_by_its_description() {
    let cause = crate::executor::guarded::cause(Bomb);
    let refusal = crate::executor::guarded::refusal(&cause);
    assert_eq!(refusal, Refusal::rejected("tick"));
}
