//! The position of a message among others: in a client's session, or in a producer's sequence.

use std::{fmt, time::Duration};

use crate::message::{Key, KeyError};

/// Where a message stands among others.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Position {
    /// Nowhere: its key is its own.
    #[default]
    None,
    /// It has a place in a client's session. Its key is [`SessionPlace::key`].
    Session(SessionPlace),
    /// It has a place in a producer's sequence. Its key is [`SequencePlace::key`].
    Sequence(SequencePlace),
}

/// What a message has its position in: see [`Store::keeps`](crate::Store::keeps).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PositionKind {
    /// A client's session.
    Session,
    /// A producer's sequence.
    Sequence,
}

impl Position {
    /// Whether it stands nowhere.
    pub fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// The place in a session, if it is in one.
    pub fn session(&self) -> Option<&SessionPlace> {
        match self {
            Self::Session(place) => Some(place),
            Self::None | Self::Sequence(_) => None,
        }
    }

    /// The place in a sequence, if it is in one.
    pub fn sequence(&self) -> Option<&SequencePlace> {
        match self {
            Self::Sequence(place) => Some(place),
            Self::None | Self::Session(_) => None,
        }
    }
}

/// Names a session: a key, of at most 234 bytes. A longer one is shortened to its head and a digest.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionKey(Key);

impl SessionKey {
    /// Names the session of this id at the handler of this scope.
    ///
    /// # Errors
    /// If the scope cannot be one, or the id is empty.
    pub fn new(scope: &str, id: &str) -> Result<Self, KeyError> {
        let key = Key::builder(scope).part("session", id).build()?;
        Ok(Self::from(key))
    }

    /// The text that a store keeps.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    #[cfg(feature = "redis")]
    pub(crate) fn as_key(&self) -> &Key {
        &self.0
    }

    /// The key of the request with this number: `SESSION~NUMBER`, which no other key is like.
    pub fn request(&self, number: u64) -> Key {
        self.0.numbered(number)
    }
}

impl From<Key> for SessionKey {
    fn from(key: Key) -> Self {
        Self(key.with_room())
    }
}

impl fmt::Display for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionKey({})", self.0)
    }
}

/// Where a request stands in its session.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionPlace {
    /// Whose request it is.
    pub session: SessionKey,
    /// Which of the session's requests it is.
    pub number: u64,
    /// The lowest number whose answer the client still awaits, this request's at most.
    pub awaited: u64,
}

impl SessionPlace {
    /// The greatest number that a request can have; a greater one is beyond every window.
    pub const MAX_NUMBER: u64 = (1 << 53) - 1;

    /// The shortest retention of a session's records: the longest life, and an hour. Until it is over
    /// there is a sign of life that keeps them for longer, or the session has ended.
    pub const MIN_RETENTION: Duration = Duration::from_hours(25);

    /// The place of a request whose client awaits no answer below `awaited`.
    pub fn new(session: impl Into<SessionKey>, number: u64, awaited: u64) -> Self {
        Self {
            session: session.into(),
            number,
            awaited,
        }
    }

    /// The key to claim: `SESSION~NUMBER`.
    pub fn key(&self) -> Key {
        self.session.request(self.number)
    }
}

/// Names a sequence: the producer and its epoch, in a scope. A key, of at most 234 bytes; a longer one
/// is shortened to its head and a digest.
///
/// ```
/// use idem_core::{Key, message::SequenceKey};
///
/// let sequence = SequenceKey::from(Key::new("meters.read", "meter-7")?);
/// assert_eq!(sequence.message(41).as_str(), "meters.read:meter-7~41");
/// # Ok::<_, idem_core::message::KeyError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SequenceKey(Key);

impl SequenceKey {
    /// The text that a store keeps.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The key of the message with this number: `SEQUENCE~NUMBER`, which no other key is like.
    pub fn message(&self, number: u64) -> Key {
        self.0.numbered(number)
    }
}

impl From<Key> for SequenceKey {
    fn from(key: Key) -> Self {
        Self(key.with_room())
    }
}

impl fmt::Display for SequenceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for SequenceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SequenceKey({})", self.0)
    }
}

/// Where a message stands in its sequence, and how the sequence is kept.
///
/// ```
/// use idem_core::{Key, Policy, message::SequencePlace, store::ClaimRequest};
///
/// let place = SequencePlace::new(Key::new("meters.read", "meter-7")?, 41);
/// let request = ClaimRequest::in_sequence(place, &Policy::DEFAULT); // for `Executor::execute_request`
/// assert_eq!(request.key.as_str(), "meters.read:meter-7~41");
/// # Ok::<_, idem_core::message::KeyError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SequencePlace {
    /// Whose message it is.
    pub sequence: SequenceKey,
    /// Which of the sequence's messages it is.
    pub number: u64,
    /// Whether the sequence may begin with this number: yes, unless set.
    pub begins: bool,
    /// How many numbers from the mark on may be in use: 1,000, unless set.
    pub window: u32,
    /// How long a claim stays ahead before the mark passes what never came; for ever, unless set.
    pub skip_after: Option<Duration>,
}

impl SequencePlace {
    /// The greatest number that a message can have; a greater one is ahead of every window.
    pub const MAX_NUMBER: u64 = (1 << 53) - 1;

    /// The window, unless set.
    pub const DEFAULT_WINDOW: u32 = 1000;

    /// The widest window; a wider one is cut to it, and one of zero is one of 1.
    pub const MAX_WINDOW: u32 = 100_000;

    /// The place of a message in a sequence with a window of 1,000, which waits for every number.
    pub fn new(sequence: impl Into<SequenceKey>, number: u64) -> Self {
        Self {
            sequence: sequence.into(),
            number,
            begins: true,
            window: Self::DEFAULT_WINDOW,
            skip_after: None,
        }
    }

    /// The key to claim: `SEQUENCE~NUMBER`.
    pub fn key(&self) -> Key {
        self.sequence.message(self.number)
    }

    /// Says whether the sequence may begin with this number. Not with a message that was delivered
    /// before: it may be a copy of one that was done long ago, like those after it, for which the mark
    /// would wait.
    pub fn begins(mut self, begins: bool) -> Self {
        self.begins = begins;
        self
    }

    /// Lets this many numbers from the mark on be in use, at least 1 and at most
    /// [`MAX_WINDOW`](Self::MAX_WINDOW).
    pub fn window(mut self, window: u32) -> Self {
        self.window = window.clamp(1, Self::MAX_WINDOW);
        self
    }

    /// Lets the mark pass what never came once claims have been ahead for so long.
    pub fn skip_after(mut self, ahead_for: impl Into<Option<Duration>>) -> Self {
        self.skip_after = ahead_for.into();
        self
    }
}
