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
    /// A stream, which is read and not emptied. No message in it is a copy.
    Stream,
}

/// What is the same for all contestants of a race.
#[derive(Clone, Copy, Debug, Serialize, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Setting {
    pub(crate) queue: QueueKind,
    pub(crate) prefetch: u16,
}

/// What takes its time in every race of a run. Nothing does, unless it is asked for.
#[derive(Clone, Copy, Debug, Default, Serialize, PartialEq, Eq)]
pub(crate) struct Delays {
    /// A call of a handler.
    pub(crate) handler_ms: u64,
    /// Whatever is sent between a consumer and a server, each way.
    pub(crate) link_ms: u64,
}

impl QueueKind {
    /// Those that are emptied.
    pub(crate) const QUEUES: [Self; 2] = [Self::Classic, Self::Quorum];

    /// As it is written on a command line, and as RabbitMQ calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::Quorum => "quorum",
            Self::Stream => "stream",
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.queue {
            QueueKind::Stream => f.write_str("stream without copies")?,
            queue => write!(f, "{} queue", queue.name())?,
        }
        write!(f, ", prefetch {}", self.prefetch)
    }
}

/// Nothing, if nothing takes its time.
impl fmt::Display for Delays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.handler_ms > 0 {
            write!(f, ", {} ms for each call of a handler", self.handler_ms)?;
        }
        if self.link_ms > 0 {
            write!(f, ", {} ms each way to a server", self.link_ms)?;
        }
        Ok(())
    }
}
