//! Messages, dead letters and retries as they are on the wire: pure conversions.
//!
//! The lowest layer: it opens no connection.

pub(crate) mod dead_letter;
pub(crate) mod delivery;
mod envelope;
pub(crate) mod frame_size;
pub(crate) mod headers;
pub(crate) mod incident;
pub(crate) mod ladder;
pub(crate) mod outgoing;
pub(crate) mod publication;
pub(crate) mod reply;
pub(crate) mod republish;
pub(crate) mod retries;
pub(crate) mod retry;
pub(crate) mod sessions;
mod settled;
pub(crate) mod stream;
pub(crate) mod unreadable;

pub use dead_letter::DeadLetter;
pub use delivery::Delivery;
pub use incident::{Incident, Incidents};
pub use publication::Publication;
pub use reply::{ReplyOutcome, ReplyStats};
pub use retries::QueueType;
pub use sessions::{SessionStats, Sessions};
pub use settled::Settled;
pub use stream::StreamOffset;
pub(crate) use unreadable::unmark;
