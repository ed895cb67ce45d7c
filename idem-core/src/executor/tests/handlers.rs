//! Messages that their handler cannot be called with.

use super::*;
use crate::{
    handler::{
        Context, DecodeError, FromContext as _, Invalid, Leased, Operation, Rejection, State,
    },
    message::{Envelope, KeyError},
};

/// Its body is the order's number; its key may not be 0, its state must not be "broken". Numbers from 1000 on are not
/// valid.
struct Charge;

impl Operation for Charge {
    type Message = u32;
    type Output = u32;
    type Error = Failed;
    type Mode = Leased;
    const SCOPE: &'static str = "orders";

    fn decode(envelope: &Envelope) -> Result<u32, DecodeError> {
        assert_ne!(envelope.body(), b"666", "a decoder's bug");
        envelope.json()
    }

    fn validate(message: &u32) -> Result<(), Invalid> {
        assert_ne!(*message, 6666, "a validator's bug");
        match message {
            1000.. => Err(Invalid::new(format_args!("{message} is too large"))),
            _ => Ok(()),
        }
    }

    fn key(message: &u32, _: &Envelope) -> Result<Key, KeyError> {
        match message {
            0 => Err(KeyError::custom("order 0 is no order")),
            number => Key::new(Self::SCOPE, *number),
        }
    }
}

impl Handler<&'static str> for Charge {
    fn call<'a>(
        message: u32,
        context: &'a Context<'a, &'static str>,
        (): (),
    ) -> Result<impl Future<Output = Result<u32, Failed>> + Send + 'a, Rejection> {
        let State(state) = State::<&'static str>::from_context(context)?;
        if state == "broken" {
            return Err(Rejection::new("no tenant"));
        }
        Ok(async move {
            match state {
                "failing" => Err(Failed::retry("the gateway is down")),
                _ => Ok(message),
            }
        })
    }
}

async fn handle(body: &'static str, state: &'static str) -> Execution<u32, Failed> {
    let (executor, _) = executor();
    handle_on(&executor, body, state).await
}

async fn handle_on(
    executor: &Executor<Faulty>,
    body: &'static str,
    state: &'static str,
) -> Execution<u32, Failed> {
    match Prepared::<Charge>::new(Envelope::new(body), &Policy::DEFAULT) {
        Ok(mut message) => executor.handle(&mut message, &state).await,
        Err(ended) => ended,
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_runs_once_for_a_body() {
    let (executor, _) = executor();
    let first = handle_on(&executor, "7", "fine").await;
    assert_output(&first, 1, &7);
    let second = handle_on(&executor, "7", "fine").await;
    assert_ended(&second, "duplicate");
}

#[tokio::test(start_paused = true)]
async fn the_same_key_with_another_body_is_a_reused_key() {
    let (executor, _) = executor();
    handle_on(&executor, "7", "fine").await;
    let other = handle_on(&executor, " 7", "fine").await;
    assert_ended(&other, "key-reused");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_cannot_be_decoded_never_runs() {
    let ended = handle("seven", "fine").await;
    assert_ended(&ended, "undecodable");
}

#[tokio::test(start_paused = true)]
async fn a_decoder_that_panics_is_a_body_that_cannot_be_decoded() {
    let ended = handle("666", "fine").await;
    assert_ended(&ended, "undecodable");
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_not_valid_never_runs_and_is_never_claimed() {
    let (executor, store) = executor();
    store.go_away();
    for (body, expected) in [
        ("1000", "1000 is too large"),
        ("6666", "validating panicked"),
    ] {
        let ended = handle_on(&executor, body, "fine").await;
        let error = ended.error().unwrap_or_default();
        assert!(error.starts_with(expected), "{error}");
        assert_ended(&ended, "invalid");
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_without_a_key_never_runs() {
    let ended = handle("0", "fine").await;
    assert_eq!(ended.error().as_deref(), Some("order 0 is no order"));
    assert_ended(&ended, "keyless");
}

#[tokio::test(start_paused = true)]
async fn a_parameter_that_cannot_be_made_gives_the_key_back() {
    let (executor, _) = executor();
    let ended = handle_on(&executor, "7", "broken").await;
    assert_eq!(ended.error().as_deref(), Some("no tenant"));
    assert_ended(&ended, "undecodable");
    let fixed = handle_on(&executor, "7", "fine").await;
    assert_ended(&fixed, "executed 1");
}

#[tokio::test(start_paused = true)]
async fn a_message_that_waited_for_the_store_runs_from_the_same_preparation() {
    let (executor, store) = executor();
    let mut message = Prepared::<Charge>::new(Envelope::new("7"), &Policy::DEFAULT).unwrap();
    store.script(Call::Claim, [Fault::AnswerLost, Fault::Unreached]);
    for _ in 0..2 {
        let ended = executor.handle(&mut message, &"fine").await;
        assert_ended(&ended, "store-unavailable");
    }
    let ended = executor.handle(&mut message, &"fine").await;
    assert_ended(&ended, "executed 1");
}

#[tokio::test(start_paused = true)]
async fn a_replay_starts_over_once_and_then_counts_its_attempts() {
    let (executor, _) = executor();
    let message = Prepared::<Charge>::new(Envelope::new("7"), &Policy::DEFAULT);
    let mut message = message.unwrap().replay(true);
    for attempt in [1, 2] {
        let failed = executor.handle(&mut message, &"failing").await;
        assert_eq!(failed.attempt(), Some(attempt), "{failed:?}");
        wait_for_retry(&failed).await;
        message.renew_owner();
    }
}
