//! What can go wrong between the engine and its store.

use std::error::Error;

/// The store could not answer: the write may or may not have happened.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The store cannot be reached, or is busy; asking again may help.
    #[error("the store is unavailable")]
    Unavailable(#[source] Box<dyn Error + Send + Sync>),
    /// The store is there and refuses: it does not let this user in, or does not confirm what it has done. Asking again
    /// helps once somebody has changed that.
    #[error("the store refuses")]
    Refused(#[source] Box<dyn Error + Send + Sync>),
    /// A bounded store is full of keys that it must not forget yet.
    #[error(
        "the store is full: {0} keys are remembered, raise its capacity or shorten the retention"
    )]
    Full(usize),
    /// The store answered something that this version does not understand.
    #[error("the store's record of `{key}` cannot be read")]
    Corrupt {
        /// The record's key.
        key: String,
        /// What is wrong with it.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
}

crate::debug_as_chain!(StoreError);

impl StoreError {
    /// Wraps what the driver said.
    pub fn unavailable(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Unavailable(source.into())
    }

    /// Its name in spans and metrics.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Unavailable(_) => "store-unavailable",
            Self::Refused(_) => "store-refused",
            Self::Full(_) => "store-full",
            Self::Corrupt { .. } => "record-corrupt",
        }
    }
}

/// Why a store could not be opened.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The URL's scheme belongs to a store that is not compiled in.
    #[error("`{scheme}:` needs the cargo feature `{feature}`, which is not switched on")]
    NotCompiledIn {
        /// The URL's scheme.
        scheme: String,
        /// The feature to switch on.
        feature: &'static str,
    },
    /// No store has this scheme.
    #[error(
        "`{scheme}:` is no store; use `memory:`, `sqlite:FILE`, `postgres://USER@HOST/DATABASE` \
         or `redis://HOST`"
    )]
    UnknownScheme {
        /// The URL's scheme.
        scheme: String,
    },
    /// The URL cannot be read.
    #[error("the store's URL is not valid: {reason}")]
    InvalidUrl {
        /// What is wrong, without the URL itself, which may hold a password.
        reason: String,
    },
    /// The name cannot be a table's.
    #[error(
        "`{table}` cannot be a table's name: use 1 to 48 ASCII letters, digits and `_`, \
         beginning neither with a digit nor with `sqlite_` (SQLite) or `pg_` (PostgreSQL)"
    )]
    InvalidTable {
        /// The name as it was given.
        table: String,
    },
    /// The name cannot be a schema's.
    #[error(
        "`{schema}` cannot be a schema's name: use 1 to 63 ASCII letters, digits and `_`, \
         beginning neither with a digit nor with `pg_`"
    )]
    InvalidSchema {
        /// The name as it was given.
        schema: String,
    },
    /// The prefix cannot begin the names of records.
    #[error(
        "`{prefix}` cannot be a prefix: use 1 to 48 ASCII letters, digits, `_`, `-`, `.`, `:` and `/`"
    )]
    InvalidPrefix {
        /// The prefix as it was given.
        prefix: String,
    },
    /// The store cannot be reached, or refused.
    #[error("the store could not be opened")]
    Unavailable(#[source] Box<dyn Error + Send + Sync>),
    /// Between the program and PostgreSQL is a pooler that lends each transaction another server
    /// process, and does not bring prepared statements along.
    #[error(
        "a pooler in between forgets prepared statements: connect to PostgreSQL itself, or choose \
         the pooler's session mode, or PgBouncer 1.21 or later with `max_prepared_statements`"
    )]
    ForgetfulPooler,
    /// The store's schema is of another version than this program's.
    #[error(
        "the store's schema is version {found}, this program knows version {known}: upgrade it"
    )]
    SchemaVersion {
        /// What the store has.
        found: i64,
        /// What the program knows.
        known: i64,
    },
}

crate::debug_as_chain!(ConnectError);
