//! What keeps a worker from its job.

use std::{fmt, time::Duration};

/// Something that keeps a worker from its job.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// What is wrong.
    pub kind: ProblemKind,
    /// For how long it has lasted. What was well for a moment only, less than 10 s, counts as ill all the time.
    pub lasting: Duration,
    /// Why, in one line, if it is known. It never holds a password.
    pub error: Option<String>,
}

/// What can keep a worker from its job.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProblemKind {
    /// There is no connection to the broker.
    Disconnected,
    /// A queue is not consumed: there is no connection, or the queue was deleted, exists with
    /// other arguments, or may not be used.
    NotConsuming {
        /// The queue's name.
        queue: String,
    },
    /// Messages, or clients of sessions, wait for the store, which does not answer.
    StoreUnavailable,
    /// Retries or dead letters of a queue cannot be published: their queue or exchange was deleted,
    /// is full, or may not be used, or the broker cannot be reached. So it is with replies while it
    /// cannot be reached. Their messages are kept.
    Unpublished {
        /// The name of the queue that the messages came from.
        queue: String,
    },
    /// Handlers that fail open run without the store, which does not answer. Told until it has
    /// answered again.
    Unprotected,
    /// The broker takes no messages, so no retries and no dead letters either: its memory or its
    /// disk is short.
    Blocked,
    /// Numbered messages of a queue wait for an earlier number, which has not come or is not done.
    Gap {
        /// The queue's name.
        queue: String,
    },
    /// A stream was truncated above a handler's mark: messages were removed before they were handled. Told until the
    /// worker ends.
    StreamTruncated {
        /// The stream's name.
        queue: String,
    },
    /// The mark of a stream does not move, although messages are there: the one at the mark is not done. Those behind
    /// it are handled until 1,024 of them are done.
    StreamStalled {
        /// The stream's name.
        queue: String,
    },
    /// A stream [stops](crate::OnFailure::Stop) at a message that cannot be handled. It is tried again each minute.
    StreamStopped {
        /// The stream's name.
        queue: String,
    },
    /// A stream ends before its handler's mark: it was deleted and made anew, or set back. It is not read before
    /// somebody sets the mark.
    MarkBeyondEnd {
        /// The stream's name.
        queue: String,
    },
    /// The outbox of the handlers cannot be read: what they publish leaves late, or not at all.
    OutboxUnreadable,
    /// Messages of the outbox were given up, and wait for somebody.
    OutboxDead,
    /// A message of the outbox should have left five minutes ago or more.
    OutboxLate,
    /// The worker has ended although nobody told it to.
    Ended,
}

impl ProblemKind {
    /// Whether messages are not consumed, or not done with, because of it.
    pub(super) fn hinders(&self) -> bool {
        !matches!(
            self,
            Self::Unprotected
                | Self::Blocked
                | Self::Gap { .. }
                | Self::StreamTruncated { .. }
                | Self::StreamStalled { .. }
                | Self::OutboxUnreadable
                | Self::OutboxDead
                | Self::OutboxLate
        )
    }

    /// Whether it is worth a restart when it lasts. A restart helps no queue that is gone, and a
    /// message whose dead letter could not be published would run again.
    pub(super) fn may_need_a_restart(&self) -> bool {
        self.hinders()
            && !matches!(
                self,
                Self::Unpublished { .. } | Self::StreamStopped { .. } | Self::MarkBeyondEnd { .. }
            )
    }
}

impl fmt::Display for ProblemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disconnected => f.write_str("no connection to the broker"),
            Self::NotConsuming { queue } => write!(f, "not consuming {queue}"),
            Self::StoreUnavailable => f.write_str("the store does not answer"),
            Self::Unpublished { queue } => {
                write!(
                    f,
                    "retries, dead letters or replies of {queue} cannot be published"
                )
            }
            Self::Unprotected => f.write_str("handlers run without the store"),
            Self::Blocked => f.write_str("the broker takes no messages"),
            Self::Gap { queue } => {
                write!(f, "numbered messages of {queue} wait for an earlier one")
            }
            Self::StreamTruncated { queue } => {
                write!(
                    f,
                    "messages of {queue} were removed before they were handled"
                )
            }
            Self::StreamStalled { queue } => write!(f, "the mark of {queue} stands still"),
            Self::StreamStopped { queue } => {
                write!(f, "{queue} stops at a message that cannot be handled")
            }
            Self::MarkBeyondEnd { queue } => write!(f, "{queue} ends before the mark"),
            Self::OutboxUnreadable => f.write_str("the outbox cannot be read"),
            Self::OutboxDead => f.write_str("messages of the outbox were given up"),
            Self::OutboxLate => f.write_str("messages of the outbox do not leave"),
            Self::Ended => f.write_str("not running although nobody stopped it"),
        }
    }
}

/// `no connection to the broker for 12s: IO error: connection refused`
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} for {}s", self.kind, self.lasting.as_secs())?;
        match &self.error {
            Some(error) => write!(f, ": {error}"),
            None => Ok(()),
        }
    }
}
