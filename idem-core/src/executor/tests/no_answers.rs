//! Stores that answer to a finish what it cannot come to: that is never taken for success.

use std::{error::Error, marker::PhantomData};

use super::*;
use crate::{
    handler::{
        Atomic, Context, DecodeError, Grouped, Mode, Operation, Outcome, RecordedBy, RecordedRow,
        RecordingConstraint, Rejection,
    },
    message::{Envelope, KeyError},
    store::{
        Begun, Finish, Finished, GroupStore, Lease, Open, RecordedByStore, StoreError,
        TransactionalStore,
    },
    stores::MemoryStore,
};

/// A store whose transactions hold nothing and end as they are told to.
#[derive(Debug)]
struct Odd {
    store: MemoryStore,
    answer: Finished,
}

#[derive(Debug)]
struct Blank;

impl Store for Odd {
    async fn claim(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        self.store.claim(request).await
    }

    async fn extend(&self, lease: &Lease, by: Duration) -> Result<Write, StoreError> {
        self.store.extend(lease, by).await
    }

    async fn complete(&self, _: &Lease, _: &Outcome, _: Duration) -> Result<Write, StoreError> {
        panic!("nothing is to be completed");
    }

    async fn release(&self, _: &Lease, _: &Release) -> Result<Write, StoreError> {
        panic!("the attempt has not failed");
    }
}

impl TransactionalStore<Blank> for Odd {
    type Transaction = Blank;

    fn transactions(&self) -> usize {
        1
    }

    fn time_limit(&self) -> Option<Duration> {
        None
    }

    async fn begin(&self, request: &ClaimRequest) -> Result<Begun<Blank>, StoreError> {
        Ok(match self.claim(request).await? {
            Claim::Acquired(lease) => Begun::Acquired(lease, Blank),
            answer => Begun::Not(answer),
        })
    }

    fn lend(blank: &mut Blank) -> &mut Blank {
        blank
    }

    async fn is_alive(&self, _: &mut Blank) -> bool {
        true
    }

    async fn extend_open(&self, lease: &Lease, by: Duration) -> Result<Write, StoreError> {
        self.extend(lease, by).await
    }

    async fn open(&self, _: Open<'_>) -> Result<Blank, StoreError> {
        Ok(Blank)
    }

    async fn finish(&self, _: Blank, finish: Finish<'_>) -> Result<Finished, StoreError> {
        if let Finish::RollBack = finish {
            return Ok(Finished::RolledBack);
        }
        Ok(self.answer.clone())
    }
}

impl GroupStore<Blank> for Odd {
    fn groups(&self) -> usize {
        1
    }

    async fn claim_for_group(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        self.claim(request).await
    }
}

impl RecordedByStore<Blank> for Odd {
    async fn check(&self, _: &'static str, _: usize) -> Result<(), RecordedByError> {
        Ok(())
    }

    fn violates(&self, _: &(dyn Error + 'static), _: &RecordedRow) -> bool {
        false
    }

    async fn is_recorded(&self, _: &RecordedRow, _: Option<&Lease>) -> Result<bool, StoreError> {
        Ok(false)
    }
}

/// Succeeds, in a mode.
struct Charge<M>(PhantomData<M>);

macro_rules! charges {
    ($mode:ty, $recorded:expr) => {
        impl Operation for Charge<$mode> {
            type Message = ();
            type Output = u32;
            type Error = Failed;
            type Mode = $mode;
            const SCOPE: &'static str = "orders";
            const RECORDED_BY: Option<RecordingConstraint<Self>> = $recorded;

            fn decode(_: &Envelope) -> Result<(), DecodeError> {
                Ok(())
            }

            fn key((): &(), _: &Envelope) -> Result<Key, KeyError> {
                Ok(key())
            }
        }

        impl Handler<()> for Charge<$mode> {
            fn call<'a>(
                (): (),
                context: &'a Context<'a, ()>,
                _: <$mode as Mode>::Lent<'a>,
            ) -> Result<impl Future<Output = Result<u32, Failed>> + Send + 'a, Rejection> {
                let number = context.attempt.number();
                Ok(async move { Ok(number) })
            }
        }
    };
}

charges!(Atomic<Blank>, None);
charges!(Grouped<Blank, 8>, None);
charges!(
    RecordedBy<Blank>,
    Some(RecordingConstraint::new(
        "charges_key",
        1,
        |(): &(), _| Ok(vec!["o-1".to_owned()]),
        |error: &Failed| Some(error.error()),
    ))
);

/// Handles a message whose transaction ends with this answer: the executor says so, and that it knows nothing.
async fn tells_nothing<M>(answer: Finished)
where
    M: RunsOn<Odd>,
    Charge<M>: Handler<(), Mode = M, Message = (), Output = u32, Error = Failed>,
{
    let store = Odd {
        store: MemoryStore::new(),
        answer: answer.clone(),
    };
    let executor = Executor::new(store);
    // Others are at work, so that a group is worth it.
    let (_others, _) = executor.concurrency.enter("orders");
    let mut message = Prepared::<Charge<M>>::new(Envelope::new(""), &Policy::DEFAULT).unwrap();
    let ended = executor.handle(&mut message, &()).await;
    let Execution::StoreUnavailable {
        error: StoreError::Refused(why),
    } = ended
    else {
        panic!("{answer:?}: {ended:?}");
    };
    let said = why.to_string();
    assert!(said.contains(&format!("answered {answer:?} to")), "{said}");
}

fn error() -> String {
    "nobody knows".to_owned()
}

#[tokio::test(start_paused = true)]
async fn what_no_commit_comes_to_is_no_success_of_an_atomic_handler() {
    let others = [
        Finished::Violated { error: error() },
        Finished::RolledBack,
        Finished::WithoutCompletion,
    ];
    for answer in others {
        tells_nothing::<Atomic<Blank>>(answer).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_no_group_comes_to_is_no_success_of_its_member() {
    let others = [
        Finished::Fenced,
        Finished::Violated { error: error() },
        Finished::Refused { error: error() },
    ];
    for answer in others {
        tells_nothing::<Grouped<Blank, 8>>(answer).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_no_commit_with_an_entity_comes_to_is_no_success() {
    for answer in [Finished::RolledBack, Finished::WithoutCompletion] {
        tells_nothing::<RecordedBy<Blank>>(answer).await;
    }
}
