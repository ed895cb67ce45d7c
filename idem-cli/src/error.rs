//! Why a command has not done what it was to do, and with which status it ends.

use std::{
    io::{self, ErrorKind},
    process::ExitCode,
};

use idem_amqp::{
    BuildError, StoreError,
    dead_letters::ReplayError,
    error::{BrokerError, ErrorChain},
    handler::PolicyError,
    outbox::OutboxError,
    store::ConnectError,
};

use crate::output::complain;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("say where the store is: `--store URL`, or the variable IDEM_STORE_URL")]
    NoStore,
    /// What was said does not fit together.
    #[error("{0}")]
    Usage(String),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Replay(#[from] ReplayError),
    #[error(transparent)]
    Broker(#[from] BrokerError),
    #[error(transparent)]
    Outbox(#[from] OutboxError),
    #[error(transparent)]
    Worker(#[from] BuildError),
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// Nothing was changed, for this reason.
    #[error("{0}")]
    Unchanged(String),
    #[error("{0}")]
    NotFound(String),
    /// The store is changed all the same.
    #[error(
        "it is done in the store, but not in the cache: its copies may stay duplicates until it is done there, too"
    )]
    CacheNotTold(#[source] StoreError),
    #[error("not confirmed, so nothing was changed: answer `yes`, or give `--yes`")]
    NotConfirmed,
    /// It has said so already.
    #[error("some things are not as they should be")]
    Told,
    #[error("the output cannot be written")]
    Output(#[from] io::Error),
}

impl Error {
    /// Says what is wrong, and gives the status to end with.
    pub(crate) fn report(&self) -> ExitCode {
        match self {
            // Whoever read the listing has had enough of it: what changes something goes on.
            Self::Output(error) if error.kind() == ErrorKind::BrokenPipe => {
                return ExitCode::SUCCESS;
            }
            Self::Told => {}
            _ => complain(ErrorChain::of(self)),
        }
        ExitCode::from(match self {
            Self::NoStore | Self::Usage(_) => 2,
            Self::NotFound(_) => 3,
            Self::NotConfirmed => 4,
            _ => 1,
        })
    }
}
