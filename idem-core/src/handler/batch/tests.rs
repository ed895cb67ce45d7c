use super::*;
use crate::{Failure as _, Verdict};

#[test]
fn outputs_are_those_of_the_members_that_were_not_failed() {
    let batch = Batch::<_>::of(["a", "b", "c"]);
    let failures = batch.failures();
    batch.reject(1, "no such customer");
    let accepted = batch.accepted().map(|member| (member.index(), **member));
    assert_eq!(accepted.collect::<Vec<_>>(), [(0, "a"), (2, "c")]);
    let results = results(Ok::<_, Failed>(vec![1, 3]), &failures).unwrap();
    let [Ok(1), Err(rejected), Ok(3)] = &results[..] else {
        panic!("{results:?}");
    };
    assert_eq!(rejected.verdict(), Verdict::Reject);
}

#[test]
fn a_member_that_is_failed_twice_has_the_last_failure() {
    let batch = Batch::<_>::of([()]);
    batch.reject(0, "first");
    batch.retry(0, "last");
    let error = batch.failures().take(0).unwrap();
    assert_eq!(
        (error.verdict(), &*error.describe()),
        (Verdict::Retry, "last")
    );
}

#[test]
#[should_panic(expected = "it returned 3 outputs for 2 messages that it has not failed")]
fn an_output_too_many_is_a_bug() {
    let batch = Batch::<_>::of(["a", "b", "c"]);
    batch.retry(0, "later");
    let _ = results(Ok::<_, Failed>(vec![1, 2, 3]), &batch.failures());
}

#[test]
fn a_failed_call_has_no_results() {
    let batch = Batch::<_>::of(["a"]);
    let returned = Err::<(), _>(Failed::retry("down"));
    assert!(results(returned, &batch.failures()).is_err());
}

/// Or it would be completed, and nothing was done.
#[test]
#[should_panic(expected = "it has taken out why it has failed a message")]
fn a_member_whose_failure_was_taken_out_is_not_accepted() {
    let batch = Batch::<_>::of(["a", "b"]);
    let failures = batch.failures();
    batch.reject(1, "no such customer");
    assert!(failures.take(1).is_some());
    assert!(failures.is_failed(1) && failures.take(1).is_none());
    assert_eq!(batch.accepted().count(), 1);
    let _ = results(Ok::<_, Failed>(()), &failures);
}
