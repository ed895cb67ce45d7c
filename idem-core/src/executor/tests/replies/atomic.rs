//! Requests of atomic handlers: what was written is rolled back, what was said is remembered.

use std::sync::Mutex;

use super::*;
use crate::{
    handler::Atomic,
    store::{Begun, Completion, Finish, Finished, Lease, Open, StoreError, TransactionalStore},
};

/// A store whose transactions hold nothing, and that tells what was done in which order.
#[derive(Debug, Clone, Default)]
struct Lender {
    store: Faulty,
    log: Arc<Mutex<Vec<&'static str>>>,
}

impl Lender {
    fn note(&self, what: &'static str) {
        self.log.lock().unwrap().push(what);
    }

    fn log(&self) -> Vec<&'static str> {
        self.log.lock().unwrap().clone()
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
        self.note("complete");
        self.store.complete(lease, outcome, retention).await
    }

    async fn release(&self, lease: &Lease, reason: &Release) -> Result<Write, StoreError> {
        self.note("release");
        self.store.release(lease, reason).await
    }
}

#[derive(Debug)]
struct Blank;

impl TransactionalStore<Blank> for Lender {
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
            other => Begun::Not(other),
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

    async fn open(&self, opening: Open<'_>) -> Result<Blank, StoreError> {
        Err(opening.refused())
    }

    async fn finish(&self, _: Blank, finish: Finish<'_>) -> Result<Finished, StoreError> {
        let Finish::Complete(Completion {
            lease,
            outcome,
            retention,
            ..
        }) = finish
        else {
            self.note("roll back");
            return Ok(Finished::RolledBack);
        };
        self.note("commit");
        let write = self.store.complete(lease, outcome, retention).await?;
        assert_eq!(write, Write::Applied);
        Ok(Finished::Committed)
    }
}

struct Lend;

impl Operation for Lend {
    type Message = ();
    type Output = Said;
    type Error = Refused<Said>;
    type Mode = Atomic<Blank>;
    const SCOPE: &'static str = "orders";

    fn decode(_: &Envelope) -> Result<(), DecodeError> {
        Ok(())
    }

    fn key((): &(), _: &Envelope) -> Result<Key, KeyError> {
        Ok(key())
    }
}

impl Handler<Act> for Lend {
    fn call<'a>(
        (): (),
        context: &'a Context<'a, Act>,
        _: &'a mut Blank,
    ) -> Result<impl Future<Output = Result<Said, Refused<Said>>> + Send + 'a, Rejection> {
        let act = *context.state;
        Ok(async move { act.result() })
    }
}

async fn handle(store: &Lender, kind: Kind, act: Act) -> Ended {
    let mut message = Prepared::<Lend>::new(envelope(kind), &Policy::DEFAULT).unwrap();
    Executor::new(store.clone())
        .handle(&mut message, &act)
        .await
}

const ROLLED_BACK_AND_REMEMBERED: [&str; 2] = ["roll back", "complete"];

#[tokio::test(start_paused = true)]
async fn a_rejection_is_remembered_after_the_writes_are_rolled_back() {
    let store = Lender::default();
    let (told, attempt) = refusal(handle(&store, Kind::Request, Act::Refuse(7)).await);
    assert_eq!(attempt, 1);
    assert_eq!(store.log(), ROLLED_BACK_AND_REMEMBERED);
    let copy = remembered(handle(&store, Kind::Request, Act::Return(5)).await);
    assert_eq!(copy.answer(), Answer::Rejected(told));
    let copy = handle(&store, Kind::Message, Act::Return(5)).await;
    assert!(
        matches!(copy, Execution::Rejected { attempt: 0, .. }),
        "{copy:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_rejection_that_nobody_waits_for_is_rolled_back_and_given_up() {
    let store = Lender::default();
    let ended = handle(&store, Kind::Message, Act::Reject).await;
    assert!(
        matches!(ended, Execution::Rejected { attempt: 1, .. }),
        "{ended:?}"
    );
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
        let store = Lender::default();
        let (told, _) = refusal(handle(&store, Kind::Request, act).await);
        assert_eq!(told.code(), code);
        assert_eq!(store.log(), ROLLED_BACK_AND_REMEMBERED);
        let copy = remembered(handle(&store, Kind::Request, Act::Return(5)).await);
        assert_eq!(copy.answer(), Answer::Rejected(told));
    }
}

#[tokio::test(start_paused = true)]
async fn an_output_that_cannot_be_remembered_fails_a_message_for_good() {
    let store = Lender::default();
    let ended = handle(&store, Kind::Message, Act::Return(64 * 1024 + 1)).await;
    assert!(
        matches!(ended, Execution::Rejected { attempt: 1, .. }),
        "{:?}",
        ended.kind()
    );
    assert_eq!(store.log(), ["roll back", "release"]);
}

#[tokio::test(start_paused = true)]
async fn an_output_of_exactly_the_limit_commits() {
    let store = Lender::default();
    let ended = handle(&store, Kind::Request, Act::Return(64 * 1024)).await;
    assert!(
        matches!(ended, Execution::Executed { .. }),
        "{:?}",
        ended.kind()
    );
    assert_eq!(store.log(), ["commit"]);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_whose_answer_was_lost_is_told_again_until_it_is_known() {
    let store = Lender::default();
    let faults = [Fault::Unreached, Fault::AnswerLost];
    store.store.script(Call::Complete, faults);
    let (told, _) = refusal(handle(&store, Kind::Request, Act::Reject).await);
    let copy = remembered(handle(&store, Kind::Request, Act::Return(5)).await);
    assert_eq!(copy.answer(), Answer::Rejected(told));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_after_a_takeover_is_no_answer() {
    let store = Lender::default();
    store.store.script(Call::Complete, [Fault::Fenced]);
    let ended = handle(&store, Kind::Request, Act::Reject).await;
    assert!(
        matches!(ended, Execution::LeaseLost { attempt: 1 }),
        "{ended:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_crash_between_the_rollback_and_the_memory_leaves_nothing_done() {
    let store = Lender::default();
    store.store.always(Call::Complete, Fault::Silent);
    tokio::select! {
        ended = handle(&store, Kind::Request, Act::Reject) => panic!("{ended:?}"),
        () = sleep(Duration::from_secs(1)) => {}
    }
    assert_eq!(store.log(), ROLLED_BACK_AND_REMEMBERED);
    store.store.heal();
    sleep(LEASE).await;
    let again = handle(&store, Kind::Request, Act::Return(5)).await;
    assert!(
        matches!(again, Execution::Executed { attempt: 2, .. }),
        "{again:?}"
    );
}
