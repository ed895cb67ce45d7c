//! What a store's answers are called.

use crate::store::{Claim, Finished, OutOfPlace, Write};

/// What a store says.
pub(super) trait Answer {
    /// The answer in one word, as spans show it.
    fn label(&self) -> &'static str;

    fn is_fenced(&self) -> bool {
        false
    }

    /// The number of the attempt, if a key was acquired.
    fn attempt(&self) -> Option<u32> {
        None
    }
}

impl Answer for Claim {
    fn label(&self) -> &'static str {
        match self {
            Self::Acquired(_) => "acquired",
            Self::Held { .. } => "held",
            Self::Completed { .. } => "completed",
            Self::KeyReused => "key-reused",
            Self::Quarantined => "quarantined",
            Self::OutOfPlace(OutOfPlace::Stale) => "stale",
            Self::OutOfPlace(OutOfPlace::SessionExpired) => "session-expired",
            Self::OutOfPlace(OutOfPlace::BeyondWindow { .. }) => "beyond-window",
            Self::OutOfPlace(OutOfPlace::Late) => "late",
            Self::OutOfPlace(OutOfPlace::Ahead { .. }) => "ahead",
        }
    }

    fn attempt(&self) -> Option<u32> {
        match self {
            Self::Acquired(lease) => Some(lease.attempt),
            _ => None,
        }
    }
}

impl Answer for Write {
    fn label(&self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Fenced => "fenced",
        }
    }

    fn is_fenced(&self) -> bool {
        *self == Self::Fenced
    }
}

impl Answer for Finished {
    fn label(&self) -> &'static str {
        match self {
            Self::Committed => "committed",
            Self::Fenced => "fenced",
            Self::Violated { .. } => "violated",
            Self::Refused { .. } => "refused",
            Self::RolledBack => "rolled-back",
            Self::WithoutCompletion => "committed-without",
        }
    }

    fn is_fenced(&self) -> bool {
        *self == Self::Fenced
    }
}
