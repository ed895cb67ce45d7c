//! What an error of the server or of the way to it means for the one who asked.

use std::{borrow::Cow, error::Error, fmt, io::ErrorKind, sync::Arc, time::Duration};

use crate::{message::Key, store::StoreError};

/// What went wrong for a whole batch, told to each of its callers.
#[derive(Debug, Clone)]
pub(super) enum Fault {
    Said(Arc<sqlx::Error>),
    /// Nothing was heard for this long.
    Silent(Duration),
    /// Nothing is asked for this long, because too much was left unanswered.
    Resting(Duration),
}

/// `lock_not_available`
const LOCKED: &str = "55P03";

/// With which the schema's functions refuse a transaction that the handler has ended by itself.
const OWN_END: &str = "IDEM1";

/// What to do about a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Remedy {
    /// Nothing has happened, and asking at once may help: a transaction of others was in the way.
    Repeat,
    /// The connection is of no use any more; another one may be.
    Reconnect,
    /// The server is fine, and something is the matter with one of these rows.
    Divide,
    /// The connection is as good as before.
    Report,
}

impl Fault {
    pub(super) fn unavailable(&self) -> StoreError {
        StoreError::unavailable(self.clone())
    }

    /// What it means for the one call that it is left with.
    pub(super) fn about(&self, key: &Key) -> StoreError {
        if self.is_locked() {
            return self.unavailable();
        }
        StoreError::Corrupt {
            key: key.to_string(),
            source: Box::new(self.clone()),
        }
    }

    /// Whether somebody has kept a row locked for longer than the statement waits.
    pub(super) fn is_locked(&self) -> bool {
        self.code().as_deref() == Some(LOCKED)
    }

    /// Whether a pool could not connect for so long that it gave up.
    pub(super) fn is_of_the_pool(&self) -> bool {
        matches!(self, Self::Said(error) if matches!(**error, sqlx::Error::PoolTimedOut))
    }

    /// Whether a transaction was to be ended that was not the handler's any more.
    pub(super) fn is_own_end(&self) -> bool {
        self.code().as_deref() == Some(OWN_END)
    }

    /// Whether the server cannot read a value as one of its type, or the type does not have it.
    pub(super) fn is_about_the_value(&self) -> bool {
        let code = self.code();
        matches!(
            code.as_deref().and_then(|code| code.get(..2)),
            Some("22" | "23")
        )
    }

    /// Whether a connection was there, and has ended: by its other end, or by the server in words. Nobody listening is
    /// another matter, and so is a server that takes no session for now.
    pub(super) fn was_cut(&self) -> bool {
        let Self::Said(error) = self else {
            return false;
        };
        match &**error {
            sqlx::Error::Io(error) => matches!(
                error.kind(),
                ErrorKind::UnexpectedEof
                    | ErrorKind::ConnectionReset
                    | ErrorKind::ConnectionAborted
                    | ErrorKind::BrokenPipe
            ),
            // The end of the stream, where the driver expects an answer to its question for TLS.
            sqlx::Error::Protocol(_) => true,
            sqlx::Error::Database(error) => error.code().is_some_and(|code| is_end(&code)),
            _ => false,
        }
    }

    /// The SQLSTATE, if the server has answered.
    fn code(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Said(error) => error.as_database_error()?.code(),
            Self::Silent(_) | Self::Resting(_) => None,
        }
    }

    pub(super) fn remedy(&self) -> Remedy {
        match self {
            Self::Silent(_) => Remedy::Reconnect,
            Self::Resting(_) => Remedy::Report,
            Self::Said(error) => match &**error {
                sqlx::Error::Database(error) => {
                    error.code().map_or(Remedy::Report, |code| remedy(&code))
                }
                sqlx::Error::Io(_)
                | sqlx::Error::Tls(_)
                | sqlx::Error::Protocol(_)
                | sqlx::Error::WorkerCrashed => Remedy::Reconnect,
                _ => Remedy::Report,
            },
        }
    }
}

/// By SQLSTATE: whether the server has ended the session, or takes none now.
fn is_end(code: &str) -> bool {
    // admin_shutdown, crash_shutdown; not cannot_connect_now, which lasts.
    matches!(code, "57P01" | "57P02") || code.starts_with("08")
}

/// By SQLSTATE, because messages are translated.
fn remedy(code: &str) -> Remedy {
    match code {
        // serialization_failure, deadlock_detected
        "40001" | "40P01" => Remedy::Repeat,
        // read_only_sql_transaction: this is a standby now, and the primary is elsewhere.
        "25006"
        // admin_shutdown, crash_shutdown, cannot_connect_now, idle timeouts
        | "57P01" | "57P02" | "57P03" | "57P05" | "25P03"
        // Prepared statements that are not there, are there already, or answer otherwise since
        // the table was altered: prepared anew, they work.
        | "26000" | "42P05" | "0A000" => Remedy::Reconnect,
        LOCKED => Remedy::Divide,
        _ => match code.get(..2) {
            // Connection exceptions and insufficient resources.
            Some("08" | "53") => Remedy::Reconnect,
            // Data exceptions, integrity constraints, views' check options, limits exceeded,
            // and exceptions that a trigger has raised.
            Some("22" | "23" | "44" | "54" | "P0") => Remedy::Divide,
            _ => Remedy::Report,
        },
    }
}

impl From<sqlx::Error> for Fault {
    fn from(error: sqlx::Error) -> Self {
        Self::Said(Arc::new(error))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Said(error) => error.fmt(f),
            Self::Silent(patience) => write!(f, "the server did not answer within {patience:?}"),
            Self::Resting(pause) => write!(
                f,
                "the server has left statements unanswered and is not asked for {pause:?}"
            ),
        }
    }
}

impl Error for Fault {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            // Displays them already, as a whole.
            Self::Said(_) | Self::Silent(_) | Self::Resting(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sqlstate_says_what_helps() {
        let table = [
            (Remedy::Repeat, ["40001", "40P01"].as_slice()),
            (
                Remedy::Reconnect,
                &[
                    "25006", "57P01", "57P02", "57P03", "53300", "08006", "26000",
                ],
            ),
            (
                Remedy::Divide,
                &["22021", "23514", "54000", "P0001", "55P03"],
            ),
            (Remedy::Report, &["42P01", "42501", "57014", "XX000"]),
        ];
        for (expected, codes) in table {
            for code in codes {
                assert_eq!(remedy(code), expected, "{code}");
            }
        }
    }
}
