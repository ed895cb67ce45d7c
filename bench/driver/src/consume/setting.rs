//! Under which conditions contestants are compared.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// A type of queue.
#[derive(
    Clone, Copy, Debug, Deserialize, Serialize, ValueEnum, PartialEq, Eq, PartialOrd, Ord, Hash,
)]
#[serde(rename_all = "kebab-case")]
pub enum QueueKind {
    /// On one node.
    Classic,
    /// Replicated by consensus; here on one node, too.
    Quorum,
}

/// What is the same for all contestants of a race.
#[derive(Clone, Copy, Debug, Serialize, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Setting {
    pub(crate) queue: QueueKind,
    pub(crate) prefetch: u16,
}

impl QueueKind {
    /// As it is written on a command line, and as RabbitMQ calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::Quorum => "quorum",
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} queue, prefetch {}", self.queue.name(), self.prefetch)
    }
}
