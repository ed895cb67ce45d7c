//! Messages whose group came to nothing, and that wait for a transaction of their own.

use super::{
    busy::{Busy, complete_by_hand_later, fail_once, is_claimed_later},
    doubles::Blank,
    *,
};
use crate::{handler::Grouped, message::Envelope, store::GroupStore, stores::MemoryStore};

type Charge = super::charge::Charge<Grouped<Blank, 8>>;

/// Handles a message that shares a transaction, on a store whose transactions are waited for as long; says
/// how often its handler ran, too.
async fn handle(
    store: &MemoryStore,
    wait: Duration,
    elsewhere: impl Future,
) -> (Execution<u32, Failed>, u32) {
    handle_on(Busy::new(store, wait), &Policy::DEFAULT, elsewhere).await
}

async fn handle_on(
    store: impl GroupStore<Blank>,
    policy: &Policy,
    elsewhere: impl Future,
) -> (Execution<u32, Failed>, u32) {
    let executor = Executor::new(store);
    let (_others, _) = executor.concurrency.enter(Charge::SCOPE);
    let mut message = Prepared::<Charge>::new(Envelope::new("7"), policy).unwrap();
    let runs = AtomicU32::default();
    let handled = executor.handle(&mut message, &runs);
    let (execution, _) = tokio::join!(handled, elsewhere);
    (execution, runs.load(SeqCst))
}

#[tokio::test(start_paused = true)]
async fn a_message_that_waits_for_a_transaction_of_its_own_keeps_its_lease() {
    let store = MemoryStore::new();
    let copy = async {
        sleep(LEASE * 5 / 2).await;
        let answer = claim(&store).await;
        assert!(matches!(answer, Claim::Held { .. }), "{answer:?}");
    };
    let (ended, runs) = handle(&store, LEASE * 3, copy).await;
    assert_output(&ended, 1, &1);
    assert_eq!(runs, 2, "in the group, and by itself");
}

#[tokio::test(start_paused = true)]
async fn a_message_whose_key_was_completed_by_hand_meanwhile_is_a_duplicate() {
    let store = MemoryStore::new();
    let by_hand = complete_by_hand_later(&store);
    let (ended, runs) = handle(&store, LEASE * 3, by_hand).await;
    assert_ended(&ended, "duplicate");
    assert_eq!(runs, 1, "in the group");
}

/// While it waited for a slot, its claim would be its only attempt: given up without a run if the process ended then.
#[tokio::test(start_paused = true)]
async fn a_message_with_one_attempt_is_run_by_itself() {
    let policy = Policy::builder().max_attempts(1).build().unwrap();
    let busy = Busy::new(&MemoryStore::new(), Duration::ZERO);
    let (ended, runs) = handle_on(busy, &policy, async {}).await;
    assert!(
        matches!(ended, Execution::Executed { output: 1, .. }),
        "{ended:?}"
    );
    assert_eq!(runs, 1, "in no group");
}

/// Or the end of its process, of which another message may be guilty, would be its last attempt.
#[tokio::test(start_paused = true)]
async fn a_message_with_its_last_attempt_waits_for_its_transaction_without_a_claim() {
    let store = MemoryStore::new();
    fail_once(&store, key()).await;
    let elsewhere = async { assert!(!is_claimed_later(&store, &key()).await) };
    let busy = Busy::new(&store, LEASE * 3);
    let (ended, runs) = handle_on(busy, &attempts(2), elsewhere).await;
    assert_ended(&ended, "executed 2");
    assert_eq!(runs, 1, "in no group");
}
