//! The rules of the store contract, as a failing case quotes them.

use std::fmt;

use crate::StoreError;

/// A rule of [`Store`](crate::Store)'s contract, or of one of its capabilities.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rule {
    OneStep,
    TokensGrow,
    Fencing,
    CompletedWins,
    AttemptsSurvive,
    StoreClock,
    Repeats,
    Exits,
    KeyReused,
    Isolation,
    Purge,
    Atomic,
}

impl Rule {
    /// What the store answered; no case expects an error.
    #[track_caller]
    pub(super) fn answer<T>(self, answer: Result<T, StoreError>) -> T {
        match answer {
            Ok(answer) => answer,
            Err(error) => panic!("{self}\n  the store answered an error: {error:?}"),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OneStep => "rule 1: a claim is one atomic step, and alone looks at expiry",
            Self::TokensGrow => "rule 2: the fencing tokens of a key grow strictly",
            Self::Fencing => {
                "rule 3: a write takes effect if and only if the key is still claimed under its token"
            }
            Self::CompletedWins => {
                "rule 4: a completion, and nothing else, makes a duplicate until its retention ends"
            }
            Self::AttemptsSurvive => {
                "rule 5: attempts survive release and takeover, doubt is told, and no retry comes early"
            }
            Self::StoreClock => "rule 6: time is the store's own clock",
            Self::Repeats => {
                "rule 7: an owner may repeat its claim, and acquires no more once its lease was ended"
            }
            Self::Exits => {
                "rule 8: every record has an exit, and lives as long as the retention after its last write, its lease or the time of its retry"
            }
            Self::KeyReused => {
                "rule 9: other content is refused on a completed or failed key, and held while a worker has it"
            }
            Self::Isolation => {
                "rule 10: no answer is decided from a transaction that may still roll back"
            }
            Self::Purge => "Purge: removes what the retention has ended for, and nothing else",
            Self::Atomic => {
                "TransactionalStore: the handler's writes and the completion commit together or not at all"
            }
        })
    }
}
