//! What a contestant tells in the end.

use serde::{Deserialize, Serialize};

/// A queue that one contestant has consumed, checked by the contestant's process.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq)]
pub struct Finish {
    /// How many messages were in the queue.
    pub messages: u32,
    /// How many were executed, and not taken for copies.
    pub executions: u32,
    /// From the first delivery until the broker had everything acknowledged.
    pub seconds: f64,
}

impl Finish {
    pub(crate) fn per_second(&self) -> f64 {
        f64::from(self.messages) / self.seconds
    }
}
