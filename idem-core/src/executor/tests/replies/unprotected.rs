//! Requests while the store is away, by a policy that fails open.

use super::*;

fn fail_open() -> Policy {
    let policy = Policy::builder().store_outage(StoreOutage::FailOpen);
    policy.build().unwrap()
}

/// Long enough for the store to be asked again.
async fn a_while() {
    sleep(Duration::from_secs(3)).await;
}

async fn the_store_remembers(store: &Faulty, refusal: &Refusal) {
    let request = ClaimRequest::new(key(), &Policy::DEFAULT);
    let claim = store.elsewhere().claim(&request).await.unwrap();
    let Claim::Completed { outcome, .. } = claim else {
        panic!("{claim:?}");
    };
    assert_eq!(outcome.answer(), Answer::Rejected(refusal.clone()));
}

#[tokio::test(start_paused = true)]
async fn a_rejection_without_the_store_is_remembered_here_and_told_to_it_later() {
    let (executor, store) = executor();
    store.go_away();
    let ended = handle(&executor, &fail_open(), Kind::Request, Act::Reject).await;
    let (told, _) = refusal(ended);
    let copy = handle(&executor, &fail_open(), Kind::Request, Act::Return(5)).await;
    assert_eq!(remembered(copy).answer(), Answer::Rejected(told.clone()));
    let copy = handle(&executor, &fail_open(), Kind::Message, Act::Return(5)).await;
    assert_ended(&copy, "rejected 0");
    store.heal();
    a_while().await;
    the_store_remembers(&store, &told).await;
}

#[tokio::test(start_paused = true)]
async fn a_rejection_that_the_store_cannot_be_told_of_is_remembered_here_until_it_can() {
    let (executor, store) = executor();
    store.always(Call::Complete, Fault::Unreached);
    let ended = handle(&executor, &fail_open(), Kind::Request, Act::Reject).await;
    let (told, _) = refusal(ended);
    store.heal();
    a_while().await;
    the_store_remembers(&store, &told).await;
}

#[tokio::test(start_paused = true)]
async fn an_output_that_is_too_large_is_forgotten_here_too() {
    let (executor, store) = executor();
    store.go_away();
    let act = Act::Return(64 * 1024 + 1);
    let ended = handle(&executor, &fail_open(), Kind::Request, act).await;
    let Execution::Unprotected { outcome, .. } = ended else {
        panic!("{:?}", ended.kind());
    };
    assert!(matches!(outcome.answer(), Answer::Forgotten(_)));
    let copy = handle(&executor, &fail_open(), Kind::Request, act).await;
    assert_eq!(remembered(copy), outcome);
}
