//! Handlers whose own table says what was handled: its unique constraint holds the message's key.

use std::{error::Error, fmt, marker::PhantomData};

use super::sealed;
use crate::{
    handler::{Failed, Mode, Operation, Refused},
    message::{Envelope, KeyError, KeyPart},
};

/// The handler's writes commit through a `&mut Tx`, and a row among them records it: a table of the
/// handler's own holds the message's key under a unique constraint. The store keeps a record only of
/// what failed, or may have.
///
/// `#[idempotent(recorded_by = "payments_order_id_key")]` chooses it. It needs an
/// [`RecordedByStore`](crate::store::RecordedByStore).
#[derive(Debug)]
pub struct RecordedBy<Tx>(PhantomData<fn() -> Tx>);

impl<Tx> sealed::Mode for RecordedBy<Tx> {}

impl<Tx: Send + 'static> Mode for RecordedBy<Tx> {
    type Lent<'a> = &'a mut Tx;
    const RUNS_UNCLAIMED: bool = false;
    const FORGETS: bool = false;
}

/// A constraint, and what stands in its columns, in their order, once the message was handled.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordedRow {
    /// The constraint's name, without a schema.
    pub constraint: &'static str,
    /// The parts of the message's key, as text.
    pub parts: Vec<String>,
}

impl RecordedRow {
    /// Names the row by what stands in the columns of its constraint.
    pub fn new(constraint: &'static str, parts: Vec<String>) -> Self {
        Self { constraint, parts }
    }
}

/// How an [`RecordedBy`] handler's success is recorded: see [`Operation::RECORDED_BY`].
pub struct RecordingConstraint<H: Operation + ?Sized> {
    constraint: &'static str,
    columns: usize,
    parts: PartsOf<H>,
    cause: CauseOf<H>,
}

/// What stands in the constraint's columns once a message was handled.
type PartsOf<H> = fn(&<H as Operation>::Message, &Envelope) -> Result<Vec<String>, KeyError>;

/// Where the search for the database's error behind a handler's begins.
type CauseOf<H> = fn(&<H as Operation>::Error) -> Option<&(dyn Error + 'static)>;

impl<H: Operation + ?Sized> RecordingConstraint<H> {
    /// Records by this constraint of so many columns. `parts` says what stands in them once a message was handled;
    /// `cause` says where the database's error is to be looked for behind the handler's: there, or in what its
    /// `source()` leads to.
    pub const fn new(
        constraint: &'static str,
        columns: usize,
        parts: PartsOf<H>,
        cause: CauseOf<H>,
    ) -> Self {
        Self {
            constraint,
            columns,
            parts,
            cause,
        }
    }

    /// The constraint's name.
    pub const fn constraint(&self) -> &'static str {
        self.constraint
    }

    /// How many columns it has.
    pub const fn columns(&self) -> usize {
        self.columns
    }

    pub(crate) fn entity(
        &self,
        message: &H::Message,
        envelope: &Envelope,
    ) -> Result<RecordedRow, KeyError> {
        Ok(RecordedRow::new(
            self.constraint,
            (self.parts)(message, envelope)?,
        ))
    }

    /// The same for another operation on the same messages, one that wraps this one.
    pub const fn likewise<G>(self) -> RecordingConstraint<G>
    where
        G: Operation<Message = H::Message, Error = H::Error>,
    {
        RecordingConstraint {
            constraint: self.constraint,
            columns: self.columns,
            parts: self.parts,
            cause: self.cause,
        }
    }

    pub(crate) fn cause<'a>(&self, error: &'a H::Error) -> Option<&'a (dyn Error + 'static)> {
        (self.cause)(error)
    }
}

// Not derived: that would ask the same of the operation.
impl<H: Operation + ?Sized> Clone for RecordingConstraint<H> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<H: Operation + ?Sized> Copy for RecordingConstraint<H> {}

impl<H: Operation + ?Sized> fmt::Debug for RecordingConstraint<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordingConstraint")
            .field("constraint", &self.constraint)
            .field("columns", &self.columns)
            .finish_non_exhaustive()
    }
}

/// An error behind which the database's can be found. `By` keeps the kinds of errors apart, so that each has its own
/// implementation; whoever asks leaves it to the compiler.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not tell what caused it, so nobody can see which constraint was violated",
    label = "not a `std::error::Error`",
    note = "with `recorded_by`, the database's error is looked for behind the handler's: return `Result<_, Failed>`, or write `impl std::error::Error for {Self}` with a `source()` that leads to it"
)]
pub trait Caused<By> {
    /// Where the search begins.
    fn cause(&self) -> Option<&(dyn Error + 'static)>;
}

#[diagnostic::do_not_recommend]
impl<E: Error + 'static> Caused<Box<dyn Error>> for E {
    fn cause(&self) -> Option<&(dyn Error + 'static)> {
        Some(self)
    }
}

impl Caused<Failed> for Failed {
    fn cause(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.error())
    }
}

impl<E> Caused<Refused<E>> for Refused<E> {
    fn cause(&self) -> Option<&(dyn Error + 'static)> {
        self.failed().map(Failed::error).map(|error| error as _)
    }
}

#[cfg(feature = "anyhow")]
impl Caused<anyhow::Error> for anyhow::Error {
    fn cause(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.as_ref())
    }
}

/// The parts of a key one by one, as text.
#[doc(hidden)]
#[derive(Debug)]
#[must_use]
pub struct Parts(Result<Vec<String>, KeyError>);

impl Parts {
    /// None yet.
    pub const fn none() -> Self {
        Self(Ok(Vec::new()))
    }

    /// Adds one part; `name` is where it comes from, for the error.
    pub fn part(mut self, name: &str, value: &(impl KeyPart + ?Sized)) -> Self {
        if let Ok(parts) = &mut self.0 {
            match value.to_part() {
                Some(text) => parts.push(text.into_owned()),
                None => self.0 = Err(KeyError::Missing { part: name.into() }),
            }
        }
        self
    }

    /// All of them.
    ///
    /// # Errors
    /// If one is missing.
    pub fn build(self) -> Result<Vec<String>, KeyError> {
        self.0
    }
}
