//! Atomic handlers that claim while they wait for a transaction.

use super::{
    busy::{Busy, complete_by_hand_later, fail_once, is_claimed_later},
    doubles::Blank,
    *,
};
use crate::{executor::ExecutionKind, handler::Atomic, message::Envelope, stores::MemoryStore};

const WAIT: Duration = LEASE.saturating_mul(3);

type Charge = super::charge::Charge<Atomic<Blank>>;

fn busy(store: &MemoryStore) -> Executor<Busy> {
    Executor::new(Busy::new(store, WAIT).claiming_ahead())
}

fn message() -> Prepared<Charge> {
    Prepared::new(Envelope::new("7"), &Policy::DEFAULT).unwrap()
}

/// Handles it while something else happens; says how often its handler ran, too.
async fn handle(
    executor: &Executor<Busy>,
    message: &mut Prepared<Charge>,
    elsewhere: impl Future,
) -> (Execution<u32, Failed>, u32) {
    let runs = AtomicU32::default();
    let (ended, _) = tokio::join!(executor.handle(message, &runs), elsewhere);
    (ended, runs.load(SeqCst))
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_kept_until_its_transaction_is_open() {
    let store = MemoryStore::new();
    let copy = async {
        sleep(LEASE * 5 / 2).await;
        let answer = claim(&store).await;
        assert!(matches!(answer, Claim::Held { .. }), "{answer:?}");
    };
    let (ended, runs) = handle(&busy(&store), &mut message(), copy).await;
    assert_output(&ended, 1, &1);
    assert_eq!(runs, 1);
}

#[tokio::test(start_paused = true)]
async fn what_was_delivered_before_claims_when_it_has_its_transaction() {
    let store = MemoryStore::new();
    let elsewhere = async {
        sleep(LEASE).await;
        let answer = claim(&store).await;
        assert!(matches!(answer, Claim::Acquired(_)), "{answer:?}");
    };
    let mut again = message().redelivered(true);
    handle(&busy(&store), &mut again, elsewhere).await;
}

#[tokio::test(start_paused = true)]
async fn what_has_not_begun_when_the_executor_closes_was_no_attempt() {
    let store = MemoryStore::new();
    let executor = busy(&store);
    let closing = async {
        sleep(LEASE).await;
        executor.close();
    };
    let began = tokio::time::Instant::now();
    let (ended, runs) = handle(&executor, &mut message(), closing).await;
    assert_ended(&ended, "abandoned");
    assert_eq!((runs, began.elapsed()), (0, LEASE), "at once");
    let lease = acquire(&store).await;
    assert_eq!(lease.attempt, 1);
}

/// A process that is killed would lose it without a run.
#[tokio::test(start_paused = true)]
async fn a_last_attempt_is_not_claimed_before_it_has_its_transaction() {
    for (max, failed) in [(1, 0), (2, 1)] {
        let store = MemoryStore::new();
        for _ in 0..failed {
            fail_once(&store, key()).await;
        }
        let mut message = Prepared::<Charge>::new(Envelope::new("7"), &attempts(max)).unwrap();
        let elsewhere = async { assert!(!is_claimed_later(&store, &key()).await, "{max}") };
        let (ended, _) = handle(&busy(&store), &mut message, elsewhere).await;
        assert_eq!(ended.kind(), ExecutionKind::Executed, "{ended:?}");
        assert_eq!(ended.attempt(), Some(max), "{ended:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_waited_for_with_attempts_that_are_used_up() {
    let store = MemoryStore::new();
    let mut message = Prepared::<Charge>::new(Envelope::new("7"), &attempts(2)).unwrap();
    for _ in 0..2 {
        claim(&store).await;
        sleep(LEASE).await;
    }
    let began = tokio::time::Instant::now();
    let (ended, runs) = handle(&busy(&store), &mut message, async {}).await;
    assert_ended(&ended, "exhausted");
    assert_eq!((runs, began.elapsed()), (0, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_key_that_was_completed_by_hand_meanwhile_is_a_duplicate() {
    let store = MemoryStore::new();
    let by_hand = complete_by_hand_later(&store);
    let (ended, runs) = handle(&busy(&store), &mut message(), by_hand).await;
    assert_ended(&ended, "duplicate");
    assert_eq!(runs, 0);
}

#[tokio::test(start_paused = true)]
async fn a_transaction_that_cannot_be_opened_is_no_attempt() {
    let store = MemoryStore::new();
    let down = Executor::new(busy(&store).store().clone().down());
    let mut message = message();
    let (ended, _) = handle(&down, &mut message, async {}).await;
    assert_ended(&ended, "store-unavailable");
    let (ended, runs) = handle(&busy(&store), &mut message, async {}).await;
    assert_output(&ended, 1, &1);
    assert_eq!(runs, 1);
}
