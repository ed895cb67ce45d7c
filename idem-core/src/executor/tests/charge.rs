//! A handler in any mode, which does what its state says.

use std::marker::PhantomData;

use super::*;
use crate::{
    handler::{Context, DecodeError, Mode, Operation, RecordingConstraint, Rejection},
    message::{Envelope, KeyError},
};

/// Its message is an amount, and all have the key of the tests.
pub(super) struct Charge<M>(PhantomData<M>);

/// What a [`Charge`] does in an attempt.
pub(super) trait Act: Send + Sync + 'static {
    fn act(
        &self,
        amount: u32,
        attempt: Attempt,
    ) -> impl Future<Output = Result<u32, Failed>> + Send;
}

/// Returns which attempt it was.
impl Act for () {
    async fn act(&self, _: u32, attempt: Attempt) -> Result<u32, Failed> {
        Ok(attempt.number())
    }
}

/// The same, and counts its runs.
impl Act for AtomicU32 {
    async fn act(&self, _: u32, attempt: Attempt) -> Result<u32, Failed> {
        self.fetch_add(1, SeqCst);
        Ok(attempt.number())
    }
}

impl<M: Mode + Send + Sync + 'static> Operation for Charge<M> {
    type Message = u32;
    type Output = u32;
    type Error = Failed;
    type Mode = M;
    const SCOPE: &'static str = "orders";
    // Heeded by the mode of that name.
    const RECORDED_BY: Option<RecordingConstraint<Self>> = Some(RecordingConstraint::new(
        "charges_key",
        1,
        |_: &u32, _| Ok(vec!["o-1".to_owned()]),
        |error: &Failed| Some(error.error()),
    ));

    fn decode(envelope: &Envelope) -> Result<u32, DecodeError> {
        envelope.json()
    }

    fn key(_: &u32, _: &Envelope) -> Result<Key, KeyError> {
        Ok(key())
    }
}

impl<M: Mode + Send + Sync + 'static, A: Act> Handler<A> for Charge<M> {
    fn call<'a>(
        amount: u32,
        context: &'a Context<'a, A>,
        _: M::Lent<'a>,
    ) -> Result<impl Future<Output = Result<u32, Failed>> + Send + 'a, Rejection> {
        let work = context.state.act(amount, context.attempt);
        // What is lent is not used.
        Ok(work)
    }
}

/// One with this body.
pub(super) fn message<M: Mode + Send + Sync + 'static>(
    body: &'static str,
    policy: &Policy,
) -> Prepared<Charge<M>> {
    Prepared::new(Envelope::new(body), policy).unwrap()
}
