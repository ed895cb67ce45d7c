//! Requests: somebody waits for an answer, and gets it again.

use std::marker::PhantomData;

use serde::ser::Error as _;

use super::*;
use crate::{
    handler::{
        Answer, Context, DecodeError, Leased, Mode, Operation, Outcome, Refusal, Refused,
        Rejection, StoreOutage,
    },
    message::{Envelope, KeyError},
};

mod atomic;
mod limits;
mod unprotected;

/// What the handler is to do.
#[derive(Debug, Clone, Copy)]
pub(super) enum Act {
    /// Returns a text of so many bytes as JSON.
    Return(usize),
    /// Returns what JSON cannot express, or what panics when it is asked.
    ReturnNoJson,
    ReturnBomb,
    /// Refuses with a typed error of so many bytes as JSON.
    Refuse(usize),
    Reject,
    Retry,
}

/// An output or an error.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said {
    Text(String),
    NoJson,
    Bomb,
}

impl Said {
    fn of(bytes: usize) -> Self {
        Self::Text("x".repeat(bytes - 2))
    }
}

impl Serialize for Said {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::NoJson => Err(S::Error::custom("no words")),
            Self::Bomb => panic!("boom"),
        }
    }
}

impl Act {
    pub(super) fn result(self) -> Result<Said, Refused<Said>> {
        match self {
            Self::Return(bytes) => Ok(Said::of(bytes)),
            Self::ReturnNoJson => Ok(Said::NoJson),
            Self::ReturnBomb => Ok(Said::Bomb),
            Self::Refuse(bytes) => Err(Refused::with(Said::of(bytes))),
            Self::Reject => Err(Refused::rejected("nobody to lend to")),
            Self::Retry => Err(Refused::retry("the gateway is down")),
        }
    }
}

/// In any mode.
struct Lend<M = Leased>(PhantomData<M>);

impl<M: Mode + Send + Sync + 'static> Operation for Lend<M> {
    type Message = ();
    type Output = Said;
    type Error = Refused<Said>;
    type Mode = M;
    const SCOPE: &'static str = "orders";

    fn decode(_: &Envelope) -> Result<(), DecodeError> {
        Ok(())
    }

    fn key((): &(), _: &Envelope) -> Result<Key, KeyError> {
        Ok(key())
    }
}

impl<M: Mode + Send + Sync + 'static> Handler<Act> for Lend<M> {
    fn call<'a>(
        (): (),
        context: &'a Context<'a, Act>,
        _: M::Lent<'a>,
    ) -> Result<impl Future<Output = Result<Said, Refused<Said>>> + Send + 'a, Rejection> {
        let act = *context.state;
        Ok(async move { act.result() })
    }
}

type Ended = Execution<Said, Refused<Said>>;

/// Whether the message expects a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Request,
    Message,
}

fn envelope(kind: Kind) -> Envelope {
    Envelope::builder("")
        .expects_reply(kind == Kind::Request)
        .build()
}

async fn handle(executor: &Executor<Faulty>, policy: &Policy, kind: Kind, act: Act) -> Ended {
    let mut message = Prepared::<Lend>::new(envelope(kind), policy).unwrap();
    executor.handle(&mut message, &act).await
}

async fn ask(executor: &Executor<Faulty>, act: Act) -> Ended {
    handle(executor, &Policy::DEFAULT, Kind::Request, act).await
}

async fn tell(executor: &Executor<Faulty>, act: Act) -> Ended {
    handle(executor, &Policy::DEFAULT, Kind::Message, act).await
}

#[track_caller]
fn refusal<T, E>(ended: Execution<T, E>) -> (Refusal, u32)
where
    Execution<T, E>: std::fmt::Debug,
{
    match ended {
        Execution::Refused { refusal, attempt } => (refusal, attempt),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn remembered<T, E>(ended: Execution<T, E>) -> Outcome
where
    Execution<T, E>: std::fmt::Debug,
{
    match ended {
        Execution::Duplicate { outcome, .. } => outcome,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn the_output_that_is_remembered_comes_with_the_execution() {
    let (executor, _) = executor();
    let Execution::Executed { outcome, .. } = ask(&executor, Act::Return(5)).await else {
        panic!("executed");
    };
    assert_eq!(outcome.answer(), Answer::Output(b"\"xxx\""));
    assert_eq!(remembered(ask(&executor, Act::Retry).await), outcome);
}

#[tokio::test(start_paused = true)]
async fn a_rejection_is_remembered_and_repeated_without_running_again() {
    let (executor, _) = executor();
    let ended = ask(&executor, Act::Refuse(7)).await;
    assert_eq!(ended.kind().label(), "refused");
    assert_eq!(ended.error().as_deref(), Some("\"xxxxx\""));
    let (refusal, attempt) = refusal(ended);
    assert_eq!((refusal.error(), attempt), (Some(&"xxxxx".into()), 1));
    for _ in 0..2 {
        let again = remembered(ask(&executor, Act::Return(5)).await);
        assert_eq!(again.answer(), Answer::Rejected(refusal.clone()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_copy_of_a_remembered_rejection_that_nobody_waits_for_is_a_rejection() {
    let (executor, _) = executor();
    ask(&executor, Act::Reject).await;
    for _ in 0..2 {
        let copy = tell(&executor, Act::Return(5)).await;
        assert_eq!(copy.attempt(), None, "nothing ran");
        assert_eq!(
            copy.error().as_deref(),
            Some("rejected before: nobody to lend to")
        );
        let Execution::Rejected { cause, attempt: 0 } = copy else {
            panic!("{copy:?}");
        };
        assert!(matches!(cause, Cause::Remembered(message) if message == "nobody to lend to"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_rejection_that_nobody_can_read_any_more_is_not_taken_for_done() {
    let (executor, store) = executor();
    let lease = acquire(&store).await;
    let unreadable = Outcome::new("!{");
    let write = store.complete(&lease, &unreadable, LEASE).await;
    assert_eq!(write.unwrap(), Write::Applied);
    let copy = tell(&executor, Act::Return(5)).await;
    assert_ended(&copy, "rejected 0");
    let copy = remembered(ask(&executor, Act::Return(5)).await);
    assert!(
        matches!(copy.answer(), Answer::Forgotten(refusal) if refusal.code() == "outcome-outdated")
    );
}

#[tokio::test(start_paused = true)]
async fn a_closure_that_finds_a_remembered_rejection_is_not_told_that_it_is_done() {
    let (executor, _) = executor();
    ask(&executor, Act::Reject).await;
    let copy = run(&executor).await;
    assert_ended(&copy, "rejected 0");
}

#[tokio::test(start_paused = true)]
async fn a_rejection_that_nobody_waits_for_is_given_up_and_runs_again() {
    let (executor, _) = executor();
    let ended = tell(&executor, Act::Reject).await;
    assert_ended(&ended, "rejected 1");
    let again = ask(&executor, Act::Return(5)).await;
    assert_ended(&again, "executed 1");
}

#[tokio::test(start_paused = true)]
async fn a_failure_worth_another_attempt_is_not_remembered() {
    let (executor, _) = executor();
    let failed = ask(&executor, Act::Retry).await;
    let Execution::Failed { retry_after, .. } = failed else {
        panic!("{failed:?}");
    };
    sleep(retry_after).await;
    let again = ask(&executor, Act::Return(5)).await;
    assert_ended(&again, "executed 2");
}

#[tokio::test(start_paused = true)]
async fn used_up_attempts_are_not_remembered() {
    let (executor, _) = executor();
    let ended = handle(&executor, &attempts(1), Kind::Request, Act::Retry).await;
    assert_ended(&ended, "exhausted");
    let again = ask(&executor, Act::Return(5)).await;
    assert_ended(&again, "executed 1");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_whose_answer_was_lost_is_told_again_until_it_is_known() {
    let (executor, store) = executor();
    store.script(Call::Complete, [Fault::Unreached, Fault::AnswerLost]);
    let (told, attempt) = refusal(ask(&executor, Act::Refuse(7)).await);
    assert_eq!(attempt, 1);
    let again = remembered(ask(&executor, Act::Return(5)).await);
    assert_eq!(again.answer(), Answer::Rejected(told));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_remembered_past_the_lease_and_without_its_caller() {
    let (executor, store) = executor();
    store.always(Call::Complete, Fault::Unreached);
    tokio::select! {
        ended = ask(&executor, Act::Reject) => panic!("{ended:?}"),
        () = sleep(3 * LEASE) => {}
    }
    store.heal();
    sleep(Duration::from_secs(2)).await;
    let copy = remembered(ask(&executor, Act::Return(5)).await);
    assert!(matches!(copy.answer(), Answer::Rejected(_)));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_after_a_takeover_is_no_answer() {
    let (executor, store) = executor();
    store.script(Call::Complete, [Fault::Fenced]);
    let ended = ask(&executor, Act::Reject).await;
    assert_ended(&ended, "lease-lost 1");
}
