//! What the Kafka client library says, as the source of our errors.

use std::{error::Error, fmt};

use rdkafka::error::KafkaError as ClientError;

use super::Source;

/// An error of the client library, as a whole.
///
/// Its text tells its own source: so it has none here, or whoever prints a chain of causes, as anyhow does, would print
/// the broker's words twice.
#[derive(Debug)]
struct LibraryError(ClientError);

impl fmt::Display for LibraryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for LibraryError {}

/// Makes it the source of one of our errors.
pub(super) fn said(error: ClientError) -> Source {
    Box::new(LibraryError(error))
}
