//! Calls the user's own code where it is no future: decoding, parameters, serialising, describing errors.
//!
//! Each mode calls such code by way of [`caught`]; the handler's future itself is polled in
//! [`heartbeat`](super::heartbeat). What must stay true: a panic becomes a value. One that went through the executor
//! would skip the end of the claim: the key would be held until its lease runs out, and what is done might run again.

use std::{
    any::Any,
    borrow::Cow,
    panic::{AssertUnwindSafe, catch_unwind},
};

use serde::Serialize;

use crate::{
    error_chain::ErrorChain,
    executor::Cause,
    handler::{Failure, Handler, Mode, Operation, Outcome, Refusal, Rejection},
    message::Envelope,
    telemetry::Handlers,
};

/// Runs it; the error is the message of its panic.
pub(super) fn caught<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    // Nothing of the executor's is changed inside, so a panic leaves nothing of it half done.
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| panic_message(&*panic))
}

/// Decodes a message; the error says what is wrong with it.
pub(super) fn decode<H: Operation>(envelope: &Envelope) -> Result<H::Message, String> {
    // A panic and an error say the same: nobody can make this out.
    caught(|| H::decode(envelope).map_err(|error| ErrorChain::of(&error).to_string()))
        .unwrap_or_else(|panic| Err(format!("decoding panicked: {panic}")))
}

/// Calls a handler: its future, which is measured, or why one of its parameters cannot be made. Nothing of the
/// handler's body has run before that future is polled.
pub(super) fn call<'a, H: Handler<St>, St>(
    message: H::Message,
    context: &'a crate::handler::Context<'a, St>,
    lent: <H::Mode as Mode>::Lent<'a>,
    handlers: &Handlers,
) -> Result<impl Future<Output = Result<H::Output, H::Error>> + Send + use<'a, H, St>, String> {
    // A call makes the parameters and the future. It runs nothing of the handler's own body, so a panic here is a
    // parameter's, and the message is ended like one with a parameter that cannot be made.
    caught(|| H::call(message, context, lent))
        .unwrap_or_else(|panic| Err(Rejection::new(format!("a parameter panicked: {panic}"))))
        .map(|work| {
            handlers.run(
                context.key.scope(),
                context.attempt.number(),
                context.attempt.is_in_doubt(),
                work,
            )
        })
        .map_err(|rejection| rejection.to_string())
}

/// The output as JSON, which is how it is remembered; or why it cannot be that.
pub(super) fn outcome(output: &impl Serialize) -> Result<Outcome, String> {
    // `Serialize` is the user's, and may panic as well as fail.
    let json = caught(|| Outcome::json(output).map_err(|error| error.to_string()));
    json.unwrap_or_else(|panic| Err(format!("serialising it panicked: {panic}")))
}

/// A remembered output, as the operation's present version tells it; or the refusal that is told instead.
pub(super) fn recall<H: Operation>(output: &[u8]) -> Result<Cow<'_, [u8]>, Refusal> {
    // The handler may have changed since the output was written.
    caught(|| H::recall(output)).unwrap_or_else(|panic| {
        let message = format!("reading the remembered output panicked: {panic}");
        Err(Refusal::new(Refusal::OUTCOME_OUTDATED, message))
    })
}

/// Why an attempt failed: a handler's error, or a panic if the error cannot describe itself.
pub(super) fn cause<E: Failure>(error: E) -> Cause<E> {
    // Both are called again later, where nothing catches a panic: an error that panics is found out here.
    let said = caught(|| {
        error.verdict();
        error.describe();
    });
    match said {
        Ok(()) => Cause::Error(error),
        Err(panic) => Cause::Panicked(format!("describing its error: {panic}")),
    }
}

/// What a requester is told of a cause that is for good. If the error panics when it is asked, the requester gets its
/// description: the rejection stands.
pub(super) fn refusal<E: Failure>(cause: &Cause<E>) -> Refusal {
    let Cause::Error(error) = cause else {
        return Refusal::rejected(cause.to_string());
    };
    caught(|| error.refusal()).unwrap_or_else(|panic| {
        tracing::error!(%cause, panic, "the handler's error cannot be told as a refusal: it panicked");
        Refusal::rejected(cause.to_string())
    })
}

/// The text of a panic, as `panic!` makes one.
pub(super) fn panic_message(panic: &(dyn Any + Send)) -> String {
    // `panic!` with a literal carries a `&str`, with a format a `String`, `panic_any` anything.
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
        .to_owned()
}
