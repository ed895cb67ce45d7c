//! Batches in transactions, whose commit may not be answered.

use super::*;
use crate::{
    executor::tests::{
        busy::{Busy, fail_once, is_claimed_later},
        doubles::{Blank, Transaction, TransactionalDouble, Transactions},
    },
    handler::AtomicBatch,
    store::{Finish, Finished},
};

/// What becomes of a commit of several.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Committed,
    /// Carried out, and never answered.
    Applied,
    /// Not carried out, and never answered.
    NotApplied,
}

impl Transactions for Fate {
    async fn finish<S: Store>(
        &self,
        store: &S,
        _: Transaction,
        finish: Finish<'_>,
    ) -> Result<Finished, StoreError> {
        let (completions, fate) = match finish {
            Finish::CompleteAll(completions) => (completions.to_vec(), *self),
            Finish::Complete(one) => (vec![one], Self::Committed),
            _ => return Ok(Finished::RolledBack),
        };
        if !matches!(fate, Self::NotApplied) {
            for it in completions {
                let write = store.complete(it.lease, it.outcome, it.retention).await?;
                assert_eq!(write, Write::Applied);
            }
        }
        match fate {
            Self::Committed => Ok(Finished::Committed),
            _ => Err(StoreError::unavailable("the connection was lost")),
        }
    }
}

/// Its messages are the orders' numbers; it counts its calls.
struct Count;

impl Operation for Count {
    type Message = u32;
    type Output = u32;
    type Error = Failed;
    type Mode = AtomicBatch<Blank>;
    const SCOPE: &'static str = "orders";
    const BATCH: Option<BatchOptions> = Some(BatchOptions::new(8));

    fn decode(envelope: &Envelope) -> Result<u32, DecodeError> {
        envelope.json()
    }

    fn key(number: &u32, _: &Envelope) -> Result<Key, KeyError> {
        Key::new(Self::SCOPE, *number)
    }
}

impl Handler<Mutex<Vec<usize>>> for Count {
    fn call<'a>(
        number: u32,
        context: &'a Context<'a, Mutex<Vec<usize>>>,
        blank: &'a mut Blank,
    ) -> Result<impl Future<Output = Result<u32, Failed>> + Send + 'a, Rejection> {
        let batch = batch_of_one(number, context);
        Ok(result_of_one(Self::call_batch(
            batch,
            context.state,
            blank,
        )?))
    }

    fn call_batch<'a>(
        batch: Batch<u32>,
        calls: &'a Mutex<Vec<usize>>,
        _: &'a mut Blank,
    ) -> Result<impl Future<Output = BatchResults<u32, Failed>> + Send + 'a, Rejection> {
        calls.lock().unwrap().push(batch.len());
        let all = batch.len();
        let result = move |number: u32| match number {
            COPY if all > 1 => Err(Failed::rejected("another one has written it")),
            number => Ok(number),
        };
        Ok(async move { Ok(batch.iter().map(|number| result(**number)).collect()) })
    }
}

/// It is rejected for what others have written in its batch.
const COPY: u32 = 9;

/// How three messages end, and their next deliveries; how many there were in each call.
async fn handle_twice(fate: Fate) -> (Vec<Ended>, Vec<ExecutionKind>, Vec<usize>) {
    handle_all_twice([1, 2, 3], fate).await
}

async fn handle_all_twice(
    numbers: [u32; 3],
    fate: Fate,
) -> (Vec<Ended>, Vec<ExecutionKind>, Vec<usize>) {
    let executor = Executor::new(TransactionalDouble {
        store: MemoryStore::new(),
        transactions: fate,
    });
    let calls = Mutex::default();
    // Nobody is alone.
    let (_present, _) = executor.concurrency.enter(Count::SCOPE);
    let mut messages = numbers.map(|number| prepared::<Count>(number, &Policy::DEFAULT));
    let handled = messages.iter_mut().map(|it| executor.handle(it, &calls));
    let ended = join_all(handled).await;
    let handled = messages.iter_mut().map(|it| executor.handle(it, &calls));
    let again = join_all(handled)
        .await
        .iter()
        .map(Execution::kind)
        .collect();
    (ended, again, calls.into_inner().unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_is_committed_is_done() {
    let (ended, again, calls) = handle_twice(Fate::Committed).await;
    assert_executed(&ended, 1..=3);
    assert_eq!(again, [ExecutionKind::Duplicate; 3]);
    assert_eq!(calls, [3]);
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_was_carried_out_and_not_answered_is_found_by_each_member() {
    let (ended, again, calls) = handle_twice(Fate::Applied).await;
    assert_executed(&ended, 1..=3);
    assert_eq!(again, [ExecutionKind::Duplicate; 3]);
    assert_eq!(calls, [3]);
}

/// What lost its transaction may be what ends connections: it does so alone.
#[tokio::test(start_paused = true)]
async fn a_commit_that_was_not_carried_out_is_no_attempt_and_each_is_called_by_itself() {
    let (ended, again, calls) = handle_twice(Fate::NotApplied).await;
    for ended in ended {
        assert_eq!(ended.kind(), ExecutionKind::StoreUnavailable, "{ended:?}");
    }
    assert_eq!(again, [ExecutionKind::Executed; 3]);
    assert_eq!(calls, [3, 1, 1, 1]);
}

/// Its failure may rest on writes that are not committed: rejected for these, it would be lost.
#[tokio::test(start_paused = true)]
async fn a_member_that_was_failed_in_a_batch_of_unknown_end_runs_by_itself() {
    for fate in [Fate::Applied, Fate::NotApplied] {
        let (ended, _, calls) = handle_all_twice([1, 2, COPY], fate).await;
        assert_executed(&ended[2..], COPY..=COPY);
        assert_eq!(calls[..2], [3, 1], "{fate:?}");
    }
    let (ended, ..) = handle_all_twice([1, 2, COPY], Fate::Committed).await;
    assert_eq!(ended[2].kind(), ExecutionKind::Rejected);
}

/// Or the end of its process, of which another message may be guilty, would be its last attempt.
#[tokio::test(start_paused = true)]
async fn a_message_with_its_last_attempt_waits_for_its_transaction_without_a_claim() {
    let (store, key) = (MemoryStore::new(), Key::new("orders", 1_u64).unwrap());
    fail_once(&store, key.clone()).await;
    let executor = Executor::new(Busy::new(&store, LEASE * 3));
    let calls = Mutex::default();
    // Nobody is alone.
    let (_present, _) = executor.concurrency.enter(Count::SCOPE);
    let mut message = prepared::<Count>(1, &attempts(2));
    let handled = executor.handle(&mut message, &calls);
    let (ended, is_claimed) = tokio::join!(handled, is_claimed_later(&store, &key));
    assert!(!is_claimed);
    assert_ended(&ended, "executed 2");
    assert_eq!(calls.into_inner().unwrap(), [1]);
}
