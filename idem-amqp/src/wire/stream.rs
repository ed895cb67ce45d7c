//! What is particular to the deliveries of a stream: where to begin, and the offset that each has.

use std::time::{SystemTime, UNIX_EPOCH};

use lapin::{
    BasicProperties,
    types::{AMQPValue, FieldTable},
};

/// A consumer's argument, and a delivery's header.
pub(crate) const OFFSET: &str = "x-stream-offset";

/// Where in a stream a handler begins that has no mark in it yet.
///
/// With a mark it goes on from there, whatever this says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamOffset {
    /// Begins with the first message that the stream still has.
    #[default]
    First,
    /// Begins with the last chunk of messages: the broker writes and sends them in chunks, of one to thousands.
    Last,
    /// Begins with what is published from now on.
    Next,
    /// Begins with the message that has this offset.
    Offset(u64),
    /// Begins with the first chunk of messages that is not older than this, to the second: earlier messages may be in
    /// it.
    Timestamp(SystemTime),
}

impl StreamOffset {
    /// Whether the same place is another one when it is asked for again later.
    pub(crate) fn moves(self) -> bool {
        matches!(self, Self::Last | Self::Next | Self::Timestamp(_))
    }

    /// The same place, or one before it, for who could not begin there then.
    pub(crate) fn asked_again(self, then: SystemTime) -> Self {
        match self {
            Self::First | Self::Offset(_) => self,
            Self::Last | Self::Next => Self::Timestamp(then),
            Self::Timestamp(time) => Self::Timestamp(time.min(then)),
        }
    }

    /// The consumer's arguments.
    pub(crate) fn arguments(self) -> FieldTable {
        let value = match self {
            Self::First => AMQPValue::LongString("first".into()),
            Self::Last => AMQPValue::LongString("last".into()),
            Self::Next => AMQPValue::LongString("next".into()),
            Self::Offset(offset) => {
                AMQPValue::LongLongInt(i64::try_from(offset).unwrap_or(i64::MAX))
            }
            Self::Timestamp(time) => {
                let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
                AMQPValue::Timestamp(since.as_secs())
            }
        };
        let mut table = FieldTable::default();
        table.insert(OFFSET.into(), value);
        table
    }
}

/// The offset of a delivery; none if its properties could not be read.
pub(crate) fn offset(properties: &BasicProperties) -> Option<u64> {
    let headers = properties.headers().as_ref()?;
    match headers.inner().get(OFFSET)? {
        AMQPValue::LongLongInt(offset) => u64::try_from(*offset).ok(),
        AMQPValue::LongInt(offset) => u64::try_from(*offset).ok(),
        _ => None,
    }
}
