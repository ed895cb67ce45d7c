//! Requests of atomic handlers: what was written is rolled back, what was said is remembered.

use std::sync::Mutex;

use super::*;
use crate::{
    executor::tests::doubles::{Blank, Transaction, TransactionalDouble, Transactions},
    handler::Atomic,
    store::{Finish, Finished, Lease, StoreError},
};

/// What was done, in which order.
#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<Vec<&'static str>>>);

impl Log {
    fn note(&self, what: &'static str) {
        self.0.lock().unwrap().push(what);
    }
}

/// A store that notes how keys are ended outside of a transaction.
#[derive(Debug, Clone, Default)]
struct Noting {
    store: Faulty,
    log: Log,
}

type Lender = TransactionalDouble<Noting, Log>;

fn lender() -> Lender {
    let store = Noting::default();
    let transactions = store.log.clone();
    Lender {
        store,
        transactions,
    }
}

impl Lender {
    fn faulty(&self) -> &Faulty {
        &self.store.store
    }

    fn log(&self) -> Vec<&'static str> {
        self.transactions.0.lock().unwrap().clone()
    }
}

impl Store for Noting {
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
        self.log.note("complete");
        self.store.complete(lease, outcome, retention).await
    }

    async fn release(&self, lease: &Lease, reason: &Release) -> Result<Write, StoreError> {
        self.log.note("release");
        self.store.release(lease, reason).await
    }
}

impl Transactions for Log {
    async fn finish<S: Store>(
        &self,
        store: &S,
        _: Transaction,
        finish: Finish<'_>,
    ) -> Result<Finished, StoreError> {
        let Finish::Complete(done) = finish else {
            self.note("roll back");
            return Ok(Finished::RolledBack);
        };
        self.note("commit");
        let write = store
            .complete(done.lease, done.outcome, done.retention)
            .await?;
        assert_eq!(write, Write::Applied);
        Ok(Finished::Committed)
    }
}

async fn handle(store: &Lender, kind: Kind, act: Act) -> Ended {
    let mut message =
        Prepared::<Lend<Atomic<Blank>>>::new(envelope(kind), &Policy::DEFAULT).unwrap();
    Executor::new(store.clone())
        .handle(&mut message, &act)
        .await
}

const ROLLED_BACK_AND_REMEMBERED: [&str; 2] = ["roll back", "complete"];

#[tokio::test(start_paused = true)]
async fn a_rejection_is_remembered_after_the_writes_are_rolled_back() {
    let store = lender();
    let (told, attempt) = refusal(handle(&store, Kind::Request, Act::Refuse(7)).await);
    assert_eq!(attempt, 1);
    assert_eq!(store.log(), ROLLED_BACK_AND_REMEMBERED);
    let copy = remembered(handle(&store, Kind::Request, Act::Return(5)).await);
    assert_eq!(copy.answer(), Answer::Rejected(told));
    let copy = handle(&store, Kind::Message, Act::Return(5)).await;
    assert_ended(&copy, "rejected 0");
}

#[tokio::test(start_paused = true)]
async fn a_rejection_that_nobody_waits_for_is_rolled_back_and_given_up() {
    let store = lender();
    let ended = handle(&store, Kind::Message, Act::Reject).await;
    assert_ended(&ended, "rejected 1");
    assert_eq!(store.log(), ["roll back", "release"]);
}

#[tokio::test(start_paused = true)]
async fn an_output_that_cannot_be_remembered_is_rolled_back_and_refused_for_good() {
    let (large, small) = ("outcome-too-large", "outcome-not-serializable");
    let acts = [
        (Act::Return(64 * 1024 + 1), large),
        (Act::ReturnNoJson, small),
        (Act::ReturnBomb, small),
    ];
    for (act, code) in acts {
        let store = lender();
        let (told, _) = refusal(handle(&store, Kind::Request, act).await);
        assert_eq!(told.code(), code);
        assert_eq!(store.log(), ROLLED_BACK_AND_REMEMBERED);
        let copy = remembered(handle(&store, Kind::Request, Act::Return(5)).await);
        assert_eq!(copy.answer(), Answer::Rejected(told));
    }
}

#[tokio::test(start_paused = true)]
async fn an_output_that_cannot_be_remembered_fails_a_message_for_good() {
    let store = lender();
    let ended = handle(&store, Kind::Message, Act::Return(64 * 1024 + 1)).await;
    assert_ended(&ended, "rejected 1");
    assert_eq!(store.log(), ["roll back", "release"]);
}

#[tokio::test(start_paused = true)]
async fn an_output_of_exactly_the_limit_commits() {
    let store = lender();
    let ended = handle(&store, Kind::Request, Act::Return(64 * 1024)).await;
    assert_ended(&ended, "executed");
    assert_eq!(store.log(), ["commit", "complete"]);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_whose_answer_was_lost_is_told_again_until_it_is_known() {
    let store = lender();
    let faults = [Fault::Unreached, Fault::AnswerLost];
    store.faulty().script(Call::Complete, faults);
    let (told, _) = refusal(handle(&store, Kind::Request, Act::Reject).await);
    let copy = remembered(handle(&store, Kind::Request, Act::Return(5)).await);
    assert_eq!(copy.answer(), Answer::Rejected(told));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_after_a_takeover_is_no_answer() {
    let store = lender();
    store.faulty().script(Call::Complete, [Fault::Fenced]);
    let ended = handle(&store, Kind::Request, Act::Reject).await;
    assert_ended(&ended, "lease-lost 1");
}

#[tokio::test(start_paused = true)]
async fn a_crash_between_the_rollback_and_the_memory_leaves_nothing_done() {
    let store = lender();
    store.faulty().always(Call::Complete, Fault::Silent);
    tokio::select! {
        ended = handle(&store, Kind::Request, Act::Reject) => panic!("{ended:?}"),
        () = sleep(Duration::from_secs(1)) => {}
    }
    assert_eq!(store.log(), ROLLED_BACK_AND_REMEMBERED);
    store.faulty().heal();
    sleep(LEASE).await;
    let again = handle(&store, Kind::Request, Act::Return(5)).await;
    assert_ended(&again, "executed 2");
}
