//! The calls to the store.

use idem_core::{FencingToken, store::Release};

use crate::store::LEASE;

/// A call on the key of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Call {
    /// Whose key it is.
    pub message: usize,
    /// What the store is asked.
    pub ask: Ask,
}

/// What a store can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ask {
    /// To claim for an owner.
    Claim(u8),
    /// To extend a lease.
    Extend(FencingToken),
    /// To complete under a lease.
    Complete(FencingToken),
    /// To complete under a lease, and to commit the handler's effect in the same step.
    Commit(FencingToken),
    /// To give a key back.
    Release(FencingToken, Reason),
}

/// Why a key is given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the variants are those of `Release`")]
pub enum Reason {
    Failed,
    Abandoned,
    GaveUp,
    Quarantined,
}

impl Ask {
    /// The same, with its lease under another name.
    pub(crate) fn rename_token(&mut self, new: impl FnOnce(FencingToken) -> FencingToken) {
        match self {
            Self::Claim(_) => {}
            Self::Extend(token)
            | Self::Complete(token)
            | Self::Commit(token)
            | Self::Release(token, _) => *token = new(*token),
        }
    }

    /// The lease under which it is a write.
    pub(crate) fn token(&self) -> Option<FencingToken> {
        match self {
            Self::Claim(_) => None,
            Self::Extend(token)
            | Self::Complete(token)
            | Self::Commit(token)
            | Self::Release(token, _) => Some(*token),
        }
    }
}

impl Ask {
    pub(crate) fn reason(&self) -> Option<Reason> {
        match self {
            Self::Release(_, reason) => Some(*reason),
            _ => None,
        }
    }
}

impl From<Reason> for Release {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::Failed => Self::retry_after(LEASE, ""),
            Reason::Abandoned => Self::Abandoned,
            Reason::GaveUp => Self::gave_up(""),
            Reason::Quarantined => Self::Quarantined,
        }
    }
}

impl From<&Release> for Reason {
    fn from(release: &Release) -> Self {
        match release {
            Release::Failed { .. } => Self::Failed,
            Release::Abandoned => Self::Abandoned,
            Release::GaveUp { .. } => Self::GaveUp,
            Release::Quarantined => Self::Quarantined,
            other => unreachable!("the model does not know {other:?}"),
        }
    }
}
