//! What a worker's process says on its standard output, one JSON object a line.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

/// What a worker's process says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A service takes requests.
    Listening {
        /// At this port of this machine.
        port: u16,
    },
    /// A handler was called.
    Started {
        /// The order's id.
        order_id: String,
        /// Which attempt.
        attempt: u32,
        /// Whether the attempt before ended without a word.
        in_doubt: bool,
        /// What the worker's clock showed.
        at: SystemTime,
    },
    /// A handler was called with several messages at once, or with what is left of them.
    Batch {
        /// How many there are.
        messages: usize,
    },
    /// A message ended.
    Ended {
        /// The key, if the message had one.
        key: Option<String>,
        /// How.
        kind: String,
        /// Which attempt ran.
        attempt: Option<u32>,
        /// What went wrong.
        error: Option<String>,
        /// Whether the broker had delivered the message before.
        redelivered: bool,
    },
    /// The worker has drained.
    WorkerStats {
        /// Whether the deliveries are as many as the ends.
        even: bool,
        /// The kinds that occurred.
        ended: Vec<(String, u64)>,
    },
}

impl Event {
    /// Whether a message ended in this kind.
    pub fn is_end(&self, of: &str) -> bool {
        matches!(self, Self::Ended { kind, .. } if kind == of)
    }
}
