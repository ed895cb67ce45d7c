//! Commits of atomic handlers whose answer was lost.

use super::*;
use crate::{
    Atomic, Begun, Commit, Context, DecodeError, Envelope, KeyError, Lease, Operation, Outcome,
    Rejection, StoreError, TransactionalStore,
};

/// What became of a commit that was never answered.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Applied,
    NotApplied,
    /// Not applied, and another worker did the work before anybody asked.
    Overtaken,
}

/// A store whose transactions hold nothing.
#[derive(Debug, Clone)]
struct Lender {
    store: Faulty,
    fate: Fate,
}

/// What it lends.
#[derive(Debug)]
struct Blank;

impl Lender {
    async fn take_over_and_complete(&self) {
        sleep(LEASE).await;
        let request = ClaimRequest::new(key(), &Policy::DEFAULT);
        let Ok(Claim::Acquired(lease)) = self.claim(&request).await else {
            panic!("the lease has run out");
        };
        let outcome = Outcome::new("the successor's");
        let write = self.complete(&lease, &outcome, LEASE).await;
        assert_eq!(write.unwrap(), Write::Applied);
    }
}

impl Store for Lender {
    async fn claim(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        self.store.claim(request).await
    }

    async fn extend(&self, lease: &Lease, by: Duration) -> Result<Write, StoreError> {
        self.store.extend(lease, by).await
    }

    async fn complete(
        &self,
        lease: &Lease,
        outcome: &Outcome,
        retention: Duration,
    ) -> Result<Write, StoreError> {
        self.store.complete(lease, outcome, retention).await
    }

    async fn release(&self, lease: &Lease, reason: &Release) -> Result<Write, StoreError> {
        self.store.release(lease, reason).await
    }
}

impl TransactionalStore<Blank> for Lender {
    type Transaction = Blank;

    fn transactions(&self) -> usize {
        1
    }

    async fn begin(&self, request: &ClaimRequest) -> Result<Begun<Blank>, StoreError> {
        Ok(match self.claim(request).await? {
            Claim::Acquired(lease) => Begun::Acquired(lease, Blank),
            other => Begun::Not(other),
        })
    }

    fn lend(blank: &mut Blank) -> &mut Blank {
        blank
    }

    async fn extend_open(&self, lease: &Lease, by: Duration) -> Result<Write, StoreError> {
        self.extend(lease, by).await
    }

    async fn commit(
        &self,
        _: Blank,
        lease: &Lease,
        outcome: &Outcome,
        retention: Duration,
    ) -> Result<Commit, StoreError> {
        match self.fate {
            Fate::Applied => {
                let write = self.complete(lease, outcome, retention).await?;
                assert_eq!(write, Write::Applied);
            }
            Fate::NotApplied => {}
            Fate::Overtaken => self.take_over_and_complete().await,
        }
        Err(StoreError::unavailable("the connection was lost"))
    }

    async fn roll_back(
        &self,
        _: Blank,
        lease: &Lease,
        reason: &Release,
    ) -> Result<Write, StoreError> {
        self.release(lease, reason).await
    }
}

/// Always succeeds.
struct Charge;

impl Operation for Charge {
    type Message = ();
    type Output = u32;
    type Error = Failed;
    type Mode = Atomic<Blank>;
    const SCOPE: &'static str = "orders";

    fn decode(_: &Envelope) -> Result<(), DecodeError> {
        Ok(())
    }

    fn key((): &(), _: &Envelope) -> Result<Key, KeyError> {
        Ok(key())
    }
}

impl Handler<()> for Charge {
    fn call<'a>(
        (): (),
        context: &'a Context<'a, ()>,
        _: &'a mut Blank,
    ) -> Result<impl Future<Output = Result<u32, Failed>> + Send + 'a, Rejection> {
        let number = context.attempt.number();
        Ok(async move { Ok(number) })
    }
}

async fn commit(fate: Fate) -> (Execution<u32, Failed>, Lender) {
    let store = Faulty::default();
    let lender = Lender { store, fate };
    let executor = Executor::new(lender.clone());
    let mut message = Prepared::<Charge>::new(Envelope::new(""), &Policy::DEFAULT).unwrap();
    (executor.handle(&mut message, &()).await, lender)
}

async fn remembered(store: &Lender) -> Claim {
    let request = ClaimRequest::new(key(), &Policy::DEFAULT);
    store.claim(&request).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_was_applied_but_not_answered_is_an_execution() {
    let (ended, store) = commit(Fate::Applied).await;
    assert!(
        matches!(
            ended,
            Execution::Executed {
                output: 1,
                attempt: 1
            }
        ),
        "{ended:?}"
    );
    let claim = remembered(&store).await;
    assert!(matches!(claim, Claim::Completed { outcome, .. } if outcome.as_bytes() == b"1"));
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_was_not_applied_is_a_failed_attempt() {
    let (ended, _) = commit(Fate::NotApplied).await;
    assert!(
        matches!(&ended, Execution::Failed { cause: Cause::Refused(error), attempt: 1, .. }
            if error.ends_with("unavailable: the connection was lost")),
        "{ended:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_completion_by_the_successor_is_not_taken_for_ones_own() {
    let (ended, store) = commit(Fate::Overtaken).await;
    assert!(
        matches!(ended, Execution::LeaseLost { attempt: 1 }),
        "{ended:?}"
    );
    let claim = remembered(&store).await;
    assert!(
        matches!(claim, Claim::Completed { outcome, .. } if outcome.as_bytes() == b"the successor's")
    );
}
