//! Stores that answer to a finish what it cannot come to: that is never taken for success.

use super::{
    charge,
    doubles::{Blank, Transaction, TransactionalDouble, Transactions},
    *,
};
use crate::{
    handler::{Atomic, Grouped, Mode, Outcome, RecordedBy},
    store::{Finish, Finished, Lease, StoreError},
    stores::MemoryStore,
};

/// Transactions that end as they are told to.
#[derive(Debug, Clone)]
struct Answers(Finished);

impl Transactions for Answers {
    async fn finish<S: Store>(
        &self,
        _: &S,
        _: Transaction,
        finish: Finish<'_>,
    ) -> Result<Finished, StoreError> {
        if let Finish::RollBack = finish {
            return Ok(Finished::RolledBack);
        }
        Ok(self.0.clone())
    }
}

/// A store in which no attempt ends but with its transaction.
#[derive(Debug)]
struct Unended(MemoryStore);

type Odd = TransactionalDouble<Unended, Answers>;

impl Store for Unended {
    async fn claim(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        self.0.claim(request).await
    }

    async fn extend(&self, lease: &Lease, by: Duration) -> Result<Write, StoreError> {
        self.0.extend(lease, by).await
    }

    async fn complete(&self, _: &Lease, _: &Outcome, _: Duration) -> Result<Write, StoreError> {
        panic!("nothing is to be completed");
    }

    async fn release(&self, _: &Lease, _: &Release) -> Result<Write, StoreError> {
        panic!("the attempt has not failed");
    }
}

/// Handles a message whose transaction ends with this answer: the executor says so, and that it knows nothing.
async fn tells_nothing<M>(answer: Finished)
where
    M: RunsOn<Odd> + Mode + Send + Sync + 'static,
{
    let store = Odd {
        store: Unended(MemoryStore::new()),
        transactions: Answers(answer.clone()),
    };
    let executor = Executor::new(store);
    // Others are at work, so that a group is worth it.
    let (_others, _) = executor.concurrency.enter("orders");
    let mut message = charge::message::<M>("7", &Policy::DEFAULT);
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
