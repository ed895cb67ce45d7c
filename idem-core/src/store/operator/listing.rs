//! Which keys are listed, page by page.

use std::time::Duration;

use super::{KeyRecord, KeyState};

/// Which keys are listed: those that meet all conditions.
///
/// ```
/// # use std::time::Duration;
/// use idem_core::operator::{KeyState, Listing};
///
/// let stuck = Listing::all().state(KeyState::InProgress).older_than(Duration::from_hours(1));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listing {
    /// Only keys in this state.
    pub state: Option<KeyState>,
    /// Only keys of this [age](KeyRecord::age) or older.
    pub older_than: Duration,
    /// Only keys whose text begins with this; `orders.charge:` are those of one scope.
    pub prefix: String,
    /// Where the page before ended.
    pub after: Option<Cursor>,
    /// How many keys a page has at most, about; 100 unless set.
    pub limit: u32,
}

impl Listing {
    /// Every key, from the beginning.
    pub fn all() -> Self {
        Self {
            state: None,
            older_than: Duration::ZERO,
            prefix: String::new(),
            after: None,
            limit: 100,
        }
    }

    /// Only keys in this state.
    pub fn state(mut self, state: impl Into<Option<KeyState>>) -> Self {
        self.state = state.into();
        self
    }

    /// Only keys of this [age](KeyRecord::age) or older.
    pub fn older_than(mut self, age: Duration) -> Self {
        self.older_than = age;
        self
    }

    /// Only keys whose text begins with this.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Goes on where a page ended; the conditions must be the same.
    pub fn after(mut self, cursor: Cursor) -> Self {
        self.after = Some(cursor);
        self
    }

    /// How many keys a page has at most, about.
    pub fn limit(mut self, keys: u32) -> Self {
        self.limit = keys;
        self
    }

    /// The last text that any key can have that begins as asked, in the order of bytes: what a range of
    /// an index ends with.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn last(&self) -> String {
        // The greatest character has four bytes.
        let greatest = "\u{10ffff}".repeat(crate::message::Key::MAX_LEN / 4 + 1);
        format!("{}{greatest}", self.prefix)
    }

    /// Whether a record meets the conditions.
    pub fn picks(&self, record: &KeyRecord) -> bool {
        self.state.is_none_or(|state| state == record.state())
            && record.age >= self.older_than
            && record.key.as_str().starts_with(&self.prefix)
    }
}

/// Some of the keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Page {
    /// The records, in the store's own order. There may be none although further pages have some.
    pub records: Vec<KeyRecord>,
    /// The names of records that cannot be read, whatever their state.
    pub unreadable: Vec<String>,
    /// Where the next page begins; `None` after the last one.
    pub next: Option<Cursor>,
}

impl Page {
    /// For store implementations: these keys, and where the next page begins.
    pub fn new(records: Vec<KeyRecord>, unreadable: Vec<String>, next: Option<Cursor>) -> Self {
        Self {
            records,
            unreadable,
            next,
        }
    }
}

/// A place in a listing, in words that only its store understands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor(String);

impl Cursor {
    /// For store implementations: a place.
    pub fn new(place: impl Into<String>) -> Self {
        Self(place.into())
    }

    /// The place.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
