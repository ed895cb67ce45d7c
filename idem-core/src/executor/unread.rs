//! Numbered messages that are not handed to their handler: their numbers are given up, so that none of
//! their sequences waits for them.

use std::fmt;

use super::{Requester, verdict::Ended};
use crate::{
    executor::{Cause, Execution},
    store::{Claim, OutOfPlace},
};

/// Why a message's number is given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unread {
    /// Its body cannot be made out.
    Undecodable(String),
    /// Its publisher has withdrawn it.
    Withdrawn,
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Undecodable(error) => f.write_str(error),
            Self::Withdrawn => f.write_str("its publisher has withdrawn it"),
        }
    }
}

impl Unread {
    pub(super) fn execution<T, E>(self) -> Execution<T, E> {
        match self {
            Self::Undecodable(error) => Execution::Undecodable { error },
            Self::Withdrawn => Execution::Rejected {
                cause: Cause::Withdrawn,
                attempt: 0,
            },
        }
    }

    /// What comes of a number that could not be claimed. If nobody works on it, and it is not to be
    /// waited for, it is no gap.
    pub(super) fn instead_of<T, E>(self, ended: Ended) -> Execution<T, E> {
        let is_undecodable = matches!(self, Self::Undecodable(_));
        match ended {
            Ended::Answered(Claim::Completed { .. }) if is_undecodable => self.execution(),
            Ended::Answered(
                Claim::OutOfPlace(OutOfPlace::Late) | Claim::KeyReused | Claim::Quarantined,
            )
            | Ended::Exhausted(_) => self.execution(),
            ended => ended.into_execution(Requester::Nobody),
        }
    }
}
