//! The command line of `idem marks`.

use std::fmt;

use clap::{Args, Subcommand};
use idem_amqp::{Key, message::KeyError, store::StreamState};
use percent_encoding::percent_decode_str;

use super::Sure;

#[derive(Debug, Subcommand)]
pub(crate) enum MarksCommand {
    /// Lists how far handlers are in their streams and partitions, and which of these are read
    List {
        /// Only of this handler
        #[arg(long)]
        scope: Option<String>,
    },
    /// Shows how far a handler is in a stream or a partition, and who reads it
    Show(Place),
    /// Has a handler go on at this offset; whoever reads does so by itself
    Set {
        #[command(flatten)]
        place: Place,
        /// The lowest offset that is to be handled
        #[arg(value_parser = clap::value_parser!(u64).range(..StreamState::BEYOND_END))]
        offset: u64,
        /// The handler has no mark there yet
        #[arg(long)]
        new: bool,
        #[command(flatten)]
        sure: Sure,
    },
    /// Forgets how far a handler is: it begins anew, where its worker is told to
    Forget {
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        sure: Sure,
    },
}

/// Which mark.
#[derive(Debug, Args)]
pub(crate) struct Place {
    /// The handler's scope
    pub(crate) scope: String,
    /// The stream, such as `ledger`; of Kafka, topic and partition: `kafka:postings:3`
    pub(crate) stream: String,
}

impl Place {
    /// Of the key that the store keeps it under, whose part is escaped.
    pub(crate) fn of(key: &Key) -> Self {
        let text = key.as_str();
        let (scope, stream) = text.split_once(':').unwrap_or((text, ""));
        Self {
            scope: scope.to_owned(),
            stream: percent_decode_str(stream).decode_utf8_lossy().into_owned(),
        }
    }

    /// What the store keeps it under.
    pub(crate) fn key(&self) -> Result<Key, KeyError> {
        Key::new(&self.scope, self.stream.as_str())
    }
}

/// `ledger.book in kafka:postings:3`
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {}", self.scope, self.stream)
    }
}
