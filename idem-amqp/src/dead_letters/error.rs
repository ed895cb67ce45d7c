//! Why dead letters could not be dealt with.

use super::DeadLetterStats;
use crate::error::BrokerError;

type Source = Box<dyn std::error::Error + Send + Sync>;

/// Why dead letters could not be dealt with.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The broker cannot be reached, or does not let us in.
    #[error(transparent)]
    Broker(#[from] BrokerError),
    /// The dead-letter queue is not there, or may not be read.
    #[error("the dead-letter queue `{queue}` cannot be read")]
    Queue {
        /// The queue's name.
        queue: String,
        /// What the broker said.
        #[source]
        source: Source,
    },
    /// The connection was lost on the way, or the queue deleted. Letters that were not dealt with
    /// are back in their queue; of those that were, a few may be there too.
    #[error("it was interrupted; until then: {done}")]
    Interrupted {
        /// What was done before.
        done: DeadLetterStats,
        /// What went wrong.
        #[source]
        source: Source,
    },
}

idem_core::debug_as_chain!(ReplayError);
