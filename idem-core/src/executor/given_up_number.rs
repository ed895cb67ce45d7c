//! Numbered messages that are not handed to their handler: their numbers are given up, so that their sequences do not
//! wait for them.
//!
//! [`Prepared`](super::Prepared) finds such a message, and [`Executor::handle`](crate::Executor::handle) claims its
//! number and gives it up. What must stay true:
//!
//! - A message that nobody can read (or that is not valid) is never taken for a duplicate, which would be acknowledged
//!   and lost.
//! - It ends only when its sequence does not wait for its number any more.

use std::fmt;

use super::{Requester, verdict::NotRun};
use crate::{
    executor::{Cause, Execution},
    store::{Claim, OutOfPlace},
};

/// Why a message's number is given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum GiveUpReason {
    /// Its body cannot be made out.
    Undecodable(String),
    /// It is not valid.
    Invalid(String),
    /// Its publisher has withdrawn it.
    Withdrawn,
}

impl fmt::Display for GiveUpReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Undecodable(error) | Self::Invalid(error) => f.write_str(error),
            Self::Withdrawn => f.write_str("its publisher has withdrawn it"),
        }
    }
}

impl GiveUpReason {
    /// How the message ends once its number is given up: as one that cannot be read, is not valid, or was withdrawn,
    /// which is a rejection without an attempt.
    pub(super) fn execution<T, E>(self) -> Execution<T, E> {
        match self {
            Self::Undecodable(error) => Execution::Undecodable { error },
            Self::Invalid(error) => Execution::Invalid { error },
            Self::Withdrawn => Execution::Rejected {
                cause: Cause::Withdrawn,
                attempt: 0,
            },
        }
    }

    /// How the message ends if its number could not be claimed.
    ///
    /// If the sequence does not wait for the number any more, the message ends as if its number had been given
    /// up now. Otherwise it ends as any message would (in a conflict, ahead of its turn, without a store), and is
    /// handled again later.
    pub(super) fn instead_of<T, E>(self, ended: NotRun) -> Execution<T, E> {
        let has_content = !matches!(self, Self::Withdrawn);
        match ended {
            // Something else was done under the number: this body was not, so a person has to look at it. A withdrawn
            // message has no content that could be lost, and is a duplicate.
            NotRun::Answered(Claim::Completed { .. }) if has_content => self.execution(),
            NotRun::Answered(
                Claim::OutOfPlace(OutOfPlace::Late) | Claim::KeyReused | Claim::Quarantined,
            )
            | NotRun::Exhausted(_) => self.execution(),
            ended => ended.into_execution(Requester::Nobody),
        }
    }
}
