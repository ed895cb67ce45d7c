//! Handlers of numbered messages: whose key is a place in a producer's sequence.

use std::{borrow::Cow, fmt, rc::Rc, sync::Arc, time::Duration};

use crate::{
    handler::Operation,
    message::{Envelope, Key, KeyBuilder, KeyError, SequencePlace},
};

/// The shortest wait for a number that never came.
#[doc(hidden)]
pub const SHORTEST_WAIT: Duration = Duration::from_secs(1);

/// The longest wait for a number that never came.
#[doc(hidden)]
pub const LONGEST_WAIT: Duration = Duration::from_hours(10 * 366 * 24);

/// How a handler's messages are numbered: see [`Operation::SEQUENCE`].
///
/// `#[idempotent(key = sequence(…))]` writes this.
pub struct SequenceOptions<H: Operation + ?Sized> {
    place: PlaceOf<H>,
    in_envelope: Option<PlaceIn>,
    window: u32,
    skip_after: Option<Duration>,
}

/// The sequence's key, and the message's number in it.
type PlaceOf<H> = fn(&<H as Operation>::Message, &Envelope) -> Result<(Key, u64), KeyError>;

/// The same, of a message whose body was not read.
type PlaceIn = fn(&Envelope) -> Result<(Key, u64), KeyError>;

impl<H: Operation + ?Sized> SequenceOptions<H> {
    /// `place` names the message's producer, and says which number it gave the message. Sequences have
    /// a window of 1,000, and wait for every number.
    pub const fn new(place: PlaceOf<H>) -> Self {
        Self {
            place,
            in_envelope: None,
            window: SequencePlace::DEFAULT_WINDOW,
            skip_after: None,
        }
    }

    /// Says that the same place can be told without the body. Then a message whose body cannot be
    /// decoded is no gap: its number is given up.
    pub const fn in_envelope(
        mut self,
        place: fn(&Envelope) -> Result<(Key, u64), KeyError>,
    ) -> Self {
        self.in_envelope = Some(place);
        self
    }

    /// Lets this many numbers be in use from the lowest one on that is not done; 1,000 unless set.
    ///
    /// # Panics
    /// At compile time, if there are none or more than 100,000.
    pub const fn window(mut self, numbers: u32) -> Self {
        assert!(
            1 <= numbers && numbers <= SequencePlace::MAX_WINDOW,
            "a window has 1 to 100000 numbers"
        );
        self.window = numbers;
        self
    }

    /// Passes numbers that never came, once others have been ahead for so long; without this they are
    /// waited for. What is ahead must not pause for half of this, and may ask no more than once a
    /// minute: less than 3 min may not be enough.
    ///
    /// # Panics
    /// At compile time, if it is shorter than a second or longer than ten years.
    pub const fn skip_gaps_after(mut self, ahead_for: Duration) -> Self {
        assert!(
            ahead_for.as_secs() >= SHORTEST_WAIT.as_secs()
                && ahead_for.as_secs() <= LONGEST_WAIT.as_secs(),
            "a missing number is waited for at least a second, and at most ten years"
        );
        self.skip_after = Some(ahead_for);
        self
    }

    /// How long a number that never came is waited for while others are ahead; `None` for ever.
    pub const fn patience(&self) -> Option<Duration> {
        self.skip_after
    }

    /// Where the message stands.
    ///
    /// # Errors
    /// If it does not say whose it is, or has no number from 0 to
    /// [`SequencePlace::MAX_NUMBER`].
    pub fn place(
        &self,
        message: &H::Message,
        envelope: &Envelope,
    ) -> Result<SequencePlace, KeyError> {
        (self.place)(message, envelope).map(|named| self.kept(named))
    }

    /// Where a message stands whose body was not read, if its envelope tells.
    pub fn place_in(&self, envelope: &Envelope) -> Option<SequencePlace> {
        let named = (self.in_envelope?)(envelope);
        named.ok().map(|named| self.kept(named))
    }

    /// The same for another operation on the same messages, one that wraps this one.
    pub const fn likewise<G: Operation<Message = H::Message>>(self) -> SequenceOptions<G> {
        SequenceOptions {
            place: self.place,
            in_envelope: self.in_envelope,
            window: self.window,
            skip_after: self.skip_after,
        }
    }

    fn kept(&self, (sequence, number): (Key, u64)) -> SequencePlace {
        SequencePlace::new(sequence, number)
            .window(self.window)
            .skip_after(self.skip_after)
    }
}

// Not derived: that would ask the same of the operation.
impl<H: Operation + ?Sized> Clone for SequenceOptions<H> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<H: Operation + ?Sized> Copy for SequenceOptions<H> {}

impl<H: Operation + ?Sized> fmt::Debug for SequenceOptions<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SequenceOptions")
            .field("window", &self.window)
            .field("skip_after", &self.skip_after)
            .finish_non_exhaustive()
    }
}

/// A value by which a producer numbers its messages: an integer, or text of digits.
///
/// ```
/// use std::borrow::Cow;
/// use idem_core::{handler::SequenceNumber, message::KeyPart};
///
/// /// The reading of a device's counter.
/// struct Reading(u64);
///
/// impl SequenceNumber for Reading {
///     fn digits(&self) -> Option<Cow<'_, str>> {
///         self.0.to_part()
///     }
/// }
///
/// assert_eq!(Reading(17).digits().as_deref(), Some("17"));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot number messages",
    label = "not a number",
    note = "a number is an integer, text of digits, or an option of these"
)]
pub trait SequenceNumber {
    /// The number's digits; `None` if there is none.
    fn digits(&self) -> Option<Cow<'_, str>>;
}

macro_rules! by_key_part {
    ($($value:ty),*) => {$(
        impl SequenceNumber for $value {
            fn digits(&self) -> Option<Cow<'_, str>> {
                crate::message::KeyPart::to_part(self)
            }
        }
    )*};
}

by_key_part!(
    u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, str, String
);

impl SequenceNumber for Cow<'_, str> {
    fn digits(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(self))
    }
}

impl<T: SequenceNumber> SequenceNumber for Option<T> {
    fn digits(&self) -> Option<Cow<'_, str>> {
        self.as_ref().and_then(SequenceNumber::digits)
    }
}

macro_rules! by_deref {
    ($($pointer:ty),*) => {$(
        impl<T: SequenceNumber + ?Sized> SequenceNumber for $pointer {
            fn digits(&self) -> Option<Cow<'_, str>> {
                (**self).digits()
            }
        }
    )*};
}

by_deref!(&T, Box<T>, Rc<T>, Arc<T>);

/// For the macro: a sequence's key and a number, if both are there.
#[doc(hidden)]
pub fn numbered(
    sequence: KeyBuilder,
    number: Result<u64, KeyError>,
) -> Result<(Key, u64), KeyError> {
    Ok((sequence.build()?, number?))
}

/// For the macro: the number that stands in this source.
#[doc(hidden)]
pub fn number(name: &str, value: &(impl SequenceNumber + ?Sized)) -> Result<u64, KeyError> {
    let Some(digits) = value.digits() else {
        return Err(KeyError::Missing { part: name.into() });
    };
    if digits.is_empty() {
        return Err(KeyError::Empty { part: name.into() });
    }
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.parse().ok().filter(|_| plain);
    number
        .filter(|number| *number <= SequencePlace::MAX_NUMBER)
        .ok_or_else(|| KeyError::Number {
            part: name.into(),
            found: digits.chars().take(LONGEST_SHOWN).collect(),
        })
}

/// Characters of what is no number, in the error that says so.
const LONGEST_SHOWN: usize = 40;

/// For the macro: the key of a numbered message.
#[doc(hidden)]
pub fn numbered_key<H: Operation>(
    message: &H::Message,
    envelope: &Envelope,
) -> Result<Key, KeyError> {
    match &H::SEQUENCE {
        Some(numbered) => Ok(numbered.place(message, envelope)?.key()),
        None => Err(KeyError::NoParts),
    }
}

#[cfg(test)]
mod tests;
