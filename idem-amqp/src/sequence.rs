//! Messages that a producer numbers, so that they are handled in their order and none is missed.
//!
//! You need it where a message only makes sense after the one before. A producer publishes with a
//! [`SequencePublisher`]; the handler says `key = sequence()`. `docs/sequences.md` tells the whole
//! story.
//!
//! ```no_run
//! use idem_amqp::{Publication, Publisher, sequence::SequencePublisher};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let publisher = Publisher::connect("amqp://127.0.0.1:5672/%2f").await?;
//! let readings: SequencePublisher = publisher.sequence("till-4")?;
//! readings.publish(&Publication::json("readings", &21.5)).await?;
//! # Ok(()) }
//! ```

#[doc(inline)]
pub use crate::publisher::{SequencePublisher, Withdrawn};
#[doc(inline)]
pub use idem_core::{
    executor::SequenceWait,
    handler::{SequenceNumber, SequenceOptions},
    message::{SequenceKey, SequencePlace},
};
