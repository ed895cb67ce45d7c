//! The command line of `idem outbox`.

use clap::{Args, Subcommand, ValueEnum};
use idem_amqp::outbox::{OutboxState, OutgoingId};

use super::Sure;

#[derive(Debug, Subcommand)]
pub(crate) enum OutboxCommand {
    /// Lists messages
    List {
        /// Only messages in this state
        #[arg(long)]
        state: Option<State>,
        /// Only messages whose id begins so: with the key of the handled message, SCOPE:PART
        #[arg(long, value_name = "PREFIX")]
        key: Option<String>,
        /// At most so many
        #[arg(long, value_name = "MESSAGES")]
        limit: Option<usize>,
    },
    /// Shows everything that is known of a message, its body included
    Show {
        /// As it is listed
        id: OutgoingId,
    },
    /// Makes a message that was given up due again
    Retry {
        /// As it is listed
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        id: Option<OutgoingId>,
        /// All that were given up
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        sure: Sure,
    },
    /// Removes a message, whatever its state: nobody publishes it
    Discard {
        /// As it is listed
        id: OutgoingId,
        #[command(flatten)]
        sure: Sure,
    },
    /// Sends a message elsewhere: it is due again, at once
    Redirect {
        /// As it is listed
        id: OutgoingId,
        #[command(flatten)]
        to: Address,
        #[command(flatten)]
        sure: Sure,
    },
    /// Removes messages that are to leave later, and have not yet
    Cancel {
        /// The message id, or the key of the handled message: then all that it has published
        #[arg(value_name = "KEY-OR-MESSAGE-ID")]
        id: String,
        #[command(flatten)]
        sure: Sure,
    },
    /// Publishes what is in the outbox until it is told to end, by Ctrl-C or SIGTERM
    Relay,
}

/// Where a message goes.
#[derive(Debug, Args)]
pub(crate) struct Address {
    /// A queue
    #[arg(
        long,
        value_name = "QUEUE",
        required_unless_present = "exchange",
        conflicts_with_all = ["exchange", "routing_key"]
    )]
    queue: Option<String>,
    /// An exchange
    #[arg(long, value_name = "EXCHANGE", requires = "routing_key")]
    exchange: Option<String>,
    /// The routing key there
    #[arg(long, value_name = "KEY", requires = "exchange")]
    routing_key: Option<String>,
}

impl Address {
    /// The exchange and the routing key; a queue has the default exchange.
    pub(crate) fn parts(&self) -> (&str, &str) {
        let exchange = self.exchange.as_deref().unwrap_or_default();
        let routing_key = self.queue.as_ref().or(self.routing_key.as_ref());
        (exchange, routing_key.map_or("", String::as_str))
    }
}

/// As `OutboxState`.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum State {
    /// Due, or a worker has it
    Waiting,
    /// To leave later
    Later,
    /// Given up
    Dead,
}

impl From<State> for OutboxState {
    fn from(state: State) -> Self {
        match state {
            State::Waiting => Self::Waiting,
            State::Later => Self::Later,
            State::Dead => Self::Dead,
        }
    }
}
