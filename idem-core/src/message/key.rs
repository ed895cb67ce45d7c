//! The name of one unit of work: a scope and one or more parts.

use std::{borrow::Borrow, fmt, sync::Arc};

mod builder;
mod encoding;
mod numbered;
mod part;
mod stored;

pub use builder::{IdempotencyKey, KeyBuilder};
pub use part::KeyPart;

/// Names one unit of work, as `scope:part` or `scope:part:part…`.
///
/// The text is what a store keeps, and is meant to be read there: `orders.charge:o-17`.
/// Two keys are equal exactly if scope and parts are: separators, control characters and `~`
/// inside a part are escaped as `%XX`, so `("a", "bc")` differs from `("ab", "c")`.
///
/// A key is at most [`Key::MAX_LEN`] bytes long. A longer one keeps its head and ends with `~`
/// and the SHA-256 of the whole text in hexadecimal.
///
/// ```
/// use idem_core::Key;
///
/// let key = Key::new("orders.charge", "o-17")?;
/// assert_eq!(key.as_str(), "orders.charge:o-17");
/// assert_eq!(key.scope(), "orders.charge");
/// assert!(Key::new("orders.charge", "").is_err());
/// # Ok::<_, idem_core::message::KeyError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Arc<str>);

impl Key {
    /// The longest key in bytes, digest included.
    pub const MAX_LEN: usize = 255;

    /// The longest scope in bytes.
    pub const MAX_SCOPE_LEN: usize = 100;

    /// A key of one part.
    ///
    /// # Errors
    /// If the scope cannot be one, or the part is empty or null.
    pub fn new(scope: &str, part: impl KeyPart) -> Result<Self, KeyError> {
        Self::builder(scope).part("part", &part).build()
    }

    /// Starts a key of several parts.
    pub fn builder(scope: &str) -> KeyBuilder {
        KeyBuilder::new(scope)
    }

    /// Whether `scope` can be a scope: 1 to 100 bytes of letters, digits, `.`, `_`, `-` and `/`.
    pub const fn is_scope(scope: &str) -> bool {
        encoding::is_scope(scope)
    }

    /// The text that a store keeps.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A stable id for something that is done for this key: the same in every attempt, so that who is told of it twice
    /// can know it again. At most 255 bytes, like a message's id in AMQP.
    ///
    /// ```
    /// use idem_core::Key;
    ///
    /// let key = Key::new("orders.charge", "o-17")?;
    /// assert_eq!(key.derive_id("shipped"), "orders.charge:o-17#shipped");
    /// # Ok::<_, idem_core::message::KeyError>(())
    /// ```
    pub fn derive_id(&self, effect: impl fmt::Display) -> String {
        encoding::bound(format!("{self}#{effect}"), Self::MAX_LEN)
    }

    /// The handler's durable name, the part before the first `:`.
    pub fn scope(&self) -> &str {
        self.0.split_once(':').map_or(&*self.0, |(scope, _)| scope)
    }
}

/// Maps can be asked by a key's text.
impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.0)
    }
}

/// Why a message has no usable key.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The scope is empty, longer than 100 bytes or has characters that a scope cannot have.
    #[error(
        "`{scope}` cannot be a scope: use 1 to 100 bytes of letters, digits, `.`, `_`, `-` and `/`"
    )]
    Scope {
        /// The scope as it was given.
        scope: String,
    },
    /// A part of the key is the empty string.
    #[error("the key's part `{part}` is empty: send a value that names one unit of work")]
    Empty {
        /// The field or source.
        part: String,
    },
    /// A part of the key is null, or the header or property that holds it is not there.
    #[error("the key's part `{part}` is missing: send a value that names one unit of work")]
    Missing {
        /// The field or source.
        part: String,
    },
    /// The header that holds a part of the key is there and has no text: a float, a table, or bytes that are not UTF-8.
    #[error("the key's part `{part}` cannot be read: send it as text or as a whole number")]
    Unreadable {
        /// The source.
        part: String,
    },
    /// What numbers the message is no number, or too great a one.
    #[error(
        "`{part}` numbers the messages, and is `{found}`: send a whole number from 0 to 9007199254740991"
    )]
    Number {
        /// The field or source.
        part: String,
        /// What stands there, its first 40 characters.
        found: String,
    },
    /// A key without any part would be the same for all messages.
    #[error("a key needs at least one part")]
    NoParts,
    /// No store keeps such a text as a key.
    #[error(
        "`{text}` is no key: write `SCOPE:PART` as a store shows it, with `%XX` for `%`, `~`, and `:` inside a part"
    )]
    Text {
        /// The text as it was given.
        text: String,
    },
    /// A key function of the user's own found no key.
    #[error("{reason}")]
    Custom {
        /// What is wrong with the message, in the user's words.
        reason: String,
    },
}

crate::debug_as_chain!(KeyError);

impl KeyError {
    /// For a key function of your own: says why this message has no key.
    pub fn custom(reason: impl Into<String>) -> Self {
        Self::Custom {
            reason: reason.into(),
        }
    }
}

#[cfg(test)]
mod tests;
