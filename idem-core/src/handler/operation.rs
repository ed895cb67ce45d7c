//! What `#[idempotent]` makes of a function: an operation, and how it is called.

use std::{borrow::Cow, error::Error, fmt, future::Pending, marker::PhantomData};

use serde::{Deserialize, Serialize};

use crate::{
    handler::{
        Batch, BatchOptions, BatchResults, Context, Failure, OrderedBy, Policy,
        RecordingConstraint, Refusal, Rejection, SequenceOptions,
    },
    message::{Envelope, Fingerprint, Key, KeyError, KeyPart},
};

pub(crate) mod ordered_by;
pub(crate) mod recorded_by;
pub(crate) mod sequence;

/// What a handler is, apart from state and store: its message, its key, its policy.
///
/// `#[idempotent]` writes this. By hand it is for messages that are not JSON, say.
///
/// ```
/// use idem_core::{
///     Envelope, Failed, Key, handler::{DecodeError, Leased, Operation}, message::KeyError,
/// };
///
/// /// Its messages are lines of text: `o-17;1250`.
/// struct Charge;
///
/// impl Operation for Charge {
///     type Message = (String, i64);
///     type Output = ();
///     type Error = Failed;
///     type Mode = Leased;
///     const SCOPE: &'static str = "orders.charge";
///
///     fn decode(envelope: &Envelope) -> Result<Self::Message, DecodeError> {
///         let line = std::str::from_utf8(envelope.body()).map_err(DecodeError::new)?;
///         let (id, cents) = line.split_once(';').ok_or_else(|| DecodeError::new("no `;`"))?;
///         Ok((id.to_owned(), cents.parse().map_err(DecodeError::new)?))
///     }
///
///     fn key((id, _): &Self::Message, _: &Envelope) -> Result<Key, KeyError> {
///         Key::new(Self::SCOPE, id)
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler",
    label = "not a handler",
    note = "annotate its function with `#[idempotent(key = …)]`"
)]
pub trait Operation: Send + Sync + 'static {
    /// What the body is decoded into.
    type Message: Send + 'static;
    /// What the handler returns; remembered as the outcome.
    type Output: Serialize + Send + 'static;
    /// What the handler fails with.
    type Error: Failure;
    /// [`Leased`], [`Atomic`], [`Grouped`](crate::handler::Grouped), [`RecordedBy`](crate::handler::RecordedBy),
    /// [`LeasedBatch`](crate::handler::LeasedBatch) or [`AtomicBatch`](crate::handler::AtomicBatch).
    type Mode: Mode;

    /// The handler's durable name inside its keys. Changing it forgets all history. No other handler may have it,
    /// in this program or in another one on the same store: what one of them has done would be a duplicate to the
    /// other, and lost.
    const SCOPE: &'static str;

    /// How its messages are claimed, retried and remembered.
    const POLICY: Policy = Policy::DEFAULT;

    /// The constraint of the handler's own table that records what was handled, if the mode is
    /// [`RecordedBy`](crate::handler::RecordedBy).
    const RECORDED_BY: Option<RecordingConstraint<Self>> = None;

    /// How its messages are numbered, if they are: then a [`SequenceStore`](crate::store::SequenceStore)
    /// keeps a mark for each producer instead of a record for each message, and the
    /// [key](Self::key) is that of the [place](crate::message::SequencePlace::key).
    const SEQUENCE: Option<SequenceOptions<Self>> = None;

    /// What its messages are ordered by, if they are. Within a worker, messages that have it in common run one after
    /// the other, in the order in which they arrived.
    const ORDERED_BY: Option<OrderedBy<Self>> = None;

    /// How large its batches are, if its mode has batches.
    const BATCH: Option<BatchOptions> = None;

    /// Whether its key is the [position](crate::Envelope::position) of its message, and nothing else.
    const IS_NAMED_BY_POSITION: bool = false;

    /// Whether it takes an [`Outbox`](crate::handler::Outbox).
    const PUBLISHES: bool = false;

    /// Turns the body into the message.
    ///
    /// # Errors
    /// A message that cannot be decoded is dead-lettered.
    fn decode(envelope: &Envelope) -> Result<Self::Message, DecodeError>;

    /// Says what is wrong with a message, before anything is claimed for it. Any message is valid, unless this says
    /// otherwise.
    ///
    /// # Errors
    /// A message that is not valid is dead-lettered, and its handler does not run.
    fn validate(message: &Self::Message) -> Result<(), Invalid> {
        let _ = message;
        Ok(())
    }

    /// Names the unit of work that the message asks for.
    ///
    /// # Errors
    /// A message without a usable key is dead-lettered, never run unprotected.
    fn key(message: &Self::Message, envelope: &Envelope) -> Result<Key, KeyError>;

    /// The digest by which the same key with other content is noticed; `None` to not look.
    fn fingerprint(message: &Self::Message, envelope: &Envelope) -> Option<Fingerprint> {
        let _ = message;
        Some(Fingerprint::of(envelope.body()))
    }

    /// Makes the reply to a copy of the message from the remembered output: it may have been written
    /// by an older version of [`Output`](Self::Output). As it is, unless this says otherwise.
    ///
    /// # Errors
    /// What the requester is told if nobody can read it any more.
    fn recall(output: &[u8]) -> Result<Cow<'_, [u8]>, Refusal> {
        Ok(Cow::Borrowed(output))
    }
}

/// How an operation is called when the worker's state is `S`.
///
/// ```
/// use idem_core::{Failed, handler::{Context, Handler, Rejection}};
/// # use idem_core::{Envelope, Key, handler::{DecodeError, Leased, Operation}, message::KeyError};
/// # struct Charge;
/// # impl Operation for Charge {
/// #     type Message = (String, i64);
/// #     type Output = ();
/// #     type Error = Failed;
/// #     type Mode = Leased;
/// #     const SCOPE: &'static str = "orders.charge";
/// #     fn decode(envelope: &Envelope) -> Result<Self::Message, DecodeError> { envelope.json() }
/// #     fn key((id, _): &Self::Message, _: &Envelope) -> Result<Key, KeyError> { Key::new(Self::SCOPE, id) }
/// # }
///
/// impl<S> Handler<S> for Charge {
///     fn call<'a>(
///         (id, cents): Self::Message,
///         _context: &'a Context<'a, S>,
///         _lent: (),
///     ) -> Result<impl Future<Output = Result<(), Failed>> + Send + 'a, Rejection> {
///         Ok(async move { Ok(println!("{cents} for {id}")) })
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler",
    label = "not a handler",
    note = "annotate its function with `#[idempotent(key = …)]`"
)]
pub trait Handler<S>: Operation {
    /// Makes the further parameters from the context, and the future of the handler from all.
    ///
    /// # Errors
    /// If a parameter cannot be made from this message.
    fn call<'a>(
        message: Self::Message,
        context: &'a Context<'a, S>,
        lent: <Self::Mode as Mode>::Lent<'a>,
    ) -> Result<impl Future<Output = Result<Self::Output, Self::Error>> + Send + 'a, Rejection>;

    /// The future of the handler for several messages, if its mode has batches. It gives a result for each of them, in
    /// their order, or fails for all.
    ///
    /// # Errors
    /// If it takes one message at a time: then each is given to [`call`](Self::call).
    fn call_batch<'a>(
        batch: Batch<Self::Message, Self::Error>,
        state: &'a S,
        lent: <Self::Mode as Mode>::Lent<'a>,
    ) -> Result<impl Future<Output = BatchResults<Self::Output, Self::Error>> + Send + 'a, Rejection>
    {
        let _ = (batch, state, lent);
        Err::<Pending<_>, _>(Rejection::new("it takes one message at a time"))
    }
}

/// The modes are this crate's: a further method of [`Mode`] breaks nobody.
pub(crate) mod sealed {
    pub trait Mode {}
}

/// Whether a handler runs under a lease or inside the store's own transaction.
///
/// Sealed: there are [`Leased`], [`Atomic`], [`Grouped`](crate::handler::Grouped),
/// [`RecordedBy`](crate::handler::RecordedBy), [`LeasedBatch`](crate::handler::LeasedBatch) and
/// [`AtomicBatch`](crate::handler::AtomicBatch).
pub trait Mode: sealed::Mode + Send + Sync + 'static {
    /// What the store lends the handler.
    type Lent<'a>: Send;

    /// Whether a handler of this mode can run without a claim: while the store is away, or because its
    /// policy only observes.
    const RUNS_UNCLAIMED: bool;

    /// Whether what was handled is forgotten after the retention.
    const FORGETS: bool = true;
}

/// At most one worker at a time holds the key, and what it did is remembered. Any store.
#[derive(Debug, Clone, Copy)]
pub struct Leased;

impl sealed::Mode for Leased {}

impl Mode for Leased {
    type Lent<'a> = ();
    const RUNS_UNCLAIMED: bool = true;
}

/// The handler's writes and the record of them commit together, through a `&mut Tx`.
#[derive(Debug)]
pub struct Atomic<Tx>(PhantomData<fn() -> Tx>);

impl<Tx> sealed::Mode for Atomic<Tx> {}

impl<Tx: Send + 'static> Mode for Atomic<Tx> {
    type Lent<'a> = &'a mut Tx;
    const RUNS_UNCLAIMED: bool = false;
}

/// Why a body is not the message that its handler expects.
#[derive(thiserror::Error)]
#[error("the body is not a valid message")]
pub struct DecodeError {
    source: Box<dyn Error + Send + Sync>,
}

crate::debug_as_chain!(DecodeError);

impl DecodeError {
    /// Wraps what the decoder said.
    pub fn new(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self {
            source: source.into(),
        }
    }
}

/// What is wrong with a message that could be decoded: see [`Operation::validate`].
#[derive(thiserror::Error)]
#[error("{0}")]
pub struct Invalid(String);

crate::debug_as_chain!(Invalid);

impl Invalid {
    /// Takes what a function that validates says.
    pub fn new(error: impl fmt::Display) -> Self {
        Self(error.to_string())
    }
}

impl Envelope {
    /// Decodes the body as JSON.
    ///
    /// # Errors
    /// If it is not JSON, or not of this shape.
    pub fn json<T: for<'de> Deserialize<'de>>(&self) -> Result<T, DecodeError> {
        serde_json::from_slice(self.body()).map_err(DecodeError::new)
    }
}

/// Takes a handler's return type apart, type aliases of `Result` included.
#[diagnostic::on_unimplemented(
    message = "an idempotent handler returns a `Result`, not `{Self}`",
    label = "write `-> Result<(), Failed>`"
)]
pub trait Returned {
    /// The `Ok` type.
    type Output;
    /// The `Err` type.
    type Error;
}

impl<T, E> Returned for Result<T, E> {
    type Output = T;
    type Error = E;
}

/// A header as a part of a key.
#[derive(Debug)]
pub struct Header<'a>(pub &'a Envelope, pub &'a str);

impl KeyPart for Header<'_> {
    fn to_part(&self) -> Option<Cow<'_, str>> {
        self.0.header(self.1)
    }

    fn is_unreadable(&self) -> bool {
        self.0.has_unreadable(self.1)
    }
}

/// The body's digest as a part of a key, computed only if it is asked for.
#[derive(Debug)]
pub struct Content<'a>(pub &'a Envelope);

impl KeyPart for Content<'_> {
    fn to_part(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Owned(self.0.content()))
    }
}
