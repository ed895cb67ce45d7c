//! What `#[idempotent]` finds out about a handler's message, without naming it: whether it is a
//! request. What only requests have is tried first, and what all messages have is behind a `Deref`.

use std::{borrow::Cow, fmt::Display, marker::PhantomData, ops::Deref};

use super::{Refused, Request};
use crate::handler::Refusal;

/// A message's type, asked whether it is a request's.
#[derive(Debug, Default)]
pub struct Asked<M>(PhantomData<fn() -> M>);

impl<M> Asked<M> {
    /// Asks.
    pub const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<M: Request> Asked<M> {
    /// It is a request.
    pub const fn kind(&self) -> IsRequest {
        IsRequest
    }
}

impl<M> Deref for Asked<M> {
    type Target = Anything;

    fn deref(&self) -> &Anything {
        &Anything
    }
}

/// Any message.
#[derive(Debug)]
pub struct Anything;

impl Anything {
    /// It is no request.
    pub const fn kind(&self) -> IsNone {
        IsNone
    }
}

/// The message is a request.
#[derive(Debug, Clone, Copy)]
pub struct IsRequest;

impl IsRequest {
    /// The handler must return its types.
    #[must_use]
    pub const fn returns<M: Request, R: Answers<M::Reply, M::Error>>(self) -> Self {
        self
    }

    /// The remembered output, if it is one still.
    ///
    /// # Errors
    /// [`Refusal::OUTCOME_OUTDATED`] if not.
    pub fn recall<M: Request>(self, output: &[u8]) -> Result<Cow<'_, [u8]>, Refusal> {
        self.recall_or::<M, _, _>(output, |_| Err("it cannot be read any more"))
    }

    /// The remembered output, encoded anew if it is none any more.
    ///
    /// # Errors
    /// [`Refusal::OUTCOME_OUTDATED`] if `outdated` cannot read it.
    pub fn recall_or<M: Request, F, X: Display>(
        self,
        output: &[u8],
        outdated: F,
    ) -> Result<Cow<'_, [u8]>, Refusal>
    where
        F: FnOnce(&[u8]) -> Result<M::Reply, X>,
    {
        let Err(unreadable) = serde_json::from_slice::<M::Reply>(output) else {
            return Ok(Cow::Borrowed(output));
        };
        let why = match outdated(output) {
            Ok(reply) => match serde_json::to_vec(&reply) {
                Ok(json) => return Ok(Cow::Owned(json)),
                Err(error) => error.to_string(),
            },
            Err(error) => error.to_string(),
        };
        let message = format!("done, with an output of an older form: {why} ({unreadable})");
        Err(Refusal::new(Refusal::OUTCOME_OUTDATED, message))
    }
}

/// The message is no request: nothing is asked of its handler.
#[derive(Debug, Clone, Copy)]
pub struct IsNone;

impl IsNone {
    /// The handler may return what it wants.
    #[must_use]
    pub const fn returns<M, R>(self) -> Self {
        self
    }

    /// The remembered output as it is.
    ///
    /// # Errors
    /// Never.
    pub const fn recall<M>(self, output: &[u8]) -> Result<Cow<'_, [u8]>, Refusal> {
        Ok(Cow::Borrowed(output))
    }

    /// Does not compile: there is nobody for whom the output would be encoded anew.
    ///
    /// # Errors
    /// Never.
    pub fn recall_or<M: Request, F, X>(self, output: &[u8], _: F) -> Result<Cow<'_, [u8]>, Refusal>
    where
        F: FnOnce(&[u8]) -> Result<M::Reply, X>,
    {
        self.recall::<M>(output)
    }
}

/// What a handler of a request returns.
#[diagnostic::on_unimplemented(
    message = "a handler of this request returns `Result<{Reply}, Refused<{Error}>>`, not `{Self}`",
    label = "not the request's own reply and error",
    note = "the message's `impl Request` says what it is answered with"
)]
pub trait Answers<Reply, Error> {}

impl<Reply, Error> Answers<Reply, Error> for Result<Reply, Refused<Error>> {}
