//! Why a message is late. [`verdict`](super::verdict) says so when the store or the policy has kept it from running;
//! transports tell it to whoever looks at the dead letter.

use std::fmt;

/// Why a message is [late](crate::Execution::Late).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lateness {
    /// Its number's turn in its sequence has passed without it.
    InSequence,
    /// It is older than its key would be remembered, and [to be quarantined](crate::handler::Late::Quarantine) for
    /// that.
    BeyondRetention,
}

impl fmt::Display for Lateness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InSequence => "its turn in the sequence has passed without it",
            Self::BeyondRetention => {
                "it is older than its key would be remembered: a copy may have been handled before"
            }
        })
    }
}
