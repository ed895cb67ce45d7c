//! Code of the user's own that is no future: it may panic, and must not leave a key behind.

use std::{
    any::Any,
    borrow::Cow,
    panic::{AssertUnwindSafe, catch_unwind},
};

use serde::Serialize;

use crate::{
    executor::Cause,
    handler::{Failure, Handler, Mode, Operation, Outcome, Refusal, Rejection},
    telemetry::Handlers,
};

/// Runs it; a panic is its message.
pub(super) fn caught<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| panic_message(&*panic))
}

/// Calls a handler, unless one of its parameters cannot be made.
pub(super) fn call<'a, H: Handler<St>, St>(
    message: H::Message,
    context: &'a crate::handler::Context<'a, St>,
    lent: <H::Mode as Mode>::Lent<'a>,
    handlers: &Handlers,
) -> Result<impl Future<Output = Result<H::Output, H::Error>> + Send + use<'a, H, St>, String> {
    caught(|| H::call(message, context, lent))
        .unwrap_or_else(|panic| Err(Rejection::new(format!("a parameter panicked: {panic}"))))
        .map(|work| {
            handlers.run(
                H::SCOPE,
                context.attempt.number(),
                context.attempt.is_in_doubt(),
                work,
            )
        })
        .map_err(|rejection| rejection.to_string())
}

/// The output as it is remembered.
pub(super) fn outcome(output: &impl Serialize) -> Result<Outcome, String> {
    let json = caught(|| Outcome::json(output).map_err(|error| error.to_string()));
    json.unwrap_or_else(|panic| Err(format!("serialising it panicked: {panic}")))
}

/// A remembered output, as the operation reads it now.
pub(super) fn recall<H: Operation>(output: &[u8]) -> Result<Cow<'_, [u8]>, Refusal> {
    caught(|| H::recall(output)).unwrap_or_else(|panic| {
        let message = format!("reading the remembered output panicked: {panic}");
        Err(Refusal::new(Refusal::OUTCOME_OUTDATED, message))
    })
}

/// A handler's error, if it can say what it is.
pub(super) fn cause<E: Failure>(error: E) -> Cause<E> {
    let said = caught(|| {
        error.verdict();
        error.describe();
    });
    match said {
        Ok(()) => Cause::Error(error),
        Err(panic) => Cause::Panicked(format!("describing its error: {panic}")),
    }
}

/// What a requester is told of this, which is for good.
pub(super) fn refusal<E: Failure>(cause: &Cause<E>) -> Refusal {
    let Cause::Error(error) = cause else {
        return Refusal::rejected(cause.to_string());
    };
    caught(|| error.refusal()).unwrap_or_else(|panic| {
        tracing::error!(%cause, panic, "the handler's error cannot be told as a refusal: it panicked");
        Refusal::rejected(cause.to_string())
    })
}

pub(super) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
        .to_owned()
}
