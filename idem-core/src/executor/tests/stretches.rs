//! Messages of a stream in one call, which the mark records.

use std::{sync::Mutex, time::Duration};

use super::*;
use crate::{
    executor::{
        Decoded, Moved, Stretch,
        tests::doubles::{Blank, Transaction, TransactionalDouble, Transactions},
    },
    handler::{
        AtomicBatch, Batch, BatchOptions, BatchResults, Context, DecodeError, Enforcement,
        FencingToken, Late, Operation, Rejection,
        batch::{batch_of_one, result_of_one},
    },
    message::{Envelope, KeyError},
    store::{Finish, Finished, StreamLease},
    stores::MemoryStore,
};

/// What a store answers to a mark, and how transactions were finished.
#[derive(Debug, Clone)]
struct Marks {
    answer: Result<Finished, &'static str>,
    finished: Arc<Mutex<Vec<String>>>,
}

impl Transactions for Marks {
    async fn finish<S: Store>(
        &self,
        _: &S,
        _: Transaction,
        finish: Finish<'_>,
    ) -> Result<Finished, StoreError> {
        let (told, answer) = match finish {
            Finish::MoveMark { mark, outgoing } => (
                format!("{} to {} with {}", mark.from, mark.to, outgoing.len()),
                self.answer.clone().map_err(StoreError::unavailable),
            ),
            _ => ("rolled back".to_owned(), Ok(Finished::RolledBack)),
        };
        self.finished.lock().unwrap().push(told);
        answer
    }
}

/// Its messages are numbers, some of which it fails of; it counts its calls.
struct Sum;

const HANGS: u32 = 90;
const PANICS: u32 = 91;
const FAILS_ALL: u32 = 92;
const REJECTED: u32 = 93;
const TOO_FEW: u32 = 94;

impl Operation for Sum {
    type Message = u32;
    type Output = u32;
    type Error = Failed;
    type Mode = AtomicBatch<Blank>;
    const SCOPE: &'static str = "sums";
    const BATCH: Option<BatchOptions> = Some(BatchOptions::new(8));
    const IS_NAMED_BY_POSITION: bool = true;

    fn decode(envelope: &Envelope) -> Result<u32, DecodeError> {
        envelope.json()
    }

    fn key(_: &u32, envelope: &Envelope) -> Result<Key, KeyError> {
        Key::new(Self::SCOPE, envelope.position().unwrap_or_default())
    }
}

impl Handler<Mutex<Vec<Vec<u32>>>> for Sum {
    fn call<'a>(
        number: u32,
        context: &'a Context<'a, Mutex<Vec<Vec<u32>>>>,
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
        calls: &'a Mutex<Vec<Vec<u32>>>,
        _: &'a mut Blank,
    ) -> Result<impl Future<Output = BatchResults<u32, Failed>> + Send + 'a, Rejection> {
        let numbers: Vec<u32> = batch.iter().map(|number| **number).collect();
        calls.lock().unwrap().push(numbers.clone());
        Ok(async move {
            let has = |number| numbers.contains(&number);
            if has(HANGS) {
                std::future::pending::<()>().await;
            }
            assert!(!has(PANICS), "it panics");
            if has(FAILS_ALL) {
                return Err(Failed::retry("not now"));
            }
            let taken = numbers.len() - usize::from(has(TOO_FEW));
            let result = |number: &u32| match *number {
                REJECTED => Err(Failed::rejected("nobody wants it")),
                number => Ok(number),
            };
            Ok(numbers[..taken].iter().map(result).collect())
        })
    }
}

struct Seen {
    moved: Moved,
    calls: Vec<Vec<u32>>,
    finished: Vec<String>,
}

async fn stretch(bodies: &[&str], answer: Result<Finished, &'static str>) -> Seen {
    let executor = Executor::new(TransactionalDouble {
        store: MemoryStore::new(),
        transactions: Marks {
            answer,
            finished: Arc::default(),
        },
    });
    let policy = Policy::builder().timeout(Duration::from_millis(50)).build();
    run(&executor, bodies, &policy.unwrap()).await
}

async fn run(
    executor: &Executor<TransactionalDouble<MemoryStore, Marks>>,
    bodies: &[&str],
    policy: &Policy,
) -> Seen {
    let stream = Key::new("sums", "ledger").unwrap();
    let lease = StreamLease::new(stream, FencingToken::new(7));
    let messages = (5..).zip(bodies).map(|(offset, body)| {
        let envelope = Envelope::builder((*body).to_owned());
        let envelope = envelope.position(format!("ledger:{offset}"));
        (Decoded::of::<Sum>(envelope.build()), offset + 1)
    });
    let stretch = Stretch {
        lease: &lease,
        from: 5,
        messages: messages.collect(),
    };
    let calls = Mutex::default();
    let moved = executor.move_mark::<Sum, _>(stretch, policy, &calls).await;
    Seen {
        moved,
        calls: calls.into_inner().unwrap(),
        finished: executor
            .store()
            .transactions
            .finished
            .lock()
            .unwrap()
            .clone(),
    }
}

fn keys(offsets: std::ops::Range<u32>) -> Moved {
    let key = |offset| Key::new("sums", format!("ledger:{offset}")).unwrap();
    Moved::Over(offsets.map(key).collect())
}

#[tokio::test]
async fn the_mark_moves_over_all_that_were_called_with() {
    let seen = stretch(&["1", "2", "3"], Ok(Finished::Committed)).await;
    assert_eq!(seen.moved, keys(5..8));
    assert_eq!(seen.calls, [[1, 2, 3]]);
    assert_eq!(seen.finished, ["5 to 8 with 0"]);
}

#[tokio::test]
async fn the_mark_does_not_pass_what_cannot_be_decoded() {
    let seen = stretch(&["1", "2", "no number", "4"], Ok(Finished::Committed)).await;
    assert_eq!(seen.moved, keys(5..7));
    assert_eq!(seen.finished, ["5 to 7 with 0"]);
    let seen = stretch(&["no number", "2"], Ok(Finished::Committed)).await;
    assert_eq!(seen.moved, keys(5..5));
    assert_eq!((seen.calls.len(), seen.finished.len()), (0, 0));
}

#[tokio::test]
async fn a_call_that_fails_for_all_or_for_one_is_undone() {
    for number in [HANGS, PANICS, FAILS_ALL, REJECTED, TOO_FEW] {
        let bodies = ["1", &number.to_string(), "3"];
        let seen = stretch(&bodies, Ok(Finished::Committed)).await;
        assert!(matches!(seen.moved, Moved::Undone(_)), "{number}");
        assert_eq!(seen.finished, ["rolled back"], "{number}");
    }
    let error = "a constraint".to_owned();
    let seen = stretch(&["1"], Ok(Finished::Refused { error })).await;
    assert!(matches!(seen.moved, Moved::Undone(_)));
}

#[tokio::test]
async fn what_tells_no_commit_is_unknown() {
    for answer in [
        Ok(Finished::Fenced),
        Ok(Finished::WithoutCompletion),
        Err("the connection was lost"),
    ] {
        let seen = stretch(&["1", "2"], answer).await;
        assert!(matches!(seen.moved, Moved::Unknown(_)), "{:?}", seen.moved);
    }
}

#[tokio::test]
async fn a_closed_executor_calls_nothing() {
    let executor = Executor::new(TransactionalDouble {
        store: MemoryStore::new(),
        transactions: Marks {
            answer: Ok(Finished::Committed),
            finished: Arc::default(),
        },
    });
    executor.close();
    let seen = run(&executor, &["1"], &Policy::DEFAULT).await;
    assert_eq!((seen.moved, seen.calls.len()), (Moved::Closed, 0));
}

#[test]
fn a_policy_that_asks_for_more_than_the_mark_has_records() {
    let executor = Executor::new(TransactionalDouble {
        store: MemoryStore::new(),
        transactions: Marks {
            answer: Ok(Finished::Committed),
            finished: Arc::default(),
        },
    });
    let records_by_mark = |policy: &Policy| executor.records_by_mark::<Sum>(policy).is_some();
    assert!(records_by_mark(&Policy::DEFAULT));
    let observes = Policy::builder().enforcement(Enforcement::Observe).build();
    assert!(!records_by_mark(&observes.unwrap()));
    let late = Policy::builder().late(Late::Quarantine).build();
    assert!(!records_by_mark(&late.unwrap()));
}

/// A store whose transactions move no marks, as one of another crate's may be that was made before there were any.
#[derive(Debug, Clone)]
struct MovesNone;

impl Transactions for MovesNone {
    const MOVE_MARKS: bool = false;

    async fn finish<S: Store>(
        &self,
        _: &S,
        _: Transaction,
        finish: Finish<'_>,
    ) -> Result<Finished, StoreError> {
        Err(finish.refused())
    }
}

#[tokio::test]
async fn a_store_that_moves_no_marks_keeps_records() {
    let executor = Executor::new(TransactionalDouble {
        store: MemoryStore::new(),
        transactions: MovesNone,
    });
    assert_eq!(executor.records_by_mark::<Sum>(&Policy::DEFAULT), None);
}
