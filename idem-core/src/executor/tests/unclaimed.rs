//! Work for which nothing is claimed: of plain handlers, and of messages without a key that run all the same.

use super::*;
use crate::{
    handler::{Context, DecodeError, Enforcement, Keyless, Leased, Operation, Rejection},
    message::{Envelope, KeyError},
};

/// Its body is the order's number, which is the key; 0 is none. It returns which attempt it was, and fails with 13.
struct Count;

impl Operation for Count {
    type Message = u32;
    type Output = (u32, bool);
    type Error = Failed;
    type Mode = Leased;
    const SCOPE: &'static str = "orders.count";

    fn decode(envelope: &Envelope) -> Result<u32, DecodeError> {
        envelope.json()
    }

    fn key(order: &u32, _: &Envelope) -> Result<Key, KeyError> {
        match order {
            0 => Err(KeyError::custom("order 0 is no order")),
            number => Key::new(Self::SCOPE, *number),
        }
    }
}

impl Handler<()> for Count {
    fn call<'a>(
        order: u32,
        context: &'a Context<'a, ()>,
        (): (),
    ) -> Result<impl Future<Output = Result<(u32, bool), Failed>> + Send + 'a, Rejection> {
        let attempt = (context.attempt.number(), context.attempt.is_protected());
        Ok(async move {
            match order {
                13 => Err(Failed::retry("the gateway is down")),
                _ => Ok(attempt),
            }
        })
    }
}

fn plain() -> Policy {
    let policy = Policy::builder().enforcement(Enforcement::Plain);
    policy.max_attempts(3).build().unwrap()
}

fn keyless() -> Policy {
    let policy = Policy::builder().keyless(Keyless::Run);
    policy.max_attempts(3).build().unwrap()
}

fn prepared(body: &'static str, policy: &Policy) -> Prepared<Count> {
    let prepared = Prepared::new(Envelope::new(body), policy);
    prepared.expect("it runs under this policy")
}

async fn count(
    executor: &Executor<Faulty>,
    body: &'static str,
    policy: &Policy,
) -> Execution<(u32, bool), Failed> {
    executor.handle(&mut prepared(body, policy), &()).await
}

/// It ran without a claim, in its first attempt.
#[track_caller]
fn assert_unclaimed(ended: &Execution<(u32, bool), Failed>) {
    let first = (1, false);
    assert!(
        matches!(ended, Execution::Unclaimed { output, attempt: 1, .. } if *output == first),
        "{ended:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_plain_handler_runs_for_each_copy_and_asks_no_store() {
    let (executor, store) = executor();
    store.go_away();
    for body in ["7", "7", "0"] {
        assert_unclaimed(&count(&executor, body, &plain()).await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_without_a_key_runs_if_its_policy_says_so_and_the_others_are_claimed_as_ever() {
    let (executor, _) = executor();
    for _ in 0..2 {
        assert_unclaimed(&count(&executor, "0", &keyless()).await);
    }
    let first = count(&executor, "7", &keyless()).await;
    let output = (1, true);
    assert!(
        matches!(first, Execution::Executed { output: found, .. } if found == output),
        "{first:?}"
    );
    let copy = count(&executor, "7", &keyless()).await;
    assert_ended(&copy, "duplicate");
}

#[tokio::test(start_paused = true)]
async fn attempts_without_a_claim_are_used_up() {
    let (executor, _) = executor();
    let mut message = prepared("13", &plain());
    for (attempt, expected) in [(1, "failed"), (2, "failed"), (3, "exhausted")] {
        let ended = executor.handle(&mut message, &()).await;
        assert_eq!(ended.kind().label(), expected);
        assert_eq!(ended.attempt(), Some(attempt));
        message.renew_owner();
    }
    let mut returned = prepared("13", &plain()).attempted_before(2);
    let ended = executor.handle(&mut returned, &()).await;
    assert_eq!(ended.kind().label(), "exhausted");
}

#[tokio::test(start_paused = true)]
async fn a_closed_executor_starts_nothing_that_is_unclaimed() {
    let (executor, _) = executor();
    executor.close();
    let ended = count(&executor, "7", &plain()).await;
    assert_ended(&ended, "abandoned");
}

#[tokio::test(start_paused = true)]
async fn plain_work_without_a_handler_runs_each_time() {
    let (executor, store) = executor();
    store.go_away();
    for _ in 0..2 {
        let work = async |attempt: Attempt| Ok::<_, Failed>(attempt.is_protected());
        let ended = executor.execute(key(), &plain(), work).await;
        assert!(
            matches!(ended, Execution::Unclaimed { output: false, .. }),
            "{ended:?}"
        );
    }
}
