//! What an operator does to a key.

use std::{fmt, str::FromStr, time::Duration};

use super::{KeyRecord, KeyState};
use crate::{
    handler::{FencingToken, Outcome},
    message::Key,
    store::Owner,
};

/// A change that an operator makes to one key.
///
/// ```no_run
/// # use idem_core::{Key, StoreError, store::Look as _, operator::{Intervened, Intervention, OperatorStore}};
/// # async fn free(store: impl OperatorStore, key: Key) -> Result<bool, StoreError> {
/// let seen = store.look(&key).await?.map(|known| known.record.seen());
/// let release = Intervention::release(key, seen, "operator@ops-1");
/// Ok(store.intervene(&release).await? == Intervened::Applied)
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Intervention {
    /// What is changed.
    pub key: Key,
    /// How.
    pub action: Action,
    /// The record on which the operator has decided; `None` if there was none.
    pub seen: Option<Seen>,
    /// Whose change this is; it may be repeated without harm.
    pub owner: Owner,
    /// Who makes it, such as `user@host`: at most [`MAX_BY_LEN`](Self::MAX_BY_LEN) bytes.
    pub by: String,
    /// What [`Action::Complete`] remembers.
    pub outcome: Outcome,
    /// How long [`Action::Complete`] remembers it.
    pub retention: Duration,
}

/// What is done to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Action {
    /// Makes it free for its next attempt.
    Release,
    /// Removes its record.
    Forget,
    /// Makes it done, so that copies are duplicates.
    Complete,
}

/// What an operator has seen of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// Its state.
    pub state: KeyState,
    /// Its fencing token.
    pub token: FencingToken,
}

/// What became of an intervention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "an intervention may have had no effect"]
#[non_exhaustive]
pub enum Intervened {
    /// It took effect, now or when it was first tried.
    Applied,
    /// The record is not what was seen any more; nothing was changed.
    Changed,
    /// It makes no sense in that state; nothing was changed.
    Unfit,
}

impl Intervention {
    /// How much is kept of the operator's name, in bytes.
    pub const MAX_BY_LEN: usize = 200;

    /// Frees a key for its next attempt.
    pub fn release(key: Key, seen: Option<Seen>, by: impl Into<String>) -> Self {
        Self::new(key, Action::Release, seen, by.into())
    }

    /// Removes a key's record.
    pub fn forget(key: Key, seen: Option<Seen>, by: impl Into<String>) -> Self {
        Self::new(key, Action::Forget, seen, by.into())
    }

    /// Makes a key done, and remembers that for the retention from now.
    pub fn complete(
        key: Key,
        seen: Option<Seen>,
        by: impl Into<String>,
        outcome: Outcome,
        retention: Duration,
    ) -> Self {
        Self {
            outcome,
            retention,
            ..Self::new(key, Action::Complete, seen, by.into())
        }
    }

    fn new(key: Key, action: Action, seen: Option<Seen>, mut by: String) -> Self {
        by.truncate(by.floor_char_boundary(Self::MAX_BY_LEN));
        Self {
            key,
            action,
            seen,
            owner: Owner::new(),
            by,
            outcome: Outcome::default(),
            retention: Duration::ZERO,
        }
    }

    /// Whether it makes sense on what was seen; if not, it is [`Intervened::Unfit`].
    pub fn is_fit(&self) -> bool {
        let state = self.seen.map(|seen| seen.state);
        match self.action {
            Action::Release => matches!(state, Some(KeyState::InProgress | KeyState::Failed)),
            Action::Forget => state.is_some(),
            Action::Complete => state != Some(KeyState::Completed),
        }
    }
}

impl Action {
    /// As a store writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Forget => "forget",
            Self::Complete => "complete",
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Action {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Self::Release, Self::Forget, Self::Complete]
            .into_iter()
            .find(|action| action.as_str() == text)
            .ok_or_else(|| format!("`{text}` is nothing that an operator does"))
    }
}

impl KeyRecord {
    /// What an intervention has to find unchanged.
    pub fn seen(&self) -> Seen {
        Seen {
            state: self.state(),
            token: self.token,
        }
    }
}
