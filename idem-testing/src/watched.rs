//! A handler whose waits are seen, and at which its worker can vanish.

use std::{
    borrow::Cow,
    future::poll_fn,
    marker::PhantomData,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{
            AtomicBool,
            Ordering::{AcqRel, Release},
        },
    },
    task::{self, Poll, Wake, Waker},
};

use idem_core::{
    handler::{
        Batch, BatchOptions, BatchResults, Context, DecodeError, Handler, Invalid, Mode, Operation,
        OrderedBy, Policy, RecordingConstraint, Refusal, Rejection, SequenceOptions,
    },
    message::{Envelope, Fingerprint, Key, KeyError},
};

use super::{clock::StandingStill, probe};

/// The handler itself, watched while it runs.
#[derive(Debug)]
pub(crate) struct Watched<H>(PhantomData<fn() -> H>);

impl<H: Operation> Operation for Watched<H> {
    type Message = H::Message;
    type Output = H::Output;
    type Error = H::Error;
    type Mode = H::Mode;
    const SCOPE: &'static str = H::SCOPE;
    const POLICY: Policy = H::POLICY;
    const BATCH: Option<BatchOptions> = H::BATCH;
    const PUBLISHES: bool = H::PUBLISHES;
    const SEQUENCE: Option<SequenceOptions<Self>> = match H::SEQUENCE {
        Some(numbered) => Some(numbered.likewise()),
        None => None,
    };

    const ORDERED_BY: Option<OrderedBy<Self>> = match H::ORDERED_BY {
        Some(ordered) => Some(ordered.likewise()),
        None => None,
    };

    const RECORDED_BY: Option<RecordingConstraint<Self>> = match H::RECORDED_BY {
        Some(constraint) => Some(constraint.likewise()),
        None => None,
    };

    fn decode(envelope: &Envelope) -> Result<H::Message, DecodeError> {
        H::decode(envelope)
    }

    fn validate(message: &H::Message) -> Result<(), Invalid> {
        H::validate(message)
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

    fn call_batch<'a>(
        batch: Batch<H::Message, H::Error>,
        state: &'a St,
        lent: <H::Mode as Mode>::Lent<'a>,
    ) -> Result<impl Future<Output = BatchResults<H::Output, H::Error>> + Send + 'a, Rejection>
    {
        H::call_batch(batch, state, lent).map(watch)
    }
}

async fn watch<F: Future>(work: F) -> F::Output {
    probe::handler_began();
    watch_waits(work, probe::handler_waits).await
}

/// Tells of each wait of this work.
pub(crate) async fn watch_waits<F: Future>(
    work: F,
    waits: fn() -> Option<StandingStill>,
) -> F::Output {
    let mut work = pin!(work);
    let woken = Arc::new(Woken {
        is_woken: true.into(),
        outside: Mutex::new(None),
    });
    let waker = Waker::from(Arc::clone(&woken));
    let mut waiting: Option<StandingStill> = None;
    poll_fn(|cx| {
        woken.outside().replace(cx.waker().clone());
        // Polled for another reason, it waits on: no further wait.
        if !woken.is_woken.swap(false, AcqRel) {
            return Poll::Pending;
        }
        drop(waiting.take());
        let polled = work.as_mut().poll(&mut task::Context::from_waker(&waker));
        if polled.is_pending() {
            waiting = waits();
        }
        polled
    })
    .await
}

/// Whether what the handler waits for has come.
struct Woken {
    is_woken: AtomicBool,
    outside: Mutex<Option<Waker>>,
}

impl Woken {
    fn outside(&self) -> MutexGuard<'_, Option<Waker>> {
        // A waker is never half written.
        self.outside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Release);
        let outside = self.outside().take();
        // Not under the lock: a waker may run any code.
        if let Some(outside) = outside {
            outside.wake();
        }
    }
}
