//! A handler whose waits are seen, and at which its worker can vanish.

use std::{borrow::Cow, future::poll_fn, marker::PhantomData, pin::pin};

use super::{clock::StandingStill, probe};
use crate::{
    Context, DecodeError, Envelope, Fingerprint, Handler, Key, KeyError, Mode, Numbered, Operation,
    Policy, Refusal, Rejection,
};

/// The handler itself, watched while it runs.
#[derive(Debug)]
pub struct Watched<H>(PhantomData<fn() -> H>);

impl<H: Operation> Operation for Watched<H> {
    type Message = H::Message;
    type Output = H::Output;
    type Error = H::Error;
    type Mode = H::Mode;
    const SCOPE: &'static str = H::SCOPE;
    const POLICY: Policy = H::POLICY;
    const NUMBERED: Option<Numbered<Self>> = match H::NUMBERED {
        Some(numbered) => Some(numbered.likewise()),
        None => None,
    };

    fn decode(envelope: &Envelope) -> Result<H::Message, DecodeError> {
        H::decode(envelope)
    }

    fn key(message: &H::Message, envelope: &Envelope) -> Result<Key, KeyError> {
        H::key(message, envelope)
    }

    fn fingerprint(message: &H::Message, envelope: &Envelope) -> Option<Fingerprint> {
        H::fingerprint(message, envelope)
    }

    fn recall(output: &[u8]) -> Result<Cow<'_, [u8]>, Refusal> {
        H::recall(output)
    }
}

impl<St, H: Handler<St>> Handler<St> for Watched<H> {
    fn call<'a>(
        message: H::Message,
        context: &'a Context<'a, St>,
        lent: <H::Mode as Mode>::Lent<'a>,
    ) -> Result<impl Future<Output = Result<H::Output, H::Error>> + Send + 'a, Rejection> {
        H::call(message, context, lent).map(watch)
    }
}

async fn watch<F: Future>(work: F) -> F::Output {
    let mut work = pin!(work);
    probe::handler_began();
    let mut waiting: Option<StandingStill> = None;
    poll_fn(|cx| {
        drop(waiting.take());
        let polled = work.as_mut().poll(cx);
        if polled.is_pending() {
            waiting = probe::handler_waits();
        }
        polled
    })
    .await
}
