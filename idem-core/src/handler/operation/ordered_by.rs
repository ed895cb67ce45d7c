//! What a handler's messages have in common that are to run one after the other.

use std::fmt;

use crate::{
    handler::Operation,
    message::{Envelope, Key, KeyError},
};

/// What a handler's messages are ordered by: see [`Operation::ORDERED_BY`].
///
/// `#[idempotent(ordered_by = …)]` writes this.
pub struct OrderedBy<H: Operation + ?Sized> {
    of_message: NameOf<H>,
    of_envelope: Option<NameIn>,
    may_overtake_failed: bool,
}

/// What a message has in common with others.
type NameOf<H> = fn(&<H as Operation>::Message, &Envelope) -> Result<Key, KeyError>;

/// The same, of a message whose body was not read.
type NameIn = fn(&Envelope) -> Result<Key, KeyError>;

impl<H: Operation + ?Sized> OrderedBy<H> {
    /// `name` says what a message has in common with those that it waits for, and that wait for it.
    pub const fn new(name: NameOf<H>) -> Self {
        Self {
            of_message: name,
            of_envelope: None,
            may_overtake_failed: false,
        }
    }

    /// Says that the same can be told without the body, which is then not decoded for it.
    pub const fn in_envelope(mut self, name: NameIn) -> Self {
        self.of_envelope = Some(name);
        self
    }

    /// Lets messages overtake one that has failed, until its next attempt. Unless this is said, they wait until it is
    /// done or dead-lettered, and its next attempt is made by the worker that has it.
    pub const fn overtaking_failed(mut self) -> Self {
        self.may_overtake_failed = true;
        self
    }

    /// Whether messages may overtake one that has failed.
    pub const fn may_overtake_failed(&self) -> bool {
        self.may_overtake_failed
    }

    /// What this message is ordered by; nothing, if its body cannot be decoded, or is
    /// [numbered](Operation::SEQUENCE): one that is ahead would wait for those behind it.
    ///
    /// # Errors
    /// It does not tell. Then it waits for none.
    pub fn of(&self, envelope: &Envelope) -> Result<Option<Key>, KeyError> {
        if H::SEQUENCE.is_some() {
            return Ok(None);
        }
        if let Some(name) = self.of_envelope {
            return name(envelope).map(Some);
        }
        match H::decode(envelope) {
            Ok(message) => (self.of_message)(&message, envelope).map(Some),
            Err(_) => Ok(None),
        }
    }

    /// The same for another operation on the same messages, one that wraps this one.
    pub const fn likewise<G: Operation<Message = H::Message>>(self) -> OrderedBy<G> {
        OrderedBy {
            of_message: self.of_message,
            of_envelope: self.of_envelope,
            may_overtake_failed: self.may_overtake_failed,
        }
    }
}

// Not derived: that would ask the same of the operation.
impl<H: Operation + ?Sized> Clone for OrderedBy<H> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<H: Operation + ?Sized> Copy for OrderedBy<H> {}

impl<H: Operation + ?Sized> fmt::Debug for OrderedBy<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OrderedBy")
            .field("may_overtake_failed", &self.may_overtake_failed)
            .finish_non_exhaustive()
    }
}
